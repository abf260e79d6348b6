"""Learns from a tracker's history what a backtest measures: a ranker, and the probability of a match."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import PARTS, TEST, TRAIN, VAL
from gedbd.retrieval.reports.history import ReportHistory
from gedbd.retrieval.reports.ranker import ReportRanker
from gedbd.retrieval.reports.training import RankerOptions, fit_ranker
from gedbd.triage.backtesting.replay import replay
from gedbd.triage.confidence import CONFIDENCE_FEATURES, Confidence, learn_confidence


class Learnt(NamedTuple):
    """What was learnt, and the replay that it was learnt from and is measured on.

    Attributes:
        ranker: Trained on the duplicates of training and validation.
        replayed: The best matches of reports of all parts, see ``replay``, with the column ``part``.
    """

    ranker: ReportRanker
    replayed: pd.DataFrame


def learn(corpus: Corpus, parts: np.ndarray, vectors: np.ndarray, max_reports: int, options: RankerOptions) -> Learnt:
    """Trains rankers, and replays the reports of each part with one that has not seen their labels.

    A ranker scores queries that it was trained on too high. So the training part is replayed with two rankers, each
    trained on every other duplicate group, the validation part with one that is trained on the training part, and the
    test part with one that is trained on both.

    Args:
        corpus: The reports.
        parts: ``(N,)`` part of each.
        vectors: ``(N, D)`` unit rows.
        max_reports: Number of reports of each part that are replayed, evenly spaced in time.
        options: How rankers are trained.
    """
    history = ReportHistory.of_corpus(corpus, vectors)
    labelled = history.duplicates
    labelled = labelled[parts[labelled] != TEST]
    examples = list(history.replay(labelled, "learn to rank"))
    by_part = [[one for one in examples if parts[one.row] == number] for number in (TRAIN, VAL)]
    halves = [[one for one in by_part[0] if _half(corpus.group[one.row]) == half] for half in (0, 1)]
    of_train = [fit_ranker(half, options) for half in halves]
    of_val = fit_ranker(by_part[0], options)
    ranker = fit_ranker(examples, options)
    tables = []
    for number, part in enumerate(PARTS):
        rows = evenly_spaced(np.flatnonzero(parts == number), max_reports)
        rankers = {TRAIN: of_train[::-1], VAL: [of_val], TEST: [ranker]}[number]
        # A report of half 0 is scored by the ranker of half 1.
        chosen = [rankers[_half(corpus.group[row]) % len(rankers)] for row in rows]
        tables.append(replay(history, rows, chosen, f"replay {part}").assign(part=part))
    return Learnt(ranker, pd.concat(tables, ignore_index=True))


def learn_probability(replayed: pd.DataFrame, seed: int) -> Confidence:
    """Learns probabilities on the replayed training part and calibrates them on the validation part."""
    # Only the best candidate of a report is ever suggested: the trees learn on these.
    train = replayed[(replayed["part"] == "train") & (replayed["place"] == 1)]
    val = replayed[(replayed["part"] == "val") & (replayed["place"] == 1)]
    names = list(CONFIDENCE_FEATURES)
    return learn_confidence(
        (train[names].to_numpy(), train["right"].to_numpy()), (val[names].to_numpy(), val["right"].to_numpy()), seed
    )


def evenly_spaced(rows: np.ndarray, max_rows: int) -> np.ndarray:
    """At most ``max_rows`` of some rows, evenly spaced: two of ``[3, 4, 5]`` are ``[3, 5]``."""
    if len(rows) <= max_rows:
        return rows
    return rows[np.linspace(0, len(rows) - 1, max_rows).round().astype(np.int64)]


def _half(group: int) -> int:
    """0 or 1 for a group: neighbouring numbers are mixed, so that halves are of equal age."""
    return int(group) * 2654435761 // 2**16 % 2
