"""How much a command prints: the flags ``-q`` and ``-v``, log lines on standard error, and the times of stages.

The level is kept in an environment variable, which the further processes of a distributed run and of a sweep inherit.
"""

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from gedbd.io.plain_text import printable

VARIABLE = "GEDBD_VERBOSITY"
QUIET = "quiet"
VERBOSE = "verbose"
FLAGS = {"-q": QUIET, "--quiet": QUIET, "-v": VERBOSE, "--verbose": VERBOSE}
SEPARATOR = "--"  # what follows is text
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LOG = logging.getLogger("gedbd.stages")


def take_flags(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """A command line without ``-q`` and ``-v``, and the level that they ask for, None without one.

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
    """Whether log lines are printed, of libraries too."""
    return os.environ.get(VARIABLE) == VERBOSE


@contextmanager
def verbosity(level: str | None) -> Iterator[None]:
    """Sets the level while a command runs, and makes log messages safe for the terminal.

    Args:
        level: ``quiet`` or ``verbose``; None for that of the environment.
    """
    before = os.environ.get(VARIABLE)
    factory = logging.getLogRecordFactory()
    if level is not None:
        os.environ[VARIABLE] = level
    logging.setLogRecordFactory(_Record)
    try:
        with _log_lines():
            yield
    finally:
        logging.setLogRecordFactory(factory)
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Logs the beginning of a part of a command's work and how long it took; with ``-v`` the lines are printed."""
    started = time.perf_counter()
    LOG.debug("%s ...", name)
    yield
    LOG.debug("%s: %.2f s", name, time.perf_counter() - started)


class _Record(logging.LogRecord):
    """A log record of one line that steers no terminal: messages quote ids, titles and file names of others."""

    def getMessage(self) -> str:  # noqa: N802, the name of the standard library
        return printable(super().getMessage(), keep="" if self.name.startswith("gedbd") else "\n")


class _LogLines(logging.StreamHandler[TextIO]):
    """The handler of ``-v``, a class of its own to be found among others."""


@contextmanager
def _log_lines() -> Iterator[None]:
    """Prints log lines on standard error: all of gedbd's, and those of libraries from INFO on.

    Only with ``-v``: otherwise Python prints warnings and errors alone.
    """
    root = logging.getLogger()
    if not is_verbose() or any(isinstance(one, _LogLines) for one in root.handlers):
        yield
        return
    handler = _LogLines(sys.stderr)
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    own = logging.getLogger("gedbd")
    levels = (root.level, own.level)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    own.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        own.setLevel(levels[1])
