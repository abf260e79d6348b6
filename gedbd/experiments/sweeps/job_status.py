"""Status of each job of a sweep: a small file in the job's folder, replaced as a whole."""

import json
import math
import shutil
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from uuid import uuid4

from gedbd.io.console import say_once
from gedbd.io.files import read_object, write_text

STATUS_FILE = "status.json"

WAITING = "waiting"
RUNNING = "running"  # or killed while it was
FINISHED = "finished"
PRUNED = "pruned"
FAILED = "failed"
INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class JobStatus:
    """The state of a job.

    Attributes:
        state: ``waiting``, ``running`` (or killed while it was), ``finished``, ``pruned``, ``failed`` or
            ``interrupted``.
        overrides: The options of the job, which identify it.
        value: The value that the job returned.
        seconds: Duration of its last start.
        reason: Why it failed.
        settings: A checksum of its resolved configuration.
    """

    state: str
    overrides: tuple[str, ...]
    value: float | None = None
    seconds: float | None = None
    reason: str | None = None
    settings: str | None = None

    @property
    def done(self) -> bool:
        """Whether the job does not need to run again."""
        return self.state in (FINISHED, PRUNED)


def write_status(folder: Path, status: JobStatus) -> None:
    """Replaces the status of a job; a concurrent reader, or one after a kill, finds the old or the new one."""
    write_text(folder / STATUS_FILE, json.dumps(asdict(status), indent=2) + "\n")


def read_status(folder: Path) -> JobStatus | None:
    """The status of a job; None if the folder has none. Raises ValueError, naming the file, if it is damaged."""
    path = folder / STATUS_FILE
    try:
        content = read_object(path, "state", "overrides")
    except FileNotFoundError:
        return None
    known = {field.name: content[field.name] for field in fields(JobStatus) if field.name in content}
    if not isinstance(known["overrides"], list):
        raise ValueError(f"{path} is damaged: its overrides are not a list; delete it to run this job again")
    return JobStatus(**known | {"overrides": tuple(map(str, known["overrides"]))})


def read_jobs(sweep_dir: Path) -> dict[Path, JobStatus]:
    """All jobs in a sweep's folder, in the order of their numbers; damaged ones are printed and left out."""
    folders = [path.parent for path in sweep_dir.glob(f"*/{STATUS_FILE}")]
    folders.sort(key=lambda path: (int(path.name) if path.name.isdigit() else math.inf, path.name))
    found = {}
    for folder in folders:
        try:
            status = read_status(folder)
        except ValueError as error:
            say_once(f"left out: {error}")
            continue
        if status is not None:
            found[folder] = status
    return found


def find_job(sweep_dir: Path, overrides: tuple[str, ...]) -> str | None:
    """Name of the folder of the job with these overrides, in any order."""
    for folder, status in read_jobs(sweep_dir).items():
        if sorted(status.overrides) == sorted(overrides):
            return folder.name
    return None


def reserve_job(sweep_dir: Path, number: int, overrides: tuple[str, ...]) -> str:
    """Makes the folder of a new job, with its status in it, and returns the folder's name.

    The name is the job's number, or the first one after all that are taken.
    """
    sweep_dir.mkdir(parents=True, exist_ok=True)
    while True:
        taken = {int(path.name) for path in sweep_dir.iterdir() if path.name.isdigit() and any(path.iterdir())}
        free = number if number not in taken else max(taken) + 1
        # Prepared under another name and renamed: no process finds a job's folder without a status.
        made = sweep_dir / f".new_{uuid4().hex}"
        made.mkdir()
        write_status(made, JobStatus(WAITING, overrides))
        try:
            made.rename(sweep_dir / str(free))  # fails if another process was faster
        except OSError:
            shutil.rmtree(made)
            found = find_job(sweep_dir, overrides)
            if found:
                return found
        else:
            return str(free)
