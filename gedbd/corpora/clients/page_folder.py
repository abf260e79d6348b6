"""The folder of a fetched tracker: numbered pages, and a state that says what comes next."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gedbd.corpora.clients.http import Record

STATE = "state.json"
UNFINISHED = {"notes.sqlite", "notes.sqlite-journal", "state.json.part"}  # left by a first step that failed
Cursor = dict[str, Any]


class Page(NamedTuple):
    """What one step brought, and where to go on.

    Args:
        records: Issues with all that belongs to them, for one file; empty where the step read something else.
        next: What the tracker's ``pages`` goes on from after this page; ``None`` after the last.
        label: What is being read.
        size: How many of it this step brought.
        total: How many there are, where the tracker says so.
    """

    records: list[Record]
    next: Cursor | None
    label: str
    size: int
    total: int | None


@dataclass
class State:
    """Where a folder stands.

    Args:
        tracker: What the folder holds; another tracker's pages are refused.
        since: Only what changed from then on (ISO 8601) is fetched; ``None``: everything.
        started: When the fetch that goes on, or was last completed, began by the server's clock (ISO 8601).
        complete: Whether it came to its end.
        next: Where it goes on; ``None``: at its beginning.
        pages: Files written, of all fetches.
        issues: Records in the files of this fetch.
    """

    tracker: Mapping[str, Any]
    since: str | None = None
    started: str | None = None
    complete: bool = False
    next: Cursor | None = None
    pages: int = 0
    issues: int = 0


def open_state(out: Path, tracker: Mapping[str, Any]) -> State:
    """The state to go on from: a new one, an unfinished one, or the update of a complete one.

    Raises:
        ValueError: ``out`` holds something else, or its state cannot be read.
    """
    file = out / STATE
    if not file.exists():
        make_folder(out)
        return State(tracker)
    state = read_state(file)
    if state.tracker != tracker:
        other = [f"{key}={state.tracker.get(key)}" for key in tracker if state.tracker.get(key) != tracker[key]]
        raise ValueError(f"out={out} was fetched with {', '.join(other)}: name another folder, or the same options")
    if not state.complete:
        return state
    return State(tracker, since=state.started, pages=state.pages)


def make_folder(out: Path) -> None:
    """An empty folder that can be written to.

    Raises:
        ValueError: ``out`` is something else.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        if {path.name for path in out.iterdir()} - UNFINISHED:
            raise ValueError(f"out={out} is there and holds no fetched tracker: name a new or an empty folder")
        for name in UNFINISHED:
            (out / name).unlink(missing_ok=True)
        (out / STATE).with_suffix(".json.part").touch()
    except OSError as error:
        raise ValueError(f"out={out} cannot be written to: {error.strerror}") from error


def read_state(file: Path) -> State:
    """The state in a file.

    Raises:
        ValueError: The file is damaged.
    """
    try:
        state = State(**json.loads(file.read_text()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}: damaged ({error}); fetch into another folder") from error
    if not isinstance(state.tracker, dict) or not isinstance(state.pages, int) or not isinstance(state.issues, int):
        raise ValueError(f"{file}: damaged (not as it was written); fetch into another folder")
    return state


def add_page(out: Path, state: State, page: Page) -> None:
    """Write a page, then the state that knows of it: whoever is killed in between writes the same page again."""
    if page.records:
        if not state.pages:
            write_json(out / STATE, asdict(state))
            (out / "pages").mkdir(exist_ok=True)
        write_json(out / "pages" / f"{state.pages + 1:06}.json", page.records)
        state.pages += 1
        state.issues += len(page.records)
    state.next, state.complete = page.next, page.next is None
    write_json(out / STATE, asdict(state))


def write_json(file: Path, content: object) -> None:
    """Put a whole file in place, or none."""
    part = file.with_name(f"{file.name}.part")
    part.write_text(json.dumps(content))
    os.replace(part, file)
