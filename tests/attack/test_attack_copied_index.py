"""A copy of an index that was changed meanwhile is refused if it is torn; the ways to back it up copy a whole state."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from killed_process import build, numbers_for
from small_tracker import as_corpus, open_folder, some_report

from gedbd.triage.report import Report
from gedbd.triage.storage.index_store import FILE

PAGE = 4096
OLD, NEW = 60, 160


@pytest.fixture(scope="module")
def states(tmp_path_factory) -> tuple[bytes, bytes]:
    """The file before and after reports were added, replaced and linked."""
    folder = tmp_path_factory.mktemp("live")
    build(folder, as_corpus([some_report(number) for number in range(OLD)]), "first")
    before = content(folder)
    with closing(open_folder(folder, numbers_for)) as index:
        for number in range(OLD, NEW):
            fresh = Report(f"fresh words{number}", "long text " * 200, issue_id=str(number))
            index.add([fresh, some_report(number % OLD, version="2")])
            index.link(str(number), str(number % OLD), "triager")
    return before, content(folder)


def content(folder: Path) -> bytes:
    with closing(sqlite3.connect(folder / FILE)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return (folder / FILE).read_bytes()


def state_of(folder: Path) -> tuple[int, int, int]:
    """Numbers of reports, of new versions, and of links."""
    with closing(open_folder(folder, numbers_for)) as index:
        reports = index.store.reports(list(index.store.contents()))
        assert index.search(some_report(3), 5)
        return len(reports), sum(one.version == "2" for one in reports.values()), len(index.store.links())


def test_a_copy_whose_pages_contradict_each_other_is_refused(tmp_path, states):
    """The file was changed after so many of its pages were copied, in the order of the file or the other one."""
    before, after = states
    refused: list[str] = []
    opened = 0
    for page in range(1, len(after) // PAGE, 3):
        for first, second in ((before, after), (after, before)):
            for rest in tmp_path.glob(f"{FILE}*"):
                rest.unlink()
            (tmp_path / FILE).write_bytes(first[: page * PAGE] + second[page * PAGE :])
            try:
                state_of(tmp_path)
            except ValueError as error:
                refused.append(str(error))
                continue
            opened += 1
            with closing(sqlite3.connect(tmp_path / FILE)) as file:
                assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert len(refused) > opened
    assert all("restore it from a copy" in line and "\n" not in line for line in refused)


@pytest.mark.parametrize("how", ["VACUUM INTO '{}'", ".backup '{}'"])
def test_a_backup_of_an_index_in_use_is_whole(tmp_path, how):
    """Both ways that the manual names, while the last changes are in the write-ahead log."""
    build(tmp_path, as_corpus([some_report(number) for number in range(OLD)]), "first")
    copy = tmp_path / "copy"
    copy.mkdir()
    with closing(open_folder(tmp_path, numbers_for)) as index:
        index.add([some_report(OLD, version="2")])
        index.link("0", "1", "triager")
        if how.startswith("VACUUM"):
            with closing(sqlite3.connect(tmp_path / FILE)) as file:
                file.execute(how.format(copy / FILE))
        else:
            with closing(sqlite3.connect(tmp_path / FILE)) as file, closing(sqlite3.connect(copy / FILE)) as target:
                file.backup(target)
        assert index.search(some_report(3), 50) == searched(copy)
    assert state_of(copy) == (OLD + 1, 1, 1)


def searched(folder: Path):
    with closing(open_folder(folder, numbers_for)) as index:
        return index.search(some_report(3), 50)
