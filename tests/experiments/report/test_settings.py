"""Which runs are one setting, how settings are named, and what becomes of repeated runs."""

import json

import pytest

from gedbd.experiments.report.counted_options import changes_numbers, flatten
from gedbd.experiments.report.run_settings import Setting, group_settings

COUNTED = "trainer.max_epochs trainer.devices trainer.precision trainer.strategy trainer.num_nodes patience monitor"
COUNTED += " trainer.limit_train_batches compile chunk_tokens backend.precision optimizer.fused dataset.last_n"
COUNTED += " split.seed encoder.seed an_option_of_tomorrow trainer.tomorrow logger_like seedling text.cleaning.urls"
WITHOUT_EFFECT = (
    "seed seeds cache_dir data_dir ckpt_path logger.wandb.project hydra.run.dir trainer.enable_progress_bar"
)
WITHOUT_EFFECT += " trainer.enable_model_summary trainer.log_every_n_steps trainer.default_root_dir trainer.logger"
WITHOUT_EFFECT += " backend.cache_dir dataset.data_dir batches.num_workers baselines.frozen.cache_dir"
WITHOUT_EFFECT += " dataset.url_template encoder.fine_tuning.lr"
GRAPH = "tiny, text + graph"
TEXT = "tiny, text alone"
SWEPT = ["encoder.dim=8", "graph=none", "graph=knn", "fusion=concat", "fusion=text_only", "graph.rule=null"]
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


def test_options_that_can_change_a_number():
    assert [name for name in f"{COUNTED} {WITHOUT_EFFECT}".split() if changes_numbers(name)] == COUNTED.split()


def test_an_option_that_counts_makes_a_setting_and_is_named(settings):
    options = [
        *("trainer.max_epochs=7", "trainer.devices=2", "trainer.precision=bf16-mixed", "trainer.strategy=ddp"),
        *("trainer.limit_train_batches=2", "patience=9", "monitor=val/f1", "optimizer.lr=0.1", "compile=true"),
        *("batch_size=8", "an_option_of_tomorrow=1", "encoder.dropout=0.5", "encoder.seed=5", "ranking.parts=[test]"),
        "dataset.date_format=year",
    ]
    default, *found = labels(settings("", *options))
    for option, label in zip(options, found, strict=True):
        assert f", {option}" in label
        assert sum(f", {option}" in other for other in (default, *found)) == 1


@pytest.mark.parametrize(
    "option",
    [
        *("cache_dir=elsewhere", "data_dir=elsewhere", "logger.wandb.project=other", "ckpt_path=x", "seeds=4"),
        *("trainer.enable_progress_bar=false", "dataset.path=another/name/of/the/same.csv", "labels.fraction=1"),
    ],
)
def test_an_option_that_does_not_count_makes_no_setting(settings, option):
    (setting,) = settings("", f"seed=1 {option}")
    assert setting.seeds == [0, 1]
    assert setting.label == GRAPH


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        (["trainer.max_epochs=1", "trainer.max_epochs=4"], [f"{GRAPH}, trainer.max_epochs={n}" for n in (1, 4)]),
        ([f"seed={seed} split=fold" for seed in range(3)], [GRAPH]),  # follows the seed
        (
            [f"seed={seed} split=group{held}" for held in ("", " split.seed=7") for seed in range(3)],
            [f"{GRAPH}, split.seed=seed", f"{GRAPH}, split.seed=7"],
        ),
        (["fusion=text_only", "fusion=text_only seed=1 graph.pca_dim=5"], [TEXT]),  # no graph reads its options
        (
            [
                *("graph=none", "graph.pca_dim=5", "graph.pca_dim=10", "graph=knn", "text=fields graph=none"),
                "batch_size=8 graph=none",
            ],
            [
                f"{TEXT}, text=title_description, batch_size=16",
                f"{GRAPH}, text=title_description, batch_size=16, graph.pca_dim=5, graph.rule=DenseAdjacency",
                f"{GRAPH}, text=title_description, batch_size=16, graph.pca_dim=10, graph.rule=DenseAdjacency",
                f"{GRAPH}, text=title_description, batch_size=16, graph.pca_dim=10, graph.rule=knn",
                f"{TEXT}, text=FieldTemplate, batch_size=16",
                f"{TEXT}, text=title_description, batch_size=8",
            ],
        ),
        (
            ["", "encoder=minilm", "encoder.dim=8"],
            [f"{GRAPH}, encoder.dim=16", "minilm, text + graph, encoder.dim=384", f"{GRAPH}, encoder.dim=8"],
        ),
        (
            [f"text=fields text.captions={name}/captions.csv graph=none" for name in "ab"],
            [f"{TEXT}, text.captions={name}/captions.csv" for name in "ab"],
        ),
        (
            [
                *(
                    "name=bm25",
                    "name=bm25 encoder.dim=8 baselines.rep.epochs=1",
                    "name=bm25 baselines.bm25.field=title",
                ),
                *("name=frozen", "name=frozen encoder=minilm"),
            ],
            ["bm25, field=text", "bm25, field=title", "frozen, encoder=tiny", "frozen, encoder=minilm"],
        ),
        (
            [f"name=frozen seed={seed} {FROZEN.format(f'sweep/seed_{seed}')}" for seed in (0, 1)],
            ["frozen (trained encoder)"],
        ),
        (
            [f"name=frozen {FROZEN.format(f'/out/demo/{name}')}" for name in "ab"],
            [f"frozen (trained encoder), run={name}" for name in "ab"],
        ),
        (
            [f"graph=none encoder.model=/data/models/{name}/best/encoder" for name in "ab"],
            [f"{TEXT}, encoder.model={name}/best/encoder" for name in "ab"],
        ),
        (
            [
                "name=frozen encoder=minilm",
                "name=frozen encoder=minilm encoder.model=./x/../models/my-encoder encoder.max_tokens=64",
            ],
            [None, "frozen, encoder.model=my-encoder"],
        ),
        (
            ["graph=none ranking.window_days=30", "graph=none"],
            [f"{TEXT}, ranking.window_days=30", f"{TEXT}, ranking.window_days=null"],
        ),
        (
            [
                "graph=none protocol=candidate_sets",
                "graph=none protocol=candidate_sets ranking.protocols.candidate_sets.min_jaccard=0.5",
            ],
            [None, f"{TEXT}, ranking.protocols.candidate_sets.min_jaccard=0.5"],
        ),
        (
            [f"graph=none protocol=candidate_sets encoder={name}" for name in ("tiny", "minilm")],
            [TEXT, "minilm, text alone"],
        ),
        (
            [f"name=bm25 protocol=candidate_sets encoder={name}" for name in ("tiny", "minilm")],
            [None, "bm25, ranking.protocols.candidate_sets.encoder=minilm"],
        ),
    ],
)
def test_the_label_names_no_more_than_it_needs(settings, runs, expected):
    found = labels(settings(*runs))
    assert [label if name is not None else None for label, name in zip(found, expected, strict=True)] == expected


def test_no_two_labels_are_equal(settings):
    found = labels(settings(*SWEPT, *(f"{option} patience=9" for option in SWEPT)))
    assert len(set(found)) == len(found) >= 10


def test_a_label_without_some_options(settings):
    first, _ = settings("patience=1 compile=true", "patience=2")
    assert first.label == f"{GRAPH}, compile=true, patience=1"
    assert first.label_without("patience") == f"{GRAPH}, compile=true"


def test_of_repeated_runs_the_newest_counts_and_the_others_are_named(leave):
    old, new, middle = (leave(name, time=time) for name, time in (("a", 100), ("b", 300), ("c", 200)))
    other, later = (leave(name, "seed=1", time=50) for name in "de")  # of two as old as each other, the last
    (setting,) = group_settings([old, new, middle, other, later])
    assert [run.folder.name for run in setting.runs] == ["b", "e"]
    assert [run.folder.name for run in setting.repeated] == ["a", "c", "d"]


def test_the_contents_of_a_corpus_count_or_where_unknown_its_path(leave):
    changed = [leave("a"), leave("b", "seed=1", corpus="feed5")]
    assert labels(group_settings(changed)) == [f"{GRAPH}, dataset.contents={name}" for name in ("0b6", "feed5")]
    unknown = [leave("c", corpus=None), leave("d", "dataset.path=x/y.csv", corpus=None)]
    assert labels(group_settings(unknown))[1] == f"{GRAPH}, dataset.path=y.csv"


def test_flatten():
    nested = {"graph": {"rule": {"k": 1}, "titles": None}, "seed": 0}
    assert flatten(nested) == {"graph.rule.k": 1, "graph.titles": None, "seed": 0}


def test_protocols_are_named_as_a_list_and_older_runs_of_them_are_the_same_setting(leave):
    both, older = (
        leave(name, "graph=none", "protocol=test_pool", "ranking.window_days=30", time=time)
        for time, name in enumerate(("both", "older"))
    )
    saved = json.loads((older.folder / "config.yaml").read_text())
    saved["ranking"]["protocols"] = ["earlier", "test_pool"]
    (older.folder / "config.yaml").write_text(json.dumps(saved))
    assert labels(group_settings([both, older])) == [TEXT]
    one = leave("one", "graph=none", "ranking.window_days=30")
    assert labels(group_settings([both, one]))[0] == f"{TEXT}, ranking.protocols=[earlier,test_pool]"
