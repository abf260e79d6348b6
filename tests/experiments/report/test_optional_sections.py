"""Sections that only some runs have."""

import json

import pandas as pd
import pytest
from matplotlib.figure import Figure

from gedbd.experiments.report.optional_sections import sensitivity, task_figures, training, walk_forward
from gedbd.experiments.report.report_page import write_report
from gedbd.experiments.report.run_settings import group_settings
from gedbd.experiments.report.section import first_of, with_models

YEARS = {2012: [1, 2, 0], 2013: [4], 2014: [1, 1]}
PICTURE = "figures/tag_network.png"
CAPTIONS = "figures/captions.json"


def captions(section) -> list[str]:
    return [caption for _, caption, _ in section.figures]


def test_models_are_named_where_the_other_columns_do_not_tell_rows_apart():
    rows = [{"split": "time", "model": "a", "f1": 0.5}, {"split": "group", "model": "b", "f1": 0.4}]
    assert list(with_models(rows, ("split",))) == ["split", "f1"]
    assert list(with_models([*rows, rows[0] | {"model": "c"}], ("split",))) == ["split", "model", "f1"]


def test_what_is_not_drawn_is_counted():
    assert first_of([1, 2, 3], 2) == ([1, 2], " Figures show the first 2 of 3 settings.")
    assert first_of([1, 2], 2) == ([1, 2], "")


def test_each_corpus_has_its_own_base_of_the_time_of_an_epoch(leave):
    runs = [
        leave("a", "dataset.name=one", seconds=60),
        leave("b", "dataset.name=one", "graph=none", seconds=30),
        leave("c", "dataset.name=two", "graph=none", seconds=600),
        leave("d", "dataset.name=two", seconds=900),
        leave("e", "dataset.name=three", seconds=6),
        leave("f", "dataset.name=four"),
    ]
    section = training(group_settings(runs))
    table = section.tables[0]
    assert table["corpus"].tolist() == ["one", "one", "two", "two", "three", "four"]
    assert table["minutes per epoch"].tolist()[:5] == pytest.approx([1, 0.5, 10, 15, 0.1])
    assert table["epochs of all seeds"].tolist() == [2, 2, 2, 2, 2, 0]
    assert table["relative"].tolist()[:5] == pytest.approx([2, 1, 1, 1.5, 1])
    assert pd.isna(table["relative"].iloc[5])
    bases = "in one to tiny, text alone; in two to tiny, text alone; in three to tiny, text + graph."
    assert bases in section.text
    assert [caption.rpartition(", ")[2] for caption in captions(section)] == ["one", "one", "two", "two", "three"]
    assert training([]) is None


def test_a_slow_first_epoch_does_not_count_as_the_time_of_an_epoch(leave):
    run = leave("a", seconds=60)
    seconds = pd.Series([600, 60, 66], name="train/seconds")
    table = pd.concat([seconds, pd.DataFrame({"epoch": range(3), "train/loss": 0.5, "val/loss": 0.5})], axis=1)
    table.assign(**{"train/f1": 0.5, "val/f1": 0.5}).to_csv(run.folder / "metrics.csv", index=False)
    row = training(group_settings([run])).tables[0].iloc[0]
    assert (row["minutes per epoch"], row["epochs of all seeds"]) == (pytest.approx(1.1), 3)


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


def test_a_damaged_figure_is_named(pictured, tmp_path):
    (pictured[0].folder / PICTURE).write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"tag_network.png is damaged: it is not a PNG file"):
        write_report(tmp_path, "title", "summary", task_figures(group_settings(pictured[:1])))
    (pictured[1].folder / CAPTIONS).write_text('{"../elsewhere": "x"}')
    with pytest.raises(ValueError, match=r"captions.json is damaged: '../elsewhere' is not the name of a figure"):
        task_figures(group_settings(pictured[1:2]))


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
            runs.append(run)
        return runs

    return through


def test_queries_of_all_years_are_pooled_and_shown_year_by_year(leave_years):
    runs = leave_years("bm25", YEARS) + leave_years("tfidf", {year: [1] * len(YEARS[year]) for year in YEARS})
    section = walk_forward("demo", group_settings(runs))
    pooled, by_year = section.tables
    assert pooled[["model", "years", "queries"]].to_numpy().tolist() == [
        ["bm25", "2012 to 2014", 6],
        ["tfidf", "2012 to 2014", 6],
    ]
    assert pooled["mrr"].tolist() == pytest.approx([(1 + 1 / 2 + 0 + 1 / 4 + 1 + 1) / 6, 1])
    assert pooled["rr@10"].tolist() == pytest.approx([5 / 6, 1])
    assert (pooled["mrr_low"] <= pooled["mrr"]).all()
    mine = by_year[by_year["model"] == "bm25"]
    assert mine["year"].tolist() == ["2012", "2013", "2014"]
    assert mine["mrr"].tolist() == pytest.approx([0.5, 0.25, 1])
    assert [name for name, _, _ in section.figures] == ["years_rr@10_earlier_demo", "years_mrr_earlier_demo"]
    assert len({setting.label for setting in group_settings(runs)}) == 6


def test_protocols_have_tables_of_their_own_and_one_year_is_no_walk(leave, leave_years):
    section = walk_forward("demo", group_settings(leave_years("bm25", YEARS, "earlier", "by_week")))
    assert [table["ranked"][0] for table in section.tables] == ["earlier", "earlier", "by week", "by week"]
    runs = [*leave_years("tfidf", {2012: [1]}), leave("other", "name=bm25", command="baseline")]
    assert walk_forward("demo", group_settings(runs)) is None


@pytest.mark.parametrize(
    "runs",
    [
        ["", "encoder=minilm"],  # two encoders are no sweep
        ["encoder.dim=8", "encoder.dim=16 optimizer.lr=0.1"],  # they differ in something else
    ],
)
def test_settings_that_are_not_joined(leave, runs):
    settings = group_settings([leave(str(place), *options.split()) for place, options in enumerate(runs)])
    assert settings[0].counted["encoder.dim"] != settings[1].counted["encoder.dim"]
    assert sensitivity("demo", settings) is None


def test_one_option_is_drawn_as_lines_with_means_and_deviations_over_seeds(leave):
    seeds = [(8, 0, 0.4), (8, 1, 0.6), (16, 0, 0.25)]
    runs = [leave(f"{dim}_{seed}", f"encoder.dim={dim}", f"seed={seed}", f1=f1) for dim, seed, f1 in seeds]
    section = sensitivity("demo", group_settings([*runs, leave("other", "patience=9")]))
    table = section.tables[0]
    assert table["encoder.dim"].tolist() == [8, 16]
    assert table["seeds"].tolist() == [2, 1]
    assert table["f1"].tolist() == pytest.approx([0.5, 0.25])
    assert table["f1 deviation"].tolist()[0] == pytest.approx(0.1 * 2**0.5)
    assert captions(section) == ["F1 over encoder.dim"]
    (line,) = section.figures[0][2].axes[0].containers
    assert line.lines[0].get_ydata().tolist() == pytest.approx([0.5, 0.25])


def test_options_that_vary_one_at_a_time_get_a_line_each_and_repeated_ones_none(leave):
    options = ["loss.margin=0.0", "loss.margin=0.5", "fusion.lambda_text=0.3", "trainer.max_epochs=9"]
    section = sensitivity("demo", group_settings([leave(option, option) for option in options]))
    assert captions(section) == ["F1 over fusion.lambda_text", "F1 over loss.margin", "F1 over trainer.max_epochs"]
    assert "None" not in section.title + section.text + " ".join(captions(section))
    # The dimension that a layer takes over is no second option.
    runs = [leave(str(dim), "fusion=concat", f"encoder.dim={dim}") for dim in (8, 16)]
    assert captions(sensitivity("demo", group_settings(runs))) == ["F1 over encoder.dim"]


def test_two_options_that_vary_together_get_a_grid_for_each_value_of_the_rest(leave):
    cells = [(a, b, c) for a in (0.3, 0.7) for b in (0.0, 0.5) for c in (1, 4)]
    names = ("fusion.lambda_text", "loss.margin", "patience")
    runs = [
        leave(str(place), *(f"{name}={value}" for name, value in zip(names, cell, strict=True)), f1=0.1 + place / 100)
        for place, cell in enumerate(cells)
    ]
    section = sensitivity("demo", group_settings(runs))
    assert captions(section) == [
        f"F1 over fusion.lambda_text and loss.margin: tiny, text + graph, patience={patience}" for patience in (1, 4)
    ]
    texts = [text.get_text() for text in section.figures[0][2].axes[0].texts]
    assert sorted(texts) == ["0.100", "0.120", "0.140", "0.160"]
