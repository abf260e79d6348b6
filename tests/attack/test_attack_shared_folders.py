"""In a folder that others can write to, nothing is written through what they have put there."""

import os
from pathlib import Path

import numpy as np
import pytest

from gedbd.encoders.embedding_cache import cached_vectors
from gedbd.experiments.tracking.workspace import write_sweep
from gedbd.io.files import replacing, write_text
from gedbd.triage.feedback import FeedbackStore
from gedbd.triage.storage.index_store import IndexStore

STRANGER = 65534


def encode(texts):
    yield np.arange(len(texts)), np.zeros((len(texts), 2), dtype=np.float32)


WRITERS = {
    "results.json": lambda path: write_text(path, "{}"),
    "index.sqlite": lambda path: IndexStore(path),
    "feedback.sqlite": lambda path: FeedbackStore(path.parent),
    "sweep.yaml": lambda path: write_sweep("mine", path),
    "cache.sqlite": lambda path: cached_vectors(path, 2, ["a"], encode),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make links of other users")
@pytest.mark.parametrize("name", WRITERS)
def test_a_link_of_another_user_is_not_followed(tmp_path: Path, name: str):
    victim = tmp_path / "victim"
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    victim.touch()
    link = shared / name
    link.symlink_to(victim)
    os.lchown(link, STRANGER, STRANGER)
    with pytest.raises(ValueError, match=f"{name} is a symbolic link of another user: delete it"):
        WRITERS[name](link)
    assert victim.read_bytes() == b""
    os.lchown(link, os.geteuid(), os.getegid())
    opened = WRITERS[name](link)
    if hasattr(opened, "close"):
        opened.close()
    assert link.is_symlink()
    assert victim.stat().st_size


@pytest.mark.parametrize("planted", [Path.symlink_to, Path.hardlink_to])
def test_a_temporary_file_is_a_new_one(tmp_path: Path, planted):
    """Its name can be guessed: it holds the name of the file, that of the machine and the number of the process."""
    victim = tmp_path / "victim"
    victim.write_text("kept")
    with replacing(tmp_path / "a.csv") as unfinished:
        unfinished.write_text("a")
    planted(unfinished, victim)
    write_text(tmp_path / "a.csv", "b")
    assert (victim.read_text(), (tmp_path / "a.csv").read_text()) == ("kept", "b")
    assert not (tmp_path / "a.csv").is_symlink()
    assert (tmp_path / "a.csv").stat().st_nlink == 1
