"""Which runs are one setting, how settings are named, and what becomes of repeated runs."""

import pytest

from gedbd.experiments.report.run_settings import Setting, group_settings

GRAPH = "tiny, text + graph"
TEXT = "tiny, text alone"
FROZEN = "run={0} baselines.frozen.checkpoint={0}/checkpoints/best.ckpt"


@pytest.fixture
def settings(leave):
    """The settings of runs, each given by its options; those with ``name=`` are runs of baselines."""

    def make(*runs: str) -> list[Setting]:
        made = []
        for place, options in enumerate(runs):
            command = "baseline" if "name=" in options.replace("dataset.name=", "") else "train"
            made.append(leave(str(place), *options.split(), command=command))
        return group_settings(made)

    return make


def labels(settings: list[Setting]) -> list[str]:
    return [setting.label for setting in settings]


def test_an_option_that_was_typed_makes_a_setting_and_is_named(settings):
    options = [
        *("trainer.max_epochs=7", "trainer.precision=bf16-mixed", "patience=9", "monitor=val/f1", "optimizer.lr=0.1"),
        *("compile=true", "batch_size=8", "an_option_of_tomorrow=1", "encoder.dropout=0.5", "ranking.parts=[test]"),
    ]
    _, *typed = labels(settings("", *options))
    for option, label in zip(options, typed, strict=True):
        assert f", {option}" in label
        assert sum(f", {option}" in other for other in typed) == 1


@pytest.mark.parametrize(
    "option",
    [
        *("cache_dir=elsewhere", "data_dir=elsewhere", "logger.wandb.project=other", "ckpt_path=x", "seeds=4"),
        *("trainer.enable_progress_bar=false", "dataset.path=another/name/of/the/same.csv"),
    ],
)
def test_an_option_that_does_not_count_makes_no_setting(settings, option):
    (setting,) = settings("", f"seed=1 {option}")
    assert setting.seeds == [0, 1]
    assert setting.label == GRAPH


@pytest.mark.integration
@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        (["trainer.max_epochs=1", "trainer.max_epochs=4"], [f"{GRAPH}, trainer.max_epochs={n}" for n in (1, 4)]),
        (["optimizer.lr=1e-3", "optimizer.lr=0.001 seed=1"], [GRAPH]),  # the same number
        ([f"seed={seed} split=fold" for seed in range(3)], [GRAPH]),  # follows the seed
        (
            [f"seed={seed} split=group{held}" for held in ("", " split.seed=7") for seed in range(3)],
            [GRAPH, f"{GRAPH}, split.seed=7"],
        ),
        (
            ["graph=none", "graph.pca_dim=5", "graph.pca_dim=10", "graph=knn", "text=fields graph=none"],
            [
                TEXT,
                f"{GRAPH}, graph.pca_dim=5",
                f"{GRAPH}, graph.pca_dim=10",
                f"{GRAPH}, graph=knn",
                f"{TEXT}, text=fields",
            ],
        ),
        (["", "encoder=minilm", "encoder.dim=8"], [GRAPH, "minilm, text + graph", f"{GRAPH}, encoder.dim=8"]),
        (
            ["name=bm25", "name=bm25 baselines.bm25.field=title", "name=frozen", "name=frozen text=fields"],
            ["bm25", "bm25, field=title", "frozen", "frozen, text=fields"],
        ),
        (
            [f"name=frozen seed={seed} {FROZEN.format(f'sweep/seed_{seed}')}" for seed in (0, 1)],
            ["frozen (trained encoder)"],
        ),
        (
            [f"name=frozen run=/out/demo/{name}" for name in "ab"],
            [f"frozen (trained encoder), run=/out/demo/{name}" for name in "ab"],
        ),
        (["graph=none ranking.window_days=30", "graph=none"], [f"{TEXT}, ranking.window_days=30", TEXT]),
        (
            [f"graph=none protocol=candidate_sets encoder={name}" for name in ("tiny", "minilm")],
            [TEXT, "minilm, text alone"],
        ),
    ],
)
def test_the_label_names_what_differs(settings, runs, expected):
    assert labels(settings(*runs)) == expected


def test_of_repeated_runs_the_newest_counts_and_the_others_are_named(leave):
    old, new, middle = (leave(name, time=time) for name, time in (("a", 100), ("b", 300), ("c", 200)))
    other, later = (leave(name, "seed=1", time=50) for name in "de")  # of two as old as each other, the last
    (setting,) = group_settings([old, new, middle, other, later])
    assert [run.folder.name for run in setting.runs] == ["b", "e"]
    assert [run.folder.name for run in setting.repeated] == ["a", "c", "d"]


def test_a_corpus_that_was_changed_makes_another_setting(leave):
    changed = [leave("a"), leave("b", "seed=1", corpus="feed5")]
    assert labels(group_settings(changed)) == [f"{GRAPH}, dataset.contents={name}" for name in ("0b6", "feed5")]
