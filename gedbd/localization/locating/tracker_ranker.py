"""The ranker that a backtest on a tracker's own history leaves, with the fixed reports that it reads."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pandas as pd

from gedbd.localization.change_ranking.change_history import ChangeHistory
from gedbd.localization.change_ranking.change_ranker import ChangeRanker
from gedbd.localization.change_ranking.known_fixes import KnownFix, KnownFixes
from gedbd.localization.locating.backtesting.locating_tables import HIT_RATE, read_hit_rate

FIXES = "fixes.json"
RANKER = "ranker.json"
FORMAT = 2  # of the fixed reports
NOT_MEASURED = "How often it is right was not measured on this tracker: run gedbd locate-backtest."
# The shares are those of all reports in gedbd/localization/change_ranking/default_ranker.md.
DEFAULT_MEASURED = (
    "The default ranker was not measured on this tracker (run gedbd locate-backtest); on two others, a fixed file was"
    " among the first 10 for 61% and 78% of the reports."
)
T = TypeVar("T")


class TrackerRanker:
    """A ranker with the fixed reports of its tracker.

    Args:
        ranker: Scores commits.
        fixes: The fixed reports; a query reads those that were known before it.
        statement: What a backtest measured about files and commits, in words.
    """

    def __init__(self, ranker: ChangeRanker, fixes: Sequence[KnownFix] = (), statement: str = NOT_MEASURED) -> None:
        self.ranker = ranker
        self.fixes = fixes
        self.statement = statement
        self._bound: tuple[ChangeHistory, KnownFixes] | None = None

    @classmethod
    def read(cls, folder: Path) -> "TrackerRanker":
        """The ranker in the folder of a backtest.

        Raises:
            ValueError: If it is no finished backtest, or the ranker or its figure is damaged.
        """
        if not (folder / RANKER).is_file():
            raise ValueError(f"{folder} has no {RANKER}: give a folder written by gedbd locate-backtest")
        ranker = _read(folder / RANKER, ChangeRanker.from_text)
        fixes = _read(folder / FIXES, read_fixes)
        measured = (folder / HIT_RATE).is_file()
        return cls(ranker, fixes, read_hit_rate(folder).statements if measured else NOT_MEASURED)

    def known_fixes(self, history: ChangeHistory) -> KnownFixes:
        """The fixed reports with the commits of a history."""
        bound = self._bound  # read once: another thread may replace it
        if bound is None or bound[0] is not history:
            bound = (history, KnownFixes(history, self.fixes))
            self._bound = bound
        return bound[1]

    def is_of(self, history: ChangeHistory) -> bool:
        """Whether a fixed report names a commit of a history, or there are none."""
        named = {id_ for fix in self.fixes for id_ in fix.fixing}
        return not named or not named.isdisjoint(history.ids)


def _read(file: Path, parse: Callable[[str], T]) -> T:
    """What a file holds. Raises ValueError, naming the file, if it is missing or damaged."""
    if not file.is_file():
        raise ValueError(f"{file} is missing: run gedbd locate-backtest again")
    try:
        return parse(file.read_text(encoding="utf-8"))
    except ValueError as error:  # a UnicodeDecodeError is one too
        raise ValueError(f"{file} is damaged ({error}): run gedbd locate-backtest again") from error


def fixes_as_json(fixes: Sequence[KnownFix]) -> str:
    """Fixed reports as text, to store them."""
    rows = [{**fix._asdict(), "known_at": fix.known_at.isoformat()} for fix in fixes]
    return json.dumps({"format": FORMAT, "fixes": rows}) + "\n"


def read_fixes(text: str) -> list[KnownFix]:
    """The fixed reports that ``fixes_as_json`` was called with.

    Raises:
        ValueError: If the text is damaged.
    """
    try:
        stored = json.loads(text)
        if stored["format"] != FORMAT:
            raise ValueError(f"not of format {FORMAT}")
        return [_fix(**row) for row in stored["fixes"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no list of fixed reports: {error}") from error


def _fix(title: str, description: str, known_at: str, fixing: list[str]) -> KnownFix:
    for value in (title, description, *fixing):
        if not isinstance(value, str):
            raise TypeError("a text is missing")
    moment = pd.Timestamp(known_at)
    if moment.tzinfo is None:
        raise ValueError("a date has no time zone")
    return KnownFix(title, description, moment, tuple(fixing))
