"""The ranker that a backtest trains on a tracker's history, with the fixed reports that it reads."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import pandas as pd

from gedbd.evaluation.thresholds import INCONCLUSIVE, MET, MISSED
from gedbd.io.files import read_object
from gedbd.localization.change_ranking.change_history import ChangeHistory
from gedbd.localization.change_ranking.change_ranker import ChangeRanker
from gedbd.localization.change_ranking.file_features import KnownFix, KnownFixes

HIT_RATE = "hit_rate.json"
TOP = 10
STATUS_WORDS = {
    MET: "the target of {target:.0%} was met",
    MISSED: "the target of {target:.0%} was missed",
    INCONCLUSIVE: "the target of {target:.0%} was neither clearly met nor missed",
}
FIXES = "fixes.json"
RANKER = "ranker.json"
FORMAT = 2  # version of the stored fixed reports
NOT_MEASURED = "The hit rate on this tracker is unknown: run gedbd locate-backtest."
# The shares are those of all reports in gedbd/localization/change_ranking/default_ranker.md.
DEFAULT_MEASURED = (
    "The default ranker was not measured on this tracker (run gedbd locate-backtest); on two others, a fixed file was"
    " among the first 10 for 61% and 78% of the reports."
)
T = TypeVar("T")


class TrackerRanker:
    """A ranker with the fixed reports of its tracker.

    Args:
        ranker: Ranker of files and commits.
        fixes: The fixed reports; a query reads those known before it.
        statement: Result of a backtest for files and commits, in words.
    """

    def __init__(self, ranker: ChangeRanker, fixes: Sequence[KnownFix] = (), statement: str = NOT_MEASURED) -> None:
        self.ranker = ranker
        self.fixes = fixes
        self.statement = statement
        self._cache: tuple[ChangeHistory, KnownFixes] | None = None

    @classmethod
    def read(cls, folder: Path) -> "TrackerRanker":
        """The ranker in the folder of a backtest.

        Raises:
            ValueError: If the backtest is not finished, or a file is damaged.
        """
        if not (folder / RANKER).is_file():
            raise ValueError(f"{folder} has no {RANKER}: give a folder written by gedbd locate-backtest")
        ranker = _read(folder / RANKER, ChangeRanker.from_text)
        fixes = _read(folder / FIXES, read_fixes)
        measured = (folder / HIT_RATE).is_file()
        return cls(ranker, fixes, read_hit_rate(folder).statements if measured else NOT_MEASURED)

    def known_fixes(self, history: ChangeHistory) -> KnownFixes:
        """The fixed reports with the commits of a history."""
        cache = self._cache  # read once: another thread may replace it
        if cache is None or cache[0] is not history:
            cache = (history, KnownFixes(history, self.fixes))
            self._cache = cache
        return cache[1]

    def is_of(self, history: ChangeHistory) -> bool:
        """Whether there are no fixing commits, or the history has one of them."""
        fixing = {id_ for fix in self.fixes for id_ in fix.fixing}
        return not fixing or not fixing.isdisjoint(history.ids)


def _read(file: Path, parse: Callable[[str], T]) -> T:
    """Parses a file; raises ValueError if it is missing or damaged."""
    if not file.is_file():
        raise ValueError(f"{file} is missing: run gedbd locate-backtest again")
    try:
        return parse(file.read_text(encoding="utf-8"))
    except ValueError as error:  # includes UnicodeDecodeError
        raise ValueError(f"{file} is damaged ({error}): run gedbd locate-backtest again") from error


def fixes_as_json(fixes: Sequence[KnownFix]) -> str:
    """Fixed reports as text, for storage."""
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
    date = pd.Timestamp(known_at)
    if date.tzinfo is None:
        raise ValueError("a date has no time zone")
    return KnownFix(title, description, date, tuple(fixing))


@dataclass(frozen=True)
class TopShare:
    """Share of reports with a relevant document among the first ``TOP``."""

    HIT: ClassVar[str]  # what a hit is, in words
    UNTESTED: ClassVar[str]  # the condition that no report met, in words

    tracker: str  # name of the tracker's reports or of the data set
    target: float
    # ``met`` if the whole interval is at or above the target, ``missed`` if it is below, else ``inconclusive``
    status: str
    reports: int = 0  # number of tested reports
    hits: int = 0  # number of reports with a relevant document among the first ``TOP``
    share: float | None = None  # hits divided by reports; None without reports
    low: float | None = None  # lower end of the 95% interval of the share
    high: float | None = None  # upper end of the interval
    first: str | None = None  # day of the first tested report, as 2024-01-31
    last: str | None = None  # day of the last tested report
    # whether the ranker was trained on older reports of this tracker; otherwise it is the default ranker
    learnt: bool = False

    @property
    def statement(self) -> str:
        """The measured share in one sentence."""
        if self.share is None:
            return f"On {self.tracker}, there was no report {self.UNTESTED} to test."
        count = f"{self.reports:,} report{'' if self.reports == 1 else 's'}"
        days = f"from {self.first} to {self.last}"
        interval = f"95% interval {self.low:.0%} to {self.high:.0%}"
        words = STATUS_WORDS[self.status].format(target=self.target)
        return (
            f"On the history of {self.tracker}, {self.HIT} for {self.share:.0%} ({interval}) of {count} {days}:"
            f" {words}."
        )

    @classmethod
    def of_stored(cls, stored: dict[str, Any]) -> Self:
        """Reads the fields of a share; raises KeyError if one is missing."""
        return cls(**{field.name: stored[field.name] for field in fields(TopShare)})


@dataclass(frozen=True)
class FileHitRate(TopShare):
    """The hit rate of files: relevant are the source files that the fix changed."""

    HIT = f"a file that the fix changed was among the first {TOP}"
    UNTESTED = "whose fix changed an earlier source file"


@dataclass(frozen=True)
class HitRate(TopShare):
    """The hit rate of commits: relevant are the inducing commits before the report."""

    HIT = f"an inducing commit was among the first {TOP} suspects"
    UNTESTED = "with an earlier inducing commit"

    files: FileHitRate | None = None  # the hit rate of files; None in results of earlier versions

    @property
    def statements(self) -> str:
        """The sentences about files and about commits."""
        return self.statement if self.files is None else f"{self.files.statement} {self.statement}"

    def as_json(self) -> str:
        """The values and statements as JSON."""
        content = {**asdict(self), "statement": self.statement}
        if self.files is not None:
            content["files"]["statement"] = self.files.statement
        return json.dumps(content, indent=2) + "\n"


def read_hit_rate(folder: Path) -> HitRate:
    """The hit rate that the backtest in a run folder measured.

    Raises:
        ValueError: If the folder has no finished backtest, or its file is damaged.
    """
    path = folder / HIT_RATE
    if not path.is_file():
        raise ValueError(
            f"{folder} is not a finished backtest: it has no {HIT_RATE}; give a folder written by gedbd locate-backtest"
        )
    stored = read_object(path, *(field.name for field in fields(TopShare)))
    damaged = f"{path} is damaged: run gedbd locate-backtest again"
    try:
        stored_files = stored.get("files")
        files = None if stored_files is None else FileHitRate.of_stored(stored_files)
    except (KeyError, TypeError) as error:
        raise ValueError(damaged) from error
    measured = replace(HitRate.of_stored(stored), files=files)
    if any(share.status not in STATUS_WORDS or not _is_consistent(share) for share in (measured, files or measured)):
        raise ValueError(damaged)
    return measured


def _is_consistent(measured: TopShare) -> bool:
    """Whether the values have the right types and are consistent."""
    counts = (
        isinstance(measured.reports, int) and isinstance(measured.hits, int) and 0 <= measured.hits <= measured.reports
    )
    texts = all(isinstance(text, str) for text in (measured.tracker, measured.first or "", measured.last or ""))
    shares = (
        [measured.target] if measured.share is None else [measured.target, measured.share, measured.low, measured.high]
    )
    numbers = all(isinstance(share, int | float) and 0 <= share <= 1 for share in shares)
    return counts and texts and numbers and (measured.share is None) == (measured.reports == 0)
