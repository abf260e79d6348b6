"""Progress bars of bytes and of items, with their rates; ``-q`` shows none."""

from collections.abc import Iterable
from typing import TypeVar

from rich import progress
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from gedbd.io.console import is_quiet
from gedbd.io.plain_text import printable

T = TypeVar("T")


def track(
    sequence: Iterable[T],
    description: str,
    total: float | None = None,
    transient: bool = False,
    console: Console | None = None,
    disable: bool = False,
) -> Iterable[T]:
    """The elements of a sequence, with a progress bar; see ``rich.progress.track``."""
    hidden = disable or is_quiet()
    return progress.track(
        sequence, escape(printable(description)), total=total, transient=transient, console=console, disable=hidden
    )


def byte_progress(transient: bool = False) -> Progress:
    """A bar with the bytes done, their rate and the remaining time.

    Args:
        transient: The bar vanishes at the end, and does not appear where the output is no terminal.
    """
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console()
    disable = is_quiet() or (transient and not console.is_terminal)
    return Progress(
        TextColumn("{task.description}", markup=False), *columns, console=console, transient=transient, disable=disable
    )


def item_progress(unit: str) -> Progress:
    """A bar with the items done, their rate and the remaining time, which vanishes at the end.

    Args:
        unit: What is counted, such as ``commits``.
    """
    columns = (BarColumn(), MofNCompleteColumn(), _RateColumn(unit), TimeRemainingColumn())
    console = Console()
    disable = is_quiet() or not console.is_terminal
    return Progress(
        TextColumn("{task.description}", markup=False), *columns, console=console, transient=True, disable=disable
    )


class _RateColumn(ProgressColumn):
    """``1,234 commits/s``."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """The rate of a task; empty before its first item."""
        return Text("" if task.speed is None else f"{task.speed:,.0f} {self._unit}/s")
