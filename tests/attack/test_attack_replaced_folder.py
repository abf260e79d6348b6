"""The folder or the file of an open index is moved, deleted or replaced: nothing is acknowledged that goes nowhere."""

import shutil
import sqlite3

import pytest
from small_tracker import as_corpus, fill, open_folder, some_report

from gedbd.triage.report import Report
from gedbd.triage.storage.index_store import FILE
from gedbd.triage.storage.sqlite_file import StoreUnavailable

REPORTS = [some_report(number) for number in range(8)]


@pytest.fixture
def folder(tmp_path, reader):
    made = tmp_path / "index"
    made.mkdir()
    fill(made, as_corpus(REPORTS), reader)
    return made


@pytest.fixture
def opened(folder, reader):
    index = open_folder(folder, reader)
    index.add([some_report(20)])
    yield index
    index.close()


def writes(index):
    return {
        "add": lambda: index.add([some_report(50)]),
        "link": lambda: index.link("1", "2", "triager"),
        "unlink": lambda: index.unlink("1", "2"),
        "delete": lambda: index.delete("3"),
    }


def refused(index):
    for write in writes(index).values():
        with pytest.raises(StoreUnavailable) as told:
            write()
        assert FILE in str(told.value)
        assert "\n" not in str(told.value)
        assert told.value.retry_after_s > 0


def test_a_folder_that_is_gone_takes_no_writes_and_is_still_searched(folder, opened):
    shutil.rmtree(folder)
    refused(opened)
    assert [match.best.issue_id for match in opened.search(some_report(4), 50) if match.best.issue_id == "5"]
    assert len(opened) == 9


def test_a_file_that_is_gone_takes_no_writes(folder, opened):
    (folder / FILE).unlink()
    refused(opened)
    assert not (folder / FILE).exists()  # to make an empty one would hide what has happened


@pytest.mark.parametrize("content", [b"", b"no index " * 1000])
@pytest.mark.parametrize("with_log", [True, False])
def test_what_is_no_index_is_not_taken_over(folder, opened, content, with_log):
    (folder / FILE).unlink()
    if not with_log:
        (folder / f"{FILE}-wal").unlink()
    (folder / FILE).write_bytes(content)
    refused(opened)
    assert opened.search(Report("a crash"))
    assert (folder / FILE).read_bytes() == content


def test_a_whole_index_in_its_place_is_taken_over(folder, opened, reader, tmp_path):
    folder.rename(tmp_path / "moved")
    refused(opened)
    folder.mkdir()
    fill(folder, as_corpus(REPORTS[:5]), reader, key="second")
    assert opened.add([some_report(50)]) == {"50": "added"}
    assert len(opened) == 6
    fresh, former = open_folder(folder, reader), open_folder(tmp_path / "moved", reader)
    assert fresh.get("50") == some_report(50)
    assert fresh.search(Report("a crash"), 50) == opened.search(Report("a crash"), 50)
    assert former.get("20") == some_report(20)  # what was acknowledged before is in the folder that was moved
    assert former.get("50") is None
    fresh.close()
    former.close()


def test_a_copy_in_its_place_is_noticed(folder, opened, reader, tmp_path):
    """A copy is equal to the byte, and still another file: a restored backup."""
    shutil.copytree(folder, tmp_path / "copy")
    shutil.rmtree(folder)
    (tmp_path / "copy").rename(folder)
    assert opened.add([some_report(50)]) == {"50": "added"}
    fresh = open_folder(folder, reader)
    assert fresh.get("50") == some_report(50)
    fresh.close()


def test_a_file_beside_the_log_of_another_one_is_not_taken_over(folder, opened, tmp_path):
    """A backup copied over the file alone: SQLite would write the old log's pages into it."""
    backup = tmp_path / "backup.sqlite"
    with sqlite3.connect(folder / FILE) as source, sqlite3.connect(backup) as target:
        source.backup(target)
    source.close()
    target.close()
    content = backup.read_bytes()
    backup.rename(folder / FILE)
    with pytest.raises(StoreUnavailable, match="was replaced, but its -wal was not: replace the whole folder"):
        opened.add([some_report(50)])
    opened.close()
    assert (folder / FILE).read_bytes() == content


def test_a_folder_that_comes_back_is_used_again(folder, opened, tmp_path):
    folder.rename(tmp_path / "moved")
    refused(opened)
    (tmp_path / "moved").rename(folder)
    assert opened.add([some_report(50)]) == {"50": "added"}
    assert opened.get("50") == some_report(50)


def test_it_is_replaced_while_a_report_is_written(folder, opened, reader, tmp_path):
    """The last look comes after the change is on the disk, before it is acknowledged."""
    store = opened.store
    links = store.links_if_any_names

    def replaced(ids):
        folder.rename(tmp_path / "moved")
        folder.mkdir()
        fill(folder, as_corpus(REPORTS), reader)
        return links(ids)

    store.links_if_any_names = replaced
    with pytest.raises(StoreUnavailable, match="was replaced or deleted"):
        opened.add([some_report(50)])
    assert opened.get("50") is None
    assert opened.add([some_report(50)]) == {"50": "added"}
    fresh = open_folder(folder, reader)
    assert fresh.get("50") == some_report(50)
    fresh.close()


def test_the_log_of_a_file_that_was_replaced_is_left_alone(folder, opened, reader, tmp_path):
    """Whoever lets go of the old file does not delete the new one's log, in which its last changes are."""
    folder.rename(tmp_path / "moved")
    folder.mkdir()
    fill(folder, as_corpus(REPORTS), reader)
    other = open_folder(folder, reader)
    other.add([some_report(60)])
    log = folder / f"{FILE}-wal"
    assert log.stat().st_size
    assert opened.search(Report("a crash"))  # takes the new one over, and closes the old one
    assert log.stat().st_size
    opened.close()
    assert log.stat().st_size
    with sqlite3.connect(folder / FILE) as reading:
        assert reading.execute("SELECT count(*) FROM reports").fetchone() == (9,)
    reading.close()
    other.close()


def test_a_deleted_log_takes_no_writes(folder, opened):
    (folder / f"{FILE}-wal").unlink()
    with pytest.raises(StoreUnavailable, match=r"index\.sqlite-wal was replaced or deleted"):
        opened.add([some_report(50)])
    assert opened.get("20") == some_report(20)
