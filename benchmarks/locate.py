"""Suspect commits: ranking a history of changesets, and the whole command on this repository."""

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from measure import Row, peak_mb, seconds

from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.change_ranker import default_ranker
from gedbd.localization.change_ranking.query_features import query_features
from gedbd.localization.locating.repository_index import Header, Snapshot, read_snapshot, write_snapshot
from gedbd.localization.readers.changesets import read_localization

SECTION = "locate"
REPORTS = 200
BATCH = 1_000
TOP_K = 10
REPOSITORY = Path(__file__).parents[1]
CONSOLE_SCRIPT = "from gedbd.__main__ import main; main()"
REPEATS = 5


def main() -> list[Row]:
    """Measures on the data set of bug localization that ``--corpus`` names, and on this repository."""
    if not os.environ["BENCHMARK_CORPUS"]:
        raise SystemExit("error: name a folder with bugs.csv and changesets.jsonl by --corpus FOLDER")
    return [*_ranking(Path(os.environ["BENCHMARK_CORPUS"])), *_command()]


def _ranking(folder: Path) -> list[Row]:
    corpus = read_localization(str(folder))
    assert corpus.reports is not None
    commits = corpus.commits.table
    files = corpus.files.table
    history = ChangeHistory()

    def build() -> None:
        for start in range(0, len(commits), BATCH):
            some = commits.iloc[start : start + BATCH].reset_index(drop=True)
            their = files[files["commit"].between(start, start + BATCH - 1)]
            history.add(some, their.assign(commit=their["commit"] - start).reset_index(drop=True))

    built = seconds(build)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "index.npz"
        header = Header("", {}, True, len(history))
        stored = seconds(lambda: write_snapshot(file, Snapshot(header, history)))
        size_mb = file.stat().st_size / 1e6
        read = seconds(lambda: read_snapshot(file))
    ranker = default_ranker()
    reports = corpus.reports.reports.tail(REPORTS)
    # The date of none: every commit is ranked for each.
    queries = [ChangeQuery(*texts) for texts in zip(reports["title"], reports["description"], strict=True)]

    def find(query: ChangeQuery) -> None:
        ranker.find_in(query_features(history, query), TOP_K)

    find(queries[0])
    taken = 1000 * np.array([seconds(partial(find, query)) for query in queries])
    size = f"{len(history):,} changesets, {len(queries)} reports of {folder.name}"
    p50, p95 = np.percentile(taken, (50, 95))
    return [
        Row(SECTION, "ranking for a report, p50", float(p50), "ms", note=size),
        Row(SECTION, "ranking for a report, p95", float(p95), "ms"),
        Row(SECTION, "making the history", built, "s"),
        Row(SECTION, "storing it", stored, "s", note=f"{size_mb:,.0f} MB"),
        Row(SECTION, "reading it", read, "s"),
        Row(SECTION, "peak memory", peak_mb(), "MB", note="with the tables it is made from"),
    ]


def _command() -> list[Row]:
    """The whole command in a process of its own: the first time, and afterwards."""
    with tempfile.TemporaryDirectory() as cache:
        first = seconds(lambda: _run(cache))
        later = float(np.median([seconds(lambda: _run(cache)) for _ in range(REPEATS)]))
    return [
        Row(SECTION, "gedbd locate on this repository, first", first, "s", note="whole process, with indexing"),
        Row(SECTION, "gedbd locate on this repository, later", later, "s", note=f"median of {REPEATS}"),
    ]


def _run(cache: str) -> None:
    words = [f"repo={REPOSITORY}", f"cache_dir={cache}", "A sweep that was interrupted does not go on"]
    command = [sys.executable, "-c", CONSOLE_SCRIPT, "locate", *words]
    subprocess.run(command, check=True, capture_output=True, cwd=REPOSITORY)
