"""Helpers of the API: words of options, one-line errors, and isolated random numbers."""

import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from gedbd.configuration.command_words import quoted_text
from gedbd.configuration.errors import error_line
from gedbd.configuration.option_types import written_value
from gedbd.configuration.options import compose_options
from gedbd.io.files import CONF_DIR

Options = Sequence[str] | Mapping[str, Any]
NAME = re.compile(r"(?!(?:null|true|false|nan|inf)$)[a-z_][\w/.-]*", re.IGNORECASE)  # what Hydra reads as text
SEED_VARIABLE = "PL_GLOBAL_SEED"  # Lightning's seed_everything sets it


def option_words(options: Options) -> list[str]:
    """Converts options, given as words or as a dictionary, to words of a command line.

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
    """A value in Hydra's syntax; text stays text, even if it looks like a number."""
    if value is None or isinstance(value, bool | int | float):
        return written_value(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_written, value))}]"
    text = str(value)
    return text if NAME.fullmatch(text) else quoted_text(text)


def default_cache_dir() -> str:
    """The folder where commands cache vectors."""
    return str(compose_options("search", ["index=."]).cache_dir)


def choices(group: str) -> list[str]:
    """The sorted names of the files of a config group in ``conf/``."""
    return sorted(file.stem for file in (Path(CONF_DIR) / group).glob("*.yaml"))


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turns errors that commands report in one line into a ValueError with that line, except OSError."""
    from gedbd.io.sqlite_file import StoreUnavailable

    try:
        yield
    except (HydraException, OmegaConfBaseException, StoreUnavailable) as error:
        line = error_line(error, {})
        if line is None:
            raise
        raise ValueError(line) from error


class _StdoutRedirection:
    """Redirects standard output to standard error, until the last of several concurrent calls ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = 0
        self._stdout = sys.stdout

    def __enter__(self) -> None:
        with self._lock:
            if self._calls == 0:
                self._stdout = sys.stdout
                sys.stdout = sys.stderr
            self._calls += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._calls -= 1
            if self._calls == 0:
                sys.stdout = self._stdout


STANDARD_ERROR = _StdoutRedirection()


@contextmanager
def long_call() -> Iterator[None]:
    """``plain_errors``, with progress bars and messages on standard error."""
    # Not contextlib.redirect_stdout, which does not restore standard output after overlapping calls in threads.
    with STANDARD_ERROR, plain_errors():
        yield


@contextmanager
def own_random_numbers(seed: int) -> Iterator[None]:
    """Seeds all random numbers as commands do, and restores the caller's state afterwards."""
    from pytorch_lightning import seed_everything
    from pytorch_lightning.utilities.seed import isolate_rng

    previous_seed = os.environ.get(SEED_VARIABLE)
    with isolate_rng():
        try:
            seed_everything(seed, verbose=False)
            yield
        finally:
            os.environ.pop(SEED_VARIABLE, None)
            if previous_seed is not None:
                os.environ[SEED_VARIABLE] = previous_seed
