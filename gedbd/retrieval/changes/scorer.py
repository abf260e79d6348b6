"""The learnt ranker of commits as a scorer of the tables of commits, files and hunks."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gedbd.corpora.changes import ChangeCorpus, Granularity
from gedbd.retrieval.changes.history import ChangeHistory
from gedbd.retrieval.changes.known_fixes import KnownFixes
from gedbd.retrieval.changes.query_features import QueryFeatures, query_features
from gedbd.retrieval.changes.ranker import ChangeRanker
from gedbd.retrieval.changes.training import TrainingOptions, fit_ranker
from gedbd.retrieval.changes.training_reports import history_of, known_fixes, query_of, training_set
from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs

# The least probability of a file or hunk: those that nothing speaks for stay in the order of their commits.
FLOOR = 1e-3


class LearntChanges(Scorer):
    """A ``ChangeRanker`` that is trained on the training reports.

    A commit has the ranker's score. A file of a commit has the commit's score + log(FLOOR + p), p the probability that
    the fix changes the file (on the first halves of Tomcat's and AspectJ's reports that is better than to order files
    by commit first, and than to weigh p by the lines that come from the commit). A hunk has its file's score +
    log(FLOOR + w), w its score by ``parts`` as a share of the best hunk's before the report.

    Args:
        corpus: The commits and reports, with links to fixing and inducing commits.
        granularity: Which table is ranked.
        options: Of the training; its seed is the seed of the scorer.
        tracker: Whether earlier fixes are read.
        extra: Further scorers of commits, by name, whose scores the ranker reads. They are fitted before.
        parts: Scores hunks; not needed otherwise. It is fitted here.

    Attributes:
        ranker_: The trained ranker.
    """

    earlier_only = True

    def __init__(
        self,
        corpus: ChangeCorpus,
        granularity: Granularity = "commit",
        options: TrainingOptions | None = None,
        tracker: bool = True,
        extra: Mapping[str, Scorer] | None = None,
        parts: Scorer | None = None,
    ) -> None:
        if granularity == "hunk" and parts is None:
            raise ValueError("LearntChanges needs a scorer of hunks: give parts=")
        self.corpus = corpus
        self.granularity = granularity
        self.extra = dict(extra or {})
        self.options = replace(options or TrainingOptions(), extra=tuple(self.extra))
        self.tracker = tracker
        self.parts = parts
        self._history: ChangeHistory | None = None
        self._fixes: KnownFixes | None = None

    def fit(self, inputs: ScorerInputs) -> None:
        """Trains on the training queries; fixed reports up to the last of these teach which files are meant.

        Raises:
            ValueError: There is no training pair, or see ``fit_ranker``.
        """
        queries = np.unique(inputs.train.loc[inputs.train["label"] == 1, "query"].to_numpy())
        if not len(queries):
            raise ValueError("LearntChanges needs training reports with inducing commits")
        rows = range(int(queries.max()) + 1)
        known = training_set(self.corpus, rows, self.history, tracker=False)
        reports = [
            report._replace(
                inducing=report.inducing if row in queries else report.inducing[:0],
                extra=self._extra(row) if row in queries else self._no_extra(),
            )
            for row, report in zip(known.rows, known.reports, strict=True)
        ]
        self._fixes = known_fixes(self.corpus, self.history) if self.tracker else None
        self.ranker_: ChangeRanker = fit_ranker([known._replace(reports=reports, fixes=self._fixes)], self.options)
        if self.parts is not None:
            self.parts.fit(inputs)

    @property
    def history(self) -> ChangeHistory:
        """The commits of the corpus."""
        if self._history is None:
            self._history = history_of(self.corpus)
        return self._history

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``; what came after the query scores less than everything before it."""
        return np.stack([self._scores(int(row)) for row in rows])

    def _scores(self, row: int) -> np.ndarray:
        assert self.corpus.reports is not None
        query = query_of(self.corpus.reports.documents.table.iloc[row])
        features = query_features(self.history, query, self._fixes, self._extra(row))
        commits = self.ranker_.scores_of(features)
        if self.granularity == "commit":
            return _padded(commits, len(self.history))
        files = self._file_scores(features, commits)
        if self.granularity == "file":
            return _padded(files, len(self.corpus.files.table))
        return self._hunk_scores(row, files)

    def _file_scores(self, features: QueryFeatures, commits: np.ndarray) -> np.ndarray:
        """Scores of the file rows of the commits before the query."""
        index = self.history.index
        num_rows = index.num_rows(len(commits))
        probability = np.zeros(len(index.table.paths))
        probability[features.files.paths] = self.ranker_.file_probability(features.files)
        of_rows = probability[index.table.row_path[:num_rows]]
        return np.asarray(commits[index.table.row_commit[:num_rows]] + np.log(FLOOR + of_rows))

    def _hunk_scores(self, row: int, files: np.ndarray) -> np.ndarray:
        """Scores of all hunks."""
        assert self.parts is not None
        hunk_file = self.corpus.hunks.table["file"].to_numpy(dtype=np.int64)
        count = int(np.searchsorted(hunk_file, len(files)))
        words = np.maximum(self.parts.scores(np.array([row]))[0, :count], 0)
        share = words / max(float(words.max(initial=0)), 1e-9)
        return _padded(files[hunk_file[:count]] + np.log(FLOOR + share), len(hunk_file))

    def _extra(self, row: int) -> dict[str, np.ndarray]:
        return {name: scorer.scores(np.array([row]))[0] for name, scorer in self.extra.items()}

    def _no_extra(self) -> dict[str, np.ndarray]:
        """Missing values, for reports that teach about files alone."""
        return {name: np.full(len(self.history), np.nan, dtype=np.float32) for name in self.extra}


def _padded(scores: np.ndarray, length: int) -> np.ndarray:
    """Scores of the first documents, and lower ones of all others."""
    padded = np.full(length, scores.min(initial=0) - 1)
    padded[: len(scores)] = scores
    return padded
