"""Records of ``make bench``: a JSON file for each run, which ``make bench-compare`` reads."""

import json
import os
import platform
import re
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from measure import Row

FOLDER = Path("outputs/benchmark/records")


@dataclass(frozen=True)
class Record:
    """One run of the benchmark.

    Attributes:
        corpus: Name of the corpus.
        machine: Processor, cores and memory.
        made_at: When it ended, UTC, to the second.
        rows: What was measured.
    """

    corpus: str
    machine: str
    made_at: str
    rows: list[Row] = field(default_factory=list)

    @classmethod
    def of(cls, corpus: str, rows: list[Row]) -> "Record":
        """The record of a run that has just ended on this machine; ``corpus`` is a path, empty for the demo corpus."""
        name = Path(corpus).parent.name or Path(corpus).stem or "demo"
        return cls(name, machine_name(), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"), rows)

    @property
    def title(self) -> str:
        """Corpus, machine and date."""
        return f"{self.corpus}, {self.machine}, {self.made_at[:10]}"

    def write(self, folder: Path = FOLDER) -> Path:
        """Writes it into a file of its own; names sort by age."""
        folder.mkdir(parents=True, exist_ok=True)
        machine = re.sub(r"[^a-z0-9]+", "-", self.machine.lower()).strip("-")
        path = folder / f"{self.made_at.replace(':', '')}-{machine}.json"
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")
        return path


def read_record(path: Path) -> Record:
    """Reads a record.

    Raises:
        ValueError: If it is none.
    """
    try:
        content = json.loads(path.read_text())
        return Record(**content | {"rows": [read_row(row) for row in content["rows"]]})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: no record of make bench: {error}") from error


def read_row(content: dict[str, Any]) -> Row:
    """A row from JSON, whose pairs are lists."""
    values: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in content.items()}
    return Row(**values)


def two_newest(folder: Path = FOLDER) -> tuple[Path, Path]:
    """The newest record, behind the newest earlier one of the same machine and corpus that has a row in common.

    Raises:
        ValueError: If there are no two such records.
    """
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise ValueError(f"{folder}: no record; make bench writes one")
    *earlier, newest = paths
    record = read_record(newest)
    for path in reversed(earlier):
        other = read_record(path)
        shared = {row.what for row in record.rows} & {row.what for row in other.rows}
        if (other.machine, other.corpus) == (record.machine, record.corpus) and shared:
            return path, newest
    raise ValueError(
        f"{folder}: no record before {newest.name} is of the same machine, corpus and sections; name two:"
        ' make bench-compare RECORDS="EARLIER.json LATER.json"'
    )


def machine_name() -> str:
    """Processor, cores and memory of this machine."""
    cpuinfo = Path("/proc/cpuinfo")
    model = re.search(r"^model name\s*: (.*)$", cpuinfo.read_text(), re.MULTILINE) if cpuinfo.exists() else None
    name = model[1] if model else f"{platform.system()} {platform.machine()}"
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{' '.join(name.split())}, {os.cpu_count()} cores, {memory_gb:.0f} GB"
