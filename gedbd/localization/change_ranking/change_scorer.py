"""The learnt ranker of commits as a scorer of the tables of commits, files and hunks."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from gedbd.corpora.changes import ChangeCorpus, Granularity
from gedbd.localization.change_ranking.change_history import ChangeHistory
from gedbd.localization.change_ranking.change_ranker import ChangeRanker
from gedbd.localization.change_ranking.change_training import (
    ChangeTrainingOptions,
    fit_examples,
    history_of,
    known_fixes,
    make_example,
    query_of,
    training_set,
)
from gedbd.localization.change_ranking.known_fixes import KnownFixes
from gedbd.localization.change_ranking.query_features import QueryFeatures, query_features
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs

# The least probability of a file or hunk: those that nothing speaks for stay in the order of their commits.
FLOOR = 1e-3


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
        self._rankers: dict[tuple[ChangeTrainingOptions, bytes], ChangeRanker] = {}

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

    def ranker(self, queries: np.ndarray, options: ChangeTrainingOptions, extra: Mapping[str, Scorer]) -> ChangeRanker:
        """A ranker that learns commits from some reports, and files from all fixed reports up to the last of these.

        Args:
            queries: ``(T,)`` rows of the reports, ascending.
            options: Of the training; ``extra`` names the scorers.
            extra: Fitted scorers of commits, whose scores are further features: the same for all rankers of a replay.

        Raises:
            ValueError: See ``fit_examples``.
        """
        key = (options, queries.tobytes())
        if key in self._rankers:
            return self._rankers[key]
        known = training_set(self.corpus, range(int(queries.max()) + 1), self.history, tracker=False)
        # Missing values, for reports that teach about files alone.
        missing = {name: np.full(len(self.history), np.nan, dtype=np.float32) for name in extra}
        examples = []
        for row, report in zip(known.rows, known.reports, strict=True):
            is_query = row in queries
            features = self.features(row, scores_of(extra, row) if is_query else missing)
            inducing = report.inducing if is_query else report.inducing[:0]
            examples.append(make_example(self.history, features, report._replace(inducing=inducing)))
        self._rankers[key] = fit_examples(examples, options)
        return self._rankers[key]


class LearntChanges(Scorer):
    """A ``ChangeRanker`` that is trained on the training reports.

    A commit has the ranker's score. A file of a commit has the commit's score + log(FLOOR + p), p the probability that
    the fix changes the file (on the first halves of Tomcat's and AspectJ's reports that is better than to order files
    by commit first, and than to weigh p by the lines that come from the commit). A hunk has its file's score +
    log(FLOOR + w), w its score by ``parts`` as a share of the best hunk's before the report.

    Args:
        replay: The features of the reports; may be shared by several scorers.
        granularity: Which table is ranked.
        options: Of the training; its seed is the seed of the scorer.
        extra: Further scorers of commits, by name, whose scores the ranker reads. They are fitted before.
        parts: Scores hunks; not needed otherwise. It is fitted here.
        training: ``(T,)`` rows of the reports whose inducing commits are learnt; None for those of the training pairs.

    Attributes:
        ranker_: The trained ranker.
    """

    earlier_only = True

    def __init__(
        self,
        replay: Replay,
        granularity: Granularity = "commit",
        options: ChangeTrainingOptions | None = None,
        extra: Mapping[str, Scorer] | None = None,
        parts: Scorer | None = None,
        training: np.ndarray | None = None,
    ) -> None:
        if granularity == "hunk" and parts is None:
            raise ValueError("LearntChanges needs a scorer of hunks: give parts=")
        self.replay = replay
        self.granularity = granularity
        self.extra = dict(extra or {})
        self.options = replace(options or ChangeTrainingOptions(), extra=tuple(self.extra))
        self.parts = parts
        self.training = training

    def fit(self, inputs: ScorerInputs) -> None:
        """Trains on the training queries; fixed reports up to the last of these teach which files are meant.

        Raises:
            ValueError: There is no training pair, or see ``fit_examples``.
        """
        queries = self.training
        if queries is None:
            queries = np.unique(inputs.train.loc[inputs.train["label"] == 1, "query"].to_numpy())
        if not len(queries):
            raise ValueError("LearntChanges needs training reports with inducing commits")
        self.ranker_: ChangeRanker = self.replay.ranker(queries, self.options, self.extra)
        if self.parts is not None:
            self.parts.fit(inputs)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``; what came after the query scores less than everything before it."""
        return np.stack([self._scores(int(row)) for row in rows])

    def _scores(self, row: int) -> np.ndarray:
        features = self.replay.features(row, scores_of(self.extra, row))
        commits = self.ranker_.scores_of(features)
        if self.granularity == "commit":
            return _padded(commits, len(self.replay.history))
        files = self._file_scores(features, commits)
        if self.granularity == "file":
            return _padded(files, len(self.replay.corpus.files.table))
        return self._hunk_scores(row, files)

    def _file_scores(self, features: QueryFeatures, commits: np.ndarray) -> np.ndarray:
        """Scores of the file rows of the commits before the query."""
        index = self.replay.history.index
        num_rows = index.num_rows(len(commits))
        probability = np.zeros(len(index.table.paths))
        probability[features.files.paths] = self.ranker_.file_probability(features.files)
        of_rows = probability[index.table.row_path[:num_rows]]
        return np.asarray(commits[index.table.row_commit[:num_rows]] + np.log(FLOOR + of_rows))

    def _hunk_scores(self, row: int, files: np.ndarray) -> np.ndarray:
        """Scores of all hunks."""
        assert self.parts is not None
        hunk_file = self.replay.corpus.hunks.table["file"].to_numpy(dtype=np.int64)
        count = int(np.searchsorted(hunk_file, len(files)))
        words = np.maximum(self.parts.scores(np.array([row]))[0, :count], 0)
        share = words / max(float(words.max(initial=0)), 1e-9)
        return _padded(files[hunk_file[:count]] + np.log(FLOOR + share), len(hunk_file))


def _padded(scores: np.ndarray, length: int) -> np.ndarray:
    """Scores of the first documents, and lower ones of all others."""
    padded = np.full(length, scores.min(initial=0) - 1)
    padded[: len(scores)] = scores
    return padded


def scores_of(scorers: Mapping[str, Scorer], row: int) -> dict[str, np.ndarray]:
    """The scores of a query by some scorers, each ``(N,)``, by name."""
    return {name: scorer.scores(np.array([row]))[0] for name, scorer in scorers.items()}
