"""Fixtures of all tests. The process that hands out the tests reads this file too: it imports no heavy package."""

import base64
import copy
import gc
import os
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np
    from playwright.sync_api import Browser
    from transformers import PreTrainedTokenizerBase

    from gedbd.corpora.corpus import Corpus
    from gedbd.encoders.loaded_encoder import TextEncoder


DRAW: dict[str, Callable[..., None]] = {}  # how matplotlib saves a figure
PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")
os.environ.pop("COLUMNS", None)  # pytest-xdist sets it; without it, lines are as long in every process
# A shell lets what it runs in the background ignore Ctrl-C, and so would all commands that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Imports what the tests need without garbage collections, and leaves it out of those that follow.

    What is imported lives until the end: to look through it for garbage takes a second of every ten.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Imports no file whose tests are all left out by ``-m "not slow"`` and the like: that takes seconds."""
    left_out = re.findall(r"not (\w+)", config.option.markexpr)
    if not left_out or collection_path.suffix != ".py":
        return None
    marked = re.search(r"^pytestmark = .*", collection_path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return True if marked and any(f"mark.{name}" in marked[0] for name in left_out) else None


@pytest.hookimpl(tryfirst=True)  # before cases are selected by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all but the first N cases of a test with ``@pytest.mark.quick_cases(N)`` as slow, and sorts the tests.

    Tests of whole commands, which lie in tests/ itself, come first: no long one is left to one process at the end.
    """
    folder = Path(__file__).parent
    items.sort(key=lambda item: item.path.parent != folder)
    counts: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker("quick_cases")
        if marker is None:
            continue
        test = item.nodeid.partition("[")[0]
        counts[test] += 1
        if counts[test] > marker.args[0]:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _seed() -> None:
    """The same random numbers in every test."""
    import torch

    torch.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def _resolvers() -> None:
    """What configurations compute, for tests that compose one without a command."""
    from gedbd.configuration.options import register_resolvers

    register_resolvers()


@pytest.fixture(scope="session", autouse=True)
def _composed_once() -> None:
    """Composes the same options once in a process and copies what came out: many tests begin with the same ones."""
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from omegaconf import flag_override

    compose = ConfigLoaderImpl._load_configuration_impl
    composed = {}

    def composed_before(loader: ConfigLoaderImpl, *arguments: object, **named: object) -> object:
        key = f"{loader.config_search_path} {arguments} {sorted(named.items())}"
        if key not in composed:
            composed[key] = compose(loader, *arguments, **named)  # type: ignore[arg-type]
        cfg = copy.deepcopy(composed[key])
        with flag_override(cfg, ["struct", "readonly"], False):
            cfg.hydra.runtime.cwd = os.getcwd()
        return cfg

    ConfigLoaderImpl._load_configuration_impl = composed_before  # type: ignore[assignment,method-assign]


@pytest.fixture(scope="session", autouse=True)
def _parsed_once() -> None:
    """Parses the same YAML once in a process: each composition reads about twenty files."""
    import yaml

    parse = yaml.load
    parsed = {}

    def parsed_before(stream: "str | IO[str]", Loader: type) -> object:  # noqa: N803
        text = stream if isinstance(stream, str) else stream.read()
        key = text, Loader.__qualname__
        if key not in parsed:
            parsed[key] = parse(text, Loader)
        return copy.deepcopy(parsed[key])

    yaml.load = parsed_before


@pytest.fixture(scope="session", autouse=True)
def _unflushed() -> None:
    """Flushes nothing to the disk: no test cuts the power, and each flush takes some milliseconds."""
    from gedbd.io.sqlite_file import SqliteFile

    enable = SqliteFile.enable_wal

    def enable_wal(file: SqliteFile) -> None:
        enable(file)
        file.query("PRAGMA synchronous=OFF")

    SqliteFile.enable_wal = enable_wal  # type: ignore[method-assign]
    os.fsync = lambda _: None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Lets quick tests write blank figures: drawing them takes half of the time of a small training.

    Slow tests and those that are marked with ``figures`` draw them.
    """
    from matplotlib.figure import Figure

    draw = DRAW.setdefault("savefig", Figure.savefig)
    if any(item.get_closest_marker(name) for name in ("figures", "slow", "browser")):
        if Figure.savefig is save_blank:
            Figure.savefig = draw  # type: ignore[method-assign]
    elif Figure.savefig is draw:
        Figure.savefig = save_blank  # type: ignore[method-assign]


def save_blank(figure: object, file: "str | Path | IO[bytes]", *, format: str = "png", **_: object) -> None:
    """Writes an image of one pixel, or an SVG file without content."""
    content = PIXEL if format == "png" else b"<svg></svg>"
    with nullcontext(file) if hasattr(file, "write") else open(file, "wb") as stream:
        stream.write(content)


@pytest.fixture
def hang_guard() -> Iterator[None]:
    """Fails a test that hangs, such as one whose long text takes a parser quadratic time.

    The inputs are so long that work in proportion to their length takes seconds, and work in proportion to its square
    much longer than the deadline, on a busy machine too.
    """

    def fail(*_: object) -> None:
        pytest.fail("the test did not end within 100 seconds")

    previous = signal.signal(signal.SIGALRM, fail)
    signal.alarm(100)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


@pytest.fixture
def run_command(tmp_path: Path) -> "Iterator[Callable[..., str]]":
    """Runs commands in ``tmp_path`` by name and options; each returns what it prints."""
    from run_commands import commands_in

    with commands_in(tmp_path) as run:
        yield run


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Chromium, headless. ``make browser`` installs it where it is missing."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    assert chromium, "no Chromium here: make browser installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def command() -> "Callable[..., Path]":
    """Runs the command of a module in a folder, with its caches there, and gives the folder."""

    def run(module: "ModuleType", folder: Path, *words: str) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("GEDBD_CACHE", str(folder / "cache"))
            patch.setattr(sys, "argv", ["gedbd", *words])
            module.main()
        return folder

    return run


@pytest.fixture
def make_corpus() -> "Callable[..., Corpus]":
    """Builds a corpus from group numbers and, if given, the day of 2024 on which each report was created."""
    import numpy as np
    import pandas as pd

    from gedbd.corpora.corpus import Corpus
    from gedbd.corpora.readers.bug_reports import BUG_FIELDS

    def make(group: "Sequence[int] | np.ndarray", days: Sequence[int] | None = None) -> Corpus:
        reports = pd.DataFrame("", index=range(len(group)), columns=list(BUG_FIELDS), dtype=str)
        reports["id"] = [str(1000 + row) for row in range(len(group))]
        since = pd.to_timedelta(pd.Series(days if days is not None else [None] * len(group), dtype=float), unit="D")
        reports["created_at"] = pd.Timestamp("2024-01-01", tz="UTC") + since
        return Corpus.of_table("small", reports, np.asarray(group, dtype=np.int64))

    return make


@pytest.fixture
def tiny() -> "tuple[TextEncoder, PreTrainedTokenizerBase]":
    """A tiny random encoder without dropout, and its tokenizer."""
    from gedbd.encoders.loaded_encoder import load_tiny_encoder

    encoder = load_tiny_encoder("tiny", "mean", dim=8, max_tokens=32, hidden=16, layers=1, dropout=0.0, seed=0)
    return encoder.model, encoder.tokenizer


@pytest.fixture
def same_rows() -> "Callable[[object, Path], None]":
    """Asserts that a table of a JSON document holds the rows of a CSV file."""
    import pandas as pd

    def check(rows: object, path: Path) -> None:
        written = pd.read_csv(path)
        told = pd.DataFrame(rows, columns=list(written.columns)).replace("", None)
        # A column without any value holds None in JSON, and NaN in a table.
        typed = {name: kind for name, kind in written.dtypes.items() if kind.kind == "f" or told[name].notna().any()}
        told = told.astype(typed)
        pd.testing.assert_frame_equal(told, written, check_dtype=False, rtol=1e-15)
        assert list(rows[0]) == list(written.columns)  # type: ignore[index]

    return check
