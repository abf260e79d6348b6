"""Flow graphs: methods a minute, and the share of the hunks of a project's changes that have one.

The corpus is a folder of Java sources or a file of methods, or a data set of bug localization for the hunks.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from measure import Row

from gedbd.localization.flow_graph.node_types import FlowGraph
from gedbd.localization.flow_graph.parse import completions, fragment_graph, method_graph
from gedbd.localization.readers.changesets import Changesets, find_file
from gedbd.localization.readers.java_sources import read_java_sources
from gedbd.localization.repository.commits import FileChange

SECTION = "flow graph"
MINUTE = 60


def main() -> list[Row]:
    """Measures."""
    corpus = os.environ["BENCHMARK_CORPUS"]
    if not corpus:
        raise SystemExit("the section flow_graph needs --corpus: Java sources, methods, or changesets")
    path = Path(corpus)
    if path.is_dir() and any(path.glob("changesets.jsonl*")):
        return _of_hunks(find_file(path, "changesets.jsonl"))
    return _of_methods(path)


def _of_methods(path: Path) -> list[Row]:
    codes = read_java_sources(None, str(path)).reports["description"].tolist()
    before = time.process_time()
    graphs = [method_graph(code) for code in codes]
    spent = time.process_time() - before
    nodes = sum(map(len, graphs))
    note = f"{len(graphs):,} methods with {nodes:,} nodes in {spent:.1f} s of one core's time"
    return [Row(SECTION, "methods", MINUTE * len(graphs) / spent, "methods a minute", note=note)]


def _of_hunks(path: Path) -> list[Row]:
    hunks = [hunk for hunk in _java_hunks(path) if any(completions(hunk))]
    before = time.process_time()
    graphs: list[FlowGraph | None] = [fragment_graph(hunk) for hunk in hunks]
    spent = time.process_time() - before
    found = sum(graph is not None for graph in graphs)
    note = f"{found:,} of {len(hunks):,} sides of hunks with code; {1000 * spent / len(hunks):.2f} ms each"
    return [Row(SECTION, f"hunks of {path.parent.name} with a graph", 100 * found / len(hunks), "%", note=note)]


def _java_hunks(path: Path) -> Iterator[str]:
    """The old and the new side of each hunk of Java files that is not cut."""
    for commit in Changesets(path):
        for file in commit.files:
            if file.path.endswith(".java") and not file.is_cut and not commit.is_cut:
                yield from _sides(file)


def _sides(file: FileChange) -> Iterator[str]:
    for hunk in file.hunks:
        for other_side in "+-":
            yield "\n".join(line[1:] for line in hunk.lines if line[:1] != other_side)
