"""Trains rankers of changes on reports whose bugs were fixed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from gedbd.io.progress import track
from gedbd.retrieval.changes.commit_features import feature_names
from gedbd.retrieval.changes.history import ChangeHistory
from gedbd.retrieval.changes.known_fixes import changed_paths
from gedbd.retrieval.changes.query_features import QueryFeatures, query_features
from gedbd.retrieval.changes.ranker import ChangeRanker, commit_table, file_columns, softmax_scores
from gedbd.retrieval.changes.training_reports import TrainingReport, TrainingSet
from gedbd.retrieval.ranking_models import Model, fit_weighted_sum

Kind = Literal["boosted", "linear"]

MIN_PROGRESS_REPORTS = 20
FOLDS = 4
L2 = 0.01  # of a weighted sum


@dataclass(frozen=True)
class TrainingOptions:
    """How a ranker is trained; the values were chosen on the first halves of Tomcat's and AspectJ's reports.

    Attributes:
        kind: Of the models.
        content_free: Whether they read ``CONTENT_FREE``.
        ownership: Whether the model of commits reads more than ``TEXT_BOUND`` of what depends on the text.
        seed: Of all that is drawn.
        num_seeds: Boosted trees are the mean of so many trainings.
        rounds: Trees of each training.
        num_leaves: Leaves of a tree.
        num_threads: Threads; the trees are the same for the same number.
    """

    kind: Kind = "boosted"
    content_free: bool = True
    ownership: bool = True
    seed: int = 0
    num_seeds: int = 3
    rounds: int = 150
    num_leaves: int = 8
    num_threads: int = 1
    extra: tuple[str, ...] = field(default=())


class Example(NamedTuple):
    """Features of a training report: which files its fix changed, and which commits induced it."""

    features: QueryFeatures
    is_fixed: np.ndarray
    inducing: np.ndarray


def examples_of(one: TrainingSet) -> list[Example]:
    """The features of all reports of a set."""
    found = []
    shown = track(one.reports, "features of reports", transient=True, disable=len(one.reports) < MIN_PROGRESS_REPORTS)
    for report in shown:
        features = query_features(one.history, report.query, one.fixes, report.extra)
        found.append(make_example(one.history, features, report))
    return found


def make_example(history: ChangeHistory, features: QueryFeatures, report: TrainingReport) -> Example:
    """What a report teaches by its features."""
    kinds = history.index.path_kinds
    fixed = changed_paths(history, report.fixing)
    # What a fix changes in tests and documents says little about where the bug was.
    fixed = fixed[(kinds[fixed, 0] == 0) & (kinds[fixed, 1] == 1)]
    inducing = report.inducing[report.inducing < features.num_commits]
    return Example(features, np.isin(features.files.paths, fixed), inducing)


def fit_ranker(sets: Sequence[TrainingSet], options: TrainingOptions | None = None) -> ChangeRanker:
    """Trains both models of a ranker.

    Commits are learnt from probabilities that models of files gave to reports that they were not trained on: the
    reports are split into ``FOLDS`` parts at random, and each part is scored by the model of the others.

    Args:
        sets: Reports of one or several repositories.
        options: None for the default ones.

    Raises:
        ValueError: No report has a fixed file among the earlier ones, or an inducing commit before it.
    """
    return fit_examples([example for one in sets for example in examples_of(one)], options)


def fit_examples(examples: Sequence[Example], options: TrainingOptions | None = None) -> ChangeRanker:
    """As ``fit_ranker``, on features that are there already."""
    options = options or TrainingOptions()
    parts = np.random.default_rng(options.seed).permutation(len(examples)) % FOLDS
    names = feature_names(options.content_free, options.extra, options.ownership)
    tables: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for part in range(FOLDS):
        others = [example for example, of in zip(examples, parts, strict=True) if of != part]
        if not any(of == part for of in parts):
            continue
        model = _fit_files(others, options, 1)
        for place in np.flatnonzero(parts == part).tolist():
            tables[place] = _commit_list(examples[place], model, names, options)
    lists = [tables[place] for place in range(len(examples)) if tables[place][1].any()]
    if not lists:
        raise ValueError("a ranker of changes needs a report with an inducing commit before it to learn from")
    commits = _fit([table for table, _ in lists], [labels for _, labels in lists], options, options.num_seeds)
    files = _fit_files(examples, options, options.num_seeds)
    return ChangeRanker(files, commits, options.kind, options.content_free, options.extra, options.ownership)


def _fit_files(examples: Sequence[Example], options: TrainingOptions, num_seeds: int) -> Model:
    """The model of files."""
    columns = file_columns(options.content_free)
    usable = [example for example in examples if example.is_fixed.any() and not example.is_fixed.all()]
    if not usable:
        raise ValueError("a ranker of changes needs reports whose fixes changed source files that existed before them")
    features = [example.features.files.features[:, columns] for example in usable]
    return _fit(features, [example.is_fixed.astype(np.int64) for example in usable], options, num_seeds)


def _commit_list(
    example: Example, model: Model, names: tuple[str, ...], options: TrainingOptions
) -> tuple[np.ndarray, np.ndarray]:
    """The shortlist of a training report: features, and which commits induced it."""
    probability = softmax_scores(model, example.features.files, options.content_free)
    rows, table = commit_table(example.features, probability, names)
    return table, np.isin(rows, example.inducing).astype(np.int64)


def _fit(
    features: Sequence[np.ndarray], relevance: Sequence[np.ndarray], options: TrainingOptions, num_seeds: int
) -> Model:
    if options.kind == "linear":
        return fit_weighted_sum(features, relevance, L2)
    from gedbd.retrieval.boosting import CandidateLists, fit_boosted_trees

    return fit_boosted_trees(
        CandidateLists(features, relevance),
        seeds=range(options.seed, options.seed + num_seeds),
        rounds=options.rounds,
        num_leaves=options.num_leaves,
        learning_rate=0.05,
        min_child=20,
        feature_fraction=0.5,
        bagging_fraction=0.7,
        l2=5.0,
        truncation=20,
        num_threads=options.num_threads,
    )
