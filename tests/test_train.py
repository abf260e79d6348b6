"""Whole small trainings through the commands, as a user runs them."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from omegaconf import OmegaConf
from refusals import mistakes
from run_commands import commands_in

pytestmark = pytest.mark.integration

DEMO = "pkg://gedbd.corpora/demo.csv"
MONITOR = "val/average_precision"
TIMES = ["train/seconds", "train/reports_per_second"]
TINY = ["encoder=tiny", "trainer.accelerator=cpu", "trainer.enable_progress_bar=false", "batch_size=32"]


@pytest.fixture
def train(tmp_path, run_command):
    """Trains in a folder of its own; gives the run folder that was asked for."""

    def through(*options, folder="run"):
        run_command("train", *TINY, *options, f"hydra.run.dir={folder}")
        return tmp_path / folder

    return through


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Trains in a folder of its own; gives a run that several tests only read, with its output in printed.txt."""

    def through(*options: str) -> Path:
        folder = tmp_path_factory.mktemp("trained")
        with commands_in(folder) as run:
            (folder / "printed.txt").write_text(run("train", *TINY, *options, "hydra.run.dir=run"))
        return folder / "run"

    return through


@pytest.fixture(scope="module")
def whole(trained) -> Path:
    """Two epochs, uninterrupted; not to be changed."""
    return trained("trainer.max_epochs=2")


@pytest.fixture(scope="module")
def first_epoch(trained) -> Path:
    """A run halted after its first epoch; not to be changed."""
    return trained("trainer.max_epochs=1")


@pytest.fixture(scope="module")
def two_seeds(trained) -> Path:
    """Two seeds of text alone, as they are left when they have finished."""
    return trained("trainer=smoke", "seeds=2", "graph=none")


@pytest.fixture
def halted(first_epoch, tmp_path) -> Iterator[Path]:
    """The halted run, to go on with: it is put back afterwards."""
    shutil.copytree(first_epoch, tmp_path / "kept")
    yield first_epoch
    shutil.rmtree(first_epoch)
    shutil.copytree(tmp_path / "kept", first_epoch)


def weights(folder: Path, name: str = "last") -> dict[str, torch.Tensor]:
    state = torch.load(folder / "checkpoints" / f"{name}.ckpt", weights_only=True)["state_dict"]
    assert isinstance(state, dict)
    return state


@pytest.mark.figures
def test_run_folder_holds_what_is_documented(whole):
    folder = whole
    epochs = pd.read_csv(folder / "metrics.csv")
    assert list(epochs["epoch"]) == [0, 1]
    names = [f"{p}/{m}" for p in ("train", "val") for m in ("loss", "f1", "precision", "recall", "accuracy")]
    assert {*names, *TIMES, "val/threshold"} <= set(epochs.columns)
    assert (epochs["train/reports_per_second"] > 0).all()

    predictions = pd.read_parquet(folder / "predictions.parquet")
    assert set(predictions["part"]) == {"val", "test"}
    assert (predictions.loc[predictions["kind"] == "positive", "label"] == 1).all()
    methods = pd.read_csv(folder / "results.csv")
    expected = ["text_graph", "text", "frozen", "always_duplicate"]
    assert list(methods["method"]) == expected
    test = predictions[predictions["part"] == "test"]
    hits = ((test["predicted"] == 1) & (test["label"] == 1)).sum()
    assert methods["recall"][0] == pytest.approx(hits / (test["label"] == 1).sum(), abs=1e-6)
    assert methods["precision"][3] == pytest.approx(test["label"].mean(), abs=1e-6)

    drawn = {path.stem for path in (folder / "figures").glob("*.png")}
    expected = {"training_curves", "confusion_matrix", "similarity_histogram", "precision_recall", "rank_curves"}
    assert drawn == expected | {"title_cosines"}
    for name in ("config.yaml", "versions.json", "results.json", "examples.csv", "ranking.csv", "leak.json"):
        assert (folder / name).stat().st_size > 0
    assert len(json.loads((folder / "results.json").read_text())) == 4


def test_a_training_prints_its_epochs_and_a_verdict(whole):
    printed = (whole.parent / "printed.txt").read_text()
    epochs = pd.read_csv(whole / "metrics.csv")
    lines = re.findall(r"^epoch (.*)$", printed, flags=re.MULTILINE)
    for number, (line, row) in enumerate(zip(lines, epochs.to_dict("records"), strict=True)):
        best = " (best)" if number == 0 or row[MONITOR] > epochs[MONITOR][:number].max() else ""
        expected = f"{number + 1}/2: train loss {row['train/loss']:.3f}, val F1 {row['val/f1']:.3f}"
        assert line.startswith(f"{expected}, RR@10 {row['val/rr@10']:.3f}, AP {row[MONITOR]:.3f}{best}, ")
        assert line.endswith(" s")
    results, ranking = pd.read_csv(whole / "results.csv"), pd.read_csv(whole / "ranking.csv")
    # A long line may be wrapped.
    verdict = " ".join(printed.split())
    assert f"test F1 {results['f1'][0]:.3f} [" in verdict
    assert f"; always duplicate {results['f1'][3]:.3f}: " in verdict
    assert f"test RR@10 {ranking['rr@10'][0]:.3f} [" in verdict
    assert f"; frozen encoder {ranking['rr@10'][ranking['method'] == 'frozen'].item():.3f}: " in verdict


def test_threshold_is_chosen_on_validation_saved_and_used_at_test(first_epoch):
    saved = float(weights(first_epoch, "best")["threshold"])
    assert saved == pytest.approx(pd.read_csv(first_epoch / "metrics.csv")["val/threshold"][0])
    predictions = pd.read_parquet(first_epoch / "predictions.parquet")
    assert (predictions["predicted"] == (predictions["score"] >= np.float32(saved))).all()


@pytest.mark.no_cover
def test_a_run_goes_on_with_its_own_options_and_equals_an_uninterrupted_one(run_command, whole, halted):
    for name in ("config.yaml", "versions.json"):
        shutil.copy(whole / name, halted)
    run_command("train", f"ckpt_path={halted}/checkpoints/last.ckpt")
    check_equal_runs(whole, halted)


TRACKERS = [
    *(
        "experiment=across_trackers",
        f"dataset.paths=[{{path: {DEMO}, name: a}},{{path: {DEMO}, name: b, last_n: 150}}]",
    ),
    *(f"dataset.held_out=[{{path: {DEMO}, name: c, last_n: 200}}]", "scheduler=constant", "batch_size=12"),
    *("batches.batches_per_epoch=5", "trainer.precision=bf16-mixed", "adapter_rank=2"),
]


@pytest.mark.slow  # three trainings; what is resumed is tested above
@pytest.mark.no_cover
@pytest.mark.parametrize(
    "options",
    [["pairs=grouped", "batches.hard=0.5", "ranking.parts=[]", "graph=none"], TRACKERS],
    ids=["hard", "across"],
)
def test_resumed_run_draws_the_hard_negatives_of_an_uninterrupted_one(train, options):
    whole = train("trainer.max_epochs=2", *options, folder="whole")
    halted = train("trainer.max_epochs=1", *options, folder="halted")
    train("trainer.max_epochs=2", *options, f"ckpt_path={halted}/checkpoints/last.ckpt", folder="halted")
    check_equal_runs(whole, halted)


def check_equal_runs(whole: Path, halted: Path) -> None:
    expected, found = (pd.read_csv(folder / "metrics.csv").drop(columns=TIMES) for folder in (whole, halted))
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    for name in ("best", "last"):
        assert all(torch.equal(value, weights(halted, name)[key]) for key, value in weights(whole, name).items())


def test_resuming_with_other_options_is_refused(train, halted):
    with pytest.raises(SystemExit, match=r"its run had loss.margin=0.0, this one has 0.1"):
        train("loss.margin=0.1", f"ckpt_path={halted}/checkpoints/last.ckpt")
    with pytest.raises(SystemExit, match=r"ckpt_path=nowhere.ckpt: no such file"):
        train("ckpt_path=nowhere.ckpt")


def test_evaluate_repeats_the_test_and_changes_nothing(run_command, halted, same_rows):
    folder = halted
    before = {path: path.read_bytes() for path in (folder / "checkpoints").iterdir()}
    told = json.loads(run_command("evaluate", f"run={folder}", "part=test", "json=true"))
    assert list(told) == ["folder", "corpus", "part", "results", "ranking", "examples", "leak", "conclusions"]
    for name in ("results", "ranking"):
        same_rows(told[name], folder / "evaluation" / "test" / f"{name}.csv")
    assert (folder / "evaluation" / "test" / "figures" / "confusion_matrix.png").is_file()
    again = pd.read_csv(folder / "evaluation" / "test" / "results.csv")
    pd.testing.assert_frame_equal(again, pd.read_csv(folder / "results.csv"))
    assert {path: path.read_bytes() for path in before} == before


def test_a_file_that_only_a_run_names_is_not_quoted(run_command, first_epoch, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("user:password\n")
    shutil.copytree(first_epoch, tmp_path / "run")
    cfg = OmegaConf.load(tmp_path / "run" / "config.yaml")
    cfg.dataset = {"_target_": "gedbd.corpora.readers.auto.read_auto", "name": None, "path": str(secret)}
    OmegaConf.save(cfg, tmp_path / "run" / "config.yaml")
    with pytest.raises(SystemExit, match=rf"^error: {secret}, row 1: not readable as the corpus that this run names"):
        run_command("evaluate", f"run={tmp_path / 'run'}")


def test_evaluate_refuses(run_command, first_epoch):
    mistakes = {
        ("run=nowhere",): "nowhere is not a run folder",
        (f"run={first_epoch}", "part=tset"): "part=tset is unknown: choose train, val, test",
        (f"run={first_epoch}", "checkpoint=first"): "there is no first.ckpt",
    }
    for options, message in mistakes.items():
        with pytest.raises(SystemExit, match=message):
            run_command("evaluate", *options)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("options", "message"), mistakes("train"))
def test_mistakes_are_told_in_one_line(train, options, message):
    with pytest.raises(SystemExit, match=message):
        train("trainer=smoke", *options.split())


@pytest.mark.slow
def test_seeds_are_runs_of_their_own_and_go_on_where_they_stopped(train, run_command, two_seeds):
    folder = two_seeds
    first, second = (weights(folder / name)["encoder.projection.weight"] for name in ("seed_0", "seed_1"))
    assert not torch.equal(first, second)
    seeds = pd.read_csv(folder / "seeds.csv")
    assert seeds["seed"].unique().tolist() == [0, 1]
    single = train("trainer=smoke", "seed=1", "graph=none", folder="single")
    pd.testing.assert_frame_equal(pd.read_csv(folder / "seed_1" / "results.csv"), pd.read_csv(single / "results.csv"))
    finished = (folder / "seed_0" / "results.csv").stat().st_mtime_ns
    for name in ("status.json", "results.csv"):  # as a kill leaves it that comes while results are written
        (folder / "seed_1" / name).unlink()
    told = run_command("train", *TINY, "trainer=smoke", "seeds=2", "graph=none", f"hydra.run.dir={folder}")
    assert "over 2 seeds" in told
    assert (folder / "seed_0" / "results.csv").stat().st_mtime_ns == finished
    pd.testing.assert_frame_equal(pd.read_csv(folder / "seeds.csv"), seeds)
