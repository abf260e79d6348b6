"""Small random trackers for the tests beside."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.bug_reports import BUG_FIELDS
from gedbd.retrieval.inverted_index import Vocabulary
from gedbd.retrieval.report_ranking.feature_store import FeatureEncoder, FeatureStore, ReportFeatures
from gedbd.retrieval.report_ranking.report_training import ReportHistory
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs

WORDS = ["crash", "paste", "picture", "mail", "lost", "folder", "slow", "start", "menu", "print", "sync", "login"]
NAMES = ["MailStore.openAll", "draft_count", "0x00ff", "MT5202", "pasteTable"]
ERRORS = ["error: cannot open folder 12", "NullPointerException in the mail store", "login failed for user 7"]
DIM = 4


def some_reports(seed: int, count: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Reports of random words, with and without identifiers, fields and dates, and unit vectors for them."""
    generator = np.random.default_rng(seed)
    reports = pd.DataFrame("", index=range(count), columns=list(BUG_FIELDS), dtype=str)
    reports["id"] = [str(row) for row in range(count)]
    reports["title"] = [" ".join(generator.choice(WORDS, size)) for size in generator.integers(0, 4, count)]
    for row in range(count):
        parts = [" ".join(generator.choice(WORDS, generator.integers(0, 12)))]
        parts += generator.choice(NAMES, generator.integers(0, 3)).tolist()
        parts += generator.choice(ERRORS, generator.integers(0, 2)).tolist()
        reports.loc[row, "description"] = "\n".join(parts)
    for name in ("product", "component", "version", "priority"):
        reports[name] = generator.choice([f"{name} one", f"{name} two", ""], count)
    since = pd.to_timedelta(np.sort(generator.random(count) * 100), unit="D")
    reports["created_at"] = pd.Series(pd.Timestamp("2024-01-01", tz="UTC") + since).dt.round("s")
    reports.loc[generator.random(count) < 0.1, "created_at"] = pd.NaT
    vectors = generator.normal(size=(count, DIM)).astype(np.float32)
    resolved = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(generator.random(count) * 150, unit="D")
    reports["resolved_at"] = pd.Series(resolved).dt.round("s").mask(generator.random(count) < 0.4)
    return reports, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def some_links(seed: int, count: int, share: float = 0.4) -> np.ndarray:
    """Links of a share of the reports to earlier ones, ``(2, L)``."""
    generator = np.random.default_rng(seed)
    rows = [row for row in range(1, count) if generator.random() < share]
    return np.array([rows, [generator.integers(row) for row in rows]], dtype=np.int64)


def some_history(seed: int, count: int) -> ReportHistory:
    """The history of such a tracker; the links say what is right."""
    from gedbd.corpora.relevance import find_groups

    links = some_links(seed, count)
    return ReportHistory.of_reports(*some_reports(seed, count), links, find_groups(links, count))


def some_features(seed: int, count: int) -> ReportFeatures:
    """Such reports as numbers."""
    return FeatureEncoder(Vocabulary()).encode(*some_reports(seed, count), learn=True)


def hand_made(
    vectors: list[list[float]] | None = None,
    texts: list[str] | None = None,
    component: list[str] | None = None,
    created_at: list[str | None] | None = None,
    identifiers: list[str] | None = None,
    resolved_at: list[str | None] | None = None,
) -> ReportFeatures:
    """Reports of which only some properties are given; the others are equal or empty."""
    count = max(
        len(given) for given in (vectors, texts, component, created_at, identifiers, resolved_at) if given is not None
    )
    reports = pd.DataFrame("", index=range(count), columns=list(BUG_FIELDS), dtype=str)
    reports["title"] = texts or [""] * count
    reports["description"] = identifiers or [""] * count
    reports["component"] = component or [""] * count
    reports["created_at"] = pd.to_datetime(pd.Series(created_at or [None] * count), utc=True)
    reports["resolved_at"] = pd.to_datetime(pd.Series(resolved_at or [None] * count), utc=True, format="ISO8601")
    table = np.array(vectors or [[1.0, 0.0]] * count, dtype=np.float32)
    return FeatureEncoder(Vocabulary()).encode(reports, table, learn=True)


def stored(features: ReportFeatures, count: int | None = None) -> FeatureStore:
    """A store of the first reports."""
    store = FeatureStore(features.vectors.shape[1])
    store.add(features.take(list(range(len(features) if count is None else count))))
    return store


def filled(make_corpus: Callable[..., Corpus], **columns: Sequence[str]) -> Corpus:
    """A corpus whose reports have such values in some columns."""
    corpus = make_corpus(range(len(next(iter(columns.values())))))
    for name, values in columns.items():
        corpus.reports[name] = list(values)
    return corpus


NO_PAIRS = pd.DataFrame({"earlier": [], "later": [], "label": []}, dtype=np.int64)


def scores_of(scorer: Scorer, corpus: Corpus, train: pd.DataFrame = NO_PAIRS) -> np.ndarray:
    """The scores of all pairs of reports by a scorer that is given some training pairs."""
    scorer.fit(ScorerInputs.of_reports(corpus.reports, train))
    return scorer.scores(np.arange(len(corpus)))


class PrecomputedScores(Scorer):
    """The scores of a matrix ``(Q, N)``."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix

    def fit(self, inputs: ScorerInputs) -> None:
        pass

    def scores(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.matrix[rows])
