"""Arrays come back from a file as they were written, whole or not at all."""

import random

import numpy as np
import pytest

from gedbd.io.arrow_files import read_arrays, write_arrays

ARRAYS = {
    "rows": np.arange(6, dtype=np.int32).reshape(3, 2),
    "nothing": np.empty((0, 3), dtype=np.float32),
    "days": np.array([np.nan, 1.5]),
    "codes": np.arange(-3, 3, dtype=np.int8),
    "texts": np.array(["a", "\u4e2d\u6587", ""], dtype=object),
}


@pytest.fixture
def path(tmp_path):
    write_arrays(tmp_path / "arrays.arrow", ARRAYS, {"change": 7})
    return tmp_path / "arrays.arrow"


def test_arrays_come_back(path):
    arrays, facts = read_arrays(path)
    assert facts == {"change": 7}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)
    with pytest.raises(ValueError, match="read-only"):
        arrays["rows"][0, 0] = 1


def test_a_file_that_is_cut_off_or_changed_is_refused(path):
    generator = random.Random(0)
    content = path.read_bytes()
    for size in (0, 1, 100, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"."):
            read_arrays(path)
    for number in range(50):
        changed = bytearray(content)
        changed[content.index(ARRAYS["rows"].tobytes()) + number % 24] ^= 1 << generator.randrange(8)
        path.write_bytes(changed)
        with pytest.raises(ValueError, match="differs from its checksum"):
            read_arrays(path)


def test_a_file_of_others_is_refused(path):
    import pyarrow as pa

    with pa.ipc.new_file(str(path), pa.schema([("x", pa.int32())])) as writer:
        writer.write_table(pa.table({"x": pa.array([1], pa.int32())}))
    with pytest.raises(ValueError, match=r"."):
        read_arrays(path)
