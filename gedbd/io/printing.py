"""Lines that a command prints: never cut within a word, and some only once or only without ``-q``."""

import os
import sys
import textwrap
from functools import cache
from typing import TYPE_CHECKING

from gedbd.io.plain_text import printable
from gedbd.io.verbosity import is_quiet

if TYPE_CHECKING:
    from rich.console import Console

UNWRAPPED_WIDTH = 10_000  # columns where the output is no terminal: programs read lines


@cache
def say_once(line: str) -> None:
    """Prints a line unless this process has printed it before."""
    print_line(open_console(), line)


def is_first_process() -> bool:
    """Whether this is the first of the processes that torchrun, SLURM or Lightning started."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))


def open_console(quiet: bool = False, stderr: bool = False) -> "Console":
    """The console of a command: as wide as the terminal, and without line breaks of its own in a pipe or a file.

    The environment variable ``COLUMNS`` sets another width.

    Args:
        quiet: Print nothing.
        stderr: Print on standard error.
    """
    from rich.console import Console

    console = Console(quiet=quiet, stderr=stderr)
    if not (console.is_terminal or os.environ.get("COLUMNS", "").isdigit()):
        console.width = UNWRAPPED_WIDTH
    return console


def print_line(console: "Console", line: str, style: str | None = None) -> None:
    """Prints a result or a warning; where the width is known, lines break between words, and a long path stays whole.

    Args:
        console: Where the line goes.
        line: Plain text, also of several lines: brackets and numbers have no meaning.
        style: Colour and weight of the line, such as ``bold red``.
    """
    line = printable(line, keep="\n")
    if console.width < min(len(line), UNWRAPPED_WIDTH):
        line = "\n".join(_wrapped(part, console.width) for part in line.split("\n"))
    console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


def print_help(text: str) -> None:
    """Prints a long text to standard output; a reader that closes it early, such as ``head``, is no error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Python flushes standard output again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_path(console: "Console", line: str, path: object) -> None:
    """Prints a line that ends with a path: below the line if both together are wider than the terminal."""
    shown = printable(str(path))
    separator = "\n  " if len(line) + 1 + len(shown) > console.width else " "
    console.print(f"{printable(line)}{separator}{shown}", markup=False, highlight=False, soft_wrap=True)


def print_next_step(console: "Console", sentence: str, command: str) -> None:
    """Prints what to do next: a sentence after "Next:", and the command below it."""
    print_line(console, f"Next: {sentence[:1].lower()}{sentence[1:]}")
    print_path(console, " ", command)


def print_about(console: "Console", subject: str, line: str) -> None:
    """Prints a line about something that is named before it, such as a warning about a corpus."""
    print_line(console, f"{subject}: {line}")


def print_detail(console: "Console", line: str) -> None:
    """Prints a line about the progress of the work, which ``-q`` leaves out."""
    if not is_quiet():
        print_line(console, line)


def _wrapped(line: str, width: int) -> str:
    """A line in pieces that fit a width; a word that is longer stays whole."""
    return "\n".join(textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False))
