"""The features of the reports of a corpus, computed once for all rankers that read them."""

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from gedbd.corpora.changes import ChangeCorpus
from gedbd.retrieval.changes.history import ChangeHistory
from gedbd.retrieval.changes.known_fixes import KnownFixes
from gedbd.retrieval.changes.query_features import QueryFeatures, query_features
from gedbd.retrieval.changes.ranker import ChangeRanker
from gedbd.retrieval.changes.training import TrainingOptions, fit_examples, make_example
from gedbd.retrieval.changes.training_reports import history_of, known_fixes, query_of, training_set
from gedbd.retrieval.scorers.scorer import Scorer


class Replay:
    """The history of a corpus as each of its reports finds it, and rankers that are trained on some of them.

    Features and rankers are kept in memory: about 700 kB a report with 9,000 commits.

    Args:
        corpus: The commits and reports, with links to fixing and inducing commits.
        tracker: Whether earlier fixes are read.
    """

    def __init__(self, corpus: ChangeCorpus, tracker: bool = True) -> None:
        self.corpus = corpus
        self.tracker = tracker
        self._features: dict[int, QueryFeatures] = {}
        self._rankers: dict[tuple[TrainingOptions, bytes], ChangeRanker] = {}

    @cached_property
    def history(self) -> ChangeHistory:
        """The commits; their rows are those of the corpus."""
        return history_of(self.corpus)

    @cached_property
    def fixes(self) -> KnownFixes | None:
        """The fixed bugs of all reports, of which a query reads those before it."""
        return known_fixes(self.corpus, self.history) if self.tracker else None

    def features(self, row: int, extra: Mapping[str, np.ndarray] | None = None) -> QueryFeatures:
        """The features of a report, with further scores of the commits by name, each ``(n,)`` or longer."""
        if row not in self._features:
            assert self.corpus.reports is not None
            query = query_of(self.corpus.reports.documents.table.iloc[row])
            self._features[row] = query_features(self.history, query, self.fixes)
        features = self._features[row]
        if not extra:
            return features
        given = {name: np.asarray(values[: features.num_commits], dtype=np.float32) for name, values in extra.items()}
        return features._replace(scores=features.scores | given)

    def ranker(self, queries: np.ndarray, options: TrainingOptions, extra: Mapping[str, Scorer]) -> ChangeRanker:
        """A ranker that learns commits from some reports, and files from all fixed reports up to the last of these.

        Args:
            queries: ``(T,)`` rows of the reports, ascending.
            options: Of the training; ``extra`` names the scorers.
            extra: Fitted scorers of commits, whose scores are further features: the same for all rankers of a replay.

        Raises:
            ValueError: See ``fit_ranker``.
        """
        key = (options, queries.tobytes())
        if key not in self._rankers:
            self._rankers[key] = self._fit(queries, options, extra)
        return self._rankers[key]

    def _fit(self, queries: np.ndarray, options: TrainingOptions, extra: Mapping[str, Scorer]) -> ChangeRanker:
        known = training_set(self.corpus, range(int(queries.max()) + 1), self.history, tracker=False)
        # Missing values, for reports that teach about files alone.
        missing = {name: np.full(len(self.history), np.nan, dtype=np.float32) for name in extra}
        examples = []
        for row, report in zip(known.rows, known.reports, strict=True):
            is_query = row in queries
            features = self.features(row, scores_of(extra, row) if is_query else missing)
            inducing = report.inducing if is_query else report.inducing[:0]
            examples.append(make_example(self.history, features, report._replace(inducing=inducing)))
        return fit_examples(examples, options)


def scores_of(scorers: Mapping[str, Scorer], row: int) -> dict[str, np.ndarray]:
    """The scores of a query by some scorers, each ``(N,)``, by name."""
    return {name: scorer.scores(np.array([row]))[0] for name, scorer in scorers.items()}
