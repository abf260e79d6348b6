"""Checkpoints survive a kill, a full disk and flipped bits: the one before stays, and a damaged one is refused."""

import errno
import io
import json
from fractions import Fraction
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from refusals import flip, mounted_disk, refuses
from torch import nn

from gedbd.configuration.command import Terminated
from gedbd.encoders.encoder_weights import load_state, read_state
from gedbd.experiments.resuming import TRAINING_STATE, WholeCheckpointIO, check_continues, readable_checkpoint
from gedbd.experiments.run_folder import find_run
from gedbd.io.checksums import CHECKSUMS, check_whole, note_checksums
from gedbd.io.files import replacing

SAVED = [CHECKSUMS, "last.ckpt"]


def weights(value: float, numbers: int = 1000) -> dict[str, dict[str, torch.Tensor]]:
    return {"state_dict": {"weight": torch.full((numbers,), float(value))}}


@pytest.fixture
def saver():
    return WholeCheckpointIO()


def names_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_a_full_disk_leaves_the_checkpoint_before_and_no_rest(saver, tmp_path):
    with mounted_disk(tmp_path / "small", "8m") as disk:
        path = disk / "checkpoints" / "last.ckpt"
        saver.save_checkpoint(weights(1, 1 << 20), path)
        with pytest.raises(OSError, match="No space left on device") as refused:
            saver.save_checkpoint(weights(2, 3 << 20), path)
        assert (refused.value.errno, refused.value.filename) == (errno.ENOSPC, str(path))
        check_whole(path)
        assert read_state(path)["weight"].eq(1).all()
        assert names_in(path.parent) == SAVED


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, Terminated])
def test_an_interruption_while_a_checkpoint_is_written_stays_one(saver, tmp_path, monkeypatch, interrupt):
    path = tmp_path / "last.ckpt"
    saver.save_checkpoint(weights(1), path)
    written = []

    class Interrupted(io.FileIO):
        def write(self, content):
            written.append(content)
            if len(written) == 2:
                raise interrupt
            return super().write(content)

    opened = Path.open
    with monkeypatch.context() as patch:
        patch.setattr(
            Path,
            "open",
            lambda self, mode="r", *rest, **options: (
                Interrupted(self, mode) if mode == "wb" else opened(self, mode, *rest, **options)
            ),
        )
        with pytest.raises(interrupt):
            saver.save_checkpoint(weights(2), path)
    check_whole(path)
    assert read_state(path)["weight"].eq(1).all()
    assert names_in(tmp_path) == SAVED


@pytest.fixture
def continued(saver, tmp_path, make_corpus):
    """Checks whether a training continues from a checkpoint with some changes; its corpus has five reports."""
    (tmp_path / "checkpoints").mkdir()
    corpus = make_corpus([0, 0, 1, 2, 3])
    (tmp_path / "versions.json").write_text(json.dumps({"schema": 1, "corpus": corpus.fingerprint}))

    class System(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1000))

    def check(corpus=corpus, **changes):
        content = weights(1) | {name: {} for name in TRAINING_STATE} | changes
        path = tmp_path / "checkpoints" / "last.ckpt"
        saver.save_checkpoint({name: value for name, value in content.items() if value is not None}, path)
        check_continues(path, System(), corpus)

    return check


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (weights(1, numbers=7), r"another model than its config.yaml describes \(weight\): .*start a new run"),
        ({"state_dict": {}}, r"another model .*\(weight\)"),
        ({"state_dict": {**weights(1)["state_dict"], "more": torch.ones(1)}}, r"another model .*\(more\)"),
        ({"state_dict": None}, "holds no weights"),
        *(({name: None}, f"has no {name} to continue from: give last.ckpt") for name in TRAINING_STATE),
    ],
)
def test_a_training_does_not_continue_from_what_is_not_its_checkpoint(continued, changes, message):
    continued()
    with refuses(message):
        continued(**changes)


def test_a_training_does_not_continue_with_another_corpus(continued, make_corpus):
    with refuses("the corpus small has changed since the run was trained"):
        continued(corpus=make_corpus([0, 0, 1, 2, 2]))


@pytest.mark.parametrize("noted", ["both", "old", "none"])
def test_a_kill_between_the_checkpoint_and_its_checksum_leaves_both_right(saver, tmp_path, monkeypatch, noted):
    path = tmp_path / "last.ckpt"
    saver.save_checkpoint(weights(1), path)
    if noted == "none":
        (tmp_path / CHECKSUMS).unlink()

    def killed(*arguments):
        raise KeyboardInterrupt

    def killed_at_the_end(file, digests):
        if len(digests) < 2:
            killed()
        note_checksums(file, digests)

    with monkeypatch.context() as patch:
        if noted == "both":
            patch.setattr("gedbd.experiments.resuming.note_checksums", killed_at_the_end)
        else:
            patch.setattr("os.replace", killed)
        with pytest.raises(KeyboardInterrupt):
            saver.save_checkpoint(weights(2), path)
    check_whole(path)
    saver.save_checkpoint(weights(3), path)
    check_whole(path)
    assert (tmp_path / CHECKSUMS).read_text().count("last.ckpt") == 1


def flip_last_weight(path: Path) -> None:
    flip(path, path.read_bytes().rindex(b"\x80\x3f"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: flip(path, 0),
        lambda path: flip(path, path.stat().st_size // 2),
        flip_last_weight,
        lambda path: flip(path, -1),
    ],
    ids=["first", "middle", "last weight", "end"],
)
def test_a_flipped_bit_is_found_wherever_it_is(saver, tmp_path, damage):
    path = tmp_path / "best.ckpt"
    saver.save_checkpoint(weights(1), path)
    damage(path)
    with refuses(r"best.ckpt is damaged: .*"):
        saver.load_checkpoint(path, weights_only=True)


def test_without_a_checksum_the_archive_is_checked_and_that_is_said_once(saver, tmp_path, capsys):
    path = tmp_path / "checkpoints" / "last.ckpt"
    saver.save_checkpoint(weights(1), path)
    (path.parent / CHECKSUMS).unlink()
    for _ in range(2):
        check_whole(path)
    assert capsys.readouterr().out.count("its SHA-256 was not recorded; its CRC-32 is right") == 1
    flip_last_weight(path)
    assert torch.load(path, weights_only=True)["state_dict"]["weight"].ne(1).sum() == 1  # PyTorch says nothing
    with refuses(r"last.ckpt is damaged: the CRC-32 of .* in it is wrong"):
        check_whole(path)
    assert readable_checkpoint(tmp_path) is None
    assert "so this run starts over" in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"PK", b"\0" * 500, "half"])
def test_half_a_checkpoint_is_reported_in_one_line(saver, tmp_path, content):
    path = tmp_path / "best.ckpt"
    saver.save_checkpoint(weights(1), path)
    path.write_bytes(path.read_bytes()[:-100] if content == "half" else content)
    (tmp_path / CHECKSUMS).unlink()
    with refuses(r"best.ckpt is damaged: it cannot be read as a checkpoint$"):
        check_whole(path)


def test_objects_beside_tensors_are_refused_without_advice_to_load_them(tmp_path):
    torch.save({"state_dict": {"a": Fraction(1, 2)}}, tmp_path / "best.ckpt")
    with refuses(r"best.ckpt is refused: it holds fractions.Fraction, and such objects can run code .* tensors alone$"):
        read_state(tmp_path / "best.ckpt")
    (tmp_path / "best.ckpt").write_bytes(b"no archive")
    with refuses(r"best.ckpt is damaged: its weights cannot be read; copy it again$"):
        read_state(tmp_path / "best.ckpt")


@pytest.mark.parametrize("content", [{"other": 1}, {"state_dict": 3}, [1]])
def test_a_file_without_weights_is_reported_in_one_line(tmp_path, content):
    torch.save(content, tmp_path / "best.ckpt")
    with refuses(r"best.ckpt is damaged: it holds no weights"):
        read_state(tmp_path / "best.ckpt")


def test_weights_of_another_model_and_a_folder_without_a_run_are_refused(tmp_path):
    with refuses(r"best.ckpt holds the weights of another model"):
        load_state(nn.Linear(2, 2), nn.Linear(3, 3).state_dict(), "best.ckpt")
    with refuses(r"is not a run folder: it has no config.yaml"):
        find_run(tmp_path, "best")


def test_a_rest_of_a_killed_writer_is_no_checkpoint_to_those_who_look_for_one(tmp_path):
    """Lightning takes the greatest number in the names of ``hpc_ckpt_*`` for the checkpoint to go on from."""
    with replacing(tmp_path / "hpc_ckpt_1.ckpt") as unfinished:
        unfinished.write_text("half")
        assert not [path.name for path in tmp_path.iterdir() if "ckpt_" in path.name]
