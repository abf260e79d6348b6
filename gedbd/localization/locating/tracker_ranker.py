"""The ranker that a backtest trains on a tracker's history, the fixed reports that it reads, and its hit rates."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import pandas as pd

from gedbd.evaluation.thresholds import INCONCLUSIVE, MET, MISSED
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
# For each kind, a hit in words, and the condition of a tested report.
HITS = {
    "files": (f"a file that the fix changed was among the first {TOP}", "whose fix changed an earlier source file"),
    "commits": (f"an inducing commit was among the first {TOP} suspects", "with an earlier inducing commit"),
}
T = TypeVar("T")


@dataclass(eq=False)
class TrackerRanker:
    """A ranker with the fixed reports of its tracker."""

    ranker: ChangeRanker  # ranker of files and commits
    fixes: Sequence[KnownFix] = ()  # the fixed reports; a query reads those known before it
    statement: str = NOT_MEASURED  # result of a backtest for files and commits, in words

    def __post_init__(self) -> None:
        self._cache: tuple[ChangeHistory, KnownFixes] | None = None

    @classmethod
    def read(cls, folder: Path) -> "TrackerRanker":
        """The ranker in the folder of a backtest.

        Raises ValueError if the backtest is not finished, or a file is damaged.
        """
        if not (folder / RANKER).is_file():
            raise ValueError(f"{folder} has no {RANKER}: give a folder written by gedbd locate-backtest")
        ranker = _read(folder / RANKER, ChangeRanker.from_text)
        fixes = _read(folder / FIXES, read_fixes)
        is_measured = (folder / HIT_RATE).is_file()
        return cls(ranker, fixes, _read(folder / HIT_RATE, read_statements) if is_measured else NOT_MEASURED)

    def known_fixes(self, history: ChangeHistory) -> KnownFixes:
        """The fixed reports with the commits of a history."""
        cache = self._cache  # read once: another thread may replace it
        if cache is None or cache[0] is not history:
            cache = (history, KnownFixes(history, self.fixes))
            self._cache = cache
        return cache[1]

    def is_of(self, history: ChangeHistory) -> bool:
        """Whether the history has one of the fixing commits; True if there are none."""
        fixing = {id_ for fix in self.fixes for id_ in fix.fixing}
        return not fixing or not fixing.isdisjoint(history.ids)


def _read(file: Path, parse: Callable[[str], T]) -> T:
    """Parses a file; raises ValueError if it is missing or damaged."""
    if not file.is_file():
        raise ValueError(f"{file} is missing: run gedbd locate-backtest again")
    try:
        return parse(file.read_text(encoding="utf-8"))
    except (ValueError, LookupError, TypeError, RecursionError) as error:  # ValueError includes UnicodeDecodeError
        raise ValueError(f"{file} is damaged ({error}): run gedbd locate-backtest again") from error


def fixes_as_json(fixes: Sequence[KnownFix]) -> str:
    """Fixed reports as text, for storage."""
    rows = [{**fix._asdict(), "known_at": fix.known_at.isoformat()} for fix in fixes]
    return json.dumps({"format": FORMAT, "fixes": rows}) + "\n"


def read_fixes(text: str) -> list[KnownFix]:
    """The fixed reports of ``fixes_as_json``; raises ValueError, LookupError or TypeError if the text is damaged."""
    stored = json.loads(text)
    if stored["format"] != FORMAT:
        raise ValueError(f"not of format {FORMAT}")
    fixes = []
    for row in stored["fixes"]:
        fix = KnownFix(row["title"], row["description"], pd.Timestamp(row["known_at"]), tuple(row["fixing"]))
        if not all(isinstance(value, str) for value in (fix.title, fix.description, *fix.fixing)):
            raise ValueError("a text is missing")
        if fix.known_at.tzinfo is None:
            raise ValueError("a date has no time zone")
        fixes.append(fix)
    return fixes


def read_statements(text: str) -> str:
    """The statements of ``HitRates.as_json``; raises ValueError, LookupError or TypeError if the text is damaged."""
    stored = json.loads(text)
    statements = [stored["files"]["statement"], stored["statement"]]
    if not all(isinstance(statement, str) for statement in statements):
        raise ValueError("a statement is missing")
    return " ".join(statements)


@dataclass(frozen=True)
class HitRate:
    """Share of reports with a relevant document among the first ``TOP``.

    Relevant documents are the source files that the fix changed, or the inducing commits before the report.
    """

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

    def statement(self, kind: str) -> str:
        """The share in one sentence; ``kind`` is ``files`` or ``commits``."""
        hit, condition = HITS[kind]
        if self.share is None:
            return f"On {self.tracker}, there was no report {condition} to test."
        count = f"{self.reports:,} report{'' if self.reports == 1 else 's'}"
        interval = f"95% interval {self.low:.0%} to {self.high:.0%}"
        return (
            f"On the history of {self.tracker}, {hit} for {self.share:.0%} ({interval}) of {count} from {self.first} to"
            f" {self.last}: {STATUS_WORDS[self.status].format(target=self.target)}."
        )


@dataclass(frozen=True)
class HitRates:
    """The hit rates of files and of commits."""

    files: HitRate
    commits: HitRate

    @property
    def statements(self) -> str:
        """The sentences about files and about commits."""
        return f"{self.files.statement('files')} {self.commits.statement('commits')}"

    def as_json(self) -> str:
        """The values and statements as JSON."""
        files = {**asdict(self.files), "statement": self.files.statement("files")}
        commits = {**asdict(self.commits), "files": files, "statement": self.commits.statement("commits")}
        return json.dumps(commits, indent=2) + "\n"
