"""Trains rankers and probabilities on a tracker's history, and replays its reports in chronological order."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import PARTS, TEST, TRAIN, VAL, Corpus
from gedbd.corpora.readers.duplicate_cells import says_duplicate
from gedbd.io.console import stage
from gedbd.retrieval.ranking_tasks import evenly_spaced
from gedbd.retrieval.report_ranking.report_ranker import ReportRanker, is_default
from gedbd.retrieval.report_ranking.report_training import RankerOptions, Replayed, ReportHistory, fit_ranker
from gedbd.triage.triage_model import (
    CONFIDENCE_FEATURES,
    NUM_COMPARED,
    NUM_FOLDS,
    Matches,
    MatchProbability,
    confidence_features,
    default_confidence,
    fit_shift,
    learn_confidence,
)

COLUMNS = ("query", "candidate", "right", "rank", *CONFIDENCE_FEATURES)
SAME_TITLE = "same title"
UNNAMED_ORIGINAL = "closed as a duplicate, original unknown"
# Right best matches. On the validation splits of three trackers, the tracker's probabilities became better than shifted
# default ones at about 20 (Eclipse), and above 140 (Xamarin) and 150 (Hadoop): benchmarks/few_duplicates.py.
MIN_RIGHT = 50


class LearnedHistory(NamedTuple):
    """A ranker, and the replay for training and testing of probabilities."""

    ranker: ReportRanker  # ranker trained on the duplicates of the labelled splits
    # the first matches of reports, see ``replay``, with the columns ``part``, ``fold``, ``weight`` (sample weight of
    # the report) and ``unknown`` (bool, see ``unknown_reasons``)
    replayed: pd.DataFrame


@stage("train and replay")
def learn(
    corpus: Corpus, parts: np.ndarray, vectors: Mapping[int, np.ndarray], max_reports: int, options: RankerOptions
) -> LearnedHistory:
    """Trains rankers, and replays the reports of each split with a ranker that was not trained on them.

    The duplicate groups of the labelled splits are divided into ``NUM_FOLDS`` folds, and each fold is replayed with a
    ranker trained on the others; the test split is replayed with a ranker trained on all folds.

    Args:
        corpus: The reports.
        parts: ``(N,)`` split of each report.
        vectors: ``(N, D)`` unit rows for the replay of each split, by an encoder that was not trained on it; those of
            test if a split is missing.
        max_reports: Number of replayed reports of each split, evenly spaced in time. All duplicates of the training
            split are replayed; its other reports have larger weights instead.
        options: Options of the rankers.
    """
    history = ReportHistory.of_corpus(corpus, vectors[TEST])
    histories = {part: history.with_vectors(vectors.get(part, vectors[TEST])) for part in (TRAIN, VAL, TEST)}
    fold = folds(corpus.group)
    examples: list[Replayed] = []
    for part in (TRAIN, VAL):
        labelled = history.duplicates[parts[history.duplicates] == part]
        examples += histories[part].replay(labelled, "learn to rank")
    options = options.without_seen(corpus.reports).settled(examples)
    with stage("train rankers", is_long=True):
        training_sets = [[query for query in examples if fold[query.row] != number] for number in range(NUM_FOLDS)]
        rankers = [fit_ranker(queries, options) for queries in training_sets]
        ranker = fit_ranker(examples, options)
    is_duplicate = corpus.group < np.arange(len(corpus))
    tables = []
    for number in (TRAIN, VAL, TEST):
        part_rows = np.flatnonzero(parts == number)
        rows = part_rows[evenly_spaced(0, len(part_rows), max_reports)]
        if number == TRAIN:
            rows = np.union1d(rows, part_rows[is_duplicate[part_rows]])
        row_rankers = [ranker if number == TEST else rankers[fold[row]] for row in rows]
        table = replay(histories[number], rows, row_rankers, f"replay {PARTS[number]}")
        queries = table["query"].to_numpy()
        num_singletons = max((~is_duplicate[rows]).sum(), 1)
        share = (~is_duplicate[part_rows]).sum() / num_singletons if number == TRAIN else 1.0
        weight = np.where(is_duplicate[queries], 1.0, share)
        table = table.assign(unknown=unknown_reasons(table, corpus) != "")
        tables.append(table.assign(part=PARTS[number], fold=fold[queries], weight=weight))
    return LearnedHistory(ranker, pd.concat(tables, ignore_index=True))


def learn_probability(replayed: pd.DataFrame, ranker: ReportRanker, seed: int) -> tuple[MatchProbability, np.ndarray]:
    """Learns probabilities on the replayed splits before test without unknown matches, see ``learn_confidence``.

    With fewer right best matches than ``MIN_RIGHT``, the default ranker gets the default probabilities, shifted to this
    tracker's share of duplicates. For ``replayed`` see ``LearnedHistory``; ``ranker`` is that of the test split, and
    ``seed`` that of the trees.

    Returns:
        The probabilities, and ``(B,)`` those of the matches of validation, by the trees of the other folds.
    """
    older = replayed[replayed["part"] != PARTS[TEST]]
    features = older[list(CONFIDENCE_FEATURES)].to_numpy()
    matches = Matches(features, *(older[name].to_numpy() for name in ("right", "weight", "fold")))
    is_known = ~older["unknown"].to_numpy()
    is_val = (older["part"] == PARTS[VAL]).to_numpy()
    known = matches.take(is_known)
    best = known.take(known.is_best)
    if best.right.sum() < MIN_RIGHT and is_default(ranker):
        default = default_confidence()
        confidence = default.shifted(fit_shift(default(best.features), best.right, best.weight))
        return confidence, confidence(features[is_val])
    confidence, held_out = learn_confidence(known, seed)
    probability = confidence(features)  # stays for unknown matches, which are not in the training data
    probability[is_known] = held_out
    return confidence, probability[is_val]


def folds(group: np.ndarray) -> np.ndarray:
    """A fold for each group number, ``(N,) -> (N,)``; neighbouring numbers are mixed, so that folds are equally old."""
    return group * 2654435761 // 2**16 % NUM_FOLDS  # Knuth's multiplicative hash


def replay(history: ReportHistory, rows: np.ndarray, rankers: Sequence[ReportRanker], label: str) -> pd.DataFrame:
    """The best groups for reports of a corpus, without later reports as candidates or in word statistics.

    Matches are right by today's groups, as an export does not say when reports were marked as duplicates. ``rows`` are
    the queries, ascending; ``label`` is that of the progress bar.

    Returns:
        A row for each of up to ``NUM_COMPARED`` candidates of each query: ``query``, ``candidate`` (rows), ``right``
        (both are in one group), ``rank`` (of the query's first right candidate, 0 if none is right), and
        ``CONFIDENCE_FEATURES``.
    """
    best = partial(_best_groups, dict(zip(rows.tolist(), rankers, strict=True)))
    blocks = [np.empty((0, len(COLUMNS))), *history.replay_with(best, rows.tolist(), label)]
    table = pd.DataFrame(np.concatenate(blocks), columns=list(COLUMNS))
    return table.astype({"query": np.int64, "candidate": np.int64, "place": np.int64, "right": bool, "rank": np.int64})


def _best_groups(rankers: Mapping[int, ReportRanker], query: Replayed) -> np.ndarray:
    """The ``COLUMNS`` of the best candidates of a report, ``(C, F)``; ``rankers`` are by row."""
    scores = rankers[query.row].scores(query.features)
    order = np.argsort(-scores, kind="stable")
    # Any member of the right group is right, as a triager links the report to the whole group.
    right = query.right[order]
    rank = int(right.argmax()) + 1 if right.any() else 0
    order = order[:NUM_COMPARED]
    columns = [np.full(len(order), query.row), query.best[order], right[:NUM_COMPARED]]
    features = confidence_features(query.features[order], scores[order])
    return np.column_stack([*columns, np.full(len(order), rank), features])


def unknown_reasons(matches: pd.DataFrame, corpus: Corpus) -> np.ndarray:
    """The reasons why matches (``query``, ``candidate``, ``right``) that are not marked may be duplicates.

    Returns:
        ``(B,)`` texts: ``UNNAMED_ORIGINAL`` if the query was closed as a duplicate of a report that the export does not
        name; ``SAME_TITLE`` if both have the same non-empty title, ignoring case and white space; empty for matches
        that are known to be right or wrong.
    """
    reports = corpus.reports
    query = matches["query"].to_numpy()
    candidate = matches["candidate"].to_numpy()
    titles = reports["title"].str.casefold().str.split().str.join(" ").to_numpy()
    same = (titles[query] == titles[candidate]) & (titles[query] != "")
    closed = reports["resolution"].map(says_duplicate).to_numpy(dtype=bool)
    unnamed = (closed & ~corpus.relevance.in_group)[query]
    reasons = np.where(unnamed, UNNAMED_ORIGINAL, np.where(same, SAME_TITLE, ""))
    return np.where(matches["right"].to_numpy(), "", reasons)
