"""Arrays and JSON metadata in one Arrow IPC file, which is mapped into memory when it is read."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gedbd.io.files import replacing

if TYPE_CHECKING:
    import pyarrow as pa

HEADER = b"gedbd"  # of the metadata, which is JSON


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
    """Writes a file atomically: a file of this name is complete.

    Args:
        path: The file.
        arrays: Arrays of numbers, or of strings of dtype ``object``, by name.
        facts: Metadata, anything that JSON can hold.

    Raises:
        OSError: If it cannot be written.
    """
    import pyarrow as pa

    columns = {}
    for name, array in arrays.items():
        values = pa.array(np.ascontiguousarray(array).ravel(), pa.large_string() if array.dtype == object else None)
        columns[name] = pa.LargeListArray.from_arrays([0, len(values)], values)  # one row
    shapes = {name: array.shape for name, array in arrays.items()}
    header = {"facts": dict(facts), "shapes": shapes, "checksum": _checksum(columns)}
    table = pa.table(columns).replace_schema_metadata({HEADER: json.dumps(header).encode()})
    with replacing(path) as unfinished, pa.ipc.new_file(str(unfinished), table.schema) as writer:
        writer.write_table(table)


def read_arrays(path: Path, check: bool = True) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a file, whose bytes are read when they are used, and the metadata.

    Args:
        path: The file.
        check: Whether all bytes are compared with the checksum, which reads the whole file.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it is damaged.
    """
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
    table.validate()
    try:
        header = json.loads(table.schema.metadata[HEADER])
        facts, shapes = dict(header["facts"]), dict(header["shapes"])
        columns = {name: table.column(name).chunk(0) for name in shapes}
        if check and _checksum(columns) != header["checksum"]:
            raise ValueError("it differs from its checksum")
        arrays = {}
        for name, shape in shapes.items():
            values = columns[name].flatten()
            is_text = str(values.type) == "large_string"
            arrays[name] = np.asarray(values.to_numpy(zero_copy_only=not is_text)).reshape(shape)
        return arrays, facts
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__} at {error}") from error


def _checksum(columns: Mapping[str, "pa.LargeListArray"]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, column in columns.items():
        digest.update(f"{name} {column.type} ".encode())
        for buffer in column.flatten().buffers():
            digest.update(buffer or b"")
    return digest.hexdigest()
