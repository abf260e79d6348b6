"""Ranks the candidates of a query by their features, with a model that is trained on earlier queries."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from importlib.resources import files as package_files
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import TRAIN, VAL
from gedbd.retrieval.ranking_models import ModelOptions, RankerText, RankingModel, fit_weighted_sum, ranker_text
from gedbd.retrieval.reports.candidate_features import FEATURES, RELATIVE, relative
from gedbd.retrieval.reports.report_history import Replayed, ReportHistory

SIZE = 64
SEEN = "the default ranker was trained on this tracker and knows its duplicates"
MIN_SHARE = 0.5  # of a sample that the reports of the same tracker contain
DEFAULT = "default_ranker.json"
BASE_FEATURES = tuple(f"base{kind}" for kind in RELATIVE)


class ReportRanker:
    """Scores the candidates of a query; only the order of the scores of one query says something.

    Args:
        model: Scores rows of features.
        kind: Of the model: ``boosted`` or ``linear``.
        extra: Names of the features that are given from elsewhere, behind ``FEATURES``.
        base: A ranker that was trained on other trackers; its scores are the last features of the model.
        trained_on: Samples of the reports of the trackers that the ranker was trained on, see ``sample_of``.

    Attributes:
        names: The features that the model reads, in order.
    """

    def __init__(
        self,
        model: RankingModel,
        kind: str = "boosted",
        extra: tuple[str, ...] = (),
        base: "ReportRanker | None" = None,
        trained_on: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        self.model = model
        self.kind = kind
        self.extra = extra
        self.base = base
        self.trained_on = trained_on
        self.names = (*FEATURES, *extra, *(BASE_FEATURES if base else ()))

    def has_seen(self, reports: pd.DataFrame) -> bool:
        """Whether the ranker, or its base, was trained on these reports or an earlier state of their tracker."""
        return was_trained_on(reports, self.trained_on) or (self.base is not None and self.base.has_seen(reports))

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Scores of candidates, ``(C, F) -> (C,)``; higher is better."""
        if not len(features):
            return np.empty(0)
        return self.model.predict(with_base(features, self.base))

    def contributions(self, features: np.ndarray) -> list[dict[str, float]]:
        """What each feature adds to the score of each candidate, by name; their sum is the score less a constant.

        What the scores of the base add is divided among the features that the base read, in proportion to the size
        of what they added there with the same sign.
        """
        if not len(features):
            return []
        shares = self.model.contributions(with_base(features, self.base))
        rows = [dict(zip(self.names, row[:-1].tolist(), strict=True)) for row in shares]
        if self.base is not None:
            for row, inner in zip(rows, self.base.contributions(features[:, : len(FEATURES)]), strict=True):
                _divide(row, inner)
        return rows

    def to_text(self) -> str:
        """The ranker as text, to store it."""
        content = {
            "kind": self.kind,
            "features": list(self.names),
            "extra": list(self.extra),
            "trained_on": [list(sample) for sample in self.trained_on],
            "model": self.model.to_text().splitlines(),
            "base": None if self.base is None else self.base.to_text().splitlines(),
        }
        return ranker_text(content)

    @classmethod
    def from_text(cls, text: str) -> "ReportRanker":
        """The ranker that ``to_text`` was called on.

        Raises:
            ValueError: If the text is damaged, or the ranker was trained on other features than this version computes.
        """
        stored = RankerText(text, "ranker of reports")
        model, extra = stored.model("model"), tuple(stored.strings("extra"))
        base = None if stored.content.get("base") is None else cls.from_text("\n".join(stored.strings("base")))
        samples = stored.content.get("trained_on")
        if not isinstance(samples, list) or not all(isinstance(sample, list) for sample in samples):
            raise stored.error("'trained_on' is not a list of lists")
        if not all(type(number) is int for sample in samples for number in sample):
            raise stored.error("'trained_on' holds something else than numbers")
        ranker = cls(model, stored.content["kind"], extra, base, tuple(map(tuple, samples)))
        if tuple(stored.strings("features")) != ranker.names:
            raise stored.error("it was trained on other features")
        stored.check_model(model, len(ranker.names))
        return ranker


def with_base(features: np.ndarray, base: ReportRanker | None) -> np.ndarray:
    """Features of candidates of one query with those of a base behind them, ``(C, F) -> (C, F + 4)``."""
    if base is None:
        return features
    (columns,) = relative(base.scores(features[:, : len(FEATURES)])[None], np.array([len(features)]))
    return np.column_stack([features, *columns]).astype(np.float32)


def _divide(row: dict[str, float], inner: dict[str, float]) -> None:
    """Moves what the scores of the base add to the features that the base read."""
    total = sum(row.pop(name) for name in BASE_FEATURES)
    same_sign = {name: value for name, value in inner.items() if value * total > 0}
    whole = sum(same_sign.values())
    for name, value in same_sign.items():
        row[name] += total * value / whole


def default_ranker() -> ReportRanker:
    """The ranker for trackers without duplicates of their own to learn from, see ``default_ranker.md``."""
    text = (package_files("gedbd.retrieval.reports") / DEFAULT).read_text(encoding="utf-8")
    return ReportRanker.from_text(text)


def is_default(ranker: ReportRanker) -> bool:
    """Whether a ranker is the default ranker itself, not one that was trained on top of it."""
    return ranker.base is None and ranker.trained_on == default_ranker().trained_on


def read_base(base: str | None) -> ReportRanker | None:
    """The ranker that an option names: ``default`` is the default ranker, null none, everything else a file.

    Raises:
        ValueError: If there is no such file, or it holds no ranker.
    """
    if base is None:
        return None
    if base == "default":
        return default_ranker()
    if not Path(base).is_file():
        raise ValueError(f"base={base} of a ranker: there is no such file; give a file, default, or null for none")
    try:
        return ReportRanker.from_text(Path(base).read_text(encoding="utf-8", errors="replace"))
    except ValueError as error:
        raise ValueError(f"base={base}: {error}") from error


def sample_of(reports: pd.DataFrame) -> tuple[int, ...]:
    """The ``SIZE`` lowest hashes of id and title: a sample that tells the tracker but no text of it.

    As which hashes are lowest does not depend on the order or on the other reports, two states of one tracker share
    most of their samples (MinHash: Broder, 1997).
    """
    return tuple(sorted(_hashes(reports))[:SIZE])


def was_trained_on(reports: pd.DataFrame, samples: Sequence[Sequence[int]]) -> bool:
    """Whether the reports contain half of the reports of a sample."""
    if not samples:
        return False
    present = _hashes(reports)
    return any(len(present.intersection(sample)) >= MIN_SHARE * len(sample) for sample in samples if sample)


def _hashes(reports: pd.DataFrame) -> set[int]:
    texts = (f"{one}\n{title}" for one, title in zip(reports["id"], reports["title"], strict=True))
    return {int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=6).digest()) for text in texts}


MAX_CANDIDATES = 100  # of a training query, in the order of the first stage: those below teach little
MIN_STOPPING_QUERIES = 100  # with fewer, the number of rounds is not chosen by the latest ones
LATEST = 0.2  # share of the training queries, the latest, that choose the number of rounds
PATIENCE = 40
MIN_ROUNDS = 150  # the latest queries alone chose 30 to 110, which ranked validation worse than 150 to 200


@dataclass(frozen=True)
class RankerOptions(ModelOptions):
    """How a ranker is trained; the values were chosen on the validation parts of Xamarin's and Hadoop's reports.

    Attributes:
        base: A ranker that was trained on other trackers, whose scores are further features, see ``read_base``.
        default_below: With fewer queries to learn from, nothing is trained: the ranker is the base.
    """

    base: str | None = None
    default_below: int = 300

    def without_seen(self, reports: pd.DataFrame) -> "RankerOptions":
        """Options without a base that was trained on the reports' own tracker: it knows the duplicates to be found."""
        base = read_base(self.base)
        return replace(self, base=None) if base is not None and base.has_seen(reports) else self

    def settled(self, examples: Sequence[Replayed]) -> "RankerOptions":
        """Options by which parts of some queries are treated as all of them: trained on, or left to the base."""
        is_enough = self.base is None or len(usable_queries(examples)) >= self.default_below
        return replace(self, default_below=0 if is_enough else sys.maxsize)


def usable_queries(examples: Sequence[Replayed]) -> list[Replayed]:
    """The queries that teach something: a duplicate is among their first candidates."""
    return [one for one in examples if one.right[:MAX_CANDIDATES].any()]


def fit_ranker(
    examples: Sequence[Replayed], options: RankerOptions | None = None, extra: tuple[str, ...] = ()
) -> ReportRanker:
    """Trains a ranker; queries whose duplicate is not among the candidates teach nothing and are left out.

    Boosted trees stop early by time: trees that are trained on the older queries choose the number of rounds on the
    latest ones, and the ranker is then trained on all.

    Args:
        examples: Replayed reports in the order of time.
        options: None for the default ones.
        extra: Names of the features behind ``FEATURES``.

    Raises:
        ValueError: If no example has a right candidate and a wrong one.
    """
    options = options or RankerOptions()
    base = read_base(options.base)
    usable = usable_queries(examples)
    if base is not None and len(usable) < options.default_below:
        return base
    if not any((~one.right[:MAX_CANDIDATES]).any() for one in usable):
        raise ValueError("a ranker of reports needs a query with a duplicate among its candidates to learn from")
    return ReportRanker(_fit(usable, options, base), options.kind, extra, base)


def _fit(examples: Sequence[Replayed], options: RankerOptions, base: ReportRanker | None) -> RankingModel:
    # The base ranks all candidates, as in a search, before the first of them are chosen.
    features = [with_base(one.features, base)[:MAX_CANDIDATES] for one in examples]
    relevance = [one.right[:MAX_CANDIDATES].astype(np.int64) for one in examples]
    if options.kind == "linear":
        return fit_weighted_sum(features, relevance)
    from gedbd.retrieval.boosting import LabelledLists

    settings = {"feature_fraction": 0.4, "truncation": 20}
    rounds = options.rounds
    first = round(len(examples) * (1 - LATEST))
    if len(examples) >= MIN_STOPPING_QUERIES:
        older = LabelledLists(features[:first], relevance[:first])
        later = LabelledLists(features[first:], relevance[first:])
        stopped = options.fit_boosted(older, 1, later=later, patience=PATIENCE, **settings)
        rounds = min(rounds, max(MIN_ROUNDS, len(stopped.trees)))
    return options.fit_boosted(LabelledLists(features, relevance), options.num_seeds, rounds=rounds, **settings)


METRICS = ("ranker_rr@10", "ranker_mrr")


class RankerOnTop:
    """Ranks the validation queries by one and the same ranker over the vectors of each epoch.

    The ranker is trained on the training queries over the vectors of the encoder before its training: a trained
    encoder scores the duplicates that it has learnt from too high.

    Args:
        corpus: The reports.
        parts: ``(N,)`` part of each.
        untrained: ``(N, D)`` unit vectors of the encoder before its training.
        options: How the ranker is trained; None for the default ones with one training.
    """

    def __init__(
        self, corpus: Corpus, parts: np.ndarray, untrained: np.ndarray, options: RankerOptions | None = None
    ) -> None:
        self.corpus = corpus
        self.parts = parts
        self.untrained = untrained
        self.options = options or RankerOptions(num_seeds=1)
        self._fitted: tuple[ReportHistory, ReportRanker] | None = None

    def metrics(self, vectors: np.ndarray) -> dict[str, float]:
        """RR@10 and MRR by the names ``METRICS``; a query whose duplicate is no candidate counts as 0.

        Args:
            vectors: ``(N, D)`` unit rows.

        Raises:
            ValueError: If the training part has no query to learn from.
        """
        if self._fitted is None:
            self._fitted = self._fit()
        history, ranker = self._fitted
        queries = self._queries(history, VAL)
        replayed = history.with_vectors(vectors).replay(queries, "rank validation")
        found = np.array([_reciprocal_rank(ranker, one) for one in replayed])
        return {"ranker_rr@10": float((found >= 0.1).mean()), "ranker_mrr": float(found.mean())}

    def _fit(self) -> tuple[ReportHistory, ReportRanker]:
        history = ReportHistory.of_corpus(self.corpus, self.untrained)
        examples = list(history.replay(self._queries(history, TRAIN), "learn to rank"))
        return history, fit_ranker(examples, self.options)

    def _queries(self, history: ReportHistory, part: int) -> np.ndarray:
        is_of_part = self.parts[history.duplicates] == part
        return np.asarray(history.duplicates[is_of_part])


def _reciprocal_rank(ranker: ReportRanker, one: Replayed) -> float:
    """1 / rank of the first right group; 0 if none is a candidate."""
    if not one.right.any():
        return 0.0
    scores = ranker.scores(one.features)
    order = np.argsort(-scores, kind="stable")
    return float(1 / (1 + np.flatnonzero(one.right[order])[0]))
