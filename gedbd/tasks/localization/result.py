"""What a run has measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from gedbd.corpora.changes import ChangeCorpus
from gedbd.tasks.localization.comparison import known_table, ranking_table, results_table
from gedbd.tasks.localization.order import EarlierBugs
from gedbd.tasks.localization.protocol import Level
from gedbd.tasks.localization.rankings import Measured


@dataclass(frozen=True)
class LocalizationResult:
    """What a run has measured.

    Attributes:
        corpus: Reports and changes.
        levels: What was ranked; the first one is that of ``results``.
        measured: What the methods have reached, those of the first level first.
        baseline: The method that the others are compared with.
        first: Ids of the methods that were trained here, which tables show first.
        validation: MRR of ``first[0]`` on validation, which is within the first half.
        epochs: One row an epoch of HMCBL's training; empty without it.
    """

    corpus: ChangeCorpus
    levels: tuple[Level, ...]
    measured: tuple[Measured, ...]
    baseline: str
    first: tuple[str, ...]
    validation: float
    epochs: pd.DataFrame

    @cached_property
    def ranking(self) -> pd.DataFrame:
        """See ``ranking_table``; in each granularity the trained methods come first."""
        table = ranking_table(self.measured, self.baseline)
        granularity = table["granularity"].map({level.granularity: place for place, level in enumerate(self.levels)})
        is_other = ~table["method"].isin(self.first)
        return table.iloc[np.lexsort((is_other, granularity))].reset_index(drop=True)

    @property
    def results(self) -> pd.DataFrame:
        """See ``results_table``."""
        return results_table(self.ranking)

    @cached_property
    def known(self) -> pd.DataFrame:
        """See ``known_table``, of the first granularity."""
        level = self.levels[0]
        scorer = EarlierBugs(self.corpus.inducing[level.granularity], level.inputs)
        best = []
        for index, query in enumerate(level.task.queries):
            counts = scorer.scores(np.array([query]))[0]
            best.append(counts[level.task.relevant(index)].max())
        measured = [one for one in self.measured if one.granularity == level.granularity]
        return known_table(measured, np.array(best), self.baseline)

    @property
    def summary(self) -> str:
        """What was ranked, and whether the trained methods are above BM25, in a few sentences."""
        level = self.levels[0]
        table = self.ranking
        rows = {row["method"]: row for row in table[table["granularity"] == level.granularity].to_dict("records")}
        candidates = f"{len(level.inputs.documents):,} {level.granularity}s"
        told = [
            f"{self.corpus.name}: {len(level.training):,} reports to learn from, {len(level.task):,} to test on,"
            f" against those of {candidates} that were made before the report.",
            f"MRR of {self.baseline}: {rows[self.baseline]['mrr']:.3f}.",
        ]
        told += [_against(name, rows[name], self.baseline) for name in self.first if name in rows]
        return " ".join(told)


def _against(method: str, row: Mapping[Any, Any], baseline: str) -> str:
    """A sentence: a method's MRR, and what its interval says of the difference."""
    low = row["mrr_difference_low"]
    high = row["mrr_difference_high"]
    if low > 0:
        said = f"better than {baseline}"
    elif high < 0:
        said = f"worse than {baseline}"
    else:
        said = f"not told from {baseline}"
    return f"{method}: {row['mrr']:.3f}, {said} (difference {row['mrr_difference']:+.3f} [{low:+.3f}, {high:+.3f}])."
