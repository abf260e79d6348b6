"""What all functions of the API share: a command's options, errors of one line, and random numbers of their own."""

import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from gedbd.configuration.command_words import quoted_text
from gedbd.configuration.errors import error_line
from gedbd.configuration.option_types import written_value
from gedbd.configuration.options import compose_options
from gedbd.io.locations import CONF_DIR

Options = Sequence[str] | Mapping[str, Any]
NAME = re.compile(r"(?!(?:null|true|false|nan|inf)$)[a-z_][\w/.-]*", re.IGNORECASE)  # what Hydra reads as text
SEED_VARIABLE = "PL_GLOBAL_SEED"  # Lightning's seed_everything sets it


def command_options(command: str, words: Sequence[str], cache_dir: str | Path | None = None) -> DictConfig:
    """The options of a command, as its command line would compose and check them.

    Args:
        command: Name of its file in ``conf/``.
        words: Options, such as ``encoder=tiny``.
        cache_dir: Replaces the command's folder of known vectors; None keeps it.

    Raises:
        ValueError: If an option is unknown, or its value does not fit.
    """
    cfg = compose_options(command, words)
    if cache_dir is not None:
        cfg.cache_dir = str(cache_dir)
    return cfg


def option_words(options: Options) -> list[str]:
    """Options as on the command line, from such words or from a dictionary.

    ``{"split.test_from": 0.7, "ranking": {"top_k": [1, 5]}}`` gives ``split.test_from=0.7`` and
    ``ranking.top_k=[1,5]``.
    """
    if isinstance(options, str):
        return [options]
    if not isinstance(options, Mapping):
        return list(options)
    words = []
    for name, value in options.items():
        if isinstance(value, Mapping):
            words += [f"{name}.{word}" for word in option_words(value)]
        else:
            words.append(f"{name}={_written(value)}")
    return words


def _written(value: Any) -> str:
    """A value as Hydra reads it: text stays text, also if it looks like a number."""
    if value is None or isinstance(value, bool | int | float):
        return written_value(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_written, value))}]"
    text = str(value)
    return text if NAME.fullmatch(text) else quoted_text(text)


def default_cache_dir() -> str:
    """The folder in which commands keep known vectors."""
    return str(command_options("search", ["index=."]).cache_dir)


def choices(group: str) -> list[str]:
    """The names of a group's files in ``conf/``, in alphabetical order."""
    return sorted(file.stem for file in (Path(CONF_DIR) / group).glob("*.yaml"))


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turns the errors that a command reports in one line into a ValueError with that line; an OSError stays."""
    from gedbd.io.sqlite_file import StoreUnavailable

    try:
        yield
    except (HydraException, OmegaConfBaseException, StoreUnavailable) as error:
        line = error_line(error, {})
        if line is None:
            raise
        raise ValueError(line) from error


class _StandardError:
    """Sends what is printed to standard error, until the last of the calls that asked for it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = 0
        self._usual = sys.stdout

    def __enter__(self) -> None:
        with self._lock:
            if self._calls == 0:
                self._usual = sys.stdout
                sys.stdout = sys.stderr
            self._calls += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._calls -= 1
            if self._calls == 0:
                sys.stdout = self._usual


STANDARD_ERROR = _StandardError()


@contextmanager
def long_call() -> Iterator[None]:
    """``plain_errors`` for a call that shows progress: bars and messages go to standard error."""
    # Not contextlib.redirect_stdout: of two threads, the one that ends later would restore what the other had set.
    with STANDARD_ERROR, plain_errors():
        yield


@contextmanager
def own_random_numbers(seed: int) -> Iterator[None]:
    """Seeds all random numbers as commands do; afterwards, the caller's are as they were."""
    from pytorch_lightning import seed_everything
    from pytorch_lightning.utilities.seed import isolate_rng

    before = os.environ.get(SEED_VARIABLE)
    with isolate_rng():
        try:
            seed_everything(seed, verbose=False)
            yield
        finally:
            os.environ.pop(SEED_VARIABLE, None)
            if before is not None:
                os.environ[SEED_VARIABLE] = before
