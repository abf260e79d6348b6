"""Arrays come back from files as they were written, whole or not at all."""

import os

import numpy as np
import pytest

from gedbd.io.array_files import ABANDONED_S, ArrayFolderWriter, read_arrays, read_facts, remove_abandoned


def written(path):
    with ArrayFolderWriter(path) as writer:
        writer.append("rows", np.arange(6, dtype=np.int32).reshape(3, 2))
        writer.append("rows", np.arange(6, 10, dtype=np.int32).reshape(2, 2))
        writer.append("nothing", np.empty((0, 3), dtype=np.float32))
        assert writer.read("rows").tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
        writer.finish({"change": 7})
    return path


def test_pieces_come_back_as_one_array(tmp_path):
    path = written(tmp_path / "arrays")
    facts = read_facts(path)
    arrays = read_arrays(path, facts)
    assert facts["change"] == 7
    np.testing.assert_array_equal(arrays["rows"], np.arange(10).reshape(5, 2))
    assert arrays["rows"].dtype == np.int32
    assert arrays["nothing"].shape == (0, 3)
    with pytest.raises(ValueError, match="read-only"):
        arrays["rows"][0, 0] = 1


def test_what_is_not_finished_leaves_nothing(tmp_path):
    with ArrayFolderWriter(tmp_path / "arrays") as writer:
        writer.append("rows", np.arange(3))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_cut_off_is_told(tmp_path):
    path = written(tmp_path / "arrays")
    os.truncate(path / "rows.bin", 8)
    with pytest.raises(ValueError, match=r"rows\.bin has 8 bytes, not 40"):
        read_arrays(path, read_facts(path))


@pytest.mark.parametrize("text", ["", "[1]", "{"])
def test_damaged_facts_are_told(tmp_path, text):
    path = written(tmp_path / "arrays")
    (path / "facts.json").write_text(text)
    with pytest.raises(ValueError, match=r"facts\.json|Expecting"):
        read_facts(path)


def test_what_a_killed_process_left_is_deleted_after_a_while(tmp_path):
    for name, age in (("one.5.unfinished", ABANDONED_S + 60), ("one.6.unfinished", 0), ("two.5.unfinished", 1e6)):
        folder = tmp_path / name
        folder.mkdir()
        moment = folder.stat().st_mtime - age
        os.utime(folder, (moment, moment))
    remove_abandoned(tmp_path, "one")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.6.unfinished", "two.5.unfinished"]
