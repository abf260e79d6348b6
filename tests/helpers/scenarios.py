"""What each page of the manual needs for its commands to run in a test, and the lines that no test runs."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from string import Template
from typing import NamedTuple

import prepared_files as prepared
import yaml


class Scenario(NamedTuple):
    """How the commands of a page run.

    Attributes:
        files: Write the files that the commands read.
        before: Commands that the page takes as done.
        by_hand: By a line of the page: a command in place of what a person does before it.
        options: By the beginning of a line: options that are added to it; they replace those of the same name.
        quick: Whether the page is part of ``make integration``, not of the slow tests.
    """

    files: tuple[Callable[[Path], None], ...] = ()
    before: tuple[str, ...] = ()
    by_hand: dict[str, str] = {}
    options: dict[str, str] = {}
    quick: bool = False


def scenario_of(page: str, files: tuple[str, ...] = (), options: dict[str, str] | None = None, **more) -> Scenario:
    """A page of scenarios.yaml, with the functions that write its files and the options that its names stand for."""
    written = [partial(prepared.files_of, page) if name == "files_of" else getattr(prepared, name) for name in files]
    whole = {line: Template(words).substitute(CONTENT["options"]) for line, words in (options or {}).items()}
    return Scenario(tuple(written), options=whole, **more)


CONTENT = yaml.safe_load((Path(__file__).parent / "scenarios.yaml").read_text(encoding="utf-8"))
NOT_RUN: dict[str, list[str]] = CONTENT["not_run"]
SCENARIOS = {page: scenario_of(page, **needs) for page, needs in CONTENT["pages"].items()}
REASONS = {line: reason for reason, lines in NOT_RUN.items() for line in lines}
