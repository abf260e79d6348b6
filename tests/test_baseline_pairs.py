"""A language model in the learned ranker, through the command, with a server on this machine."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from chat_server import KEY, Endpoint, Reply, endpoint, told

import gedbd
from gedbd.corpora.relevance import find_groups

DEMO = Path(gedbd.__file__).parent / "corpora" / "demo.csv"
OPTIONS = ["name=boosted", "encoder=tiny", "baselines.boosted.kind=linear", "part=val"]
SENT = re.compile(r"<report_[12]_\w+>\n(.*?)\n")

pytestmark = pytest.mark.slow


@pytest.fixture
def server(monkeypatch) -> Iterator[Endpoint]:
    with endpoint(monkeypatch, knowing_answer()) as server:
        yield server


def knowing_answer() -> Callable[[dict[str, Any]], Reply]:
    """The answers of a model that knows all duplicates of the bundled reports by their titles."""
    reports = pd.read_csv(DEMO, dtype=str, keep_default_na=False)
    row = {name: place for place, name in enumerate(reports["Issue_id"])}
    originals = reports["Duplicated_issue"].str.split(";")
    links = [(place, row[one]) for place, several in enumerate(originals) for one in several if one in row]
    group = dict(zip(reports["Title"].str.strip(), find_groups(np.array(links).T, len(reports)), strict=True))

    def answer(request: dict[str, Any]) -> Reply:
        first, second = SENT.findall(request["messages"][1]["content"])
        return told("100" if group[first.strip()] == group[second.strip()] else "0")

    return answer


@pytest.fixture
def run(tmp_path, run_command):
    def through(*options: str, folder: str) -> pd.Series:
        run_command("baseline", *OPTIONS, *options, f"hydra.run.dir={folder}")
        return pd.read_csv(tmp_path / folder / "ranking.csv").iloc[0]

    return through


def test_a_language_model_that_knows_the_answer_moves_it_up(run, server, tmp_path, caplog):
    plain = run(folder="plain")
    found = run("llm=openai", "llm.depth=10", "llm.concurrency=1", folder="asked")
    assert found["rr@1"] > plain["rr@1"]
    # What the first ranker, which is the plain one, places among the first ten is now the first.
    assert found["rr@1"] == plain["rr@10"]
    assert re.search(r"up to [\d,]+ pairs of reports will be sent to http://127", caplog.text)
    assert KEY not in (tmp_path / "asked" / "config.yaml").read_text()
