"""The ranker that a backtest on a tracker's own history leaves."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from gedbd.retrieval.changes.change_ranker import ChangeRanker
from gedbd.triage.locating.backtesting.locating_tables import HIT_RATE, read_hit_rate
from gedbd.triage.locating.reports import FIXES, TrackerRanker, read_fixes

NOT_MEASURED = "How often it is right was not measured on this tracker: run gedbd locate-backtest."
RANKER = "ranker.json"
T = TypeVar("T")


class TrainedRanker(NamedTuple):
    """A ranker and what it is worth.

    Attributes:
        ranker: Scores commits; reads the fixed reports of the tracker.
        statement: What the backtest measured, in words.
    """

    ranker: TrackerRanker
    statement: str


def read_trained(folder: Path) -> TrainedRanker:
    """The ranker in the folder of a backtest.

    Raises:
        ValueError: If it is no finished backtest, or the ranker or its figure is damaged.
    """
    file = folder / RANKER
    if not file.is_file():
        raise ValueError(f"{folder} has no {RANKER}: give a folder written by gedbd locate-backtest")
    ranker = _read(file, ChangeRanker.from_text)
    known = _read(folder / FIXES, read_fixes)
    measured = (folder / HIT_RATE).is_file()
    return TrainedRanker(TrackerRanker(ranker, known), read_hit_rate(folder).statement if measured else NOT_MEASURED)


def _read(file: Path, parse: Callable[[str], T]) -> T:
    """What a file holds.

    Raises:
        ValueError: If it is missing or damaged.
    """
    if not file.is_file():
        raise ValueError(f"{file} is missing: run gedbd locate-backtest again")
    try:
        return parse(file.read_text(encoding="utf-8"))
    except ValueError as error:  # a UnicodeDecodeError is one too
        raise ValueError(f"{file} is damaged ({error}): run gedbd locate-backtest again") from error
