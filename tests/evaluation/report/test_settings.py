"""Which runs are one setting, how settings are named, and what becomes of repeated runs."""

import json
from typing import Any

import pytest

from gedbd.evaluation.report.counted_options import changes_numbers, flatten
from gedbd.evaluation.report.run_settings import Setting, group_settings


def labels(settings: list[Setting]) -> list[str]:
    return [setting.label for setting in settings]


@pytest.mark.parametrize(
    "name",
    [
        *("seed", "seeds", "cache_dir", "data_dir", "ckpt_path", "logger.project", "logger.group", "hydra.run.dir"),
        *("trainer.enable_progress_bar", "trainer.enable_model_summary", "trainer.log_every_n_steps"),
        *("trainer.default_root_dir", "trainer.logger", "backend.cache_dir", "dataset.data_dir", "batches.num_workers"),
        *("baselines.frozen.cache_dir", "dataset.url_template", "encoder.fine_tuning.lr"),
    ],
)
def test_options_that_cannot_change_a_number(name):
    assert not changes_numbers(name)


@pytest.mark.parametrize(
    "name",
    [
        *("trainer.max_epochs", "trainer.devices", "trainer.precision", "trainer.strategy", "trainer.num_nodes"),
        *("trainer.limit_train_batches", "patience", "monitor", "compile", "chunk_tokens", "backend.precision"),
        *(
            "optimizer.fused",
            "dataset.last_n",
            "split.seed",
            "encoder.seed",
            "an_option_of_tomorrow",
            "trainer.tomorrow",
        ),
        *("logger_like", "seedling", "text.cleaning.urls", "ranking.parts"),
    ],
)
def test_every_other_option_counts(name):
    assert changes_numbers(name)


def test_an_option_that_counts_makes_a_setting_and_is_named(leave):
    options = [
        *("trainer.max_epochs=7", "trainer.devices=2", "trainer.precision=bf16-mixed", "trainer.strategy=ddp"),
        *("trainer.limit_train_batches=2", "patience=9", "monitor=val/f1", "optimizer.lr=0.1", "compile=true"),
        *("batch_size=8", "an_option_of_tomorrow=1", "encoder.dropout=0.5", "encoder.seed=5", "ranking.parts=[test]"),
        "dataset.date_format=year",
    ]
    settings = group_settings([leave("default"), *(leave(option.replace("/", "_"), option) for option in options)])
    assert [len(setting.runs) for setting in settings] == [1] * 16
    assert len(set(labels(settings))) == 16
    for option, setting in zip(options, settings[1:], strict=True):
        assert f", {option}" in setting.label
        assert sum(f", {option}" in label for label in labels(settings)) == 1


@pytest.mark.parametrize(
    "option",
    [
        "cache_dir=elsewhere",
        "data_dir=elsewhere",
        "logger.project=other",
        "ckpt_path=x",
        "seeds=4",
        "trainer.enable_progress_bar=false",
        "dataset.path=another/name/of/the/same.csv",
    ],
)
def test_an_option_that_does_not_count_makes_no_setting(leave, option):
    (setting,) = group_settings([leave("a"), leave("b", "seed=1", option)])
    assert [run.config.seed for run in setting.runs] == [0, 1]
    assert setting.label == "tiny, text + graph"


def test_two_lengths_of_training_are_two_settings(leave):
    settings = group_settings([leave("0", "trainer.max_epochs=1"), leave("1", "trainer.max_epochs=4")])
    assert labels(settings) == ["tiny, text + graph, trainer.max_epochs=1", "tiny, text + graph, trainer.max_epochs=4"]


def test_a_number_counts_by_its_value(leave):
    assert len(group_settings([leave("a"), leave("b", "seed=1", "labels.fraction=1")])) == 1


def test_of_repeated_runs_the_newest_counts_and_the_others_are_named(leave):
    old, new, middle = (leave(name, time=time) for name, time in (("a", 100), ("b", 300), ("c", 200)))
    other = leave("d", "seed=1", time=50)
    (setting,) = group_settings([old, new, middle, other])
    assert [run.folder.name for run in setting.runs] == ["b", "d"]
    assert [run.folder.name for run in setting.repeated] == ["a", "c"]


def test_of_repeats_as_old_as_each_other_the_last_counts(leave):
    (setting,) = group_settings([leave("a", time=5), leave("b", time=5)])
    assert [run.folder.name for run in setting.runs] == ["b"]


def test_a_corpus_that_changed_is_another_setting(leave):
    settings = group_settings([leave("a"), leave("b", "seed=1", corpus="feed5")])
    assert labels(settings) == [
        "tiny, text + graph, dataset.contents=0b6",
        "tiny, text + graph, dataset.contents=feed5",
    ]


def test_without_a_fingerprint_the_path_counts(leave):
    runs = [leave("a", corpus=None), leave("b", "dataset.path=x/y.csv", corpus=None)]
    assert labels(group_settings(runs))[1] == "tiny, text + graph, dataset.path=y.csv"


def test_options_that_follow_the_seed_make_no_setting(leave):
    (setting,) = group_settings([leave(str(seed), f"seed={seed}", "split=fold") for seed in (0, 1, 2)])
    assert len(setting.runs) == 3


def test_a_seed_that_is_held_is_a_setting_of_its_own(leave):
    follows = [leave(f"a{seed}", "split=group", f"seed={seed}") for seed in (0, 1, 2)]
    held = [leave(f"b{seed}", "split=group", f"seed={seed}", "split.seed=7") for seed in (0, 1, 2)]
    settings = group_settings([*follows, *held])
    assert labels(settings) == ["tiny, text + graph, split.seed=seed", "tiny, text + graph, split.seed=7"]
    assert [len(setting.runs) for setting in settings] == [3, 3]


def test_without_a_graph_its_options_do_not_count(leave):
    runs = [leave("a", "fusion=text_only"), leave("b", "fusion=text_only", "seed=1", "graph.pca_dim=5")]
    assert labels(group_settings(runs)) == ["tiny, text alone"]


def test_the_label_names_no_more_than_it_needs(leave):
    runs = [
        leave("a", "graph=none"),
        leave("b", "graph.pca_dim=5"),
        leave("c", "graph.pca_dim=10"),
        leave("d", "graph=knn"),
        leave("e", "text=fields", "graph=none"),
        leave("f", "batch_size=8", "graph=none"),
    ]
    assert labels(group_settings(runs)) == [
        "tiny, text alone, text=title_description, batch_size=16",
        "tiny, text + graph, text=title_description, batch_size=16, graph.pca_dim=5, graph.rule=DenseAdjacency",
        "tiny, text + graph, text=title_description, batch_size=16, graph.pca_dim=10, graph.rule=DenseAdjacency",
        "tiny, text + graph, text=title_description, batch_size=16, graph.pca_dim=10, graph.rule=knn",
        "tiny, text alone, text=FieldTemplate, batch_size=16",
        "tiny, text alone, text=title_description, batch_size=8",
    ]


def test_encoders_are_named_once(leave):
    runs = [leave("a"), leave("b", "encoder=minilm"), leave("c", "encoder.dim=8")]
    assert labels(group_settings(runs)) == [
        "tiny, text + graph, encoder.dim=16",
        "minilm, text + graph, encoder.dim=384",
        "tiny, text + graph, encoder.dim=8",
    ]


def test_files_of_one_name_are_told_apart_by_their_folders(leave):
    runs = [leave(name, "text=fields", f"text.captions={name}/captions.csv", "graph=none") for name in "ab"]
    assert labels(group_settings(runs)) == [f"tiny, text alone, text.captions={name}/captions.csv" for name in "ab"]


def test_of_a_baseline_only_what_it_reads_counts(leave):
    runs = [
        leave("a", "name=bm25", command="baseline"),
        leave("b", "name=bm25", "encoder.dim=8", "baselines.rep.epochs=1", command="baseline", time=9),
        leave("c", "name=bm25", "baselines.bm25.field=title", command="baseline"),
        leave("d", "name=frozen", command="baseline"),
        leave("e", "name=frozen", "encoder=minilm", command="baseline"),
    ]
    settings = group_settings(runs)
    assert labels(settings) == [
        "bm25, field=text",
        "bm25, field=title",
        "frozen, encoder=tiny",
        "frozen, encoder=minilm",
    ]
    assert [run.folder.name for run in settings[0].repeated] == ["a"]


def test_baselines_with_the_encoders_of_several_seeds_are_one_setting(leave):
    runs = [
        leave(
            str(seed),
            "name=frozen",
            f"seed={seed}",
            f"run=sweep/seed_{seed}",
            f"baselines.frozen.checkpoint=sweep/seed_{seed}/checkpoints/best.ckpt",
            command="baseline",
        )
        for seed in (0, 1)
    ]
    assert labels(group_settings(runs)) == ["frozen (trained encoder)"]


def test_no_two_labels_are_equal(leave):
    overrides = ["encoder.dim=8", "graph=none", "graph=knn", "fusion=concat", "fusion=text_only", "graph.rule=null"]
    runs = [leave(str(number), option) for number, option in enumerate(overrides)]
    runs += [leave(f"again_{number}", option, "patience=9") for number, option in enumerate(overrides)]
    found = labels(group_settings(runs))
    assert len(set(found)) == len(found) >= 10


def test_flatten():
    nested: dict[str, Any] = {"graph": {"rule": {"k": 1}, "titles": None}, "seed": 0}
    assert flatten(nested) == {"graph.rule.k": 1, "graph.titles": None, "seed": 0}


def test_a_label_without_some_options(leave):
    first, _ = group_settings([leave("a", "patience=1", "compile=true"), leave("b", "patience=2")])
    assert first.label == "tiny, text + graph, compile=true, patience=1"
    assert first.label_without("patience") == "tiny, text + graph, compile=true"


def test_protocols_are_named_as_a_list_and_older_runs_of_them_are_the_same_setting(leave):
    both = leave("both", "graph=none", "protocol=test_pool", "ranking.window_days=30")
    older = leave("older", "graph=none", "protocol=test_pool", "ranking.window_days=30", time=1)
    saved = json.loads((older.folder / "config.yaml").read_text())
    saved["ranking"]["protocols"] = ["earlier", "test_pool"]
    (older.folder / "config.yaml").write_text(json.dumps(saved))
    assert labels(group_settings([both, older])) == ["tiny, text alone"]
    one = leave("one", "graph=none", "ranking.window_days=30")
    found = labels(group_settings([both, one]))
    assert found[0] == "tiny, text alone, ranking.protocols=[earlier,test_pool]"
    assert labels(group_settings([one, leave("none", "graph=none")]))[0] == "tiny, text alone, ranking.window_days=30"


def test_an_option_of_one_protocol_counts_and_its_encoder_is_named_once(leave):
    strict = "ranking.protocols.candidate_sets.min_jaccard=0.5"
    first = leave("a", "graph=none", "protocol=candidate_sets")
    second = leave("b", "graph=none", "protocol=candidate_sets", strict)
    assert labels(group_settings([first, second]))[1] == f"tiny, text alone, {strict}"
    other = leave("c", "graph=none", "protocol=candidate_sets", "encoder=minilm")
    assert labels(group_settings([first, other])) == ["tiny, text alone", "minilm, text alone"]
    both = [
        leave(name, "name=bm25", "protocol=candidate_sets", f"encoder={name}", command="baseline")
        for name in ("tiny", "minilm")
    ]
    assert labels(group_settings(both))[1] == "bm25, ranking.protocols.candidate_sets.encoder=minilm"


def test_an_encoder_in_a_folder_is_named_by_its_last_folder(leave):
    own = ["encoder.model=./x/../models/my-encoder", "encoder.max_tokens=64"]
    runs = [
        leave("a", "name=frozen", "encoder=minilm", command="baseline"),
        leave("b", "name=frozen", "encoder=minilm", *own, command="baseline"),
    ]
    label = labels(group_settings(runs))[1]
    assert label == "frozen, encoder.model=my-encoder"


def test_folders_of_one_name_get_as_many_parts_as_tell_them_apart(leave):
    models = [f"encoder.model=/data/models/{name}/best/encoder" for name in "ab"]
    runs = [leave(str(place), "graph=none", model) for place, model in enumerate(models)]
    assert labels(group_settings(runs)) == [f"tiny, text alone, encoder.model={name}/best/encoder" for name in "ab"]


def test_the_checkpoint_of_a_baseline_is_named_by_its_run(leave):
    runs = [
        leave(
            name,
            "name=frozen",
            f"run=/out/demo/{name}",
            f"baselines.frozen.checkpoint=/out/demo/{name}/checkpoints/best.ckpt",
            command="baseline",
        )
        for name in "ab"
    ]
    assert labels(group_settings(runs)) == [f"frozen (trained encoder), run={name}" for name in "ab"]
