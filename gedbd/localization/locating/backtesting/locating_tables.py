"""The tables of a backtest of the ranking of files and commits."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from gedbd.corpora.changes import ChangeCorpus
from gedbd.corpora.corpus import Corpus
from gedbd.corpora.urls import with_urls
from gedbd.evaluation.significance import compare_means, mean_interval, ratio_intervals
from gedbd.evaluation.thresholds import INCONCLUSIVE, MET, MISSED
from gedbd.io.files import read_object
from gedbd.localization.change_ranking.change_history import ChangeHistory
from gedbd.localization.locating.backtesting.labelled_reports import LabelledReports

HIT_RATE = "hit_rate.json"
TOP = 10
NEAR = 10  # the place whose score the first one is compared with
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
NAMING = {True: "name a file", False: "name no file"}
AnswerColumns = Callable[[pd.DataFrame], dict[str, object]]  # what is shown of the first answers of some rows


def rank_tables(
    corpus: ChangeCorpus, ranks: pd.DataFrame, system: str, columns: AnswerColumns
) -> dict[str, pd.DataFrame]:
    """The tables about the ranks of all systems, or of one.

    Args:
        corpus: Reports and commits.
        ranks: A row for each report and system, with a report at least: ``report``, ``system``, ``rank``, ``first``
            (the first answer, -1 for none), ``right`` (that answer is right), ``margin``, and of files
            ``average_precision`` and ``names_file``.
        system: The one.
        columns: The columns of the examples that describe the first answer.
    """
    assert corpus.reports is not None
    group = corpus.reports.group
    mine = ranks[ranks["system"] == system]
    answered = mine[mine["first"] >= 0]
    tables = {
        "metrics": metrics(ranks, group),
        "differences": differences(ranks, system, group),
        "curve": hit_curve(ranks, group),
        "years": by_year(mine, corpus.reports),
        "right": most_certain(answered[answered["right"]], corpus, columns),
        "wrong": most_certain(answered[~answered["right"]], corpus, columns),
    }
    if "names_file" in ranks:
        tables["named"] = by_naming(ranks, group)
    return tables


def metrics(replayed: pd.DataFrame, group: np.ndarray) -> pd.DataFrame:
    """Hit@k and MRR of each system, each with its 95% interval over groups of duplicate reports.

    Hit@k is the share of reports with a right answer (an inducing commit, or a file that the fix changed) among the
    first k; MRR is the mean of 1 / rank of the first one.

    Args:
        replayed: A row for each report and system: ``report``, ``system`` and ``rank``, infinite where no right answer
            was ranked. With ``average_precision`` there is MAP too, and the means come before the shares.
        group: ``(N,)`` group of each report.
    """
    rows = []
    for system, mine in replayed.groupby("system", sort=False):
        cluster = group[mine["report"]]
        shares: dict[str, float] = {}
        for k, (share, low, high) in zip(TOP_K, _hits(mine, TOP_K, cluster), strict=True):
            shares |= {f"hit@{k}": share, f"hit@{k}_low": low, f"hit@{k}_high": high}
        means: dict[str, float] = {}
        for name, values in _per_report(mine).items():
            low, high = mean_interval(values, cluster)
            means |= {name: float(values.mean()), f"{name}_low": low, f"{name}_high": high}
        both = means | shares if "map" in means else shares | means
        rows.append({"system": system, "reports": len(mine), **both})
    return pd.DataFrame(rows)


def _per_report(mine: pd.DataFrame) -> dict[str, np.ndarray]:
    """What MRR, and MAP where it is measured, are means of, each ``(N,)``."""
    found = {"mrr": 1 / mine["rank"].to_numpy()}
    return found | {"map": mine["average_precision"].to_numpy()} if "average_precision" in mine else found


def differences(replayed: pd.DataFrame, system: str, group: np.ndarray) -> pd.DataFrame:
    """One system less each other on the same reports, with the 95% interval of a paired bootstrap.

    Returns:
        A row for each other system: ``less``, and ``hit@10``, ``mrr`` and, where it is measured, ``map`` as
        differences.
    """
    rows = []
    of_system = {name: mine.sort_values("report") for name, mine in replayed.groupby("system", sort=False)}
    own = _values(of_system.pop(system))
    cluster = group[replayed.loc[replayed["system"] == system, "report"].sort_values()]
    for other, theirs in of_system.items():
        row: dict[str, object] = {"less": other}
        for name, values in _values(theirs).items():
            found = compare_means(own[name], values, cluster)
            what = f"difference of {name}"
            row |= {what: found.difference, f"{what}_low": found.low, f"{what}_high": found.high}
        rows.append(row)
    return pd.DataFrame(rows)


def _values(mine: pd.DataFrame) -> dict[str, np.ndarray]:
    return {f"hit@{TOP}": (mine["rank"].to_numpy() <= TOP).astype(float), **_per_report(mine)}


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


def _hits(mine: pd.DataFrame, top_k: Sequence[int], cluster: np.ndarray) -> list[tuple[float, float, float]]:
    """Share of reports with a right answer among the first k, and the ends of its interval, for each k."""
    hits = (mine["rank"].to_numpy()[:, None] <= np.asarray(top_k)[None, :]).astype(float)
    low, high = ratio_intervals(hits, np.ones_like(hits), cluster)
    return [(float(share), float(low[place]), float(high[place])) for place, share in enumerate(hits.mean(axis=0))]


def by_naming(ranks: pd.DataFrame, group: np.ndarray) -> pd.DataFrame:
    """The metrics apart for reports that name a file and those that do not, see ``names_file``."""
    parts = []
    for naming, words in NAMING.items():
        mine = ranks[ranks["names_file"] == naming]
        if len(mine):
            parts.append(metrics(mine, group))
            parts[-1].insert(0, "reports that", words)
    return pd.concat(parts, ignore_index=True)


def most_certain(mine: pd.DataFrame, corpus: ChangeCorpus, columns: AnswerColumns) -> pd.DataFrame:
    """Of some replayed reports at most ``MAX_ROWS``, those with the largest margin.

    Returns:
        ``margin``, ``report``, ``title of report``, and the columns that are made of the chosen rows.
    """
    assert corpus.reports is not None
    chosen = mine.sort_values("margin", ascending=False, kind="stable").head(MAX_ROWS)
    reports = corpus.reports.reports.iloc[chosen["report"]]
    own = {
        "margin": chosen["margin"].to_numpy(),
        "report": reports["id"].to_numpy(),
        "title of report": reports["title"].to_numpy(),
    }
    return with_urls(pd.DataFrame(own | columns(chosen)), corpus.reports.reports)


def first_commits(corpus: ChangeCorpus, chosen: pd.DataFrame) -> dict[str, object]:
    """``suspect`` (the first commit), its ``message``, and ``rank`` of the first inducing commit."""
    commits = corpus.commits.table.iloc[chosen["first"]]
    return {
        "suspect": commits["id"].str.slice(0, SHORT_ID).to_numpy(),
        "message": commits["title"].to_numpy(),
        "rank": chosen["rank"].to_numpy(),
    }


def first_files(history: ChangeHistory, chosen: pd.DataFrame) -> dict[str, object]:
    """``file`` (the first one), ``fixed file`` (the best ranked one, empty if none was ranked) and its ``rank``."""
    paths = [*history.index.table.paths, ""]  # -1 is the last one
    return {
        "file": [paths[row] for row in chosen["first"]],
        "fixed file": [paths[row] for row in chosen["found"]],
        "rank": chosen["rank"].where(np.isfinite(chosen["rank"])).astype("Int64").to_numpy(),
    }


def commit_counts(labelled: LabelledReports) -> dict[str, int]:
    """How many reports there are, and why others are not tested for commits."""
    return {
        "reports": labelled.num_reports,
        "fixed by a commit": labelled.num_fixed,
        "without an inducing commit before them: not tested": labelled.num_reports - len(labelled),
        "of these, with later inducing commits only": labelled.num_unordered,
        "with an inducing commit before them": len(labelled),
    }


def file_counts(labelled: LabelledReports) -> dict[str, int]:
    """How many reports there are, and why others are not tested for files."""
    return {
        "reports": labelled.num_reports,
        "with a known fix": labelled.num_fixed,
        "whose fix changed no earlier source file: not tested": labelled.num_fixed - len(labelled),
        "whose fix changed an earlier source file": len(labelled),
    }


@dataclass(frozen=True)
class TopShare:
    """How often a right answer was among the first ``TOP``.

    Attributes:
        tracker: Name of the tracker's reports or of the data set.
        target: Desired share of reports with a right answer among the first ``TOP``.
        status: ``met`` if the whole interval is at or above the target, ``missed`` if it is below, else
            ``inconclusive``.
        reports: Number of tested reports.
        hits: How many of them have a right answer among the first ``TOP``.
        share: Hits divided by reports; None without reports.
        low: Lower end of the 95% interval of the share.
        high: Upper end.
        first: Day of the first tested report, as 2024-01-31.
        last: Day of the last one.
        learnt: Whether the ranker had learnt from older reports of this tracker; else it is the default ranker.
    """

    FOUND: ClassVar[str]  # what the share is of
    UNTESTED: ClassVar[str]  # what no report had

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
            return f"On {self.tracker}, there was no report {self.UNTESTED} to test."
        count = f"{self.reports:,} report{'' if self.reports == 1 else 's'}"
        days = f"from {self.first} to {self.last}"
        interval = f"95% interval {self.low:.0%} to {self.high:.0%}"
        words = STATUS_WORDS[self.status].format(target=self.target)
        return (
            f"On the history of {self.tracker}, {self.FOUND} for {self.share:.0%} ({interval}) of {count} {days}:"
            f" {words}."
        )

    @classmethod
    def of_stored(cls, stored: dict[str, Any]) -> Self:
        """The share that was stored, without what else was. Raises KeyError if a value is missing."""
        return cls(**{field.name: stored[field.name] for field in fields(TopShare)})


@dataclass(frozen=True)
class FileHitRate(TopShare):
    """What a backtest measured about files: a right answer is a source file that the fix changed."""

    FOUND = f"a file that the fix changed was among the first {TOP}"
    UNTESTED = "whose fix changed an earlier source file"


@dataclass(frozen=True)
class HitRate(TopShare):
    """What a backtest measured about commits: a right answer is an inducing commit before the report.

    Attributes:
        files: What it measured about files; None if an earlier version measured it.
    """

    FOUND = f"an inducing commit was among the first {TOP} suspects"
    UNTESTED = "with an earlier inducing commit"

    files: FileHitRate | None = None

    @property
    def statements(self) -> str:
        """The sentences about files and about commits."""
        return self.statement if self.files is None else f"{self.files.statement} {self.statement}"

    def as_json(self) -> str:
        """The values, and the statements for people who read the file."""
        content = {**asdict(self), "statement": self.statement}
        if self.files is not None:
            content["files"]["statement"] = self.files.statement
        return json.dumps(content, indent=2) + "\n"


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
    stored = read_object(path, *(field.name for field in fields(TopShare)))
    damaged = f"{path} is damaged: run gedbd locate-backtest again"
    try:
        of_files = stored.get("files")
        files = None if of_files is None else FileHitRate.of_stored(of_files)
    except (KeyError, TypeError) as error:
        raise ValueError(damaged) from error
    found = replace(HitRate.of_stored(stored), files=files)
    if any(share.status not in STATUS_WORDS or not _is_consistent(share) for share in (found, files or found)):
        raise ValueError(damaged)
    return found


def _is_consistent(found: TopShare) -> bool:
    """Whether the values have their types and agree with each other."""
    counts = isinstance(found.reports, int) and isinstance(found.hits, int) and 0 <= found.hits <= found.reports
    texts = all(isinstance(text, str) for text in (found.tracker, found.first or "", found.last or ""))
    shares = [found.target] if found.share is None else [found.target, found.share, found.low, found.high]
    numbers = all(isinstance(share, int | float) and 0 <= share <= 1 for share in shares)
    return counts and texts and numbers and (found.share is None) == (found.reports == 0)
