"""A small tracker, and an index of it, for the tests beside."""

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.bug_report import Report, as_table
from gedbd.corpora.corpus import Corpus
from gedbd.corpora.templates import title_description
from gedbd.encoders.loaded_encoder import load_tiny_encoder
from gedbd.evaluation.thresholds import TargetResult
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.retrieval.boosted_trees import BoostedTrees, RegressionTree
from gedbd.retrieval.feature_ranker import WeightedFeatures
from gedbd.retrieval.report_ranking.candidate_features import FEATURES
from gedbd.retrieval.report_ranking.report_ranker import ReportRanker
from gedbd.triage.index_building import Model, synchronise
from gedbd.triage.storage.folder_store import FolderStore
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.stored_model import ReportEncoder
from gedbd.triage.stored_index import StoredIndex
from gedbd.triage.triage_model import CONFIDENCE_FEATURES, MatchProbability, TriageModel

NOUNS = ["crash", "picture", "paste", "mail", "folder", "filter", "printer", "calendar", "login", "menu"]
PLACES = ["toolbar", "inbox", "window", "sidebar", "editor", "archive", "address", "dialog"]
WEIGHTS = {"dense": 1.0, "text": 1.0, "title": 0.5}
WEIGHTS |= {"same component": 0.3, "same product": 0.2, "days": -0.1, "open": 0.15}
RANKER = ReportRanker(WeightedFeatures(np.array([WEIGHTS.get(name, 0.0) for name in FEATURES])))
TARGET = TargetResult(0.8, 0.7, "met", 50, 46, 0.92, 0.83, 0.98, "2024-01-01", "2024-01-20")


def stump(feature: int, threshold: float, low: float, high: float) -> RegressionTree:
    """A tree with one split; a value up to the threshold, or none, gives the low value."""
    split = (np.array([feature]), np.array([threshold]), np.array([True]), np.array([-1]), np.array([-2]))
    return RegressionTree(*split, np.array([low, high]), np.array([1, 1]))


def some_confidence() -> MatchProbability:
    """The higher the score and the further it is ahead, the higher the probability, in steps."""
    stumps = [stump(feature, step, 0.0, 0.025) for feature in (0, 1) for step in np.linspace(-2, 4, 20)]
    return MatchProbability(
        BoostedTrees(stumps, len(CONFIDENCE_FEATURES)), np.array([0.0, 1.0]), np.array([0.01, 0.99])
    )


CONFIDENCE = some_confidence()
MATCHING = TriageModel(RANKER, CONFIDENCE, (TARGET,), 0.8)


def tiny_reader(hidden: int = 16) -> ReportEncoder:
    """Reads with a tiny random encoder."""
    encoder = load_tiny_encoder("tiny", "mean", dim=8, max_tokens=32, hidden=hidden, layers=1, dropout=0.0, seed=0)
    encoder.model.eval()
    return ReportEncoder(encoder, title_description)


@pytest.fixture(scope="session")
def reader() -> ReportEncoder:
    return tiny_reader()


def some_report(number: int, **values) -> Report:
    """A report with an id and a day of its own; its text is that of one in eighty."""
    noun, place = NOUNS[number % 10], PLACES[number // 10 % 8]
    text = {
        "title": f"{noun} in the {place}",
        "description": f"The {noun} is lost when I open the {place}. Word{number}.",
    }
    created = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=number)
    made = {"issue_id": str(number), "created_at": created, "component": ["ui", "net", ""][number % 3]}
    return Report(**(text | made | values))


def text_of(number: int, **values) -> Report:
    """The text of ``some_report``, without its id."""
    return some_report(number, issue_id="", **values)


def as_corpus(reports: list[Report], group=None) -> Corpus:
    """Reports in chronological order as a corpus."""
    return Corpus.of_table("small", as_table(reports), np.arange(len(reports)) if group is None else np.asarray(group))


def model(key: str = "first") -> Model:
    return Model({"model": key, "name": "small", "matching": MATCHING.as_json()}, b"")


def fill(folder: Path, corpus: Corpus, reader, key: str = "first"):
    """Brings the index in a folder to the state of a corpus."""
    with closing(IndexStore(folder / FILE)) as store:
        return tuple(synchronise(store, corpus, model(key), lambda rows: read_rows(reader, rows)))[:4]


def read_rows(reader, rows: pd.DataFrame) -> np.ndarray:
    return np.concatenate([reader(rows.iloc[[row]]) for row in range(len(rows))])


class Switch:
    """A reader of reports that can be exchanged while the index is open."""

    def __init__(self, read):
        self.read = read

    def __call__(self, reports: pd.DataFrame) -> np.ndarray:
        return self.read(reports)


def open_folder(folder: Path, reader) -> StoredIndex:
    try:
        return StoredIndex(FolderStore(folder, lambda store: (reader, MATCHING)), folder)
    except StoreUnavailable as error:
        raise ValueError(str(error)) from error


def found(index, report: Report, **options) -> list[str]:
    """The oldest report of each group that a search finds."""
    return [match.master.issue_id for match in index.search(report, **options)]


def writes_to(index) -> tuple[Callable[[], object], ...]:
    """A change of each kind of an index of some reports, to be made."""
    return (
        lambda: index.add([some_report(50)]),
        lambda: index.link("1", "2", "triager"),
        lambda: index.unlink("1", "2"),
        lambda: index.delete("3"),
    )


def stored_terms(store: IndexStore) -> list[str]:
    """The terms of an index by number, empty where no report has one any more."""
    return [term for (term,) in store.query("SELECT term FROM terms ORDER BY number")]
