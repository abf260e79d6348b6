"""An index that is opened so that nothing is written."""

from contextlib import closing

import pytest
from small_tracker import open_folder

from gedbd.corpora.bug_report import Report
from gedbd.io.sqlite_file import StoreUnavailable, wal_path
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import IndexStore


@pytest.fixture
def at_rest(index):
    """The path of an index that no process has open."""
    index.close()
    return index.folder / FILE


def test_no_file_is_made_or_changed(at_rest):
    before = {one: one.stat().st_mtime_ns for one in at_rest.parent.iterdir()}
    with closing(IndexStore(at_rest, create=False, read_only=True)) as store:
        assert store.count() == 20
        with pytest.raises(StoreUnavailable, match="cannot be changed"):
            store.delete(["3"])
        assert {one: one.stat().st_mtime_ns for one in at_rest.parent.iterdir()} == before
    assert {one: one.stat().st_mtime_ns for one in at_rest.parent.iterdir()} == before


def test_a_change_in_place_is_noticed(at_rest, reader):
    with closing(IndexStore(at_rest, create=False, read_only=True)) as store:
        with closing(open_folder(at_rest.parent, reader)) as index:
            assert not store.is_replaced  # the other process has written nothing yet
            index.add([Report("A new report", issue_id="new")])
            assert store.is_replaced
            with pytest.raises(StoreUnavailable, match="has changed while it was read: try again"):
                store.count()
            with closing(IndexStore(at_rest, create=False, read_only=True)) as beside:
                assert beside.count() == 21
                index.delete("new")
                assert beside.count() == 20
        with pytest.raises(StoreUnavailable, match="has changed"):
            store.count()


def test_a_log_that_a_reader_outlived_is_read(at_rest, reader):
    with closing(open_folder(at_rest.parent, reader)) as index:
        index.add([Report("A new report", issue_id="new")])
        beside = IndexStore(at_rest, create=False, read_only=True)
    assert beside.count() == 21
    beside.close()  # it may not delete the log, which has the last change
    assert wal_path(at_rest).stat().st_size
    with closing(IndexStore(at_rest, create=False, read_only=True)) as store:
        assert store.count() == 21
    with closing(open_folder(at_rest.parent, reader)) as index:
        assert len(index) == 21
    assert not wal_path(at_rest).exists()


def test_a_replaced_file_can_be_read_on(at_rest):
    with closing(IndexStore(at_rest, create=False, read_only=True)) as store:
        at_rest.rename(at_rest.with_name("former"))
        at_rest.write_bytes(b"")
        assert store.is_replaced
        assert store.count() == 20


def test_changes_that_are_only_in_the_log_are_not_left_out(at_rest):
    wal_path(at_rest).write_bytes(b"a log without its -shm")
    with pytest.raises(ValueError, match=r"holds changes that are not in index\.sqlite yet: run gedbd search once"):
        IndexStore(at_rest, create=False, read_only=True)
