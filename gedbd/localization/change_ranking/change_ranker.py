"""Ranks the commits of a history for a report."""

from collections import defaultdict
from importlib.resources import files as package_files
from typing import NamedTuple

import numpy as np

from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.file_features import FILE_FEATURES, FILE_KINDS, FileFeatures
from gedbd.localization.change_ranking.known_fixes import KnownFixes
from gedbd.localization.change_ranking.query_features import (
    CONTENT_FREE_COLUMNS,
    OWNERSHIP,
    QueryFeatures,
    feature_names,
    feature_table,
    query_features,
    shortlist,
)
from gedbd.retrieval.ranking_models import RankerText, RankingModel, ranker_text

DEFAULT = "default_ranker.json"
# Features whose value does not depend on the text of the report.
CONTENT_FREE = frozenset({*CONTENT_FREE_COLUMNS, *FILE_KINDS})


class Suspect(NamedTuple):
    """A commit that may have induced the bug of a report.

    Attributes:
        row: Its row in the history.
        score: Its score: only the order of the scores of one query says something.
        contributions: What the features add to the score, by name; the sum of all is the score less a constant.
    """

    row: int
    score: float
    contributions: dict[str, float]


class SuspectFile(NamedTuple):
    """A file that a report may be about.

    Attributes:
        path: Its row among the paths of the history.
        score: Its score: only the order of the scores of one query says something.
        probability: The softmax of the scores of all candidates.
        contributions: What the features add to the score, by name without ``_share`` and ``_rank``; the sum of all is
            the score less a constant.
    """

    path: int
    score: float
    probability: float
    contributions: dict[str, float]


class ChangeRanker:
    """Scores all commits before a report in two steps.

    The first model scores the files that the report may concern; their softmax is the probability of each. The second
    one scores commits by what lexical scores say of them, and by which lines of the probable files come from them: a
    fix changes lines, and the commit that these come from induced the bug.

    Args:
        files: Model of files.
        commits: Model of commits.
        kind: Of both models: ``boosted`` or ``linear``.
        content_free: Whether the models read ``CONTENT_FREE``.
        extra: Names of the scores that are given from elsewhere.
        ownership: Whether the model of commits reads more than ``TEXT_BOUND`` of what depends on the text.
    """

    def __init__(
        self,
        files: RankingModel,
        commits: RankingModel,
        kind: str = "boosted",
        content_free: bool = True,
        extra: tuple[str, ...] = (),
        ownership: bool = True,
    ) -> None:
        self.files = files
        self.commits = commits
        self.kind = kind
        self.content_free = content_free
        self.extra = extra
        self.ownership = ownership
        self.names = feature_names(content_free, extra, ownership)

    def scores(self, history: ChangeHistory, query: ChangeQuery, fixes: KnownFixes | None = None) -> np.ndarray:
        """Scores of the n commits before the query, ``(n,)``; higher is more suspect.

        Commits outside the shortlist score less than all in it, in the order of BM25 over diffs.

        Args:
            history: The commits.
            query: The report.
            fixes: Fixed bugs of the tracker; None without.
        """
        return self.scores_of(query_features(history, query, fixes))

    def scores_of(self, features: QueryFeatures) -> np.ndarray:
        """As ``scores``, of features that are there already."""
        rows, table = self._table(features)
        diff = features.scores["diff"].astype(np.float64)
        if not len(rows):
            return diff
        short = self.commits.predict(table)
        found = short.min() - 1 - 1 / (1 + diff)
        found[rows] = short
        return np.asarray(found)

    def find(
        self, history: ChangeHistory, query: ChangeQuery, top_k: int = 10, fixes: KnownFixes | None = None
    ) -> list[Suspect]:
        """The most suspect commits, the first one first; of equal scores the newer commit comes first.

        At most the commits of the shortlist are found. Arguments as of ``scores``.
        """
        return self.find_in(query_features(history, query, fixes), top_k)

    def find_in(self, features: QueryFeatures, top_k: int = 10) -> list[Suspect]:
        """As ``find``, of features that are there already."""
        rows, table = self._table(features)
        if not len(rows):
            return []
        scores = self.commits.predict(table)
        best = np.lexsort((-rows, -scores))[:top_k]
        contributions = self.commits.contributions(table[best])
        if self.kind == "linear":  # which standardises over all candidates
            contributions = self.commits.contributions(table)[best]
        return [
            Suspect(int(rows[place]), float(scores[place]), self._by_feature(shares))
            for place, shares in zip(best.tolist(), contributions, strict=True)
        ]

    def find_files_in(
        self, features: QueryFeatures, top_k: int = 10, allowed: np.ndarray | None = None
    ) -> list[SuspectFile]:
        """The files that a report is most likely about, the first one first; of equal scores the older path.

        Args:
            features: Of the report.
            top_k: How many.
            allowed: ``(P,)`` bool, which paths of the history may be found; None for all source files.
        """
        files = features.files
        if not len(files.paths):
            return []
        table = files.features[:, file_columns(self.content_free)]
        scores = self.files.predict(table)
        probability = softmax(scores)
        shares = self.files.contributions(table)
        order = np.lexsort((files.paths, -scores))
        if allowed is not None:
            order = order[allowed[files.paths[order]]]
        return [
            SuspectFile(
                int(files.paths[place]), float(scores[place]), float(probability[place]), self._by_score(shares[place])
            )
            for place in order[:top_k].tolist()
        ]

    def _by_score(self, shares: np.ndarray) -> dict[str, float]:
        """Adds up the shares of a score of files, its share of the best and its rank."""
        found: dict[str, float] = defaultdict(float)
        for column, share in zip(file_columns(self.content_free), shares, strict=False):  # the last one is the constant
            found[FILE_FEATURES[column].removesuffix("_share").removesuffix("_rank")] += float(share)
        return dict(found)

    def file_probability(self, files: FileFeatures) -> np.ndarray:
        """Probability of each file of being the one that a fix changes, ``(C,)``."""
        return softmax_scores(self.files, files, self.content_free)

    def to_text(self) -> str:
        """The ranker as text, to store it."""
        content = {
            "kind": self.kind,
            "content_free": self.content_free,
            "extra": list(self.extra),
            "ownership": self.ownership,
            "files": self.files.to_text().splitlines(),
            "commits": self.commits.to_text().splitlines(),
        }
        return ranker_text(content)

    @classmethod
    def from_text(cls, text: str) -> "ChangeRanker":
        """The ranker that ``to_text`` was called on.

        Raises:
            ValueError: If the text is damaged.
        """
        stored = RankerText(text, "ranker of changes")
        ranker = cls(
            stored.model("files"),
            stored.model("commits"),
            stored.content["kind"],
            stored.content.get("content_free") is True,
            tuple(stored.strings("extra")),
            stored.content.get("ownership") is not False,  # true where an older text does not say
        )
        stored.check_model(ranker.files, len(file_columns(ranker.content_free)))
        stored.check_model(ranker.commits, len(ranker.names))
        return ranker

    def _table(self, features: QueryFeatures) -> tuple[np.ndarray, np.ndarray]:
        """The shortlist and its features, ``(C,)`` and ``(C, F)``."""
        missing = [name for name in self.extra if name not in features.scores]
        if missing:
            raise ValueError(f"the ranker of changes was trained with the score {missing[0]!r}: give it too")
        return commit_table(features, self.file_probability(features.files), self.names)

    def _by_feature(self, shares: np.ndarray) -> dict[str, float]:
        """Adds up the shares of a score, its share of the best and its rank."""
        found: dict[str, float] = defaultdict(float)
        for name, share in zip(self.names, shares, strict=False):  # the last one is the constant
            base = name.removesuffix("_share").removesuffix("_rank")
            found[base if base in self.names and name not in CONTENT_FREE | set(OWNERSHIP) else name] += float(share)
        return dict(found)


def softmax_scores(model: RankingModel, files: FileFeatures, content_free: bool) -> np.ndarray:
    """The softmax of a model's scores of files, ``(C,)``."""
    if not len(files.paths):
        return np.empty(0)
    return softmax(model.predict(files.features[:, file_columns(content_free)]))


def softmax(scores: np.ndarray) -> np.ndarray:
    """Scores as probabilities, ``(C,)``."""
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())


def file_columns(content_free: bool) -> list[int]:
    """Which of ``FILE_FEATURES`` a model of files reads."""
    return [place for place, name in enumerate(FILE_FEATURES) if content_free or name not in CONTENT_FREE]


def commit_table(
    features: QueryFeatures, probability: np.ndarray, names: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """The shortlist of commits and its features, ``(C,)`` and ``(C, F)``."""
    scores = features.commit_scores(probability)
    rows = shortlist(scores)
    return rows, feature_table(scores, names, rows)


def default_ranker() -> ChangeRanker:
    """The ranker for repositories whose tracker taught none, see ``default_ranker.md``."""
    text = (package_files("gedbd.localization.change_ranking") / DEFAULT).read_text(encoding="utf-8")
    return ChangeRanker.from_text(text)
