"""The index of a repository after additions, rewritten histories, damage and kills, and beside other processes."""

import random
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock

from gedbd.localization.change_ranking.change_history import ChangeQuery
from gedbd.localization.locating import repository_index
from gedbd.localization.locating.repository_index import (
    CHECKPOINT,
    LOCK,
    SNAPSHOT,
    AnswerLimits,
    IndexLimits,
    Located,
    default_folder,
)
from gedbd.localization.repository.git_command import Git

pytestmark = pytest.mark.integration

QUOTED = ChangeQuery("Quoted values are cut", "parseQuoted of QuotedParser drops the delimiter")
ONE_MORE = ("Sort columns", {"src/TablePrinter.java": b"class TablePrinter { void sort() { } }\n"})


def assert_same(index, other):
    """Two indexes hold the same commits and answer alike."""
    assert index.history.ids == other.history.ids
    assert list(index.history.created_at) == list(other.history.created_at)
    found, again = (which.ranker.ranker.scores(which.history, QUOTED) for which in (index, other))
    np.testing.assert_allclose(found, again, rtol=1e-6)


def test_the_commit_that_shares_words_comes_first_with_its_lines(repository, open_index):
    index = open_index(repository)
    assert index.commit == ""
    assert index.locate(QUOTED) == Located()
    assert index.update().num_added == 4
    first, *others = index.locate(QUOTED, AnswerLimits(top_commits=3)).changes
    assert (first.rank, first.title, first.num_files) == (1, "Parse quoted values", 2)
    assert first.created_at == datetime(2023, 11, 16, 22, 13, 20, tzinfo=UTC)
    assert "changes QuotedParser, named in the report" in first.explanation
    (hunk,) = first.hunks
    assert (hunk.path, hunk.new_start, hunk.new_count) == ("src/QuotedParser.java", 1, 3)
    line = hunk.lines[-1]
    assert (line.sign, line.number, line.text) == ("+", 2, "    void parseQuoted() { delimiter(); }")
    assert [line.text[start:end] for start, end in line.spans] == ["parseQuoted", "delimiter"]
    assert len(others) == 2
    assert first.score > max(change.score for change in others)


def test_only_commits_before_the_report_are_ranked(repository, index_of):
    index = index_of(repository)
    moment = pd.Timestamp("2023-11-16T22:13:20Z")  # of the second commit
    (only,) = index.locate(QUOTED._replace(created_at=moment)).changes
    assert only.title == "Begin the project"
    later = index.locate(QUOTED._replace(created_at=moment + pd.Timedelta(seconds=1)))
    assert later.changes[0].title == "Parse quoted values"
    assert index.facts(QUOTED._replace(created_at=moment))["num_ranked"] == 1


@pytest.mark.parametrize(("parent", "num_removed"), [("main^0", 0), ("main~2", 2)])
def test_new_commits_are_added_and_those_that_a_rebase_left_behind_removed(
    repository, open_index, index_of, parent, num_removed
):
    former = index_of(repository)
    (new,) = repository.add(ONE_MORE, parent=f"refs/heads/{parent}")
    index = open_index(repository)
    assert index.update() == (1, num_removed, ())
    assert index.commit == new
    assert set(index.history.ids) == repository.ids()
    former.update()
    again = open_index(repository)
    assert again.update().num_added == 0
    for other in (former, again, index_of(repository, index=repository.folder / "fresh")):
        assert_same(index, other)


def test_the_history_is_that_of_one_commit_though_the_repository_changes(repository, open_index, monkeypatch):
    index = open_index(repository)
    before = repository.ids()
    monkeypatch.setattr(repository_index, "MAX_BATCH_COMMITS", 1)
    batches = repository_index._batches

    def changed_meanwhile(*arguments):
        for number, batch in enumerate(batches(*arguments)):
            if number == 1:
                repository.add(ONE_MORE, parent="refs/heads/main~2")  # also removes two of the commits
            yield batch

    monkeypatch.setattr(repository_index, "_batches", changed_meanwhile)
    index.update()
    assert set(index.history.ids) == before
    assert index.locate(QUOTED).changes[0].title == "Parse quoted values"
    monkeypatch.undo()
    index.update()
    assert set(index.history.ids) == repository.ids()


@pytest.mark.parametrize("size", [0, 1, 100, -1])
def test_a_damaged_index_is_made_again(repository, open_index, index_of, size):
    index = index_of(repository)
    file = index.folder / SNAPSHOT
    content = bytearray(file.read_bytes())
    for place in range(len(content) // 2, len(content) // 2 + 200):  # more than what lies between two arrays
        content[place] ^= 255
    file.write_bytes(content if size < 0 else content[:size])
    again = open_index(repository)
    update = again.update()
    assert update.num_added == 4
    assert "damaged" in update.warnings[0]
    assert_same(index, again)


def test_an_update_that_was_cut_off_goes_on_where_it_was(repository, open_index, monkeypatch):
    monkeypatch.setattr(repository_index, "MAX_BATCH_COMMITS", 1)
    monkeypatch.setattr(repository_index, "CHECKPOINT_S", 0.0)
    batches = repository_index._batches

    def cut_off(*arguments):
        for number, batch in enumerate(batches(*arguments)):
            if number == 3:
                raise KeyboardInterrupt
            yield batch

    monkeypatch.setattr(repository_index, "_batches", cut_off)
    index = open_index(repository)
    with pytest.raises(KeyboardInterrupt):
        index.update()
    assert (index.folder / CHECKPOINT).is_file()
    assert not (index.folder / SNAPSHOT).exists()
    monkeypatch.setattr(repository_index, "_batches", batches)
    again = open_index(repository)
    assert again.update().num_added == 1
    assert sorted(again.history.ids) == sorted(repository.ids())
    assert not (index.folder / CHECKPOINT).exists()


def test_a_reader_does_not_wait_for_another_process(repository, open_index, index_of):
    index = index_of(repository)
    repository.add(ONE_MORE)
    other = open_index(repository)
    with FileLock(index.folder / LOCK):
        told = other.update().warnings
        assert "another process is updating the index" in told[0]
        assert other.commit == index.commit
        assert other.locate(QUOTED).changes[0].title == "Parse quoted values"
    assert other.update().num_added == 1


def test_threads_ask_while_another_updates(repository, index_of):
    index = index_of(repository)
    errors = []
    stop = threading.Event()

    def ask():
        while not stop.is_set():
            try:
                assert index.locate(QUOTED).changes[0].title == "Parse quoted values"
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        repository.add(ONE_MORE)
        index.update()
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert set(index.history.ids) == repository.ids()


def test_merges_are_ranked_if_wanted(repository, open_index, tmp_path):
    repository.add(("side", {"side": b"s\n"}), parent="main~2", branch="refs/heads/side")
    tree = repository.git("rev-parse", "side^{tree}")
    name = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    merge = repository.git(*name, "commit-tree", tree, "-p", "main", "-p", "side", "-m", "Merge")
    repository.git("update-ref", "refs/heads/main", merge)
    for merges in (False, True):  # the second index is made again, as the first one has other limits
        for num_added in (5 + merges, 0):
            index = open_index(repository, limits=IndexLimits(merges=merges))
            assert index.update().num_added == num_added
            assert repository.ids() - set(index.history.ids) == (set() if merges else {merge})
            assert index.facts(QUOTED)["num_merges"] == (0 if merges else 1)


def test_each_repository_and_revision_has_its_folder(repository, make_repository, tmp_path):
    other = make_repository("other.git")
    git = Git(repository.folder)
    link = tmp_path / "link"
    link.symlink_to(repository.folder)
    folders = {
        default_folder(tmp_path, Git(made.folder), name) for made in (repository, other) for name in ("HEAD", "v")
    }
    assert len(folders) == 4
    assert default_folder(tmp_path, Git(link), "HEAD") == default_folder(tmp_path, git, "HEAD")


@pytest.fixture
def clone_partly(repository, tmp_path):
    """Clones the repository without the contents of files, but for those that are checked out."""

    def clone(*words):
        repository.git("config", "uploadpack.allowFilter", "true")
        folder = tmp_path / "clone"
        repository.git("clone", "-q", "--filter=blob:none", *words, f"file://{repository.folder}", str(folder))
        return SimpleNamespace(folder=folder, git=lambda *words: repository.git("-C", str(folder), *words))

    return clone


def test_a_partial_clone_is_ranked_as_far_as_it_goes(repository, clone_partly, open_index):
    clone = clone_partly()
    index = open_index(clone)
    for num_added in (2, 0):  # what is missing is tried again, and told again
        update = index.update()
        assert (update.num_added, update.num_removed) == (num_added, 0)
        (told,) = update.warnings
        assert told.startswith(
            "2 commits are left out: their objects are missing, as in a partial clone; git fetch --r"
        )
    # The first commit has another README, and the last one changes it.
    assert {change.title for change in index.locate(QUOTED).changes} == {"Parse quoted values", "Print tables"}
    clone.git("fetch", "-q", "--refetch", "--no-filter", "origin")
    again = open_index(clone)
    assert again.update()[:3] == (2, 0, ())
    assert set(again.history.ids) == repository.ids()
    assert open_index(clone).update() == (0, 0, ())


KILLED = 20
COMMITS = 600
UPDATE = """
import sys
from gedbd.localization.locating import repository_index
from gedbd.localization.locating.repository_index import open_repository
repository_index.MAX_BATCH_COMMITS = 10
repository_index.CHECKPOINT_S = 0.0
index = open_repository(sys.argv[1], sys.argv[2])
print("begins", flush=True)
index.update()
"""


@pytest.mark.slow
def test_twenty_kills_neither_lose_nor_double_a_commit(make_repository, index_of, tmp_path):
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
    index = index_of(made)
    assert sorted(index.history.ids) == sorted(made.ids())
    assert {file.name for file in index.folder.iterdir()} <= {SNAPSHOT, "index.lock"}
    assert index.history.ids == index_of(made, index=tmp_path / "fresh").history.ids


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
