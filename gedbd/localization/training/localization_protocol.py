"""Which reports train and which test, and which changes are their candidates.

Of a project's reports in the order of their dates, the first half trains and the second half tests. Candidates are the
changes that were made strictly before the report. The talk on "Pre-training Code Representation with Semantic Flow
Graph for Effective Bug Localization" (2023) says nothing about either. Its authors' code divides pairs of a report and
an inducing change instead (README), and leaves out changes later than the report when it ranks (results/accuracy.py).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import ChangeCorpus, Corpus, Granularity
from gedbd.corpora.relevance import Links
from gedbd.retrieval.ranking_tasks import EarlierDocuments, count_earlier
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs

MIN_REPORTS = 10
TOP_K = (1, 3, 5, 10, 20, 100)


class Halves(NamedTuple):
    """The reports that have an inducing commit before them, in chronological order.

    Attributes:
        train: ``(T,)`` rows of the first half; of an odd number the smaller one.
        test: ``(Q,)`` rows of the second half.
        warnings: What was left out, with counts.
    """

    train: np.ndarray
    test: np.ndarray
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Level:
    """The ranking of changes of one granularity.

    Attributes:
        granularity: Its name.
        inputs: All reports and all changes; the training pairs are the inducing changes of the reports of the first
            half.
        task: The reports of the second half with their candidates; its name is that of the granularity.
        training: ``(T,)`` rows of the reports of the first half that have such a change before them.
    """

    granularity: Granularity
    inputs: ScorerInputs
    task: EarlierDocuments
    training: np.ndarray

    def among(self, reports: np.ndarray, queries: np.ndarray) -> "Level":
        """The level with the training pairs of some reports, and others of the first half as queries."""
        train = self.inputs.train[self.inputs.train["query"].isin(reports)]
        table = self.inputs.train
        links = Links(table, len(self.inputs.queries), len(self.inputs.documents))
        rows = queries[np.isin(queries, self.training)]
        task = EarlierDocuments(rows, self.inputs.num_earlier[rows], links, self.task.top_k, self.granularity)
        inputs = ScorerInputs(self.inputs.documents, self.inputs.queries, train)
        return Level(self.granularity, inputs, task, self.training[np.isin(self.training, reports)])


def find_halves(corpus: ChangeCorpus) -> Halves:
    """The reports that train and those that test.

    Raises:
        ValueError: There are no reports, dates or links, or fewer than ``MIN_REPORTS`` reports can be used.
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
    # The number of reports, 731, and its half, 365: the test half has one report more.
    half = len(usable) // 2
    left_out = links.table["query"].nunique() - len(usable)
    warnings = [f"reports whose inducing commits are all made after them, left out: {left_out:,}"] if left_out else []
    warnings += _late_labels(links, usable[:half], reports.reports["created_at"].iloc[usable[half]])
    return Halves(usable[:half], usable[half:], tuple(warnings))


def reports_of(corpus: ChangeCorpus) -> Corpus:
    """The reports. Raises ValueError if there are none."""
    if corpus.reports is None:
        raise ValueError(f"{corpus.name}: a history without reports: name them, such as dataset@dataset.reports=csv")
    return corpus.reports


def num_before(corpus: ChangeCorpus, granularity: Granularity) -> np.ndarray:
    """``(R,)`` number of changes made before each report: candidates are rows 0..n-1."""
    changes = corpus.changes(granularity).table
    return count_earlier(changes["created_at"], reports_of(corpus).reports["created_at"])


def make_level(corpus: ChangeCorpus, halves: Halves, granularity: Granularity) -> tuple[Level, tuple[str, ...]]:
    """The ranking of changes of a granularity, and what was left out.

    Raises:
        ValueError: The corpus has no links of the granularity, or none of either half.
    """
    links = corpus.inducing.get(granularity)
    if links is None:
        raise ValueError(
            f"{corpus.name} names no inducing {granularity}s: leave {granularity} out of task.granularities"
        )
    earlier = num_before(corpus, granularity)
    usable = _with_earlier(links, earlier)
    parts = [rows[np.isin(rows, usable)] for rows in (halves.train, halves.test)]
    for rows, name in zip(parts, ("first", "second"), strict=True):
        if not len(rows):
            raise ValueError(f"{corpus.name}: no report of the {name} half has an inducing {granularity} before it")
    training, test = parts
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


def _late_labels(links: Links, training: np.ndarray, moment: pd.Timestamp) -> list[str]:
    """A warning if links of the first half became known after the second half begins."""
    of_training = links.table[links.table["query"].isin(training)]
    late = int((of_training["made_at"] >= moment).sum())
    if not late:
        return []
    return [
        f"links of the first half that were known only after the second half begins: {late:,} of {len(of_training):,}"
    ]
