"""The folder or the file of an open index is moved, deleted or replaced: nothing is acknowledged that goes nowhere."""

import shutil
import sqlite3
from contextlib import closing

import pytest
from refusals import refuses
from small_tracker import as_corpus, fill, open_folder, some_report, writes_to

from gedbd.corpora.bug_report import Report
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.triage.storage.index_folder import FILE

pytestmark = pytest.mark.slow

REPORTS = [some_report(number) for number in range(8)]
LOG = f"{FILE}-wal"
NEW = some_report(50)


@pytest.fixture
def folder(tmp_path, reader):
    made = tmp_path / "index"
    made.mkdir()
    fill(made, as_corpus(REPORTS), reader)
    return made


@pytest.fixture
def opened(folder, reader):
    with closing(open_folder(folder, reader)) as index:
        index.add([some_report(20)])
        yield index


def put_another(folder, reader, count=8):
    """Puts an index in place of the one that is gone."""
    folder.mkdir()
    fill(folder, as_corpus(REPORTS[:count]), reader, key="second")


def check_takes_no_writes(index):
    for write in writes_to(index):
        with pytest.raises(StoreUnavailable, match=rf"{FILE}[^\n]*$") as refused:
            write()
        assert refused.value.retry_after_s > 0


def check_takes_writes(index, reader):
    """A report that was added is in the folder as others read it."""
    assert index.add([NEW]) == {"50": "added"}
    with closing(open_folder(index.folder, reader)) as fresh:
        assert fresh.get("50") == index.get("50") == NEW
        assert fresh.search(Report("a crash"), 50) == index.search(Report("a crash"), 50)


def make_other_file(content, *gone):
    def make(folder):
        for name in gone:
            (folder / name).unlink()
        (folder / FILE).write_bytes(content)

    return make


DAMAGE = {
    "the folder is gone": shutil.rmtree,
    "the file is gone": lambda folder: (folder / FILE).unlink(),
    "an empty file": make_other_file(b"", FILE),
    "an empty file without a log": make_other_file(b"", FILE, LOG),
    "no index": make_other_file(b"no index " * 1000, FILE),
    "no index without a log": make_other_file(b"no index " * 1000, FILE, LOG),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_no_index_takes_no_writes_and_the_index_is_still_searched(folder, opened, damage):
    DAMAGE[damage](folder)
    left = (folder / FILE).read_bytes() if (folder / FILE).exists() else None
    check_takes_no_writes(opened)
    assert "5" in {match.best.issue_id for match in opened.search(some_report(4), 50)}
    assert len(opened) == 9
    # To make an empty file would hide what has happened.
    assert ((folder / FILE).read_bytes() if (folder / FILE).exists() else None) == left


@pytest.mark.parametrize("put", ["another index", "a copy", "the folder itself"])
def test_what_is_put_in_its_place_takes_writes(folder, opened, reader, tmp_path, put):
    moved = folder.rename(tmp_path / "moved")
    check_takes_no_writes(opened)
    if put == "another index":
        put_another(folder, reader, 5)
    elif put == "a copy":  # equal to the byte, and still another file: a restored backup
        shutil.copytree(moved, folder)
    else:
        moved.rename(folder)
    check_takes_writes(opened, reader)
    assert len(opened) == (6 if put == "another index" else 10)
    if moved.exists():
        with closing(open_folder(moved, reader)) as former:
            assert former.get("20") == some_report(20)  # what was acknowledged before is in the folder that was moved
            assert former.get("50") is None


def test_a_file_beside_the_log_of_another_one_is_not_taken_over(folder, opened, tmp_path):
    """A backup copied over the file alone: SQLite would write the old log's pages into it."""
    backup = tmp_path / "backup.sqlite"
    with closing(sqlite3.connect(folder / FILE)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    content = backup.read_bytes()
    backup.rename(folder / FILE)
    with refuses("was replaced, but its -wal was not: replace the whole folder", StoreUnavailable):
        opened.add([NEW])
    opened.close()
    assert (folder / FILE).read_bytes() == content


def test_it_is_replaced_while_a_report_is_written(folder, opened, reader, tmp_path):
    """The last look comes after the change is on the disk, before it is acknowledged."""
    write = opened.store.file.write_reports

    def replaced(*reports):
        write(*reports)
        folder.rename(tmp_path / "moved")
        put_another(folder, reader)

    opened.store.file.write_reports = replaced
    with refuses("was replaced or deleted", StoreUnavailable):
        opened.add([NEW])
    assert opened.get("50") is None
    check_takes_writes(opened, reader)


def test_the_log_of_a_file_that_was_replaced_is_left_alone(folder, opened, reader, tmp_path):
    """Whoever lets go of the old file does not delete the new one's log, in which its last changes are."""
    folder.rename(tmp_path / "moved")
    put_another(folder, reader)
    with closing(open_folder(folder, reader)) as other:
        other.add([some_report(60)])
        assert (folder / LOG).stat().st_size
        assert opened.search(Report("a crash"))  # takes the new one over, and closes the old one
        assert (folder / LOG).stat().st_size
        opened.close()
        assert (folder / LOG).stat().st_size
        with closing(sqlite3.connect(folder / FILE)) as reading:
            assert reading.execute("SELECT count(*) FROM reports").fetchone() == (9,)


def test_a_deleted_log_takes_no_writes(folder, opened):
    (folder / LOG).unlink()
    with refuses(r"index\.sqlite-wal was replaced or deleted", StoreUnavailable):
        opened.add([NEW])
    assert opened.get("20") == some_report(20)
