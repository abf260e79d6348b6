"""Reads the files that W&B writes without network: log files of LevelDB's format that hold W&B's records."""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

BLOCK, HEADER, WHOLE, LAST = 32768, 7, 1, 4


@dataclass
class OfflineRun:
    """What one W&B run would be on the server."""

    id: str = ""
    name: str = ""
    group: str = ""
    job_type: str = ""
    tags: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    exit_code: int | None = None

    @property
    def keys(self) -> set[str]:
        """The names of all that was logged."""
        return {key for row in self.rows for key in row}


def offline_runs(folder: Path) -> list[OfflineRun]:
    """The runs below a folder, one for each file, in the order of their paths."""
    return [_read(path) for path in sorted(folder.rglob("offline-run-*/*.wandb"))]


def _read(path: Path) -> OfflineRun:
    run = OfflineRun()
    for record in _records(path.read_bytes()):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            about = record.run
            run.id, run.name, run.group = about.run_id, about.display_name, about.run_group
            run.job_type, run.tags = about.job_type, list(about.tags)
        if kind in ("run", "config"):
            for item in (record.run.config if kind == "run" else record.config).update:
                run.config[item.key] = json.loads(item.value_json)
        if kind == "history":
            items = record.history.item
            run.rows.append({item.key or item.nested_key[0]: json.loads(item.value_json) for item in items})
        if kind == "exit":
            run.exit_code = record.exit.exit_code
    return run


def _records(data: bytes) -> Iterator[Record]:
    place, parts = HEADER, b""
    while place + HEADER <= len(data):
        left = BLOCK - place % BLOCK
        _, length, kind = struct.unpack_from("<IHB", data, place)
        if left < HEADER or kind == 0:  # the rest of the block is padding
            place += left
            continue
        parts += data[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in (WHOLE, LAST):
            yield Record.FromString(parts)
            parts = b""
