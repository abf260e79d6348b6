"""Write the folder of a fetched tracker: numbered pages, and a state that says where to continue."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gedbd.corpora.clients.http import Record
from gedbd.io.files import write_text
from gedbd.io.locks import RUN_LOCK
from gedbd.io.unpacking import check_space

STATE = "state.json"
UNFINISHED = {"notes.sqlite", "notes.sqlite-journal", RUN_LOCK}  # left by a fetch that failed on its first page
Cursor = dict[str, Any]


class Page(NamedTuple):
    """One page of a list, and where to continue.

    Args:
        records: The issues to write into one file; empty if the page lists something else.
        next: Where the client's ``pages`` continues after this page; ``None`` after the last.
        label: Name of the list.
        size: Number of records on the page.
        total: Length of the list, ``None`` if unknown.
    """

    records: list[Record]
    next: Cursor | None
    label: str
    size: int
    total: int | None


@dataclass
class State:
    """Progress of the fetch into a folder.

    Args:
        tracker: The source of the pages; those of another one are refused.
        since: Only what changed since then (ISO 8601) is fetched; ``None`` for everything.
        started: When the current or last fetch began, by the server's clock (ISO 8601).
        complete: Whether the fetch is complete.
        next: Where the fetch continues; ``None`` at its beginning.
        pages: Number of files written by all fetches.
        issues: Number of records in the files of this fetch.
    """

    tracker: Mapping[str, Any]
    since: str | None = None
    started: str | None = None
    complete: bool = False
    next: Cursor | None = None
    pages: int = 0
    issues: int = 0


def open_state(out: Path, tracker: Mapping[str, Any]) -> State:
    """The state of a new fetch, of an interrupted one, or of an update of a complete one.

    Raises:
        ValueError: ``out`` holds something else, or its state is damaged.
    """
    file = out / STATE
    if not file.exists():
        for name in UNFINISHED - {RUN_LOCK}:
            (out / name).unlink(missing_ok=True)
        return State(tracker)
    state = read_state(file)
    if state.tracker != tracker:
        other = [f"{key}={state.tracker.get(key)}" for key in tracker if state.tracker.get(key) != tracker[key]]
        raise ValueError(
            f"out={out} was fetched with {', '.join(other)}: choose another folder, or use the same options"
        )
    for number in range(1, state.pages + 1):
        check_page(page_file(out, number))
    if not state.complete:
        return state
    # An update keeps the pages and counts on.
    return State(tracker, since=state.started, pages=state.pages)


def make_folder(out: Path) -> None:
    """Create a folder, or check that an existing one is writable and holds a fetch or nothing.

    Raises:
        ValueError: The folder holds other files, or is not writable.
    """
    try:
        out.mkdir(0o700, parents=True, exist_ok=True)
        # Temporary files of a killed process have names that begin with a dot.
        others = {path.name for path in out.iterdir() if not path.name.startswith(".")} - UNFINISHED
    except OSError as error:
        raise ValueError(f"out={out} is not writable: {error.strerror}") from error
    if others and STATE not in others:
        raise ValueError(f"out={out} exists and holds other files: choose a new or an empty folder")
    # Fail now if the folder is not writable, not after the first request.
    if not os.access(out, os.W_OK | os.X_OK):
        raise ValueError(f"out={out} is not writable: check its permissions")


def page_file(out: Path, number: int) -> Path:
    """The file of a page, counted from 1."""
    return out / "pages" / f"{number:06}.json"


def check_page(file: Path) -> None:
    """Raise ValueError if a page that was written is missing, or no longer begins and ends as a list."""
    ends = b""
    if file.is_file() and file.stat().st_size > 1:
        with file.open("rb") as page:
            ends = page.read(1)
            page.seek(-1, os.SEEK_END)
            ends += page.read(1)
    if ends != b"[]":
        raise ValueError(f"{file}: missing or damaged since it was fetched; fetch into another folder")


def read_state(file: Path) -> State:
    """Read the state from a file.

    Raises:
        ValueError: The file is damaged.
    """
    try:
        state = State(**json.loads(file.read_text()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}: damaged ({error}); fetch into another folder") from error
    is_cursor = state.next is None or isinstance(state.next, dict)
    if not is_cursor or not isinstance(state.tracker, dict) or not (type(state.pages) is type(state.issues) is int):
        raise ValueError(f"{file}: damaged (a value has the wrong type); fetch into another folder")
    return state


def add_page(out: Path, state: State, page: Page) -> None:
    """Write a page, then the state that counts it: after a crash in between, the same page is written again."""
    text = json.dumps(page.records)
    check_space(out, len(text), "out=")
    if page.records:
        # A folder with pages has a state, even if the process is killed before the state below is written.
        if not state.pages:
            write_text(out / STATE, json.dumps(asdict(state)))
            (out / "pages").mkdir(exist_ok=True)
        write_text(page_file(out, state.pages + 1), text)
        state.pages += 1
        state.issues += len(page.records)
    state.next = page.next
    state.complete = page.next is None
    write_text(out / STATE, json.dumps(asdict(state)))
