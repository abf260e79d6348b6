"""The ranker that a backtest on a tracker's own history leaves."""

from pathlib import Path
from typing import NamedTuple

from gedbd.retrieval.changes.ranker import ChangeRanker
from gedbd.triage.locating.backtesting.hit_rate import HIT_RATE, read_hit_rate

NOT_MEASURED = "How often it is right was not measured on this tracker: gedbd locate-backtest tells."
RANKER = "ranker.json"


class TrainedRanker(NamedTuple):
    """A ranker and what it is worth.

    Attributes:
        ranker: Scores commits.
        statement: What the backtest measured, in words.
    """

    ranker: ChangeRanker
    statement: str


def read_trained(folder: Path) -> TrainedRanker:
    """The ranker in the folder of a backtest.

    Raises:
        ValueError: If it is no finished backtest, or the ranker or its figure is damaged.
    """
    file = folder / RANKER
    if not file.is_file():
        raise ValueError(
            f"run={folder} has no {RANKER}: give the folder that gedbd locate-backtest repo=... dataset=... leaves"
        )
    try:
        ranker = ChangeRanker.from_text(file.read_text(encoding="utf-8"))
    except ValueError as error:  # a UnicodeDecodeError is one too
        raise ValueError(f"{file} is damaged ({error}): run gedbd locate-backtest again") from error
    measured = (folder / HIT_RATE).is_file()
    return TrainedRanker(ranker, read_hit_rate(folder).statement if measured else NOT_MEASURED)
