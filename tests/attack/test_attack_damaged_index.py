"""An index is cut off, overwritten, half copied or read-only: one line says so; what can be searched is searched."""

import json
import os
import random
import shutil
import sqlite3
import stat
import tempfile
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from killed_process import build as build_by_length
from killed_process import numbers_for
from refusals import refuses
from small_tracker import as_corpus, open_folder, some_report, writes_to
from tiny_models import build, stored_model

from gedbd.corpora.bug_report import Report
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import PAGE_BYTES, IndexStore
from gedbd.triage.stored_index import open_index

pytestmark = pytest.mark.slow

REPORTS = [some_report(number) for number in range(40)]
NOBODY = 65534
RESTORE = "restore it from a copy, or delete it"
DIFFERS = "its encoder or its settings differ from their checksum"
ODD_VALUES = ("{", "", "[1]", "null", "[" * 100_000)
NEEDED = ("model", "matching", "settings", "dim")
OTHER_MATCHING = json.loads(stored_model(16, 0.8).about["matching"])
OTHER_MATCHING["confidence"]["knots"][0] -= 1


def about(name, value):
    return ("UPDATE about SET value = ? WHERE name = ?", (value, name))


def without(name):
    return ("DELETE FROM about WHERE name = ?", (name,))


def of_report_7(column, value):
    return (f"UPDATE reports SET {column} = ? WHERE issue_id = '7'", (value,))


DAMAGE = [
    *(
        ((f"DROP TABLE {table}", ()), rf"is damaged \(it has no table {table}\): {RESTORE} and build it again")
        for table in ("about", "weights", "terms", "reports", "links")
    ),
    *((without(name), "") for name in ("name", *NEEDED)),
    *((about(name, value), "") for name in NEEDED for value in ODD_VALUES),
    (about("matching", json.dumps(OTHER_MATCHING)), DIFFERS),
    (("INSERT INTO weights (data) VALUES (?)", (b"PK\3\4 no weights",)), DIFFERS),
    (of_report_7("vector", b"\0" * 60), "the vector of report 7 has 15 numbers, not 16"),
    (of_report_7("vector", b""), "the vector of report 7 has 0 numbers, not 16"),
    (of_report_7("vector", b"\0" * 60 + b"\0\0\xc0\x7f"), "the vector of report 7 has a value that is not a number"),
    (of_report_7("vector", "text"), "a value of report 7 has the wrong type"),
    (of_report_7("text", b"\0\0\0"), "the words of report 7 are cut off"),
    (of_report_7("text", b"\xff\xff\xff\x7f"), "a report has words that are not among its"),
    (of_report_7("heading", b"\xff\xff\xff\xff"), "a report has words that are not among its"),
    (of_report_7("component", b"\xff"), "a value of report 7 has the wrong type"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A sound index in one file, without a log beside it."""
    folder = tmp_path_factory.mktemp("whole") / "index"
    build(folder, as_corpus(REPORTS))
    assert [file.name for file in folder.iterdir()] == [FILE]
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "index"))


@pytest.fixture
def opened(folder, tmp_path):
    with closing(open_index(folder, str(tmp_path / "cache"))) as index:
        yield index


def change(folder, statement, values):
    with closing(sqlite3.connect(folder / FILE)) as file, file:
        file.execute(statement, values)


def cut(folder, size):
    with (folder / FILE).open("r+b") as file:
        file.truncate(size)


@pytest.mark.parametrize("size", [0, 99, 100, 4096, 20_000])
def test_a_file_that_is_cut_off(folder, tmp_path, size):
    cut(folder, size)
    with refuses(rf"{folder}.*(is damaged|is not an index|building it was interrupted)"):
        open_index(folder, str(tmp_path / "cache"))


@pytest.mark.parametrize(("damage", "message"), DAMAGE, ids=lambda value: str(value)[:60])
def test_what_an_index_holds_is_damaged(folder, tmp_path, damage, message):
    change(folder, *damage)
    with refuses(rf"{folder}.*{message}"):
        open_index(folder, str(tmp_path / "cache"))


def errors_of(folder, cache):
    """What an index says when it is opened, searched and added to."""
    try:
        index = open_index(folder, str(cache))
    except ValueError as error:
        return [str(error)]
    errors = []
    for call in (lambda: index.search(Report("crash"), 50), lambda: index.add([some_report(50)])):
        try:
            call()
        except StoreUnavailable as error:
            errors.append(str(error))
    index.close()
    return errors


def test_flipped_bits_are_told_or_harmless(whole, tmp_path):
    """Whatever lies under the flips, no call ends with anything but an answer or a line."""
    generator, content = random.Random(0), (whole / FILE).read_bytes()
    errors = []
    for number in range(25):
        flipped = bytearray(content)
        for _ in range(40):
            flipped[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / FILE).write_bytes(flipped)
        errors += errors_of(folder, tmp_path / "cache")
    assert len(errors) > 5
    assert not [line for line in errors if "\n" in line]


def test_damage_while_it_is_open_is_told_and_logged_once(folder, opened, caplog):
    size = (folder / FILE).stat().st_size
    with (folder / FILE).open("r+b") as file:
        file.seek(PAGE_BYTES)
        file.write(b"\xff" * (size - PAGE_BYTES))
    opened.store.state.reports.query("PRAGMA shrink_memory")  # or else no page is read again
    for _ in range(3):
        with refuses(r"index\.sqlite is damaged \(database disk image is malformed\)", StoreUnavailable):
            opened.search(Report("crash"), 50)
    assert len(opened) == 40
    assert len([record for record in caplog.records if "malformed" in record.message]) == 1


@pytest.mark.parametrize(
    ("column", "warning"),
    [
        ("created_at", "3 reports have an invalid date and count as undated (first: report 0)"),
        ("resolved_at", "3 reports have an invalid date of resolution and count as open (first: report 0)"),
    ],
)
def test_dates_that_no_report_can_have(folder, tmp_path, caplog, column, warning):
    """An index of an older version may hold some."""
    dates = ("0001-01-01T00:00:00+00:00", "2300-05-06T00:00:00+00:00", "soon")
    for number, date in enumerate(dates):
        change(folder, f"UPDATE reports SET {column} = ? WHERE issue_id = ?", (date, str(number)))
    with closing(open_index(folder, str(tmp_path / "cache"))) as index:
        assert warning in caplog.text
        assert {getattr(index.get(str(number)), column) for number in range(len(dates))} == {None}
        days = index.store.state.memory.store["day"]
        assert np.isnan(days[: len(dates)]).all() == (column == "created_at")
        assert index.search(Report("crash in the toolbar"), 50)
        assert index.search(some_report(0), 50)
        index.add([replace(some_report(0), title="dated again")])
        assert index.get("0") == replace(some_report(0), title="dated again")


@contextmanager
def without_rights():
    """As somebody who may not write; the superuser always may."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def protected(whole):
    """A folder that all may read and nobody may change; tests' own folders are closed to others."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(shutil.copytree(whole, Path(made) / "index"))
        Path(made).chmod(0o755)
        (folder / FILE).chmod(0o444)
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


def test_a_read_only_index_is_searched_and_says_that_it_is(protected, tmp_path, caplog):
    with without_rights():
        index = open_index(protected, str(tmp_path / "cache"))
        assert "is opened for reading only" in caplog.text
        assert index.search(Report("crash in the toolbar"), 5)
        assert index.get("7") == REPORTS[7]
        for write in writes_to(index):
            with refuses(r"cannot be changed .*: check the permissions of the file", StoreUnavailable):
                write()
        assert index.search(Report("crash in the toolbar"), 5)
        index.close()
        with pytest.raises(ValueError, match="cannot be changed") as refused:
            IndexStore(protected / FILE)
    assert "is not an index" not in str(refused.value)
    assert stat.S_IMODE((protected / FILE).stat().st_mode) == 0o444


def test_last_changes_in_a_log_are_never_left_out(opened, protected, tmp_path):
    """Without its log, a file would be an older state; where the log cannot be used, that is told."""
    opened.add([some_report(50)])
    protected.chmod(0o755)
    for name in (FILE, f"{FILE}-wal"):
        (protected / name).unlink(missing_ok=True)
        shutil.copyfile(opened.folder / name, protected / name)
        (protected / name).chmod(0o444)
    protected.chmod(0o555)
    with without_rights():
        try:
            with closing(open_index(protected, str(tmp_path / "cache"))) as copy:
                assert copy.get("50") == some_report(50)
        except ValueError as error:
            assert "cannot be changed" in str(error)  # noqa: PT017 (either is right, by the version of SQLite)


def content(folder: Path) -> bytes:
    with closing(sqlite3.connect(folder / FILE)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return (folder / FILE).read_bytes()


@pytest.fixture(scope="module")
def states(tmp_path_factory) -> tuple[bytes, bytes]:
    """The file before and after reports were added, replaced and linked."""
    folder = tmp_path_factory.mktemp("live")
    build_by_length(folder, as_corpus([some_report(number) for number in range(60)]), "first")
    before = content(folder)
    with closing(open_folder(folder, numbers_for)) as index:
        for number in range(60, 160):
            fresh = Report(f"fresh words{number}", "long text " * 200, issue_id=str(number))
            index.add([fresh, some_report(number % 60, version="2")])
            index.link(str(number), str(number % 60), "triager")
    return before, content(folder)


def test_a_copy_whose_pages_contradict_each_other_is_refused(tmp_path, states):
    """The file was changed after so many of its pages were copied, in the order of the file or the other one."""
    before, after = states
    refused: list[str] = []
    opened = 0
    for page in range(1, len(after) // PAGE_BYTES, 3):
        for first, second in ((before, after), (after, before)):
            for rest in tmp_path.glob(f"{FILE}*"):
                rest.unlink()
            (tmp_path / FILE).write_bytes(first[: page * PAGE_BYTES] + second[page * PAGE_BYTES :])
            try:
                with closing(open_folder(tmp_path, numbers_for)) as index:
                    index.store.file.reports(list(index.store.file.contents()))
                    assert index.search(some_report(3), 5)
                    index.store.file.links()
            except ValueError as error:
                refused.append(str(error))
                continue
            opened += 1
            with closing(sqlite3.connect(tmp_path / FILE)) as file:
                assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert len(refused) > opened
    assert all("restore it from a copy" in line and "\n" not in line for line in refused)


@pytest.mark.parametrize("how", ["VACUUM INTO", ".backup"])
def test_a_backup_of_an_index_in_use_is_whole(tmp_path, opened, how):
    """Both ways that the manual names, while the last changes are in the write-ahead log."""
    copy = tmp_path / "copy"
    copy.mkdir()
    opened.add([some_report(50, version="2")])
    opened.link("0", "1", "triager")
    with closing(sqlite3.connect(opened.folder / FILE)) as file:
        if how == ".backup":
            with closing(sqlite3.connect(copy / FILE)) as target:
                file.backup(target)
        else:
            file.execute(f"VACUUM INTO '{copy / FILE}'")
    with closing(open_index(copy, str(tmp_path / "cache"))) as index:
        assert index.search(some_report(3), 50) == opened.search(some_report(3), 50)
        assert index.get("50") == some_report(50, version="2")
        assert (len(index), index.store.file.links()) == (41, [("0", "1", "triager")])
        assert index.add([some_report(51)]) == {"51": "added"}
