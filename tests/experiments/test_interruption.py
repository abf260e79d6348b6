"""What a user is told after Ctrl-C; that it is told is tested in tests/tracking."""

import shlex

import pytest

from gedbd.experiments.interruption import continuation_message, keyboard_interrupts

GIVEN = ["encoder=tiny", "text.order=[title,component]", "ckpt_path=elsewhere/last.ckpt"]

CONTINUED = "ckpt_path='outputs/lr=1 (a)/checkpoints/last.ckpt'"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "outputs" / "lr=1 (a)"
    (run / "checkpoints").mkdir(parents=True)
    return run


def test_a_run_with_a_checkpoint_continues_from_it(folder):
    (folder / "checkpoints" / "last.ckpt").touch()
    told, command = continuation_message(GIVEN, folder).splitlines()
    assert "outputs/lr=1 (a)/checkpoints/last.ckpt" in told
    assert shlex.split(command) == ["gedbd", "train", CONTINUED]


@pytest.mark.parametrize(
    "needed",
    [
        *("loss._target_=hinge.HingeLoss", "+callbacks.mine={_target_: mine.Noted}"),
        *("backend.address=10.0.0.1:6379", "dataset.path=pkg://mine/bugs.csv"),
    ],
)
def test_what_the_folder_does_not_say_is_repeated(folder, needed, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (folder / "checkpoints" / "last.ckpt").touch()
    _, command = continuation_message([*GIVEN, "cache_dir=cache"], folder).splitlines()
    assert shlex.split(command) == ["gedbd", "train", "cache_dir=cache", CONTINUED]
    _, command = continuation_message([*GIVEN, needed], folder).splitlines()
    assert shlex.split(command) == ["gedbd", "train", *GIVEN[:2], needed, CONTINUED]
    _, command = continuation_message(["--config-dir", "mine", "loss=hinge"], folder).splitlines()
    assert shlex.split(command) == ["gedbd", "train", "--config-dir", "mine", "loss=hinge", CONTINUED]


def test_code_of_ones_own_is_found_again(folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "my code:.")
    (folder / "checkpoints" / "last.ckpt").touch()
    _, command = continuation_message(["loss._target_=hinge.HingeLoss"], folder).splitlines()
    assert command.startswith("  PYTHONPATH='my code:.' gedbd train loss._target_=hinge.HingeLoss ")
    _, command = continuation_message(GIVEN, folder).splitlines()
    assert shlex.split(command) == ["gedbd", "train", CONTINUED]


def test_a_run_without_one_starts_again(folder):
    told, command = continuation_message(GIVEN[:2], folder).splitlines()
    assert "before the end of the first epoch" in told
    assert shlex.split(command) == ["gedbd", "train", *GIVEN[:2]]


def test_several_runs_continue_by_the_folder_above(folder, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    _, command = continuation_message(["-m", "seed=1,2", "hydra.sweep.dir=x"], folder, "hydra.sweep.dir").splitlines()
    assert shlex.split(command)[2:] == ["-m", "seed=1,2", "hydra.sweep.dir='outputs/lr=1 (a)'"]
    _, command = continuation_message(["seeds=2"], tmp_path / "plain", "hydra.run.dir").splitlines()
    assert command == "  gedbd train seeds=2 hydra.run.dir=plain"
    _, command = continuation_message(["seeds=2"], tmp_path / "Ann's", "hydra.run.dir").splitlines()
    assert shlex.split(command)[-1] == r"hydra.run.dir='Ann\'s'"


def test_other_exits_pass():
    with pytest.raises(SystemExit, match="7"), keyboard_interrupts():
        raise SystemExit(7)
