"""The page about finished runs, made of run folders whose numbers are known."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gedbd.commands.compare
from gedbd.experiments.report.all_sections import next_steps, repeated_runs, report_runs, runs_section, summarise
from gedbd.experiments.report.run_settings import group_settings
from gedbd.experiments.run_folder import Run

NUM_QUERIES = 12
NUM_PAIRS = 40
AUDIT = {
    "test_reports_in_training": 0.0,
    "test_groups_in_training": 0.0,
    "test_positives": 20,
    "closure_found": 0,
    "closure_f1": 0.0,
    "always_duplicate_f1": 0.667,
}


def add_results(run: Run, rank: int, leaks: bool = False) -> None:
    """Adds pairs, queries that are all found at ``rank``, an audit and a projection to a run folder."""
    methods = [run.method, "frozen"]
    numbers = np.arange(NUM_PAIRS)
    label = numbers % 2
    scores = np.where(label == 1, 0.9, 0.1) + numbers / 1000
    pairs = pd.DataFrame({"id_1": numbers.astype(str), "id_2": (numbers + 100).astype(str), "label": label})
    pairs = pairs.assign(score=scores, score_frozen=scores[::-1], predicted=label, group=(numbers // 2).astype(str))
    both = pd.concat([pairs.assign(part=part) for part in ("val", "test")], ignore_index=True)
    both.to_parquet(run.folder / "predictions.parquet", index=False)
    metrics = {"threshold": 0.5, "precision": 1.0, "recall": 1.0, "f1": 1.0, "f1_low": 1.0, "f1_high": 1.0}
    results = pd.DataFrame([{"method": method, **metrics, "accuracy": 1.0} for method in methods])
    results.to_csv(run.folder / "results.csv", index=False)
    found = pd.DataFrame({"id": [str(query) for query in range(NUM_QUERIES)], "reachable": True, "rank": rank})
    found = found.assign(group=found["id"], found="7", part="test", average_precision=1 / rank)
    found = found.assign(**{f"average_precision@{k}": float(rank <= k) / rank for k in (1, 10)})
    tables = [found.assign(method=method, protocol=name) for method in methods for name in ("earlier", "test_pool")]
    pd.concat(tables).to_parquet(run.folder / "queries.parquet", index=False)
    ranking = pd.DataFrame({"method": methods, "queries": NUM_QUERIES, "reachable": 1.0, "mrr": 1 / rank})
    ranking.to_csv(run.folder / "ranking.csv", index=False)
    audit = AUDIT | ({"closure_found": 5, "closure_f1": 0.4} if leaks else {})
    (run.folder / "leak.json").write_text(json.dumps(audit))
    projection = pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0], "group": [0, 0], "id": ["1", "2"], "title": "t"})
    projection.to_parquet(run.folder / "tsne.parquet", index=False)


@pytest.fixture
def runs(leave: Callable[..., Run], tmp_path: Path) -> Path:
    """Two methods at two shares of known groups, a leaking baseline, and a run that is not finished."""
    fields = ["text=fields", "text.captions=captions.csv"]
    for fraction, rank in ((1.0, 2), (0.1, 20)):
        known = f"labels.fraction={fraction}"
        add_results(leave(f"text_{fraction}", "graph=none", known, *fields, seconds=60.0), rank)
        add_results(leave(f"graph_{fraction}", known, *fields, seconds=120.0), 2 * rank)
    add_results(leave("closure", "name=closure", command="baseline"), 5, leaks=True)
    unfinished = leave("unfinished").folder
    (unfinished / "predictions.parquet").unlink()
    return tmp_path


def test_a_page_has_all_sections_with_the_numbers_of_the_runs_and_fills_marked_tables(runs, tmp_path, capsys):
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- report: Leak audit -->\nold\n<!-- end -->\nafter\n")
    report_runs([runs], runs / "new" / "page", readme, "Runs", "gedbd report runs")
    page = (runs / "new" / "page" / "report.md").read_text()
    for title in ("Leak audit", "Ranking: ", "Ranking in the test pool: ", "Text, screenshots, training: ", "Pairs: "):
        assert f"## {title}" in page
    for title in ("Label scarcity: ", "Training", "t-SNE projection of reports"):
        assert f"## {title}" in page
    assert (runs / "new" / "page" / "report.html").is_file()
    assert "leaks." in page
    scarcity = page[page.index("## Label scarcity") :]
    values = [line.split("|") for line in scarcity.splitlines() if line.startswith("| 0.1")]
    assert any("0.050" in cell for row in values for cell in row)  # MRR of rank 20 with a tenth of the groups
    filled = readme.read_text()
    assert filled.startswith("before\n<!-- report: Leak audit -->")
    assert "old" not in filled
    assert "closure" in filled
    shown = capsys.readouterr().out
    assert "left out because unfinished" in shown
    assert "report:" in shown


def test_two_runs_on_the_same_queries_differ_by_their_ranks(runs, monkeypatch, capsys):
    monkeypatch.chdir(runs)
    monkeypatch.setattr(sys, "argv", ["gedbd", "run=text_1.0", "against=graph_1.0", "out=compared.csv"])
    gedbd.commands.compare.main()
    table = pd.read_csv("compared.csv").set_index("metric")
    assert table.loc["mrr", "difference"] == pytest.approx(1 / 2 - 1 / 4)
    assert table.loc["rr@1", "difference"] == 0
    assert "text_1.0 minus graph_1.0, 1 seed" in capsys.readouterr().out


def test_repeated_runs_are_named_with_the_newer_one(leave):
    old, new, other = leave("old", time=1), leave("new", time=2), leave("other", "seed=1")
    settings = group_settings([old, new, other])
    (row,) = repeated_runs(settings)
    assert (row["seed"], row["left out"], row["newer"]) == ("0", old.folder.as_posix(), new.folder.as_posix())
    runs, repeated = runs_section(settings).tables
    assert runs["folder"].tolist() == [new.folder.as_posix(), other.folder.as_posix()]
    assert repeated["left out"].tolist() == [old.folder.as_posix()]
    assert len(runs_section(group_settings([new, other])).tables) == 1
    settings = group_settings([old, new, other, leave("alone", "graph=none")])
    assert summarise(settings, 0, 0) == "3 runs in 2 settings. Left out: 1 repeated run."
    assert summarise(settings, 2, 1) == (
        "3 runs in 2 settings. Left out: 1 repeated run; 2 unfinished runs; 1 run with a page of its own."
    )


def test_next_steps_name_commands_that_can_be_given(leave, tmp_path):
    halted = tmp_path / "halted"
    (halted / "checkpoints").mkdir(parents=True)
    (halted / "checkpoints" / "last.ckpt").touch()
    runs = [
        leave(f"{name}/seed_{seed}", f"graph={name}", f"seed={seed}") for name in ("none", "dense") for seed in "01"
    ]
    steps = next_steps(group_settings(runs), [halted, Path("never/started")])
    assert [command for _, command in steps] == [
        f"gedbd train ckpt_path={halted.as_posix()}/checkpoints/last.ckpt",
        f"gedbd compare run={tmp_path.as_posix()}/dense against={tmp_path.as_posix()}/none",
    ]
    # Settings of other tests are not compared.
    steps = next_steps(group_settings([leave("a"), leave("b", "split=group", "graph=none")]), [])
    assert steps == [("2 settings trained with only one seed: seeds=3 shows the variation between seeds.", "")]
