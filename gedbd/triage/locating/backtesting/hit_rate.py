"""How often an inducing commit was among the first suspects, in numbers and in words."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from gedbd.io.files import read_object
from gedbd.triage.backtesting.targets import INCONCLUSIVE, MET, MISSED

HIT_RATE = "hit_rate.json"
TOP = 10
STATUS_WORDS = {
    MET: "the target of {target:.0%} was met",
    MISSED: "the target of {target:.0%} was missed",
    INCONCLUSIVE: "the target of {target:.0%} was neither clearly met nor missed",
}


@dataclass(frozen=True)
class HitRate:
    """What a backtest measured.

    Attributes:
        tracker: Name of the tracker's reports or of the data set.
        target: Desired share of reports with an inducing commit among the first ``TOP``.
        status: ``met`` if the whole interval is at or above the target, ``missed`` if it is below, else
            ``inconclusive``.
        reports: Number of tested reports, each with an inducing commit before it.
        hits: How many of them have one among the first ``TOP`` suspects.
        share: Hits divided by reports; None without reports.
        low: Lower end of the 95% interval of the share.
        high: Upper end.
        first: Day of the first tested report, as 2024-01-31.
        last: Day of the last one.
        learnt: Whether the ranker had learnt from older reports of this tracker; else it is the default ranker.
    """

    tracker: str
    target: float
    status: str
    reports: int = 0
    hits: int = 0
    share: float | None = None
    low: float | None = None
    high: float | None = None
    first: str | None = None
    last: str | None = None
    learnt: bool = False

    @property
    def statement(self) -> str:
        """The measured share in one sentence."""
        if self.share is None:
            return f"On {self.tracker}, there was no report with an earlier inducing commit to test."
        count = f"{self.reports:,} report{'' if self.reports == 1 else 's'}"
        days = f"from {self.first} to {self.last}"
        interval = f"95% interval {self.low:.0%} to {self.high:.0%}"
        words = STATUS_WORDS[self.status].format(target=self.target)
        return (
            f"On the history of {self.tracker}, an inducing commit was among the first {TOP} suspects for"
            f" {self.share:.0%} ({interval}) of {count} {days}: {words}."
        )

    def as_json(self) -> str:
        """The values, and the statement for people who read the file."""
        return json.dumps({**asdict(self), "statement": self.statement}, indent=2) + "\n"


def read_hit_rate(folder: Path) -> HitRate:
    """What the backtest in a run folder measured.

    Raises:
        ValueError: If the folder has no finished backtest, or its file is damaged.
    """
    path = folder / HIT_RATE
    if not path.is_file():
        raise ValueError(
            f"{folder} is not a finished backtest: it has no {HIT_RATE}; give a folder written by gedbd locate-backtest"
        )
    names = [field.name for field in fields(HitRate)]
    stored = read_object(path, *names)
    found = HitRate(**{name: stored[name] for name in names})
    if found.status not in STATUS_WORDS or not _is_consistent(found):
        raise ValueError(f"{path} is damaged: run gedbd locate-backtest again")
    return found


def _is_consistent(found: HitRate) -> bool:
    """Whether the values have their types and agree with each other."""
    counts = isinstance(found.reports, int) and isinstance(found.hits, int) and 0 <= found.hits <= found.reports
    texts = all(isinstance(text, str) for text in (found.tracker, found.first or "", found.last or ""))
    shares = [found.target] if found.share is None else [found.target, found.share, found.low, found.high]
    numbers = all(isinstance(share, int | float) and 0 <= share <= 1 for share in shares)
    return counts and texts and numbers and (found.share is None) == (found.reports == 0)
