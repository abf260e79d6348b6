import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from omegaconf import OmegaConf
from rich.console import Console

from gedbd.corpora.corpus import PARTS
from gedbd.experiments.baseline_run import evaluate_baseline
from gedbd.experiments.prepare import PreparedData
from gedbd.experiments.run_folder import SCHEMA, Run, find_runs, record_overrides, save_run
from gedbd.experiments.run_results import report
from gedbd.retrieval.scorers.simple_scorers import Constant


def settings(**changed: object) -> dict:
    return {"seed": 0, "dataset": {"name": "demo"}, "encoder": {"name": "minilm"}} | changed


def leave(folder: Path, config: dict, method: str = "text_graph", finished: bool = True) -> Run:
    """A run folder with its configuration and, once finished, two scored pairs and their metrics."""
    folder.mkdir(parents=True)
    OmegaConf.save(OmegaConf.create(config), folder / "config.yaml")
    (folder / "versions.json").write_text(json.dumps({"schema": SCHEMA, "corpus": "a"}))
    if finished:
        pairs = pd.DataFrame({"id_1": ["1", "2"], "id_2": ["3", "4"], "label": [1, 0], "score": [0.9, 0.1]})
        pairs.assign(part="test").to_parquet(folder / "predictions.parquet", index=False)
        results = pd.DataFrame({"method": [method, "text", "always_duplicate"], "threshold": [0.5, 0.4, 0.0]})
        results.to_csv(folder / "results.csv", index=False)
    return Run(folder)


def test_a_training_run_is_read_back(tmp_path):
    run = leave(tmp_path / "run", settings())
    (run.folder / "leak.json").write_text(json.dumps({"closure_found": 3, "closure_f1": 0.25}))
    assert (run.config.seed, run.config.encoder.name) == (0, "minilm")
    assert run.predictions["score"].tolist() == [0.9, 0.1]
    assert run.results["threshold"].tolist() == [0.5, 0.4, 0.0]
    assert run.leak == {"closure_found": 3, "closure_f1": 0.25}
    assert not run.is_baseline
    assert (run.method, run.part, run.label, run.corpus) == ("text_graph", "test", "minilm, text + graph", "demo")


@pytest.mark.parametrize(
    ("changed", "name"),
    [({"last_n": 24000}, "xamarin, newest 24,000"), ({"last_n": None}, "xamarin"), ({"name": "mine"}, "mine")],
)
def test_the_corpus_is_named_with_its_slice_or_after_its_folder(tmp_path, changed, name):
    dataset = {"path": "data/xamarin/reports.csv.xz", "name": None} | changed
    assert leave(tmp_path / "a", settings(dataset=dataset)).corpus == name


def test_runs_are_found_below_folders_in_the_order_of_their_paths(tmp_path):
    for name in ("sweep/1", "sweep/0", "other"):
        leave(tmp_path / name, settings())
    leave(tmp_path / "sweep" / "2", settings(), finished=False)
    leave(tmp_path / "sweep" / ".hydra", settings(), finished=False)
    leave(tmp_path / "other" / ".hydra", settings(), finished=False)
    finished, unfinished, *_ = find_runs([tmp_path])
    assert [run.folder for run in finished] == [tmp_path / name for name in ("other", "sweep/0", "sweep/1")]
    assert unfinished == [tmp_path / "sweep" / "2"]
    finished, unfinished, *_ = find_runs([tmp_path / "sweep" / "1", tmp_path / "other"])
    assert [run.folder for run in finished] == [tmp_path / "sweep" / "1", tmp_path / "other"]
    assert unfinished == []


def test_a_folder_without_a_finished_run_is_refused(tmp_path):
    leave(tmp_path / "done", settings())
    leave(tmp_path / "open" / "0", settings(), finished=False)
    (tmp_path / "empty").mkdir()
    unfinished = "{} has no run with predictions.parquet, which this command reads: its task writes none, or the run is"
    absent = "{}: no such folder; give a run folder, a sweep, or a folder that contains them"
    for name, message in {"open": unfinished, "empty": unfinished, "walk": absent, "done/config.yaml": absent}.items():
        with pytest.raises(ValueError, match=message.format(tmp_path / name)):
            find_runs([tmp_path / "done", tmp_path / name])


def test_a_run_of_another_version_is_left_out_with_a_line(tmp_path):
    leave(tmp_path / "done", settings())
    old = leave(tmp_path / "old", settings()).folder
    (old / "versions.json").write_text("{}")
    found = find_runs([tmp_path])
    assert [run.folder.name for run in found.finished] == ["done"]
    assert found.outdated == [f"{old} was written by an older version of gedbd: run its command again in a new folder"]
    with pytest.raises(ValueError, match="was written by an older version of gedbd"):
        find_runs([old])


def test_a_finished_backtest_has_its_own_page(tmp_path):
    leave(tmp_path / "done", settings())
    leave(tmp_path / "open", settings(), finished=False)
    backtest = tmp_path / "tested"
    leave(backtest, settings(target_precision=0.7), finished=False)
    (backtest / "matching.json").write_text("{}")
    finished, unfinished, _, own_pages = find_runs([tmp_path, backtest])
    assert [run.folder.name for run in finished] == ["done"]
    assert unfinished == [tmp_path / "open"]
    assert own_pages == [backtest]
    with pytest.raises(ValueError, match=r"tested has its own page, .*: see .*report\.html"):
        find_runs([backtest])


def test_a_resumed_run_keeps_the_options_that_were_typed_for_it(tmp_path):
    corpus = SimpleNamespace(fingerprint="0b6")
    save_run(tmp_path, OmegaConf.create({"seed": 0, "ckpt_path": None}), corpus)
    record_overrides(tmp_path, ["graph.pca_dim=5", "+trainer.limit_val_batches=1"])
    resumed = OmegaConf.create({"seed": 0, "ckpt_path": str(tmp_path / "checkpoints" / "last.ckpt")})
    save_run(tmp_path, resumed, corpus)
    assert Run(tmp_path).overrides == ["graph.pca_dim=5", "+trainer.limit_val_batches=1"]


@pytest.mark.integration
@pytest.mark.figures
def test_figures_of_a_task_are_saved_with_their_captions(make_corpus, tmp_path):
    corpus = make_corpus([0, 0, 2, 2, 4, 4])
    parts = np.array([PARTS.index(name) for name in ("train", "train", "val", "val", "test", "test")])
    pairs = pd.DataFrame({"earlier": [0, 2, 4, 1], "later": [1, 3, 5, 4], "label": [1, 1, 1, 0]})
    pairs = pairs.assign(part=["train", "val", "test", "test"], kind="random")
    prepared = PreparedData(corpus, parts, corpus.group, pairs, {})
    result = evaluate_baseline(Constant(), "constant", prepared, "test")
    figures = {"tag_network": ("the tags", Figure(figsize=(1, 1)))}
    report(tmp_path, replace(result, figures=figures), Console(quiet=True), [])
    run = Run(tmp_path)
    assert run.captions == {"tag_network": "the tags"}
    assert run.figure_file("tag_network").read_bytes().startswith(b"\x89PNG")
    assert run.figure_file("confusion_matrix").is_file()
