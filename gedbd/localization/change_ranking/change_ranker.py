"""Ranks the commits of a history for a report."""

from collections import defaultdict
from collections.abc import Container, Mapping
from importlib.resources import files as package_files
from typing import NamedTuple

import numpy as np

from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.file_features import FILE_FEATURES, FILE_KINDS, FileFeatures, KnownFixes
from gedbd.localization.change_ranking.query_features import (
    CONTENT_FREE_COLUMNS,
    QueryFeatures,
    feature_names,
    feature_table,
    query_features,
    shortlist,
)
from gedbd.retrieval.feature_ranker import FeatureRanker, ranker_text, read_ranker

DEFAULT = "default_ranker.json"
# Features whose value does not depend on the text of the report.
CONTENT_FREE = frozenset({*CONTENT_FREE_COLUMNS, *FILE_KINDS})


class Suspect(NamedTuple):
    """A commit that may have introduced the bug of a report, or a file that the report may be about."""

    row: int  # row of the commit, or of the path, in the history
    score: float  # comparable among the candidates of one query only
    # contribution of each feature to the score, by name without ``_share`` and ``_rank``; they sum to the score less a
    # constant
    contributions: dict[str, float]
    probability: float = np.nan  # of a file: softmax of the scores of all candidates


class ChangeRanker:
    """Scores all commits before a report by two rankers.

    The first scores the files that the report may concern; the softmax of the scores is the probability of each file.
    The second scores commits by the words that they share with the report, and by the lines of probable files that come
    from them: the commit that wrote the lines that a fix changes introduced the bug. Raises ValueError if the
    ranker of files reads an unknown feature.
    """

    def __init__(self, files: FeatureRanker, commits: FeatureRanker) -> None:
        unknown = set(files.names) - set(FILE_FEATURES)
        if unknown:
            raise ValueError(f"the features {sorted(unknown)} of files are unknown")
        self.files = files
        self.commits = commits
        self.names = commits.names  # features of the ranker of commits
        base_names = dict.fromkeys(_base_name(name, self.names) for name in self.names)
        # the names that are scores of further scorers
        self.extra = tuple(name for name in base_names if name not in feature_names(content_free=True))

    def scores(self, history: ChangeHistory, query: ChangeQuery, fixes: KnownFixes | None = None) -> np.ndarray:
        """Scores of the n commits before the query, ``(n,)``; higher is more suspect.

        ``fixes`` is None without a tracker. Commits outside the shortlist score lower, in the order of BM25 over diffs.
        """
        return self.scores_of(query_features(history, query, fixes))

    def scores_of(self, features: QueryFeatures) -> np.ndarray:
        """Like ``scores``, from computed features."""
        rows, table = self._table(features)
        diff = features.scores["diff"].astype(np.float64)
        if not len(rows):
            return diff
        shortlisted = self.commits.scores(table)
        scores = shortlisted.min() - 1 - 1 / (1 + diff)
        scores[rows] = shortlisted
        return np.asarray(scores)

    def find_in(self, features: QueryFeatures, top_k: int = 10) -> list[Suspect]:
        """The most suspect commits of the shortlist, best first; newer commits first among ties."""
        rows, table = self._table(features)
        scores = self.commits.scores(table)
        best = np.lexsort((-rows, -scores))[:top_k]
        return [
            Suspect(int(rows[row]), float(scores[row]), _by_base_name(shares))
            for row, shares in zip(best.tolist(), self.commits.contributions(table, best), strict=True)
        ]

    def find_files_in(
        self, features: QueryFeatures, top_k: int = 10, allowed: np.ndarray | None = None
    ) -> list[Suspect]:
        """The files that a report most likely concerns, best first; older paths first among ties.

        They are among the ``allowed`` paths of the history, ``(P,)`` bool; None allows all source files.
        """
        paths = features.files.paths
        table = features.files.columns(self.files.names)
        scores = self.files.scores(table)
        probability = softmax(scores)
        order = np.lexsort((paths, -scores))
        if allowed is not None:
            order = order[allowed[paths[order]]]
        best = order[:top_k]
        return [
            Suspect(int(paths[row]), float(scores[row]), _by_base_name(shares), float(probability[row]))
            for row, shares in zip(best.tolist(), self.files.contributions(table, best), strict=True)
        ]

    def file_scores(self, files: FileFeatures) -> np.ndarray:
        """Scores of files, ``(C,)``."""
        return self.files.scores(files.columns(self.files.names))

    def file_probability(self, files: FileFeatures) -> np.ndarray:
        """Probability that the fix changes each file, ``(C,)`` with sum 1."""
        return softmax(self.file_scores(files))

    def to_text(self) -> str:
        """The ranker as text, for storage."""
        return ranker_text({"files": self.files.as_dict(), "commits": self.commits.as_dict()})

    @classmethod
    def from_text(cls, text: str) -> "ChangeRanker":
        """Reads the text of ``to_text``; raises ValueError if it is damaged."""
        return read_ranker(
            text,
            "ranker of changes",
            lambda content: cls(*(FeatureRanker.from_dict(content[name]) for name in ("files", "commits"))),
        )

    def _table(self, features: QueryFeatures) -> tuple[np.ndarray, np.ndarray]:
        """The shortlist and its features, ``(C,)`` and ``(C, F)``."""
        missing = [name for name in self.extra if name not in features.scores]
        if missing:
            raise ValueError(f"the ranker of changes was trained with the score {missing[0]!r}: give it too")
        return commit_table(features, self.file_probability(features.files), self.names)


def _base_name(name: str, names: Container[str]) -> str:
    """The name of a feature without ``_share`` or ``_rank``."""
    base = name.removesuffix("_share").removesuffix("_rank")
    return base if base in names else name


def _by_base_name(contributions: Mapping[str, float]) -> dict[str, float]:
    """Sums the contributions of a score, its share of the best score and its rank."""
    sums: dict[str, float] = defaultdict(float)
    for name, share in contributions.items():
        sums[_base_name(name, contributions)] += share
    return dict(sums)


def softmax(scores: np.ndarray) -> np.ndarray:
    """The exponentials of scores divided by their sum, ``(C,) -> (C,)``."""
    if not len(scores):
        return scores
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())


def commit_table(
    features: QueryFeatures, probability: np.ndarray, names: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """The shortlist of commits and its features, ``(C,)`` and ``(C, F)``."""
    scores = features.commit_scores(probability)
    rows = shortlist(scores)
    return rows, feature_table(scores, names, rows)


def default_ranker() -> ChangeRanker:
    """The ranker for repositories that have none trained on their tracker, see ``default_ranker.md``."""
    text = (package_files("gedbd.localization.change_ranking") / DEFAULT).read_text(encoding="utf-8")
    return ChangeRanker.from_text(text)
