"""The replayed queries of trackers, as the benchmarks of report rankers read them, and what they train and count."""

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from gedbd.corpora.corpus import TEST, Corpus
from gedbd.corpora.tracker_samples import sample_of
from gedbd.experiments.prepare import encode_corpus
from gedbd.io.files import CONF_DIR
from gedbd.retrieval.boosted_trees import BoostedTrees, LabelledLists, fit_boosted_trees
from gedbd.retrieval.report_ranking.candidate_features import FEATURES
from gedbd.retrieval.report_ranking.report_ranker import ReportRanker
from gedbd.retrieval.report_ranking.report_training import Replayed, ReportHistory
from gedbd.retrieval.scorers.dense_scorer import cosines
from gedbd.triage.backtesting.history_replay import unknown_reasons

# How large these are depends on the encoder, whose cosines are distributed in their own way.
OF_ENCODER = ("dense", "dense group mean", "dense hub", "dense query hub", "sum")
# What a tracker without dates does not have.
OF_DATES = ("open", "days", "days since first", "days since last")
SHARE_UNDATED = 0.5
MAX_CANDIDATES = 60


class Tracker(NamedTuple):
    """A tracker's queries.

    Attributes:
        name: Its name.
        size: Number of reports.
        sample: See ``sample_of``.
        queries: Reports with an earlier duplicate; ``group`` holds the group that each candidate has today.
        others: Some reports without one, evenly spaced.
        unknown: For each of these reports ``(C,)`` bool: it is unknown whether a candidate is wrong.
        part: Part of each report.
        unweighted: Rank of the right group of each query of the test part by the sum of the z-scores of cosine and BM25
            over all earlier reports.
    """

    name: str
    size: int
    sample: tuple[int, ...]
    queries: list[Replayed]
    others: list[Replayed]
    unknown: dict[int, np.ndarray]
    part: np.ndarray
    unweighted: np.ndarray

    def of_part(self, *parts: int) -> list[Replayed]:
        """The queries of some parts."""
        return [one for one in self.queries if self.part[one.row] in parts]


def read_tracker(path: str, backend: str) -> tuple[Corpus, np.ndarray]:
    """A tracker's reports and their vectors, by the encoder for bug reports that was trained without the tracker."""
    words = ["encoder=bug_minilm", f"encoder.without={Path(path).parent.name}", f"backend={backend}"]
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        cfg = compose("baseline", ["name=bm25", "dataset=csv", f"dataset.path={path}", *words])
    corpus = instantiate(cfg.dataset)
    return corpus, encode_corpus(cfg, corpus, None).vectors


def parts_by_time(size: int) -> np.ndarray:
    """The part of each of N reports: 60% training, 20% validation, 20% test, in the order of time."""
    return np.digitize(np.arange(size), [int(0.6 * size), int(0.8 * size)])


def load_tracker(path: str, backend: str, num_others: int, kept: Path | None) -> Tracker:
    """Replays a tracker's queries, or reads what an earlier run has kept."""
    name = Path(path).parent.name
    place = None if kept is None else kept / f"{name}.pkl"
    if place is not None and place.is_file():
        return Tracker(**pickle.loads(place.read_bytes()))
    corpus, vectors = read_tracker(path, backend)
    history = ReportHistory.of_corpus(corpus, vectors)
    single = np.setdiff1d(np.arange(1, len(corpus)), history.duplicates)
    others = single[np.linspace(0, len(single) - 1, min(num_others, len(single))).round().astype(int)]
    found, single_found = (
        [one._replace(group=corpus.group[one.best]) for one in history.replay(rows, name)]
        for rows in (history.duplicates, others)
    )
    unknown = unknown_candidates([*found, *single_found], corpus)
    part = parts_by_time(len(corpus))
    unweighted = unweighted_ranks(history, history.duplicates[part[history.duplicates] == TEST])
    tracker = Tracker(name, len(corpus), sample_of(corpus.reports), found, single_found, unknown, part, unweighted)
    if place is not None:
        place.write_bytes(pickle.dumps(tracker._asdict()))
    return tracker


def unknown_candidates(replayed: Sequence[Replayed], corpus: Corpus) -> dict[int, np.ndarray]:
    """See ``Tracker.unknown``."""
    number = [len(one.best) for one in replayed]
    pairs = pd.DataFrame(
        {
            "query": np.repeat([one.row for one in replayed], number),
            "candidate": np.concatenate([one.best for one in replayed]),
            "right": np.concatenate([one.right for one in replayed]),
        }
    )
    unknown = np.split(unknown_reasons(pairs, corpus) != "", np.cumsum(number)[:-1])
    return {one.row: own for one, own in zip(replayed, unknown, strict=True)}


def unweighted_ranks(history: ReportHistory, rows: np.ndarray) -> np.ndarray:
    """See ``Tracker.unweighted``; a group counts once, by its best report."""
    found = []
    for row in rows.tolist():
        query = history.features[row]
        dense = cosines(history.features.vectors[:row], query.vectors)[0]
        kinds = (dense, np.sqrt(history.store.terms["text"].scores(query.terms["text"][0], row)))
        total = sum((one - one.mean()) / max(one.std(), 1e-9) for one in kinds)
        group = history.group[:row]
        best = total[group == history.group[row]].max()
        found.append(1 + len(np.unique(group[total > best])))
    return np.array(found)


def fit_default(trackers: Sequence[Tracker], num_seeds: int, rounds: int) -> ReportRanker:
    """A ranker trained on all queries of some trackers, each tracker with the same weight.

    ``SHARE_UNDATED`` of the queries lose their dates, so that the ranker does not rely on them: on Eclipse's validation
    queries, which have none, this lifted its MRR from .718 to .756.
    """
    generator = np.random.default_rng(0)
    features, relevance, weight = [], [], []
    of_encoder = [FEATURES.index(name) for name in OF_ENCODER]
    of_dates = [FEATURES.index(name) for name in OF_DATES]
    for tracker in trackers:
        usable = [one for one in tracker.queries if one.right[:MAX_CANDIDATES].any()]
        for one in usable:
            table = one.features[:MAX_CANDIDATES].copy()
            table[:, of_encoder] = np.nan  # the trees never read what is always missing
            if generator.random() < SHARE_UNDATED:
                table[:, of_dates] = np.nan
            features.append(table)
            relevance.append(one.right[:MAX_CANDIDATES].astype(np.int64))
            weight.append(1000 / len(usable))
    lists = LabelledLists(features, relevance, np.array(weight) / np.mean(weight))
    fit = partial(fit_boosted_trees, feature_fraction=0.4, truncation=20, min_child=30, num_leaves=15)
    trees = fit(lists, seeds=range(num_seeds), rounds=rounds)
    return ReportRanker(rounded_trees(trees), trained_on=tuple(one.sample for one in trackers))


def rounded_trees(trees: BoostedTrees) -> BoostedTrees:
    """Trees with fewer digits: a shorter file."""
    rounded = [one._replace(threshold=_rounded(one.threshold, 6), value=_rounded(one.value, 4)) for one in trees.trees]
    return BoostedTrees(rounded, trees.num_features)


def ranks(queries: Sequence[Replayed], score: Callable[[Replayed], np.ndarray]) -> np.ndarray:
    """Rank of the right group of each query, 0 if it is no candidate; groups of today count once."""
    found = []
    for one in queries:
        order = np.argsort(-score(one), kind="stable")
        right, group = one.right[order], one.group[order]
        if right.any():
            first = int(right.argmax())
            found.append(1 + len(set(group[:first].tolist()) - {int(group[first])}))
        else:
            found.append(0)
    return np.array(found)


def metrics(found: np.ndarray) -> tuple[float, float, float]:
    """RR@1, RR@10 and MRR of ranks."""
    reached = found > 0
    reciprocal = np.where(reached, 1 / np.maximum(found, 1), 0)
    return float((found == 1).mean()), float((reached & (found <= 10)).mean()), float(reciprocal.mean())


def _rounded(values: np.ndarray, digits: int) -> np.ndarray:
    """Values with so many significant digits."""
    return np.array([float(f"{value:.{digits}g}") for value in values])
