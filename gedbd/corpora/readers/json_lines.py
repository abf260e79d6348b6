"""Read files with one JSON object a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gedbd.corpora.readers.csv_file import open_packed

Record = dict[str, Any]


def read_json_lines(path: Path) -> Iterator[tuple[int, Record]]:
    """Yields row, from 1, and object of each line of a file; empty lines are skipped.

    Unpaired surrogates, which JSON can hold and no file can, become question marks.

    Args:
        path: The file, plain or packed as ``.xz``, ``.gz`` or ``.zip``.

    Raises:
        ValueError: A line holds no JSON object, or the file is damaged; names file and row.
    """
    with open_packed(path, path.suffix, kinds=("jsonl",)) as stream:
        for row, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                if b"\\u" in line or not line.isascii():
                    record = _without_surrogates(record)
            except (ValueError, RecursionError) as error:
                reason = str(error).partition("\n")[0]
                raise ValueError(f"{path}, row {row}: not readable as JSON ({reason}); fetch the file again") from error
            if not isinstance(record, dict):
                raise ValueError(f"{path}, row {row}: a JSON object is expected, not {str(record)[:40]!r}")
            yield row, record


def _without_surrogates(value: Any) -> Any:
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
