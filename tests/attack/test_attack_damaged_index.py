"""An index file is cut off, emptied, overwritten, read-only: one line says so, and what can be searched is searched."""

import json
import os
import random
import shutil
import sqlite3
import stat
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from small_tracker import as_corpus, fill, open_folder, read_rows, some_report, tiny_reader
from tiny_models import build, stored_model

from gedbd.triage.report import Report
from gedbd.triage.storage.index_store import FILE, IndexStore
from gedbd.triage.storage.rows import StoredReport
from gedbd.triage.storage.sqlite_file import StoreUnavailable
from gedbd.triage.storage.sync import synchronise
from gedbd.triage.stored_index import open_index

REPORTS = [some_report(number) for number in range(40)]
NOBODY = 65534
ODD_VALUES = ("", "[1]", "null", "[" * 100_000)


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


def change(folder, statement, *values):
    with sqlite3.connect(folder / FILE) as file:
        file.execute(statement, values)
    file.close()


def refused(folder, tmp_path):
    """What opening says, in one line that names the folder."""
    with pytest.raises(ValueError, match=r"\S") as told:
        open_index(folder, str(tmp_path / "cache"))
    said = str(told.value)
    assert "\n" not in said
    assert str(folder) in said
    return said


@pytest.mark.parametrize("size", [0, 1, 99, 100, 4096, 5000, 20_000])
def test_a_file_that_is_cut_off(folder, tmp_path, size):
    with (folder / FILE).open("r+b") as file:
        file.truncate(size)
    said = refused(folder, tmp_path)
    assert "is damaged" in said or "is not an index" in said or "building it was interrupted" in said


@pytest.mark.parametrize("table", ["about", "weights", "terms", "reports", "links"])
def test_a_table_that_is_missing(folder, tmp_path, table):
    change(folder, f"DROP TABLE {table}")
    said = refused(folder, tmp_path)
    assert f"is damaged (it has no table {table}): restore it from a copy, or delete it and build it again" in said


@pytest.mark.parametrize("name", ["name", "model", "matching", "settings", "dim", "boilerplate", "calibration"])
@pytest.mark.parametrize("value", [None, "{", *(pytest.param(value, marks=pytest.mark.slow) for value in ODD_VALUES)])
def test_what_an_index_says_of_itself_is_damaged(folder, tmp_path, name, value):
    if value is None:
        change(folder, "DELETE FROM about WHERE name = ?", name)
    else:
        change(folder, "UPDATE about SET value = ? WHERE name = ?", value, name)
    if name in ("boilerplate", "calibration", "name") and (value is not None or name != "name"):
        open_index(folder, str(tmp_path / "cache")).close()  # this model's texts need none, and any name will do
    else:
        refused(folder, tmp_path)


def test_one_number_of_what_was_learnt_is_another_one(folder, tmp_path):
    matching = json.loads(stored_model(16, 0.8).about["matching"])
    matching["confidence"]["knots"][0] -= 1
    change(folder, "UPDATE about SET value = ? WHERE name = 'matching'", json.dumps(matching))
    assert "its encoder or its settings differ from their checksum" in refused(folder, tmp_path)


def test_weights_that_are_not_what_was_written(folder, tmp_path):
    change(folder, "INSERT INTO weights (data) VALUES (?)", b"PK\3\4 no weights")
    assert "its encoder or its settings differ from their checksum" in refused(folder, tmp_path)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("vector", b"\0" * 60, "the vector of report 7 has 15 numbers, not 16"),
        ("vector", b"", "the vector of report 7 has 0 numbers, not 16"),
        ("vector", b"\0" * 60 + b"\0\0\xc0\x7f", "the vector of report 7 has a value that is not a number"),
        ("vector", "text", "a value of report 7 has the wrong type"),
        ("text", b"\0\0\0", "the words of report 7 are cut off"),
        ("text", b"\xff\xff\xff\x7f", "a report has words that are not among its"),
        ("heading", b"\xff\xff\xff\xff", "a report has words that are not among its"),
        ("component", b"\xff", "a value of report 7 has the wrong type"),
    ],
)
def test_numbers_that_do_not_fit(folder, tmp_path, column, value, message):
    change(folder, f"UPDATE reports SET {column} = ? WHERE issue_id = '7'", value)
    assert message in refused(folder, tmp_path)


def said_of(folder, cache):
    """What an index says when it is opened, searched and added to."""
    said = []
    try:
        index = open_index(folder, str(cache))
    except ValueError as error:
        return [str(error)]
    for call in (lambda: index.search(Report("crash"), 50), lambda: index.add([some_report(50)])):
        try:
            call()
        except StoreUnavailable as error:
            said.append(str(error))
    index.close()
    return said


def test_flipped_bits_are_told_or_harmless(whole, tmp_path):
    """Whatever lies under the flips, no call ends with anything but an answer or a line."""
    generator, content = random.Random(0), (whole / FILE).read_bytes()
    told = []
    for number in range(25):
        flipped = bytearray(content)
        for _ in range(40):
            flipped[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / FILE).write_bytes(flipped)
        told += said_of(folder, tmp_path / "cache")
    assert len(told) > 5
    assert not [line for line in told if "\n" in line]


def update(folder):
    store = IndexStore(folder / FILE)
    synchronise(store, as_corpus(REPORTS), stored_model(16, 0.8), lambda rows: read_rows(tiny_reader(), rows))


def test_a_damaged_index_is_told_by_the_command_that_updates_it(folder, reader):
    with (folder / FILE).open("r+b") as file:
        file.truncate(20_000)
    with pytest.raises((ValueError, StoreUnavailable), match=r"is damaged .*: restore it from a copy, or delete it"):
        update(folder)


def test_damage_while_it_is_open_is_told_and_logged_once(folder, tmp_path, caplog):
    index = open_index(folder, str(tmp_path / "cache"))
    size = (folder / FILE).stat().st_size
    with (folder / FILE).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    index._current.state.reader.query("PRAGMA shrink_memory")  # or else no page is read again
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match=r"index\.sqlite is damaged \(database disk image is malformed\)"):
            index.search(Report("crash"), 50)
    assert len(index) == 40
    assert len([record for record in caplog.records if "malformed" in record.message]) == 1
    index.close()


def test_dates_that_no_report_can_have(folder, tmp_path, caplog):
    """An index of an older version may hold some."""
    for one, date in (("3", "0001-01-01T00:00:00+00:00"), ("4", "2300-05-06T00:00:00+00:00"), ("5", "soon")):
        change(folder, "UPDATE reports SET created_at = ? WHERE issue_id = ?", date, one)
    index = open_index(folder, str(tmp_path / "cache"))
    assert "3 reports have an invalid date and count as undated (first: report 3)" in caplog.text
    assert [index.get(one).created_at for one in ("3", "4", "5")] == [None, None, None]
    assert index.search(Report("crash in the toolbar"), 50)
    assert index.search(some_report(3), 50)
    index.add([replace(some_report(3), title="dated again")])
    assert index.get("3").created_at == some_report(3).created_at
    index.close()


def test_dates_of_resolution_that_no_report_can_have(folder, tmp_path, caplog):
    for one, date in (("3", "0001-01-01T00:00:00+00:00"), ("4", "soon")):
        change(folder, "UPDATE reports SET resolved_at = ? WHERE issue_id = ?", date, one)
    index = open_index(folder, str(tmp_path / "cache"))
    assert "2 reports have an invalid date of resolution and count as open (first: report 3)" in caplog.text
    assert [index.get(one).resolved_at for one in ("3", "4")] == [None, None]
    assert index.search(Report("crash in the toolbar"), 50)
    index.close()


def test_a_date_that_was_stored_before_dates_were_checked(tmp_path, reader):
    fill(tmp_path, as_corpus(REPORTS[:3]), reader)
    store = IndexStore(tmp_path / FILE)
    early = replace(REPORTS[0], issue_id="early", created_at=None)
    object.__setattr__(early, "created_at", datetime(1500, 1, 1, tzinfo=UTC))
    with store.transaction():
        none = np.empty(0, dtype=np.int32)
        store.add([StoredReport(early, reader(as_corpus(REPORTS[:1]).reports)[0], (none,) * 4)])
    store.close()
    index = open_folder(tmp_path, reader)
    assert len(index) == 4
    assert index.get("early").created_at is None
    index.close()


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
        for write in (
            lambda: index.add([some_report(50)]),
            lambda: index.link("1", "2", "triager"),
            lambda: index.delete("1"),
        ):
            with pytest.raises(StoreUnavailable, match=r"cannot be changed .*: check the permissions of the file"):
                write()
        assert index.search(Report("crash in the toolbar"), 5)
        index.close()
        with pytest.raises(ValueError, match="cannot be changed") as told:
            IndexStore(protected / FILE)
    assert "is not an index" not in str(told.value)
    assert stat.S_IMODE((protected / FILE).stat().st_mode) == 0o444


def test_a_file_that_may_not_be_read_is_not_called_something_else(protected, tmp_path):
    (protected / FILE).chmod(0)
    with without_rights(), pytest.raises(ValueError, match="check the permissions of the file") as told:
        open_index(protected, str(tmp_path / "cache"))
    assert "is not an index" not in str(told.value)


def test_last_changes_in_a_log_are_never_left_out(whole, tmp_path):
    """Without its log, a file would be an older state; where the log cannot be used, that is told."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(shutil.copytree(whole, Path(made) / "index"))
        index = open_index(folder, str(tmp_path / "cache"))
        index.add([some_report(50)])
        copy = Path(made) / "copy"
        copy.mkdir()
        for name in (FILE, f"{FILE}-wal"):
            shutil.copyfile(folder / name, copy / name)
            (copy / name).chmod(0o444)
        index.close()
        Path(made).chmod(0o755)
        copy.chmod(0o555)
        try:
            with without_rights():
                opened = open_index(copy, str(tmp_path / "cache"))
                assert opened.get("50") == some_report(50)
                opened.close()
        except ValueError as error:
            assert "cannot be changed" in str(error)  # noqa: PT017 (either is right, by the version of SQLite)
        finally:
            copy.chmod(0o755)


def test_a_full_disk_is_not_called_something_else(folder, tmp_path):
    index = open_index(folder, str(tmp_path / "cache"))
    run = index.store.query
    run(f"PRAGMA max_page_count={run('PRAGMA page_count')[0][0]}")
    with pytest.raises(StoreUnavailable, match="cannot be changed because its disk is full: free some space"):
        index.add([Report("large", "y" * 100_000, f"f{number}") for number in range(3)])
    assert index.search(Report("crash"), 5)
    index.close()
