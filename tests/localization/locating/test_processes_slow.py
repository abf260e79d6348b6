"""Processes that index one repository at once, or are killed while they do: no commit is lost or doubled."""

import random
import subprocess
import sys
from contextlib import suppress

import pytest

from gedbd.localization.locating.index_snapshot import SNAPSHOT

KILLED = 20
COMMITS = 600
UPDATE = """
import sys
from gedbd.localization.locating import index_snapshot
from gedbd.localization.locating.repository_index import open_repository
index_snapshot.MAX_BATCH_COMMITS = 10
index_snapshot.CHECKPOINT_S = 0.0
index = open_repository(sys.argv[1], sys.argv[2])
print("begins", flush=True)
index.update()
"""


@pytest.mark.slow
def test_twenty_kills_neither_lose_nor_double_a_commit(make_repository, open_index, tmp_path):
    made = make_repository()
    made.add(*[(f"change {number}", {f"f{number % 20}": b"word%d\n" % number}) for number in range(COMMITS)])
    command = [sys.executable, "-c", UPDATE, str(made.folder), str(tmp_path / "cache")]
    chance = random.Random(0)
    finished = 0
    for number in range(KILLED):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, 0.4))
            process.kill()
        finished += process.returncode == 0
        if number % 5 == 4:  # also while commits are added to a stored index, and removed from it
            made.add(*[(f"more {number} {more}", {"g": b"%d\n" % more}) for more in range(40)], parent="main~7")
    assert finished < KILLED
    index = open_index(made)
    index.update()
    assert sorted(index.history.ids) == sorted(made.ids())
    assert {file.name for file in index.folder.iterdir()} <= {SNAPSHOT, "index.lock"}
    fresh = open_index(made, index=tmp_path / "fresh")
    fresh.update()
    assert index.history.ids == fresh.history.ids


@pytest.mark.slow
def test_several_processes_index_at_once(make_repository, open_index, tmp_path):
    made = make_repository()
    made.add(*[(f"change {number}", {f"f{number % 20}": b"word%d\n" % number}) for number in range(COMMITS)])
    command = [sys.executable, "-c", UPDATE, str(made.folder), str(tmp_path / "cache")]
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    index = open_index(made)
    assert index.update().num_added == 0
    assert sorted(index.history.ids) == sorted(made.ids())
