"""Trains rankers of changes on fixed reports, and scores changes by them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import ChangeCorpus, Corpus, Granularity
from gedbd.corpora.relevance import Links
from gedbd.io.console import track
from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.change_ranker import CONTENT_FREE, ChangeRanker, commit_table, softmax
from gedbd.localization.change_ranking.file_features import FILE_FEATURES, KnownFix, KnownFixes, changed_paths
from gedbd.localization.change_ranking.query_features import QueryFeatures, feature_names, query_features
from gedbd.retrieval.boosted_trees import LabelledLists
from gedbd.retrieval.feature_ranker import FeatureRanker, ModelOptions
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs

FOLDS = 4
NOTHING = np.empty(0, dtype=np.int64)
# Settings of boosted trees.
SETTINGS: dict[str, Any] = {"feature_fraction": 0.5, "bagging_fraction": 0.7, "l2": 5.0, "truncation": 20}
# Minimum probability of a file or hunk: those without evidence stay in the order of their commits.
FLOOR = 1e-3


@dataclass(frozen=True)
class ChangeTrainingOptions(ModelOptions):
    """How a ranker is trained; the values were chosen on the first halves of Tomcat's and AspectJ's reports."""

    rounds: int = 150  # number of trees
    num_leaves: int = 8
    content_free: bool = True  # whether the models read ``CONTENT_FREE``
    # whether the model of commits reads all features of the text; False for ``TEXT_BOUND`` alone
    ownership: bool = True
    extra: tuple[str, ...] = ()  # names of the scores of further scorers that the model of commits reads
    # weight of reports whose inducing commits are new. A larger value ranks new inducing commits higher, and the
    # others, the majority, lower
    new_weight: int = 5


class ChangeExample(NamedTuple):
    """A training example: the features and labels of a report."""

    features: QueryFeatures
    is_fixed: np.ndarray  # ``(C,)`` bool, whether the fix changed each candidate file
    inducing: np.ndarray  # rows of the earlier commits that introduced the bug
    is_new: bool  # whether no bug fixed before the report is known to come from one of these commits


def fixed_sources(history: ChangeHistory, fixing: np.ndarray) -> np.ndarray:
    """The paths of the source files that fixing commits changed, ascending, without tests.

    Changes of tests and documents say little about the location of a bug.
    """
    paths = changed_paths(history, fixing)
    return np.asarray(paths[history.table.is_source[paths] & ~history.table.is_test[paths]])


def existing_paths(history: ChangeHistory, paths: np.ndarray, before: int) -> np.ndarray:
    """The paths of ``paths`` that exist after the first ``before`` commits."""
    exists = history.table.existing(history.table.num_rows(before))
    earlier = paths[paths < len(exists)]
    return np.asarray(earlier[exists[earlier]])


def fit_examples(examples: Sequence[ChangeExample], options: ChangeTrainingOptions | None = None) -> ChangeRanker:
    """Trains both models of a ranker on the reports of one or several repositories.

    The model of commits learns from cross-validated probabilities of files: the reports are split into ``FOLDS`` random
    folds, and each fold is scored by the model of the others. Raises ValueError if no fix changed an earlier file, or
    no report has an earlier inducing commit.
    """
    options = options or ChangeTrainingOptions()
    folds = np.random.default_rng(options.seed).permutation(len(examples)) % FOLDS
    names = feature_names(options.content_free, options.extra, options.ownership)
    tables: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for fold in np.unique(folds):
        rest = [example for example, number in zip(examples, folds, strict=True) if number != fold]
        files = fit_files(rest, options, num_seeds=1)
        for row in np.flatnonzero(folds == fold).tolist():
            example = examples[row]
            probability = softmax(files.scores(example.features.files.columns(files.names)))
            rows, table = commit_table(example.features, probability, names)
            tables[row] = table, np.isin(rows, example.inducing).astype(np.int64)
    lists = [
        tables[row]
        for row, example in enumerate(examples)
        if tables[row][1].any()
        for _ in range(options.new_weight if example.is_new else 1)
    ]
    if not lists:
        raise ValueError("a ranker of changes needs a report with an inducing commit before it to learn from")
    model = options.fit(LabelledLists([table for table, _ in lists], [labels for _, labels in lists]), **SETTINGS)
    return ChangeRanker(fit_files(examples, options), FeatureRanker(names, model))


def fit_files(
    examples: Sequence[ChangeExample], options: ChangeTrainingOptions, num_seeds: int | None = None
) -> FeatureRanker:
    """Trains the ranker of files, see ``fit_examples``; ``num_seeds=None`` uses the number of the options."""
    usable = [example for example in examples if example.is_fixed.any() and not example.is_fixed.all()]
    if not usable:
        raise ValueError("a ranker of changes needs reports whose fixes changed source files that existed before them")
    names = [name for name in FILE_FEATURES if options.content_free or name not in CONTENT_FREE]
    features = [example.features.files.columns(names) for example in usable]
    lists = LabelledLists(features, [example.is_fixed.astype(np.int64) for example in usable])
    return FeatureRanker(names, options.fit(lists, num_seeds, **SETTINGS))


def history_of(corpus: ChangeCorpus) -> ChangeHistory:
    """The history of a corpus; its rows are those of the corpus's table of commits."""
    history = ChangeHistory()
    history.add(corpus.commits.table, corpus.files.table)
    return history


def reports_of(corpus: ChangeCorpus) -> Corpus:
    """The reports of a corpus; raises ValueError if there are none."""
    if corpus.reports is None:
        raise ValueError(f"{corpus.name}: a history without reports: name them, such as dataset@dataset.reports=csv")
    return corpus.reports


def query_of(report: pd.Series) -> ChangeQuery:
    """A row of the table of reports as a query."""
    created_at = None if pd.isna(report["created_at"]) else report["created_at"]
    return ChangeQuery(report["title"], report["description"], created_at)


def fixes_of(corpus: ChangeCorpus) -> dict[int, KnownFix]:
    """The fixed bugs of a corpus by the row of their report.

    A fix becomes known at the date of its last commit or of its report, whichever is later. So a query, which reads
    only fixes known before it, never reads its own. Raises ValueError if the corpus has no reports, or no links to
    fixing and inducing commits.
    """
    fixing, _ = _links(corpus)
    table = reports_of(corpus).reports[["title", "description", "created_at"]]
    ids = np.array(corpus.commits.table["id"])
    dates = corpus.commits.table["created_at"]
    fixes = {}
    for row in fixing.table["query"].unique().tolist():
        commits = fixing.relevant(row)
        title, description, created_at = table.iloc[row]
        known_at = max(dates.iloc[commits].max(), created_at)  # the latter may be missing
        fixes[row] = KnownFix(title, description, known_at, tuple(ids[commits]))
    return fixes


def _links(corpus: ChangeCorpus) -> tuple[Links, Links]:
    """The links from reports to fixing and to inducing commits."""
    if corpus.reports is None or corpus.fixing is None or "commit" not in corpus.inducing:
        raise ValueError(f"{corpus.name}: a ranker of changes needs reports with links to fixing and inducing commits")
    return corpus.fixing, corpus.inducing["commit"]


class Replay:
    """The features of each report of a corpus at its date, and rankers that are trained on some of the reports.

    Features and rankers are kept in memory: about 700 kB a report with 9,000 commits. Without ``tracker``, earlier
    fixes are not read.
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
        """The fixed bugs of all reports; a query reads those known before it. None without ``tracker``."""
        return KnownFixes(self.history, list(fixes_of(self.corpus).values())) if self.tracker else None

    def features(self, row: int, extra: Mapping[str, np.ndarray] | None = None) -> QueryFeatures:
        """The features of a report, with further scores of the commits, each ``(n,)`` or longer."""
        if row not in self._features:
            query = query_of(reports_of(self.corpus).reports.iloc[row])
            self._features[row] = query_features(self.history, query, self.fixes)
        features = self._features[row]
        if not extra:
            return features
        scores = {name: np.asarray(values[: features.num_commits], dtype=np.float32) for name, values in extra.items()}
        return features._replace(scores=features.scores | scores)

    def examples(
        self, rows: Iterable[int], sources: Mapping[int, np.ndarray] | None = None
    ) -> dict[int, ChangeExample]:
        """The training examples of fixed reports by row; the others are left out.

        ``sources`` are the source files that the fix of each report changed; None for those of its fixing commits.
        Reports without an earlier inducing commit train the model of files alone. Raises ValueError if the corpus has
        no reports, or no links to fixing and inducing commits.
        """
        fixing, inducing = _links(self.corpus)
        reported_at = reports_of(self.corpus).reports["created_at"]
        known_at: dict[int, pd.Timestamp] = {}  # when each commit was first known to have introduced a bug
        for row, fix in fixes_of(self.corpus).items():
            for commit in inducing.relevant(row).tolist():
                known_at[commit] = min(known_at.get(commit, fix.known_at), fix.known_at)
        if sources is None:
            fixed_rows = fixing.table["query"].unique().tolist()
            sources = {row: fixed_sources(self.history, fixing.relevant(row)) for row in fixed_rows}
        fixed_rows = [row for row in rows if row in sources]
        examples = {}
        for row in track(fixed_rows, "features of reports"):
            features = self.features(row)
            fixed = existing_paths(self.history, sources[row], features.num_commits)
            commits = inducing.relevant(row)
            created_at = reported_at.iloc[row]
            dates = [known_at[commit] for commit in commits.tolist() if commit in known_at]
            is_new = pd.isna(created_at) or all(date >= created_at for date in dates)
            earlier = commits[commits < features.num_commits]
            is_fixed = np.isin(features.files.paths, fixed)
            examples[row] = ChangeExample(features, is_fixed, earlier, bool(is_new))
        return examples

    def ranker(self, queries: np.ndarray, options: ChangeTrainingOptions, extra: Mapping[str, Scorer]) -> ChangeRanker:
        """A ranker trained on reports; its model of files learns from all fixed reports up to the last query.

        Args:
            queries: ``(T,)`` rows of the reports, ascending.
            options: Options of the training; ``extra`` names the scorers.
            extra: Fitted scorers of commits, whose scores are further features; the same for all rankers of a replay.
        """
        key = (options, queries.tobytes())
        if key not in self._rankers:
            # Reports that train the model of files alone need no scores.
            missing = {name: np.full(len(self.history), np.nan, dtype=np.float32) for name in extra}
            examples = []
            for row, example in self.examples(range(int(queries.max()) + 1)).items():
                is_query = row in queries
                features = self.features(row, scores_of(extra, row) if is_query else missing)
                inducing = example.inducing if is_query else NOTHING
                examples.append(example._replace(features=features, inducing=inducing))
            self._rankers[key] = fit_examples(examples, options)
        return self._rankers[key]


@dataclass(eq=False)
class ChangeRankerScorer(Scorer):
    """A ``ChangeRanker`` that is trained on the training reports.

    A commit has the ranker's score. A file of a commit has the commit's score + log(FLOOR + p), p the probability that
    the fix changes the file (on the first halves of Tomcat's and AspectJ's reports this ranks better than ordering
    files by commit, or weighting p by the lines that come from the commit). A hunk has its file's score + log(FLOOR +
    w), w its score by ``parts`` as a share of the best hunk's before the report.
    """

    earlier_only = True
    replay: Replay  # features of the reports; several scorers may share it
    granularity: Granularity = "commit"  # of the ranked changes
    options: ChangeTrainingOptions = ChangeTrainingOptions()  # of the training; their seed is that of the scorer
    # further fitted scorers of commits, by name, whose scores the ranker reads
    extra: Mapping[str, Scorer] = field(default_factory=dict)
    # scorer of hunks, fitted here to the reports of ``replay``; only needed to rank hunks
    parts: Scorer | None = None
    training: np.ndarray | None = None  # ``(T,)`` rows of the reports to train on; None for those of the training pairs

    def __post_init__(self) -> None:
        if self.granularity == "hunk" and self.parts is None:
            raise ValueError("ChangeRankerScorer needs a scorer of hunks: give parts=")
        self.options = replace(self.options, extra=tuple(self.extra))

    def fit(self, inputs: ScorerInputs) -> None:
        """Trains on the training queries, see ``Replay.ranker``; raises ValueError without a training pair."""
        queries = self.training
        if queries is None:
            queries = np.unique(inputs.train.loc[inputs.train["label"] == 1, "query"].to_numpy())
        if not len(queries):
            raise ValueError("ChangeRankerScorer needs training reports with inducing commits")
        self.ranker_: ChangeRanker = self.replay.ranker(queries, self.options, self.extra)
        if self.parts is not None:
            self.parts.fit(replace(inputs, queries=reports_of(self.replay.corpus).reports))

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``; documents after the query score less than those before it."""
        return np.stack([self._scores(int(row)) for row in rows])

    def _scores(self, row: int) -> np.ndarray:
        features = self.replay.features(row, scores_of(self.extra, row))
        commit_scores = self.ranker_.scores_of(features)
        if self.granularity == "commit":
            return _padded(commit_scores, len(self.replay.history))
        table = self.replay.history.table
        num_rows = table.num_rows(len(commit_scores))
        probability = np.zeros(len(table.paths))
        probability[features.files.paths] = self.ranker_.file_probability(features.files)
        row_probability = probability[table.row_path[:num_rows]]
        file_scores = commit_scores[table.row_commit[:num_rows]] + np.log(FLOOR + row_probability)
        if self.granularity == "file":
            return _padded(file_scores, len(self.replay.corpus.files.table))
        assert self.parts is not None
        hunk_file = self.replay.corpus.hunks.table["file"].to_numpy(dtype=np.int64)
        count = int(np.searchsorted(hunk_file, len(file_scores)))
        hunk_scores = np.maximum(self.parts.scores(np.array([row]))[0, :count], 0)
        share = hunk_scores / max(float(hunk_scores.max(initial=0)), 1e-9)
        return _padded(file_scores[hunk_file[:count]] + np.log(FLOOR + share), len(hunk_file))


def _padded(scores: np.ndarray, length: int) -> np.ndarray:
    """Pads the scores of the first documents with a lower score for all others."""
    return np.pad(scores, (0, length - len(scores)), constant_values=scores.min(initial=0) - 1)


def scores_of(scorers: Mapping[str, Scorer], row: int) -> dict[str, np.ndarray]:
    """The scores of a query by each scorer, ``(N,)`` each, by name."""
    return {name: scorer.scores(np.array([row]))[0] for name, scorer in scorers.items()}
