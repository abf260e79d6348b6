"""Fetch a tracker's issues into a folder: goes on where it was interrupted, and later fetches what has changed."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from gedbd.corpora.clients.http import Client, check_base
from gedbd.corpora.clients.page_folder import Cursor, Page, add_page, open_state

OVERLAP = timedelta(minutes=10)  # servers of one tracker may differ by so much


class Wanted(NamedTuple):
    """What to fetch.

    Args:
        project: The project's name on the tracker.
        since: Only what changed from then on (ISO 8601, UTC); ``None``: everything.
        start: ``next`` of the last page that was kept; ``None``: from the beginning.
        place: Folder for what the tracker must keep beside its pages.
    """

    project: str
    since: str | None
    start: Cursor | None
    place: Path


class Tracker(Protocol):
    """One kind of tracker: a dataclass whose fields say where it is and what is wanted of it."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""

    @property
    def base_url(self) -> str:
        """Its address."""

    @property
    def page_size(self) -> int:
        """Records in an answer."""

    @property
    def token(self) -> str:
        """Environment variable that holds its token."""

    def secrets(self) -> Mapping[str, str]:
        """Headers that hold the token."""

    def check(self, project: str) -> None:
        """Refuses a name that no project of this tracker can have."""

    def pages(self, client: Client, wanted: Wanted) -> Iterator[Page]:
        """What is wanted, step by step."""


class Rate(ProgressColumn):
    """Records a second."""

    def render(self, task: Task) -> Text:
        """So many, or nothing while it is not known."""
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


def fetch_tracker(
    tracker: Tracker, project: str, out: Path, max_wait_s: float, make_client: Callable[..., Client] = Client
) -> str:
    """Fetch all issues into ``out``, or what has changed since they were fetched.

    Args:
        tracker: Where from, and what.
        project: The project's name on the tracker.
        out: Folder for ``pages/`` and ``state.json``.
        max_wait_s: The longest wait that the tracker's limits may ask for, in seconds.
        make_client: Makes what asks the tracker.

    Returns:
        A line that says what was fetched.

    Raises:
        ValueError: The project, the folder or the token is wrong, or the tracker does not answer as it should.
    """
    check(tracker, project, max_wait_s)
    secrets = tracker.secrets()
    state = open_state(out, identity(tracker, project))
    with progress_bar() as progress:
        client = make_client(tracker.base_url, secrets, tracker.token, max_wait_s, progress.console.print)
        bar = Bar(progress, state.issues)
        for page in tracker.pages(client, Wanted(project, state.since, state.next, out)):
            state.started = state.started or iso(client.started)
            if not page.next and not state.pages and not page.records:
                empty = f"{project} has no issue that may be seen: check project= and {tracker.token}"
                raise ValueError(f"{client.base_url}: {empty}")
            add_page(out, state, page)
            bar.advance(page)
    kind = "issues" if state.since is None else f"issues that are new or changed since {state.since}"
    return f"{out}: {state.issues:,} {kind}, {state.pages:,} pages in all; dataset.path={out / 'pages'} reads them"


def check(tracker: Tracker, project: str, max_wait_s: float) -> None:
    """Refuse what cannot be fetched before anything is asked."""
    if not max_wait_s >= 0:
        raise ValueError(f"max_wait_s={max_wait_s} must not be below 0")
    if not 1 <= tracker.page_size <= 1000:
        raise ValueError(f"tracker.page_size={tracker.page_size} must lie between 1 and 1000")
    check_base(tracker.base_url)
    tracker.check(project)


def identity(tracker: Tracker, project: str) -> dict[str, Any]:
    """What must be the same for one folder: all but the size of pages."""
    options = {key: value for key, value in vars(tracker).items() if key != "page_size"}
    return {"tracker": tracker.name, "project": project, **options, "base_url": tracker.base_url.rstrip("/")}


def iso(seconds: float | None) -> str | None:
    """A time by the server's clock, some minutes early, as trackers read it."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC) - OVERLAP:%Y-%m-%dT%H:%M:%SZ}"


def progress_bar() -> Progress:
    """Records so far, rate and time left."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    return Progress(*columns, console=console)


class Bar:
    """One line for each thing that is read one after the other; issues of an earlier attempt count as read."""

    def __init__(self, progress: Progress, issues: int) -> None:
        self._progress, self._issues = progress, issues
        self._tasks: dict[str, TaskID] = {}

    def advance(self, page: Page) -> None:
        """Shows that a page has come; totals are estimates until the last one has."""
        if page.label not in self._tasks:
            self.finish()
            had = self._issues if page.label == "issues" else 0
            self._tasks[page.label] = self._progress.add_task(page.label, total=None, completed=had)
        self._progress.update(self._tasks[page.label], advance=page.size, total=page.total)
        if page.next is None:
            self.finish()

    def finish(self) -> None:
        """Shows that all that was begun is there."""
        for task in self._progress.tasks:
            self._progress.update(task.id, total=task.completed)
