"""Console output of commands: lines, progress bars, log levels, and escaping of untrusted text.

Untrusted text, such as titles from a tracker, is escaped for terminals, logs, pages and Markdown.
"""

import logging
import os
import re
import sys
import textwrap
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from operator import length_hint
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

T = TypeVar("T")

VARIABLE = "GEDBD_VERBOSITY"
QUIET = "quiet"
VERBOSE = "verbose"
FLAGS = {"-q": QUIET, "--quiet": QUIET, "-v": VERBOSE, "--verbose": VERBOSE}
SEPARATOR = "--"  # words after it are text, not options
LOG = logging.getLogger("gedbd.stages")
UNIMPORTANT_WARNINGS = (
    r"torch\.distributed\.nn\.functional\.\w+ is deprecated",  # Lightning's all_gather calls it
    ".*does not have many workers.*",
    ".*smaller than the logging interval.*",
    ".*is_leaf.*",
    ".*sync_dist=True.*",  # metrics already cover the rows of all processes
    ".*exists and is not empty.*",
    r".*module\(s\) in eval mode at the start of training.*",  # momentum encoders stay in it
)
MIN_ANNOUNCED_ITEMS = 100
MIN_TIMED_SECONDS = 5  # of work, before it is said how long the rest takes
MIN_BAR_SECONDS = 1
MIN_UPDATE_SECONDS = 0.1
LONG_SECONDS = 60
UNWRAPPED_WIDTH = 10_000  # columns in a pipe or file, where lines do not break

# Zero-width joiners spell Persian and Indic words and emojis; next to Latin, Greek and Cyrillic letters they only hide
# text.
JOINER = re.compile("(?<=[^\0-\u058f\u2000-\u206f])[\u200c\u200d](?=[^\0-\u058f\u2000-\u206f])")

# Underscores inside words, and brackets and parentheses outside links, are not escaped.
MARKDOWN_SIGNS = re.compile(r"[\\`*~|]|(?<!\w)_|_(?!\w)|(?<=\])[(\[:]")
LINK_SIGNS = re.compile(MARKDOWN_SIGNS.pattern + r"|[\[\]]")  # in the text of a link or an image
WORDS = re.compile(r"([\s|`]+)")
# What GitHub and other Markdown renderers turn into a link even if escaped: URLs, mail addresses, user names, numbers
# of issues and advisories, commit hashes. Text between dollar signs becomes a formula.
REFERENCE = re.compile(
    r"//\S|www\.|(?:mailto|xmpp):|(?<![a-z0-9_])@[a-z0-9]|\w@[\w-]+\.\w|#\d|(?<![a-z0-9])(?:gh|ghsa|cve)-\w|\$"
    r"|(?<![a-z0-9])[0-9a-f]{7,64}(?![a-z0-9])",
    re.ASCII | re.IGNORECASE,
)
# The start of a line, before the sign that makes it a heading, a quote or a list item.
BLOCK_START = re.compile(r"^(\d{1,9})(?=[.)](?:\s|$))|^(?=#{1,6}(?:\s|$)|>|[-+=](?:[\s=-]|$))", re.ASCII)
BACKTICKS = re.compile(r"`+")
# A word with the blanks before it; or an ideograph, Kana or wide sign with the brackets and stops that must stay on its
# line.
WIDE = "\u2e80-\u3000\u3003-\u3007\u3012-\u9fff\uf900-\ufaff\uff02-\uff07\uff0a-\uff60\U0001f300-\U0003ffff"
BRACKETS = "\u3008\u300a\u300c\u300e\u3010\uff08"
STOPS = "\u3001\u3002\u3005\u3009\u300b\u300d\u300f\u3011\u30fc\uff01\uff09\uff0c\uff0e\uff1a\uff1b\uff1f"
UNBROKEN = re.compile(rf" *(?:[{BRACKETS}]*[{WIDE}{BRACKETS}][{STOPS}]*|[^ {WIDE}{BRACKETS}]+)")


def printable(text: str, keep: str = "") -> str:
    """Replaces each non-printable character by a blank, so that positions do not change.

    These are control characters, such as ESC, line breaks and tabs, the controls of bidirectional text, zero-width
    characters, and surrogates. Letters of any script stay, and so do the characters in ``keep``, such as a line feed.
    """
    if text.isprintable():
        return text
    joiners = {match.start() for match in JOINER.finditer(text)}
    return "".join(
        letter if letter.isprintable() or letter in keep or position in joiners else " "
        for position, letter in enumerate(text)
    )


def printable_line(text: str) -> str:
    """The printable text in one line, with single blanks between words."""
    return " ".join(printable(text).split())


def escape_markdown(text: str, signs: re.Pattern[str] = MARKDOWN_SIGNS) -> str:
    """Escapes a line so that Markdown shows it as is: no HTML, link, image, heading, list, emphasis or table cell.

    Words that GitHub would turn into a reference, such as ``@ann`` and ``#12``, become code: they notify nobody and
    close no issue.

    Args:
        text: The text; line breaks become blanks.
        signs: The characters that are escaped outside code.
    """
    # Words end at backticks, so that code does not extend beyond its word.
    parts = WORDS.split(printable_line(text))
    for number, part in enumerate(parts):
        escaped = signs.sub(r"\\\g<0>", part).replace("&", "&amp;").replace("<", "&lt;")
        parts[number] = f"`{part}`" if REFERENCE.search(part) else escaped
    return BLOCK_START.sub(r"\1\\", "".join(parts))


def code_block(text: str, language: str = "") -> str:
    """A text as a block of code in Markdown."""
    # The fence is longer than any in the text, which would end the block.
    fence = "`" * max(3, 1 + max(map(len, BACKTICKS.findall(text)), default=0))
    return f"{fence}{language}\n{printable(text, keep=chr(10))}\n{fence}"


@cache
def say_once(line: str) -> None:
    """Prints a line unless this process has printed it before."""
    print_line(open_console(), line)


def is_first_process() -> bool:
    """Whether this is the first of the processes that torchrun, SLURM, Lightning or ``NODE_RANK=`` started."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"))


def open_console(quiet: bool = False, stderr: bool = False) -> "Console":
    """Opens a console as wide as the terminal; in a pipe or a file it breaks no lines, unless ``COLUMNS`` is set."""
    from rich.console import Console

    console = Console(quiet=quiet, stderr=stderr)
    if not (console.is_terminal or os.environ.get("COLUMNS", "").isdigit()):
        console.width = UNWRAPPED_WIDTH
    return console


def print_line(console: "Console", line: str, style: str | None = None) -> None:
    """Prints a result or a warning, wrapped between words where the width is known."""
    for part in line.split("\n"):
        print_hanging(console, "", part, style)


def print_hanging(console: "Console", start: str, text: str, style: str | None = None) -> None:
    """Prints a text with a hanging indent.

    Args:
        console: The console.
        start: Printed before the first line, such as ``"  title  "``; further lines are indented by its width.
        text: The text, wrapped between words; a word that is longer than a line stays whole.
        style: A style of rich.
    """
    from rich.cells import cell_len

    text = printable(text)
    indent = cell_len(start)
    lines = [text]
    if console.width < UNWRAPPED_WIDTH:
        lines = wrap_cells(text, max(console.width - indent, 1)) or [""]
    block = start + f"\n{' ' * indent}".join(lines)
    console.print(block, style=style, markup=False, highlight=False, soft_wrap=True)


def wrap_cells(text: str, width: int) -> list[str]:
    """Wraps a text to ``width`` terminal columns, between words; a longer word stays whole.

    A wide character, such as an ideograph, takes two columns, and a line may break next to it.
    """
    from rich.cells import cell_len

    if cell_len(text) <= width:
        return [text] if text else []
    if text.isascii():
        return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    lines = [""]
    for part in UNBROKEN.findall(text):
        if lines[-1] and cell_len(lines[-1] + part.rstrip()) > width:
            lines.append("")
            part = part.lstrip()
        lines[-1] += part
    return [line.rstrip() for line in lines]


def cut_cells(text: str, width: int) -> str:
    """Cuts a text to at most ``width`` terminal columns and as many characters."""
    from rich.cells import cell_len, set_cell_size

    text = text[:width]
    return text if cell_len(text) <= width else set_cell_size(text, width).rstrip()


def print_help(text: str) -> None:
    """Prints a long text to standard output, and ignores a closed pipe, such as that of ``head``."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Python flushes standard output again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_path(console: "Console", line: str, path: object) -> None:
    """Prints a line and a path, which goes on a line of its own if both are wider than the terminal."""
    path_text = printable(str(path))
    separator = "\n  " if len(line) + 1 + len(path_text) > console.width else " "
    console.print(f"{printable(line)}{separator}{path_text}", markup=False, highlight=False, soft_wrap=True)


def print_next_step(console: "Console", sentence: str, command: str) -> None:
    """Prints the next step for the user: a sentence after "Next:", and the command below it."""
    print_line(console, f"Next: {sentence[:1].lower()}{sentence[1:]}")
    print_path(console, " ", command)


def duration(seconds: float) -> str:
    """A duration in seconds, minutes or hours: ``45 s``, ``12 min``, ``3.5 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 10_800 else f"{seconds / 3600:.1f} h"


def print_detail(console: "Console", line: str) -> None:
    """Prints a line about progress, unless ``-q`` is given."""
    if not is_quiet():
        print_line(console, line)


def take_flags(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """Removes ``-q`` and ``-v`` from a command line, and returns the rest and the level, None without a flag.

    Words after ``--`` are text and stay.

    Raises:
        ValueError: If both are given.
    """
    words = list(arguments)
    end = words.index(SEPARATOR) if SEPARATOR in words else len(words)
    levels = {FLAGS[word] for word in words[:end] if word in FLAGS}
    if len(levels) > 1:
        raise ValueError("-q prints less and -v prints more: give one of them")
    rest = [word for word in words[:end] if word not in FLAGS] + words[end:]
    return rest, next(iter(levels), None)


def is_quiet() -> bool:
    """Whether only results, warnings and errors are printed."""
    return os.environ.get(VARIABLE) == QUIET


def is_verbose() -> bool:
    """Whether log lines are printed, including those of libraries."""
    return os.environ.get(VARIABLE) == VERBOSE


@contextmanager
def verbosity(level: str | None) -> Iterator[None]:
    """Sets the level while a command runs, and makes log messages safe for the terminal.

    Args:
        level: ``quiet`` or ``verbose``; None keeps that of the environment.
    """
    previous_level = os.environ.get(VARIABLE)
    factory = logging.getLogRecordFactory()
    if level is not None:
        os.environ[VARIABLE] = level
    logging.setLogRecordFactory(_Record)
    try:
        with _log_lines():
            yield
    finally:
        logging.setLogRecordFactory(factory)
        if previous_level is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = previous_level


def announce(line: str) -> None:
    """Prints to standard error that long work begins, if the output is not a terminal, which shows a progress bar."""
    if not (is_quiet() or open_console().is_terminal) and is_first_process():
        print_line(open_console(stderr=True), line)


@contextmanager
def stage(name: str, is_long: bool = False) -> Iterator[None]:
    """Logs the start and the duration of a stage of a command; ``-v`` prints them.

    Args:
        name: Name of the stage.
        is_long: Whether it takes minutes without a progress bar, so that its start is announced.
    """
    if is_long:
        announce(f"{name} ...")
    started = time.perf_counter()
    LOG.debug("%s ...", name)
    yield
    LOG.debug("%s: %.2f s", name, time.perf_counter() - started)


class _Record(logging.LogRecord):
    """A log record without control characters: messages quote untrusted ids, titles and file names."""

    def getMessage(self) -> str:  # noqa: N802, the name of the standard library
        return printable(super().getMessage(), keep="" if self.name.startswith("gedbd") else "\n")


@contextmanager
def _log_lines() -> Iterator[None]:
    """With ``-v``, prints to standard error all log lines of gedbd, and those of libraries from INFO on."""
    if not is_verbose():
        yield
        return
    root = logging.getLogger()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    package_log = logging.getLogger("gedbd")
    levels = (root.level, package_log.level)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    package_log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        package_log.setLevel(levels[1])


def silence_library_logs() -> None:
    """Hides progress bars of loading weights, lists of devices, and advice on workers; ``-v`` shows them."""
    if is_verbose():
        return
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    for message in UNIMPORTANT_WARNINGS:
        warnings.filterwarnings("ignore", message=message)


class Pace:
    """Says on standard error how long work takes.

    Once some batches are timed, a line says how long all will take if that is over a minute. Where there is no
    terminal, a line a minute says how much is done, how fast, and how long the rest takes.

    Args:
        name: What is done.
        unit: Name of the items, such as ``reports``; empty for items without a name.
        total: Number of items; None if unknown.
        once: Whether the result is cached, so that the next run does not wait.
        is_known: Whether the length has been said already.

    Attributes:
        state: How much is done, how fast, and how long the rest takes.
    """

    def __init__(self, name: str, unit: str, total: float | None, once: bool = False, is_known: bool = False) -> None:
        self.name = name
        self.unit = unit
        self.total = total
        self.once = once
        self.is_known = is_known
        self.state = ""
        self._first: tuple[float, float, float] | None = None  # time, items and share
        self._last_line = 0.0

    def update(self, done: float, share: float | None = None) -> None:
        """Takes the number of items that are done, and their share of the work unless all items take equally long."""
        now = time.monotonic()
        if share is None:
            share = done / self.total if self.total else 0.0
        if self._first is None:
            self._first = (now, done, share)  # the first batch is not timed, as it also loads and compiles
            self._last_line = now
        began, done_before, share_before = self._first
        seconds = now - began
        self.state = f"{done:,.0f}{f' of {self.total:,.0f}' if self.total else ''} {self.unit}"
        if not self.unit:
            self.state = f"{share:.0%}"
        if self.unit and seconds:
            rate = (done - done_before) / seconds
            self.state += f", {rate:,.{0 if rate >= 10 else 2}f}/s"
        if seconds >= MIN_TIMED_SECONDS and share_before < share < 1:
            left = (1 - share) * seconds / (share - share_before)
            self.state += f", {duration(left)} left"
            if not self.is_known and seconds + left > LONG_SECONDS:
                size = f" {self.total:,.0f} {self.unit}," if self.unit else ""
                self._say(f"{self.name}:{size} about {duration(seconds + left)}{', once' if self.once else ''}")
            self.is_known = True
        if now - self._last_line >= LONG_SECONDS and share < 1 and not open_console().is_terminal:
            self._say(f"{self.name}: {self.state}")

    def _say(self, line: str) -> None:
        self._last_line = time.monotonic()
        if is_first_process() and not is_quiet():
            print_line(open_console(stderr=True), line)


def track(sequence: Iterable[T], description: str, total: float | None = None, unit: str = "") -> Iterator[T]:
    """Iterates with a progress bar, which appears after ``MIN_BAR_SECONDS``; see ``item_progress``."""
    total = total or length_hint(sequence) or None
    if total == 1:
        yield from sequence
        return
    progress = item_progress(unit)
    task = progress.add_task(description, total=total)
    began = updated = time.monotonic()
    with ExitStack() as shown:
        for done, item in enumerate(sequence, start=1):
            yield item
            now = time.monotonic()
            if now - updated < MIN_UPDATE_SECONDS:
                continue
            progress.update(task, completed=done)
            if updated - began < MIN_BAR_SECONDS <= now - began and not progress.disable:
                shown.enter_context(progress)
            updated = now


def item_progress(unit: str, transient: bool = True, disable: bool = False) -> "Progress":
    """A progress bar of items, with the ``state`` of a ``Pace``; outside terminals, lines instead.

    A line announces tasks of at least ``MIN_ANNOUNCED_ITEMS`` and those of unknown size, unless the items have no name.
    The fields ``once`` of a new task and ``share`` of an update are those of ``Pace``.

    Args:
        unit: Name of the items, such as ``commits``; empty for items without a name.
        transient: The bar vanishes at the end.
        disable: Shows nothing.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    class PacedProgress(Progress):
        """A progress display that announces its tasks and says how long they take."""

        def add_task(self, description: str, *arguments: Any, once: bool = False, **options: Any) -> "TaskID":
            total = options.get("total", 100.0)
            if unit and not disable and (total is None or total >= MIN_ANNOUNCED_ITEMS):
                announce(f"{description}{f': {total:,.0f} {unit}' if total else ''} ...")
            pace = Pace(printable(description), unit, total, once)
            return super().add_task(description, *arguments, pace=pace, **options)

        def update(self, task_id: "TaskID", **changes: Any) -> None:
            super().update(task_id, **changes)
            self._tell(task_id, changes.get("share"))

        def advance(self, task_id: "TaskID", advance: float = 1) -> None:
            super().advance(task_id, advance)
            self._tell(task_id)

        def _tell(self, task_id: "TaskID", share: float | None = None) -> None:
            task = self._tasks[task_id]
            if not disable:
                task.fields["pace"].total = task.total
                task.fields["pace"].update(task.completed, share)

    columns = (
        TextColumn("{task.fields[pace].name}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[pace].state}", markup=False),
    )
    console = Console()
    hidden = disable or is_quiet() or not is_first_process() or (transient and not console.is_terminal)
    return PacedProgress(*columns, console=console, transient=transient, disable=hidden)


def first_line(error: BaseException | None) -> str:
    """The first line of an error's message."""
    return str(error).strip().partition("\n")[0]
