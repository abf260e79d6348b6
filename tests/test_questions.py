"""Trainings of duplicate questions through the commands, and what they refuse."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hydra.utils import instantiate
from rich.console import Console
from run_commands import composed

from gedbd.experiments.training_task import check_sections

pytestmark = pytest.mark.integration

TINY = ["task=questions", "encoder=tiny", "trainer.accelerator=cpu", "trainer.enable_progress_bar=false"]
TIMES = ["train/seconds", "train/reports_per_second"]
WORDS = ["mail", "folder", "crash", "sync", "theme", "search", "print", "import"]


@pytest.fixture(scope="module")
def export(tmp_path_factory) -> Path:
    """60 questions in pairs of duplicates, with two tags each."""
    rng = np.random.default_rng(0)
    words = [" ".join(rng.choice(WORDS, 4)) for _ in range(30)]
    rows = {
        "Issue_id": range(1, 61),
        "Title": [f"{words[row // 2]} {WORDS[row % 8]}" for row in range(60)],
        "Description": ["" if row % 3 else words[row // 2] for row in range(60)],
        "Labels": [f"{WORDS[row // 2 % 8]};{WORDS[row % 5]}" for row in range(60)],
        "Created_time": [f"2024-01-01T00:{row:02}:00Z" for row in range(60)],
        "Duplicated_issue": [str(row) if row % 2 else "" for row in range(60)],
    }
    path = tmp_path_factory.mktemp("export") / "questions.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def options(export: Path, folder: Path) -> list[str]:
    fields = ("product", "component", "version", "os", "priority", "status", "resolution", "attachments", "url")
    absent = [f"dataset.columns.{name}=null" for name in (*fields, "resolved_at")]
    return [*TINY, "dataset=csv", f"dataset.path={export}", *absent, f"cache_dir={folder}", "trainer.max_epochs=2"]


def run_once(words: list[str], folder: Path) -> str:
    cfg = composed("train", *words)
    with (folder / "printed.txt").open("w+") as file:
        instantiate(cfg.task).train(cfg, folder / "run", Console(file=file, width=120))
        file.seek(0)
        return file.read()


def test_a_run_of_te_has_results_rankings_and_curves(export, tmp_path):
    printed = run_once([*options(export, tmp_path), "task.alpha=1"], tmp_path)
    assert "training pairs have no answered question in a bucket more similar than task.alpha=1" in printed
    epochs = pd.read_csv(tmp_path / "run" / "metrics.csv")
    assert {"train/loss", "val/loss", "val/f1", "val/rr@10", "val/mrr"} <= set(epochs)
    results = pd.read_csv(tmp_path / "run" / "results.csv")
    assert results["method"].tolist() == ["te", "frozen", "always_duplicate"]
    ranking = pd.read_csv(tmp_path / "run" / "ranking.csv")
    assert ranking["method"].tolist() == ["te", "frozen"]
    assert ranking["queries"].tolist() == [6, 6]


@pytest.mark.slow
def test_the_tag_network_is_read_and_drawn(export, tmp_path):
    run_once([*options(export, tmp_path), "task=questions_modern", "task.network=true", "tags.dim=8"], tmp_path)
    assert pd.read_csv(tmp_path / "run" / "results.csv")["method"][0] == "te_network_modern"
    assert (tmp_path / "run" / "figures" / "tag_network.png").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("negatives", ["buckets", "mined"])
def test_a_resumed_run_equals_an_uninterrupted_one(export, tmp_path, run_command, negatives):
    words = [*options(export, tmp_path)[:-1], f"task.negatives={negatives}"]
    run_command("train", *words, "trainer.max_epochs=4", "hydra.run.dir=whole")
    run_command("train", *words, "trainer.max_epochs=2", "hydra.run.dir=half")
    run_command("train", "ckpt_path=half/checkpoints/last.ckpt", "trainer.max_epochs=4")
    whole, half = (pd.read_csv(f"{name}/metrics.csv").drop(columns=TIMES) for name in ("whole", "half"))
    pd.testing.assert_frame_equal(whole, half)
    first, second = (torch.load(f"{name}/checkpoints/last.ckpt", weights_only=True) for name in ("whole", "half"))
    for name, value in first["state_dict"].items():
        assert torch.equal(value, second["state_dict"][name])


def test_options_that_the_task_would_ignore_are_refused_and_others_are_taken():
    for word, section in (("graph.pca_dim=5", "graph"), ("text=fields", "text")):
        with pytest.raises(ValueError, match=f"does not use the section {section}: leave {word} out"):
            check("task=questions", "encoder=tiny", word)
    check("task=confirmation", "encoder=tiny", "split=year", "tags.dim=8", "backend=torch")
    check("task=questions", "encoder=tiny", "loss.margin=0.5", "tags.dim=8", "batch_size=8", "split=group")
    check("graph=knn", "text=fields", "pairs=pk")  # duplicate detection reads all of them
    with pytest.raises(
        ValueError, match=r"^\+optimizer.betas=3: gedbd.experiments.optimizers.adamw has the arguments p"
    ):
        check("encoder=tiny", "+optimizer.betas=3")
    check("experiment=paper", "encoder=tiny")  # which chooses a part of its corpora


UNUSED = {
    "callbacks=lr_monitor": "callbacks: leave callbacks=lr_monitor out$",
    "+callbacks.x={_target_: a.B}": "callbacks: leave .callbacks.x=.* out$",
    "trainer=smoke": "trainer: leave trainer=smoke out$",
    "trainer.max_epochs=2": "trainer: leave trainer.max_epochs=2 out$",
    "debug=profiler": "trainer: leave debug=profiler out$",
    "monitor=val/loss": "monitor: leave monitor=val/loss out$",
    "patience=1": "patience: leave patience=1 out$",
}
ALONE = ["task=localization", "task.model=null"]


@pytest.mark.parametrize("task", [["task=confirmation"], ALONE])
@pytest.mark.parametrize(("word", "message"), UNUSED.items())
def test_options_of_a_training_are_refused_where_nothing_is_trained(task, word, message):
    with pytest.raises(ValueError, match=f"^{task[0]}.* does not use the section {message}"):
        check(*task, word)


def test_without_an_encoder_to_train_localization_refuses_what_only_this_reads():
    told = r"^task=localization with task\.model=null does not use the section optimizer: leave optimizer\.lr=1 out$"
    with pytest.raises(ValueError, match=told):
        check(*ALONE, "optimizer.lr=1")
    # What an experiment sets for the training that the command line leaves out was not typed.
    check("experiment=locate_authors", "task.model=null")
    check(*ALONE, "encoder=tiny")


@pytest.mark.parametrize("task", ["duplicates", "questions", "pretraining", "localization"])
def test_tasks_that_train_read_the_options_of_a_training(task):
    check(f"task={task}", *(word for word in UNUSED if word != "trainer=smoke"))


def check(*words: str, progress_bar: bool = True) -> None:
    cfg = composed("train", *words, return_hydra_config=True)
    cfg.trainer.enable_progress_bar = progress_bar
    check_sections(cfg, words, cfg.hydra.runtime.choices)
