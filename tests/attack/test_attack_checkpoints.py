"""Checkpoints survive a kill, a full disk and flipped bits: the one before stays, and a damaged one is refused."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from torch import nn

import gedbd.io.checksums
from gedbd.configuration.command import Terminated
from gedbd.encoders.encoder_weights import read_state
from gedbd.experiments.checkpoint import (
    TRAINING_STATE,
    WholeCheckpointIO,
    check_continues,
    find_run,
    readable_checkpoint,
    save_whole,
)
from gedbd.io.checksums import CHECKSUMS, check_whole, note_checksums
from gedbd.io.files import replacing

ROOT = Path(gedbd.io.checksums.__file__).parents[2]
MIB = 1 << 20
WRITER = """
import sys
import pytorch_lightning as pl
import torch
from gedbd.experiments.checkpoint import save_whole

trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
save_whole(trainer)
for value in range(1000):
    weights = {"state_dict": {"weight": torch.full((int(sys.argv[2]),), float(value))}}
    trainer.strategy.checkpoint_io.save_checkpoint(weights, sys.argv[1])
    print(value, flush=True)
"""


def weights(value: float, numbers: int = 1000) -> dict[str, dict[str, torch.Tensor]]:
    return {"state_dict": {"weight": torch.full((numbers,), float(value))}}


@pytest.fixture
def saver():
    return WholeCheckpointIO()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own with 8 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def other_disk() -> Path:
    """A folder on another file system than that of pytest's folders."""
    folder = Path("/dev/shm")
    if not folder.is_dir() or folder.stat().st_dev == Path("/tmp").stat().st_dev:
        pytest.skip("there is no second file system")
    return folder


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("moment", range(3))
def test_a_writer_that_is_killed_leaves_the_checkpoint_before_or_the_new_one(tmp_path, moment):
    path = tmp_path / "checkpoints" / "last.ckpt"
    environment = os.environ | {"TMPDIR": str(other_disk()), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WRITER, str(path), str(12 * MIB)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as writer:
        for _ in range(2 + moment):
            last = int(writer.stdout.readline())
        # The name or the size of something in the folder changes: the next one is being written.
        before = listing(path.parent)
        deadline = time.monotonic() + 30
        while listing(path.parent) == before and time.monotonic() < deadline:
            pass
        writer.send_signal(signal.SIGKILL)
    check_whole(path)
    value = float(read_state(path)["weight"][0])
    assert value >= last
    assert value == read_state(path)["weight"].unique()
    WholeCheckpointIO().save_checkpoint(weights(-1), path)
    assert sorted(file.name for file in path.parent.iterdir()) == [CHECKSUMS, "last.ckpt"]


def listing(folder: Path) -> list[tuple[str, int, int]]:
    found = []
    for file in os.scandir(folder):
        try:
            about = file.stat()
        except FileNotFoundError:
            continue
        found.append((file.name, about.st_size, about.st_ino))
    return sorted(found)


def test_a_full_disk_leaves_the_checkpoint_before_and_no_rest(saver, small_disk):
    path = small_disk / "checkpoints" / "last.ckpt"
    saver.save_checkpoint(weights(1, MIB), path)
    with pytest.raises(OSError, match="No space left on device") as refused:
        saver.save_checkpoint(weights(2, 3 * MIB), path)
    assert (refused.value.errno, refused.value.filename) == (errno.ENOSPC, str(path))
    check_whole(path)
    assert read_state(path)["weight"].eq(1).all()
    assert sorted(file.name for file in path.parent.iterdir()) == [CHECKSUMS, "last.ckpt"]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, Terminated])
def test_an_interruption_while_a_checkpoint_is_written_stays_one(saver, tmp_path, monkeypatch, interrupt):
    path = tmp_path / "last.ckpt"
    saver.save_checkpoint(weights(1), path)
    written = []

    def write(self, content):
        written.append(content)
        if len(written) == 2:
            raise interrupt
        return self.file.write(content)

    with monkeypatch.context() as patch:
        patch.setattr("gedbd.experiments.checkpoint._Hashing.write", write)
        with pytest.raises(interrupt):
            saver.save_checkpoint(weights(2), path)
    check_whole(path)
    assert read_state(path)["weight"].eq(1).all()
    assert sorted(file.name for file in tmp_path.iterdir()) == [CHECKSUMS, "last.ckpt"]


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
    with pytest.raises(ValueError, match=message) as refused:
        continued(**changes)
    assert "\n" not in str(refused.value)


def test_a_training_does_not_continue_with_another_corpus(continued, make_corpus):
    with pytest.raises(ValueError, match="the corpus small has changed since the run was trained"):
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
            patch.setattr("gedbd.experiments.checkpoint.note_checksums", killed_at_the_end)
        else:
            patch.setattr("os.replace", killed)
        with pytest.raises(KeyboardInterrupt):
            saver.save_checkpoint(weights(2), path)
    check_whole(path)
    saver.save_checkpoint(weights(3), path)
    check_whole(path)
    assert (tmp_path / CHECKSUMS).read_text().count("last.ckpt") == 1


def test_a_trainer_saves_whole_unless_its_user_has_chosen_another_way(tmp_path):
    class Own(WholeCheckpointIO):
        pass

    quiet = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    for plugins, expected in ((None, WholeCheckpointIO), ([Own()], Own)):
        trainer = pl.Trainer(**quiet, plugins=plugins)
        save_whole(trainer)
        assert type(trainer.strategy.checkpoint_io) is expected


@pytest.mark.parametrize("place", ["first", "middle", "last weight", "end"])
def test_a_flipped_bit_is_found_wherever_it_is(saver, tmp_path, place):
    path = tmp_path / "checkpoints" / "best.ckpt"
    saver.save_checkpoint(weights(1), path)
    content = bytearray(path.read_bytes())
    places = {
        "first": 0,
        "middle": len(content) // 2,
        "last weight": content.rindex(b"\x80\x3f"),
        "end": len(content) - 1,
    }
    content[places[place]] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"best.ckpt is damaged: .*") as refused:
        saver.load_checkpoint(path, weights_only=True)
    assert "\n" not in str(refused.value)


def test_without_a_checksum_the_archive_is_checked_and_that_is_said_once(saver, tmp_path, capsys):
    path = tmp_path / "checkpoints" / "last.ckpt"
    saver.save_checkpoint(weights(1), path)
    (path.parent / CHECKSUMS).unlink()
    for _ in range(2):
        check_whole(path)
    assert capsys.readouterr().out.count("its SHA-256 was not recorded; its CRC-32 is right") == 1
    content = bytearray(path.read_bytes())
    content[content.rindex(b"\x80\x3f")] ^= 1
    path.write_bytes(content)
    assert torch.load(path, weights_only=True)["state_dict"]["weight"].ne(1).sum() == 1  # PyTorch says nothing
    with pytest.raises(ValueError, match=r"last.ckpt is damaged: the CRC-32 of .* in it is wrong"):
        check_whole(path)
    assert readable_checkpoint(tmp_path) is None
    assert "so this run starts over" in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"PK", b"\0" * 500, "half"])
def test_half_a_checkpoint_is_reported_in_one_line(saver, tmp_path, content):
    path = tmp_path / "checkpoints" / "best.ckpt"
    saver.save_checkpoint(weights(1), path)
    path.write_bytes(path.read_bytes()[:-100] if content == "half" else content)
    (path.parent / CHECKSUMS).unlink()
    with pytest.raises(ValueError, match=r"best.ckpt is damaged: it cannot be read as a checkpoint$"):
        check_whole(path)


@pytest.mark.parametrize("content", [{"other": 1}, {"state_dict": 3}, [1]])
def test_a_file_without_weights_is_reported_in_one_line(tmp_path, content):
    torch.save(content, tmp_path / "best.ckpt")
    with pytest.raises(ValueError, match=r"best.ckpt is damaged: it holds no weights"):
        read_state(tmp_path / "best.ckpt")


def test_a_list_of_checksums_that_is_damaged_checks_nothing_else(saver, tmp_path):
    paths = [tmp_path / "best.ckpt", tmp_path / "last.ckpt"]
    for path in paths:
        saver.save_checkpoint(weights(1), path)
    with (tmp_path / CHECKSUMS).open("ab") as file:
        file.write(b"\xff\xfe nonsense\n\n\0")
    for path in paths:
        check_whole(path)
    saver.remove_checkpoint(paths[0])
    assert "best.ckpt" not in (tmp_path / CHECKSUMS).read_text()
    check_whole(paths[1])


def test_weights_of_another_model_are_refused_in_one_line():
    from gedbd.encoders.encoder_weights import load_state

    with pytest.raises(ValueError, match=r"best.ckpt holds the weights of another model") as refused:
        load_state(nn.Linear(2, 2), nn.Linear(3, 3).state_dict(), "best.ckpt")
    assert "\n" not in str(refused.value)


def test_a_folder_without_a_run_is_none(tmp_path):
    with pytest.raises(ValueError, match=r"is not a run folder: it has no config.yaml"):
        find_run(tmp_path, "best")


def test_a_rest_of_a_killed_writer_is_no_checkpoint_to_those_who_look_for_one(tmp_path):
    """Lightning takes the greatest number in the names of ``hpc_ckpt_*`` for the checkpoint to go on from."""
    with replacing(tmp_path / "hpc_ckpt_1.ckpt") as unfinished:
        unfinished.write_text("half")
        assert not [path.name for path in tmp_path.iterdir() if "ckpt_" in path.name]
