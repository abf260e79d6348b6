"""Fetch a tracker's issues into a folder; continue an interrupted fetch, and later fetch only what changed."""

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
from gedbd.corpora.clients.page_folder import Cursor, Page, add_page, make_folder, open_state
from gedbd.io.locks import only_writer
from gedbd.io.verbosity import is_quiet

OVERLAP = timedelta(minutes=10)  # the clocks of a tracker's servers may differ by this much


class Wanted(NamedTuple):
    """What to fetch.

    Args:
        project: The project's name on the tracker.
        since: Fetch only what changed since then (ISO 8601, UTC); ``None`` fetches everything.
        start: ``next`` of the last page that was written; ``None`` starts at the beginning.
        folder: Folder for files that the client keeps in addition to the pages.
    """

    project: str
    since: str | None
    start: Cursor | None
    folder: Path


class Tracker(Protocol):
    """A kind of tracker: a dataclass whose fields say where it is and what to fetch from it."""

    @property
    def name(self) -> str:
        """Its name on the command line."""

    @property
    def base_url(self) -> str:
        """Its address."""

    @property
    def page_size(self) -> int:
        """Number of records per response."""

    @property
    def token(self) -> str:
        """The environment variable that holds its token."""

    def secrets(self) -> Mapping[str, str]:
        """The headers that hold the token."""

    def check(self, project: str) -> None:
        """Refuse a name that no project of this tracker can have."""

    def pages(self, client: Client, wanted: Wanted) -> Iterator[Page]:
        """Yield what is wanted, page by page."""


class Rate(ProgressColumn):
    """Records per second."""

    def render(self, task: Task) -> Text:
        """The rate, or nothing while it is unknown."""
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


def fetch_tracker(
    tracker: Tracker, project: str, out: Path, max_wait_s: float, make_client: Callable[..., Client] = Client
) -> str:
    """Fetch all issues into ``out``, or those that changed since the last fetch.

    Args:
        tracker: The tracker, and what to fetch from it.
        project: The project's name on the tracker.
        out: Folder for ``pages/`` and ``state.json``.
        max_wait_s: The longest accepted wait for a rate limit, in seconds.
        make_client: Creates the HTTP client.

    Returns:
        One line that says what was fetched.

    Raises:
        ValueError: The project, the folder or the token is wrong, or the tracker's response is not the expected one.
    """
    check(tracker, project, max_wait_s)
    secrets = tracker.secrets()
    make_folder(out)
    with only_writer(out), progress_bar() as progress:
        state = open_state(out, identity(tracker, project))
        client = make_client(tracker.base_url, secrets, tracker.token, max_wait_s, progress.console.print)
        bar = Bar(progress, state.issues)
        for page in tracker.pages(client, Wanted(project, state.since, state.next, out)):
            # The next fetch asks for changes since this one began: what changes during it must not be missed.
            state.started = state.started or iso(client.started)
            if not page.next and not state.pages and not page.records:
                empty = f"{project} has no visible issues: check project= and {tracker.token}"
                raise ValueError(f"{client.base_url}: {empty}")
            add_page(out, state, page)
            bar.advance(page)
    kind = "issues" if state.since is None else f"new or changed issues since {state.since}"
    twice = (
        f" ({client.repeated:,} records came again, as the list changed: the last counts)" if client.repeated else ""
    )
    return (
        f"{out}: {state.issues:,} {kind}{twice}, {state.pages:,} pages in all; dataset.path={out / 'pages'} reads them"
    )


def check(tracker: Tracker, project: str, max_wait_s: float) -> None:
    """Refuse bad options before the first request."""
    if not max_wait_s >= 0:
        raise ValueError(f"max_wait_s={max_wait_s} must not be below 0")
    if not 1 <= tracker.page_size <= 1000:
        raise ValueError(f"tracker.page_size={tracker.page_size} must be between 1 and 1000")
    check_base(tracker.base_url)
    tracker.check(project)


def identity(tracker: Tracker, project: str) -> dict[str, Any]:
    """The options that must be the same for all fetches into one folder: all except the page size."""
    # Pages of different sizes hold the same issues.
    options = {key: value for key, value in vars(tracker).items() if key != "page_size"}
    return {"tracker": tracker.name, "project": project, **options, "base_url": tracker.base_url.rstrip("/")}


def iso(seconds: float | None) -> str | None:
    """A time of the server's clock in ISO 8601, moved back by ``OVERLAP``."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC) - OVERLAP:%Y-%m-%dT%H:%M:%SZ}"


def progress_bar() -> Progress:
    """A bar with the number of records, their rate and the remaining time."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=is_quiet())


class Bar:
    """One line per list of records; issues of an interrupted fetch count as read."""

    def __init__(self, progress: Progress, issues: int) -> None:
        self._progress = progress
        self._issues = issues
        self._tasks: dict[str, TaskID] = {}

    def advance(self, page: Page) -> None:
        """Show that a page arrived; totals are estimates until the last page."""
        if page.label not in self._tasks:
            self.finish()
            had = self._issues if page.label == "issues" else 0
            self._tasks[page.label] = self._progress.add_task(page.label, total=None, completed=had)
        self._progress.update(self._tasks[page.label], advance=page.size, total=page.total)
        if page.next is None:
            self.finish()

    def finish(self) -> None:
        """Show all lines as complete."""
        for task in self._progress.tasks:
            self._progress.update(task.id, total=task.completed)
