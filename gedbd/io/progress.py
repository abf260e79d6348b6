"""A progress bar of bytes."""

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn


def byte_progress(transient: bool = False) -> Progress:
    """A bar with the bytes done, their rate and the remaining time.

    Args:
        transient: The bar vanishes at the end, and does not appear where the output is no terminal.
    """
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console()
    disable = transient and not console.is_terminal
    return Progress(TextColumn("{task.description}"), *columns, console=console, transient=transient, disable=disable)
