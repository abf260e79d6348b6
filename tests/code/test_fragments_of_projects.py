"""The share of hunks of real changes that have a graph."""

import json
import lzma
import re
from pathlib import Path

import pytest

from gedbd.code.fragments import completions
from gedbd.code.parse import fragment_graph

PROJECTS = Path(__file__).parents[3] / "shared" / "data" / "localization"  # beside the repository
EVERY = 40


def java_hunks(path):
    """New and old sides of the hunks of every 40th change, without those that are cut."""
    with lzma.open(path, "rt") as lines:
        changes = [json.loads(line) for number, line in enumerate(lines) if number % EVERY == 0]
    for change in changes:
        if change["truncated"]:
            continue
        for file in re.split(r"(?m)^(?=diff --git )", change["diff"]):
            if file.partition("\n")[0].endswith(".java"):
                for hunk in re.split(r"(?m)^@@ .*\n", file)[1:]:
                    lines = hunk.splitlines()
                    yield from ("\n".join(line[1:] for line in lines if line[:1] != drop) for drop in "-+")


@pytest.mark.slow
@pytest.mark.skipif(not PROJECTS.exists(), reason=f"{PROJECTS} is absent")
@pytest.mark.parametrize(("project", "share"), [("aspectj", 0.9), ("tomcat", 0.96)])
def test_most_hunks_with_code_have_a_graph(project, share):
    hunks = [hunk for hunk in java_hunks(PROJECTS / project / "changesets.jsonl.xz") if any(completions(hunk))]
    graphs = [graph for graph in map(fragment_graph, hunks) if graph is not None]
    assert len(hunks) > 500
    assert len(graphs) / len(hunks) > share
