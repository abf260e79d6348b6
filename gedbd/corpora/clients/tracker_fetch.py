"""Fetch a tracker's issues into a folder; continue an interrupted fetch, and later fetch only what changed."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from gedbd.corpora.clients.tracker_client import Client, Record
from gedbd.io.console import is_quiet, item_progress
from gedbd.io.files import check_regular, write_text
from gedbd.io.http import check_base_url, read_secret
from gedbd.io.locks import RUN_LOCK, only_writer
from gedbd.io.unpacking import check_space

if TYPE_CHECKING:
    from rich.progress import Progress

STATE = "state.json"
UNFINISHED = {"notes.sqlite", "notes.sqlite-journal", RUN_LOCK}  # left by a fetch that failed on its first page
Cursor = dict[str, Any]
OVERLAP = timedelta(minutes=10)  # the clocks of a tracker's servers may differ by this much


class Scope(NamedTuple):
    """What to fetch."""

    project: str  # the project's name on the tracker
    since: str | None  # fetch only what changed since then (ISO 8601, UTC); ``None`` fetches everything
    start: Cursor | None  # ``next`` of the last page that was written; ``None`` starts at the beginning
    folder: Path  # folder for files that the client keeps in addition to the pages


class Page(NamedTuple):
    """One page of a list, and where to continue."""

    records: list[Record]  # the issues to write into one file; empty if the page lists something else
    next: Cursor | None  # where the client's ``pages`` continues after this page; ``None`` after the last
    label: str  # name of the list
    size: int  # number of records on the page
    total: int | None  # length of the list, ``None`` if unknown


@dataclass(frozen=True)
class Tracker(ABC):
    """A kind of tracker; the fields say where it is and what to fetch from it."""

    base_url: str  # its address
    page_size: int  # number of records per response; a server may return fewer
    name: ClassVar[str]  # its name on the command line
    token: ClassVar[str]  # the environment variable that holds its token
    token_header: ClassVar[str] = ""  # the header that the token is sent in; empty for ``Authorization``

    def secrets(self) -> Mapping[str, str]:
        """The headers that hold the token; empty without a token."""
        token = read_secret(self.token)
        if not token:
            return {}
        return {self.token_header: token} if self.token_header else {"Authorization": f"Bearer {token}"}

    @abstractmethod
    def check(self, project: str) -> None:
        """Raises ValueError for a name that no project of this tracker can have."""

    @abstractmethod
    def pages(self, client: Client, scope: Scope) -> Iterator[Page]:
        """Yields the pages of what ``scope`` selects."""


def fetch_tracker(
    tracker: Tracker,
    project: str,
    out: Path,
    max_wait_s: float,
    make_client: Callable[..., Client] = Client,
    mark: str = "",
) -> str:
    """Fetches all issues into ``out``, or those that changed since the last fetch.

    Args:
        tracker: The tracker, and what to fetch from it.
        project: The project's name on the tracker.
        out: Folder for ``pages/`` and ``state.json``.
        max_wait_s: The longest accepted wait for a rate limit, in seconds.
        make_client: Creates the HTTP client.
        mark: Kept as ``mark`` of the state, from the call that begins a fetch until the fetch is complete.

    Returns:
        One line that says what was fetched.

    Raises:
        ValueError: The project, the folder or the token is wrong, or the tracker's response is not the expected one.
    """
    if not max_wait_s >= 0:
        raise ValueError(f"max_wait_s={max_wait_s} must not be below 0")
    if not 1 <= tracker.page_size <= 1000:
        raise ValueError(f"tracker.page_size={tracker.page_size} must be between 1 and 1000")
    base_url = check_base_url(tracker.base_url, "tracker.base_url", "https://bugs.example.org")
    tracker.check(project)
    secrets = tracker.secrets()
    make_folder(out)
    with only_writer(out), item_progress("records", transient=False) as progress:
        # These must be the same for all fetches into a folder; pages of different sizes hold the same issues.
        options = {key: value for key, value in vars(tracker).items() if key != "page_size"}
        source = {"tracker": tracker.name, "project": project, **options, "base_url": base_url}
        state = open_state(out, source)
        progress.console.quiet = is_quiet()
        say = partial(progress.console.print, soft_wrap=True, highlight=False, markup=False)
        client = make_client(base_url, secrets, tracker.token, max_wait_s, say)
        already_read = {"issues": state.issues}  # by an interrupted fetch
        for page in tracker.pages(client, Scope(project, state.since, state.next, out)):
            if state.started is None:
                # The next fetch asks for changes since this one began: what changes during it must not be missed.
                state.started = iso(client.started)
                state.mark = mark
                state.full_since = state.full_since if state.since else state.started
            if not page.next and not state.pages and not page.records:
                empty = f"{project} has no visible issues: check project= and {tracker.token}"
                raise ValueError(f"{client.base_url}: {empty}")
            add_page(out, state, page)
            show_page(progress, page, already_read.get(page.label, 0))
    kind = "issues" if state.since is None else f"new or changed issues since {state.since}"
    note = f" ({client.repeated:,} repeated records, as the list changed: the last counts)" if client.repeated else ""
    return (
        f"{out}: {state.issues:,} {kind}{note}, {state.pages:,} pages in all; dataset.path={out / 'pages'} reads them"
    )


def iso(seconds: float | None) -> str | None:
    """A time of the server's clock in ISO 8601, moved back by ``OVERLAP``."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC) - OVERLAP:%Y-%m-%dT%H:%M:%SZ}"


def show_page(progress: "Progress", page: Page, already_read: int) -> None:
    """Shows that a page arrived, in one line per list of records; totals are estimates until its last page."""
    tasks = {task.description: task.id for task in progress.tasks}
    if page.label not in tasks:
        tasks[page.label] = progress.add_task(page.label, total=None, completed=already_read)
    progress.update(tasks[page.label], advance=page.size, total=page.total)
    for task in progress.tasks:
        if page.next is None or task.description != page.label:
            progress.update(task.id, total=task.completed)  # a list that is complete


@dataclass
class FetchState:
    """Progress of the fetch into a folder."""

    tracker: Mapping[str, Any]  # the source of the pages; pages of another source are refused
    since: str | None = None  # only issues that changed since then (ISO 8601) are fetched; ``None`` for all issues
    started: str | None = None  # when the current or last fetch began, by the server's clock (ISO 8601)
    complete: bool = False  # whether the fetch is complete
    next: Cursor | None = None  # where the fetch continues; ``None`` at its beginning
    pages: int = 0  # number of files written by all fetches
    issues: int = 0  # number of records in the files of this fetch
    mark: str = ""  # what the caller knew when the current or last fetch began
    full_since: str | None = None  # when the fetch of all issues began, as ``started``; ``None`` if unknown


def open_state(out: Path, tracker: Mapping[str, Any]) -> FetchState:
    """The state of a new fetch, of an interrupted one, or of an update of a complete one.

    Raises:
        ValueError: ``out`` holds pages of another source, or its state is damaged.
    """
    file = out / STATE
    if not file.exists():
        for name in UNFINISHED - {RUN_LOCK}:
            (out / name).unlink(missing_ok=True)
        return FetchState(tracker)
    check_regular(file)
    try:
        state = FetchState(**json.loads(file.read_text()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}: damaged ({error}); fetch into another folder") from error
    types = {"next": dict | None, "tracker": dict, "mark": str, "full_since": str | None, "pages": int, "issues": int}
    values = vars(state)
    if not all(isinstance(values[key], kind) and values[key] is not True for key, kind in types.items()):
        raise ValueError(f"{file}: damaged (a value has the wrong type); fetch into another folder")
    if state.tracker != tracker:
        differences = [f"{key}={state.tracker.get(key)}" for key in tracker if state.tracker.get(key) != tracker[key]]
        raise ValueError(
            f"out={out} was fetched with {', '.join(differences)}: choose another folder, or use the same options"
        )
    for number in range(1, state.pages + 1):
        check_page(page_file(out, number))
    if not state.complete:
        return state
    # An update keeps the pages and continues their numbers.
    return FetchState(tracker, since=state.started, pages=state.pages, full_since=state.full_since)


def make_folder(out: Path) -> None:
    """Creates a folder, or checks that an existing one is writable and is empty or holds a fetch.

    Raises:
        ValueError: The folder holds other files, or is not writable.
    """
    try:
        out.mkdir(0o700, parents=True, exist_ok=True)
        # Temporary files of a killed process have names that begin with a dot.
        names = {path.name for path in out.iterdir() if not path.name.startswith(".")} - UNFINISHED
    except OSError as error:
        raise ValueError(f"out={out} is not writable: {error.strerror}") from error
    if names and STATE not in names:
        raise ValueError(f"out={out} exists and holds other files: choose a new or an empty folder")
    # Fail now if the folder is not writable, not after the first request.
    if not os.access(out, os.W_OK | os.X_OK):
        raise ValueError(f"out={out} is not writable: check its permissions")


def page_file(out: Path, number: int) -> Path:
    """The file of a page, counted from 1."""
    return out / "pages" / f"{number:06}.json"


def check_page(file: Path) -> None:
    """Raises ValueError if a page that was written is missing, or no longer begins and ends as a list."""
    ends = b""
    with suppress(OSError), file.open("rb") as page:
        ends = page.read(1)
        page.seek(-1, os.SEEK_END)
        ends += page.read(1)
    if ends != b"[]":
        raise ValueError(f"{file}: missing or damaged since it was fetched; fetch into another folder")


def add_page(out: Path, state: FetchState, page: Page) -> None:
    """Writes a page, then the state that counts it: after a crash in between, the same page is written again."""
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
