"""Training and test reports of localization, and their candidates.

In chronological order, the first half of the reports trains and the second half tests. Candidates are the changes made
strictly before the report. The talk on "Pre-training Code Representation with Semantic Flow Graph for Effective Bug
Localization" (2023) specifies neither. Its authors' code splits pairs of a report and an inducing change instead
(README), and leaves out changes later than the report when it ranks (results/accuracy.py).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gedbd.corpora.corpus import ChangeCorpus, Corpus, Granularity
from gedbd.corpora.relevance import Links
from gedbd.retrieval.ranking_tasks import EarlierDocuments
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs, count_earlier

MIN_REPORTS = 10
TOP_K = (1, 3, 5, 10, 20, 100)


class Halves(NamedTuple):
    """The reports with an earlier inducing commit, in chronological order."""

    train: np.ndarray  # ``(T,)`` rows of the first half, the smaller one of an odd number
    test: np.ndarray  # ``(Q,)`` rows of the second half
    warnings: tuple[str, ...]  # counts of what is left out


@dataclass(frozen=True)
class Level:
    """The ranking of changes of one granularity."""

    granularity: Granularity
    inputs: ScorerInputs  # all reports and changes; the training pairs are the inducing changes of the first half
    task: EarlierDocuments  # the reports of the second half with their candidates, named by the granularity
    training: np.ndarray  # ``(T,)`` rows of the reports of the first half with an earlier inducing change

    def among(self, reports: np.ndarray, queries: np.ndarray) -> "Level":
        """The level with the training pairs of ``reports``, and ``queries`` of the first half as test reports."""
        train = self.inputs.train[self.inputs.train["query"].isin(reports)]
        table = self.inputs.train
        links = Links(table, len(self.inputs.queries), len(self.inputs.documents))
        rows = queries[np.isin(queries, self.training)]
        task = EarlierDocuments(rows, self.inputs.num_earlier[rows], links, self.task.top_k, self.granularity)
        inputs = ScorerInputs(self.inputs.documents, self.inputs.queries, train)
        return Level(self.granularity, inputs, task, self.training[np.isin(self.training, reports)])


def find_halves(corpus: ChangeCorpus) -> Halves:
    """Splits the reports into training and test reports.

    Raises ValueError if there are no reports, dates or links, or fewer than ``MIN_REPORTS`` reports can be used.
    """
    reports = reports_of(corpus)
    links = corpus.inducing.get("commit")
    if links is None or not len(links):
        raise ValueError(f"{corpus.name}: no report has an inducing commit: give reports whose fixes remove lines")
    if reports.reports["created_at"].isna().any():
        raise ValueError(f"{corpus.name}: reports without a date: candidates are the changes before a report")
    usable = _with_earlier(links, num_before(corpus, "commit"))
    if len(usable) < MIN_REPORTS:
        raise ValueError(
            f"{corpus.name}: reports with an inducing commit before them: {len(usable)}; at least {MIN_REPORTS} are"
            " needed to train and test"
        )
    # Of 731 reports, 365 are for training and 366 for testing.
    half = len(usable) // 2
    num_later = links.table["query"].nunique() - len(usable)
    warnings = [f"reports with later inducing commits only, left out: {num_later:,}"] if num_later else []
    made_at = links.table.loc[links.table["query"].isin(usable[:half]), "made_at"]
    num_late = int((made_at >= reports.reports["created_at"].iloc[usable[half]]).sum())
    if num_late:
        warnings.append(
            f"links of the first half that became known during the second half: {num_late:,} of {len(made_at):,}"
        )
    return Halves(usable[:half], usable[half:], tuple(warnings))


def reports_of(corpus: ChangeCorpus) -> Corpus:
    """The reports of a corpus; raises ValueError if there are none."""
    if corpus.reports is None:
        raise ValueError(f"{corpus.name}: a history without reports: name them, such as dataset@dataset.reports=csv")
    return corpus.reports


def num_before(corpus: ChangeCorpus, granularity: Granularity) -> np.ndarray:
    """``(R,)`` number of changes made before each report: candidates are rows 0..n-1."""
    changes = corpus.changes(granularity).table
    return count_earlier(changes["created_at"], reports_of(corpus).reports["created_at"])


def make_level(corpus: ChangeCorpus, halves: Halves, granularity: Granularity) -> tuple[Level, tuple[str, ...]]:
    """The ranking of changes of a granularity, and warnings.

    Raises ValueError if the corpus has no links of the granularity, or none of either half.
    """
    links = corpus.inducing.get(granularity)
    if links is None:
        raise ValueError(
            f"{corpus.name} names no inducing {granularity}s: leave {granularity} out of task.granularities"
        )
    earlier = num_before(corpus, granularity)
    usable = _with_earlier(links, earlier)
    training, test = (rows[np.isin(rows, usable)] for rows in (halves.train, halves.test))
    for rows, name in ((training, "first"), (test, "second")):
        if not len(rows):
            raise ValueError(f"{corpus.name}: no report of the {name} half has an inducing {granularity} before it")
    train = links.table[links.table["query"].isin(training)]
    train = train[train["document"] < earlier[train["query"]]].assign(label=1)
    inputs = ScorerInputs(corpus.changes(granularity).table, reports_of(corpus).reports, train)
    task = EarlierDocuments(test, earlier[test], links, TOP_K, granularity)
    missing = len(halves.test) - len(test)
    warnings = (f"test reports without an inducing {granularity} before them, left out there: {missing:,}",)
    return Level(granularity, inputs, task, training), warnings if missing else ()


def _with_earlier(links: Links, num_earlier: np.ndarray) -> np.ndarray:
    """The reports with a linked change before them, ascending."""
    table = links.table
    return np.unique(table.loc[table["document"] < num_earlier[table["query"]], "query"].to_numpy(dtype=np.int64))
