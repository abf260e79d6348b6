import numpy as np
import pandas as pd
import pytest

from gedbd.encoders.node2vec import TagEncoder
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs
from gedbd.retrieval.scorers.table_vectors import TagOverlap, TagSimilarity

PAIRS = pd.DataFrame({"query": [2], "document": [0], "label": [1]})


def table(*labels: str) -> pd.DataFrame:
    days = pd.to_datetime([f"2024-01-{day + 1:02}" for day in range(len(labels))], utc=True)
    return pd.DataFrame({"component": "", "labels": list(labels), "created_at": days})


def naive_overlap(first: str, second: str) -> float:
    a, b = ({tag for tag in labels.lower().split(";") if tag} for labels in (first, second))
    return len(a & b) / len(a | b) if a | b else 0.0


@pytest.fixture(scope="module")
def reports() -> pd.DataFrame:
    return table("ui;crash", "UI", "crash;ui", "crash;net", "", "later;ui", "")


def test_overlap_is_that_of_sets(reports):
    scorer = TagOverlap()
    scorer.fit(ScorerInputs(reports, reports, PAIRS))
    expected = [[naive_overlap(a, b) for b in reports["labels"]] for a in reports["labels"]]
    scores = scorer.scores(np.arange(7))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, rtol=1e-6)
    assert scores[0, 3] == pytest.approx(1 / 3)


def test_tags_that_only_a_query_has_count_in_the_union(reports):
    scorer = TagOverlap()
    scorer.fit(ScorerInputs(reports, table("ui;new;newer"), PAIRS.assign(query=0)))
    assert scorer.scores(np.array([0]))[0, :2] == pytest.approx([1 / 4, 1 / 3])


def test_similarity_is_the_cosine_of_vectors_learnt_before_the_last_training_query(reports):
    encoder = TagEncoder(dim=8, length=10)
    scorer = TagSimilarity(encoder)
    scorer.fit(ScorerInputs(reports, reports, PAIRS))
    assert encoder.network_.tags == ("crash", "ui")  # of the rows 0 to 2
    scores = scorer.scores(np.array([0, 4]))
    crash, ui = encoder.vectors_
    cosine = crash @ ui / np.linalg.norm(crash) / np.linalg.norm(ui)
    # The most frequent tag of row 0 is ui, which occurs three times; row 3 has crash alone, rows 4 and 6 nothing.
    assert scores[0] == pytest.approx([1, 1, 1, cosine, 0, 1, 0], abs=1e-6)
    assert not scores[1].any()
    assert any("2 of 7 documents have no tag" in warning for warning in scorer.warnings_)


def test_queries_of_another_table_are_encoded_with_the_documents_vectors(reports):
    scorer = TagSimilarity(TagEncoder(dim=8, length=10))
    scorer.fit(ScorerInputs(reports, table("net", "unknown;ui"), PAIRS.iloc[:0]))
    scores = scorer.scores(np.array([1]))
    assert scores[0, :2] == pytest.approx([1, 1], abs=1e-6)
    assert scores.shape == (1, 7)
