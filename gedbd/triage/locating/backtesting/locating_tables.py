"""The tables of a backtest of the ranking of commits."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.corpora.changes import ChangeCorpus
from gedbd.corpora.corpus import Corpus
from gedbd.corpora.urls import with_urls
from gedbd.evaluation.significance import compare_means, mean_interval, ratio_intervals
from gedbd.io.files import read_object
from gedbd.triage.backtesting.thresholds import INCONCLUSIVE, MET, MISSED
from gedbd.triage.locating.backtesting.labelled_reports import LabelledReports

HIT_RATE = "hit_rate.json"
TOP = 10
STATUS_WORDS = {
    MET: "the target of {target:.0%} was met",
    MISSED: "the target of {target:.0%} was missed",
    INCONCLUSIVE: "the target of {target:.0%} was neither clearly met nor missed",
}
TOP_K = (1, 5, TOP)
CURVE_K = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100)
MIN_YEAR_REPORTS = 10  # of the two largest years, for a table by year
MAX_ROWS = 20
SHORT_ID = 12


def metrics(replayed: pd.DataFrame, group: np.ndarray) -> pd.DataFrame:
    """Hit@k and MRR of each system, each with its 95% interval over groups of duplicate reports.

    Hit@k is the share of reports with an inducing commit among the first k; MRR is the mean of 1 / rank of the first
    inducing commit.

    Args:
        replayed: See ``replay``.
        group: ``(N,)`` group of each report.
    """
    rows = []
    for system, mine in replayed.groupby("system", sort=False):
        row: dict[str, object] = {"system": system, "reports": len(mine)}
        cluster = group[mine["report"]]
        for name, (share, low, high) in zip(_names(TOP_K), _hits(mine, TOP_K, cluster), strict=True):
            row |= {name: share, f"{name}_low": low, f"{name}_high": high}
        reciprocal = 1 / mine["rank"].to_numpy()
        row["mrr"] = float(reciprocal.mean())
        row["mrr_low"], row["mrr_high"] = mean_interval(reciprocal, cluster)
        rows.append(row)
    return pd.DataFrame(rows)


def differences(replayed: pd.DataFrame, system: str, group: np.ndarray) -> pd.DataFrame:
    """One system less each other on the same reports, with the 95% interval of a paired bootstrap.

    Returns:
        A row for each other system: ``less``, and ``hit@10`` and ``mrr`` as differences.
    """
    rows = []
    ranks = replayed.pivot(index="report", columns="system", values="rank")
    cluster = group[ranks.index.to_numpy()]
    own = ranks[system].to_numpy()
    for other in (name for name in replayed["system"].unique() if name != system):
        theirs = ranks[other].to_numpy()
        hits = compare_means((own <= TOP).astype(float), (theirs <= TOP).astype(float), cluster)
        reciprocal = compare_means(1 / own, 1 / theirs, cluster)
        row = {"less": other}
        for name, found in ((f"difference of hit@{TOP}", hits), ("difference of mrr", reciprocal)):
            row |= {name: found.difference, f"{name}_low": found.low, f"{name}_high": found.high}
        rows.append(row)
    return pd.DataFrame(rows)


def hit_curve(replayed: pd.DataFrame, group: np.ndarray) -> pd.DataFrame:
    """Hit@k of each system for many k: ``system``, ``k``, ``hit``, ``hit_low``, ``hit_high``."""
    rows = []
    for system, mine in replayed.groupby("system", sort=False):
        for k, (share, low, high) in zip(CURVE_K, _hits(mine, CURVE_K, group[mine["report"]]), strict=True):
            rows.append({"system": system, "k": k, "hit": share, "hit_low": low, "hit_high": high})
    return pd.DataFrame(rows)


def by_year(mine: pd.DataFrame, reports: Corpus) -> pd.DataFrame:
    """Hit@10 of one system by the year of the report; no rows unless two years have ``MIN_YEAR_REPORTS`` reports."""
    years = reports.reports["created_at"].iloc[mine["report"]].dt.year.to_numpy()
    rows = []
    for year in np.unique(years):
        chosen = mine[years == year]
        share, low, high = _hits(chosen, (TOP,), reports.group[chosen["report"]])[0]
        name = f"hit@{TOP}"
        rows.append({"year": str(year), "reports": len(chosen), name: share, f"{name}_low": low, f"{name}_high": high})
    table = pd.DataFrame(rows)
    return table if (table["reports"] >= MIN_YEAR_REPORTS).sum() >= 2 else table.iloc[:0]


def counts_table(labelled: LabelledReports, num_trained: int, num_unknown: int, num_tested: int) -> pd.DataFrame:
    """How many reports there are, and why the others are not tested."""
    num_without = labelled.num_reports - len(labelled)
    counts = {
        "reports": labelled.num_reports,
        "fixed by a commit": labelled.num_fixed,
        "without an inducing commit before them: not tested": num_without,
        "of these, with later inducing commits only": labelled.num_unordered,
        "with an inducing commit before them": len(labelled),
        "learnt from to measure": num_trained,
        "older, but fixed only after the first tested report: left out": num_unknown,
        "tested": num_tested,
    }
    return pd.DataFrame({"what": counts.keys(), "number": counts.values()})


def examples(mine: pd.DataFrame, corpus: ChangeCorpus, right: bool) -> pd.DataFrame:
    """The most certain right or wrong first suspects of one system: those with the largest margin.

    Returns:
        At most ``MAX_ROWS`` rows: ``margin``, ``report``, ``title of report``, ``suspect`` (commit), ``message`` and
        ``rank`` of the first inducing commit.
    """
    assert corpus.reports is not None
    chosen = mine[mine["right"] == right].sort_values("margin", ascending=False, kind="stable").head(MAX_ROWS)
    reports = corpus.reports.reports.iloc[chosen["report"]]
    commits = corpus.commits.table.iloc[chosen["first"]]
    table = pd.DataFrame(
        {
            "margin": chosen["margin"].to_numpy(),
            "report": reports["id"].to_numpy(),
            "title of report": reports["title"].to_numpy(),
            "suspect": commits["id"].str.slice(0, SHORT_ID).to_numpy(),
            "message": commits["title"].to_numpy(),
            "rank": chosen["rank"].to_numpy(),
        }
    )
    return with_urls(table, corpus.reports.reports)


def _names(top_k: Sequence[int]) -> list[str]:
    return [f"hit@{k}" for k in top_k]


def _hits(mine: pd.DataFrame, top_k: Sequence[int], cluster: np.ndarray) -> list[tuple[float, float, float]]:
    """Share of reports with an inducing commit among the first k, and the ends of its interval, for each k."""
    hits = (mine["rank"].to_numpy()[:, None] <= np.asarray(top_k)[None, :]).astype(float)
    low, high = ratio_intervals(hits, np.ones_like(hits), cluster)
    return [(float(share), float(low[place]), float(high[place])) for place, share in enumerate(hits.mean(axis=0))]


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
