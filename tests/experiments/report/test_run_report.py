"""The page about finished runs, made of run folders whose numbers are known."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from gedbd.experiments.report.report_page import Section, write_report
from gedbd.experiments.report.run_report import next_steps, option_section, report_runs, task_figures, varied_options
from gedbd.experiments.report.run_settings import group_settings
from gedbd.experiments.run_folder import Run

YEARS = {2012: [1, 2, 0], 2013: [4], 2014: [1, 1]}
PICTURE = "figures/tag_network.png"
CAPTIONS = "figures/captions.json"
NUM_QUERIES = 12
NUM_PAIRS = 40
AUDIT = {"test_reports_in_training": 0.0, "test_groups_in_training": 0.0, "test_positives": 20}
AUDIT |= {"closure_found": 0, "closure_f1": 0.0, "always_duplicate_f1": 0.667}


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


@pytest.mark.integration
def test_a_page_has_all_sections_with_the_numbers_of_the_runs_and_fills_marked_tables(runs, tmp_path, capsys):
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- report: Leak audit -->\nold\n<!-- end -->\nafter\n")
    report_runs([runs], runs / "new" / "page", readme, "Runs", "gedbd report runs")
    page = (runs / "new" / "page" / "report.md").read_text()
    for title in ("Leak audit", "Ranking by earlier: ", "Ranking by test pool: ", "Pairs: "):
        assert f"## {title}" in page
    for title in ("By labels.fraction: ", "Training", "t-SNE projection of reports"):
        assert f"## {title}" in page
    assert (runs / "new" / "page" / "report.html").is_file()
    assert "leaks." in page
    over_option = page[page.index("## By labels.fraction") :]
    values = [line.split("|") for line in over_option.splitlines() if "| 0.1 |" in line]
    assert any("0.050" in cell for row in values for cell in row)  # MRR of rank 20 with a tenth of the groups
    filled = readme.read_text()
    assert filled.startswith("before\n<!-- report: Leak audit -->")
    assert "old" not in filled
    assert "closure" in filled
    shown = capsys.readouterr().out
    assert "left out because unfinished" in shown
    assert "report:" in shown


def captions(section: Section) -> list[str]:
    return [caption for _, caption, _ in section.figures]


@pytest.fixture
def pictured(leave):
    """Three runs with a figure of their task, of which two are the same."""
    runs = [leave(name, f"graph={name}") for name in ("none", "knn", "dense")]
    for run, title in zip(runs, ("same", "same", "other"), strict=True):
        (run.folder / "figures").mkdir()
        (run.folder / CAPTIONS).write_text(json.dumps({"tag_network": "the tags <b>"}))
        figure = Figure(figsize=(2, 1))
        figure.suptitle(title)
        figure.savefig(run.folder / PICTURE, dpi=50)
    return runs


@pytest.mark.figures
def test_equal_figures_of_a_task_are_shown_once_in_a_section_of_their_own(pictured, leave, tmp_path):
    without = leave("without", "graph=threshold")
    (section,) = task_figures(group_settings([*pictured, without]))
    assert section.title == "Tag network"
    assert [name for name, _, _ in section.figures] == ["tag_network_0", "tag_network_1"]
    assert all(caption.endswith("demo: the tags <b>") for caption in captions(section))
    page = write_report(tmp_path, "title", "summary", [section]).read_text()
    assert page.count("data:image/png;base64,") == 2
    assert "the tags &lt;b&gt;" in page
    written = tmp_path / "report_figures" / "tag-network-0.png"
    assert written.read_bytes() in [(run.folder / PICTURE).read_bytes() for run in pictured]
    assert task_figures(group_settings([without])) == []


@pytest.fixture
def leave_years(leave):
    """Leaves runs of a baseline for some years, whose queries are found at the ranks of each year."""

    def through(name, years, *protocols):
        runs = []
        for year, ranks in years.items():
            options = (f"name={name}", "split=year", f"split.year={year}")
            run = leave(f"{name}_{year}", *options, command="baseline", corpus=f"contents of {year}")
            found = pd.DataFrame({"id": [f"{year}-{place}" for place in range(len(ranks))], "rank": ranks})
            found = found.assign(method=name, group=found["id"], reachable=found["rank"] > 0, average_precision=0.0)
            found = found.assign(**{"average_precision@1": 0.0, "average_precision@10": 0.0})
            tables = [found.assign(protocol=protocol) for protocol in protocols or ("earlier",)]
            pd.concat(tables).to_parquet(run.folder / "queries.parquet", index=False)
            pd.DataFrame({"method": [name], "mrr": [0.5]}).to_csv(run.folder / "ranking.csv", index=False)
            runs.append(run)
        return runs

    return through


def sections_by_option(runs: list[Run]) -> dict[str, Section]:
    settings = group_settings(runs)
    return {name: option_section("demo", settings, name) for name in varied_options(settings)}


@pytest.mark.integration
def test_queries_of_all_years_are_pooled_and_shown_year_by_year(leave_years):
    ranks_of_one = {year: [1] * len(ranks) for year, ranks in YEARS.items()}
    runs = leave_years("bm25", YEARS) + leave_years("tfidf", ranks_of_one)
    (section,) = sections_by_option(runs).values()
    by_year, pooled, differences = section.tables
    assert differences["MRR"].tolist() == pytest.approx([1 / 2, 3 / 4, 0])
    assert section.title == "By split.year: demo"
    assert pooled[["model", "years", "queries"]].to_numpy().tolist() == [
        ["bm25", "2012 to 2014", 6],
        ["tfidf", "2012 to 2014", 6],
    ]
    assert pooled["mrr"].tolist() == pytest.approx([(1 + 1 / 2 + 0 + 1 / 4 + 1 + 1) / 6, 1])
    assert pooled["rr@10"].tolist() == pytest.approx([5 / 6, 1])
    assert (pooled["mrr_low"] <= pooled["mrr"]).all()
    mine = by_year[by_year["model"] == "bm25"]
    assert mine["split.year"].tolist() == ["2012", "2013", "2014"]
    assert mine["mrr"].tolist() == pytest.approx([0.5, 0.25, 1])
    assert captions(section) == ["F1 over split.year", "RR@10 over split.year", "MRR over split.year"]
    assert len({setting.label for setting in group_settings(runs)}) == 6


def test_an_option_with_two_values_has_a_section(leave):
    settings = group_settings([leave(str(dim), f"graph.pca_dim={dim}") for dim in (5, 10)])
    assert varied_options(settings) == ["graph.pca_dim"]
    assert varied_options(settings[:1]) == []


def test_a_model_has_a_line_with_means_over_seeds_in_the_order_of_the_values(leave):
    seeds = [(16, 0, 0.25), (8, 0, 0.4), (8, 1, 0.6)]
    runs = [leave(f"{dim}_{seed}", f"encoder.dim={dim}", f"seed={seed}", f1=f1) for dim, seed, f1 in seeds]
    sections = sections_by_option([*runs, leave("other", "patience=9")])
    table = sections["encoder.dim"].tables[0]
    assert table["encoder.dim"].tolist() == ["8", "16"]
    assert table["seeds"].tolist() == [2, 1]
    assert table["f1"].tolist() == pytest.approx([0.5, 0.25])
    (line,) = sections["encoder.dim"].figures[0][2].axes[0].containers
    assert line.lines[0].get_ydata().tolist() == pytest.approx([0.5, 0.25])
    assert [text.get_text() for text in line.lines[0].axes.get_xticklabels()] == ["8", "16"]


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
        "gedbd compare 'run=[{0}/dense/seed_0,{0}/dense/seed_1]' 'against=[{0}/none/seed_0,{0}/none/seed_1]'".format(
            tmp_path.as_posix()
        ),
    ]
    # Settings with other test pairs are not compared.
    first, second = leave("a"), leave("b", "graph=none")
    pairs = pd.read_parquet(second.folder / "predictions.parquet").assign(id_1="3")
    pairs.to_parquet(second.folder / "predictions.parquet")
    steps = next_steps(group_settings([first, second]), [])
    assert steps == [("2 settings trained with only one seed: seeds=3 shows the variation between seeds.", "")]
