from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from gedbd.encoders.loaded_encoder import load_tiny_encoder
from gedbd.encoders.node2vec import TagEncoder
from gedbd.questions.question_vectors import TitleBody
from gedbd.retrieval.scorers.dense_scorer import TableVectorScorer, TagOverlap, TagSimilarity
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs

NO_PAIRS = pd.DataFrame({"query": [], "document": [], "label": []}, dtype=np.int64)


class Lengths:
    """Vectors of two halves that are easy to work out by hand."""

    warnings_ = ()

    def fit(self, documents: pd.DataFrame) -> None:
        pass

    def encode(self, table: pd.DataFrame) -> np.ndarray:
        title = [[1, 0] if "crash" in text else [0, 1] if text else [0, 0] for text in table["title"]]
        body = [[0.6, 0.8] if text else [0, 0] for text in table["description"]]
        return np.hstack([title, body]).astype(np.float32)


def table(rows: Sequence[tuple[str, str, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["title", "description", "labels"]).assign(component="")


DOCUMENTS = table([("crash", "text", "a;b"), ("slow", "text", "b"), ("crash", "", "a"), ("", "", "")])


def test_cosines_worked_out_by_hand():
    scorer = TableVectorScorer(Lengths())
    scorer.fit(ScorerInputs(DOCUMENTS, DOCUMENTS, NO_PAIRS))
    # Both titles and bodies: the mean of their cosines. Against a lacking body: 1 / sqrt(2).
    half = 0.5**0.5
    expected = [[1, 0.5, half, 0], [0.5, 1, 0, 0], [half, 0, 1, 0], [0, 0, 0, 0]]
    found = scorer.scores(np.arange(4))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert scorer.warnings_ == ()


def test_the_tag_has_its_weight_beside_title_and_body():
    tags = TagEncoder(dim=4, epochs=1)
    scorer = TableVectorScorer(Lengths(), tags, tag_weight=0.5)
    scorer.fit(ScorerInputs(DOCUMENTS, DOCUMENTS, NO_PAIRS))
    vectors = tags.encode([("a",), ("b",)])
    tag_cosine = vectors[0] @ vectors[1] / np.linalg.norm(vectors[0]) / np.linalg.norm(vectors[1])
    # Rows 0 and 1 differ in the title and have main tags a and b: title 0, body 1, tag 0.25 of squared length 2.25.
    assert scorer.scores(np.array([0]))[0, 1] == pytest.approx((1 + 0.25 * tag_cosine) / 2.25, abs=1e-5)
    assert "1 of 4 documents have no tag" in scorer.warnings_[-1]


def test_frozen_title_and_body_score_by_the_mean_of_both_cosines():
    encoder = load_tiny_encoder("tiny", "mean", dim=8, max_tokens=16, hidden=16, layers=1, dropout=0.0, seed=0)
    texts = table([("crash on start", "editor", ""), ("slow print", "window", "")])
    scorer = TableVectorScorer(TitleBody(encoder, clean=False))
    scorer.fit(ScorerInputs(texts, texts, NO_PAIRS))
    title = encoder.encode(["crash on start", "slow print"])
    body = encoder.encode(["editor", "window"])
    expected = (title[0] @ title[1] + body[0] @ body[1]) / 2
    assert scorer.scores(np.array([0]))[0, 1] == pytest.approx(expected, abs=1e-5)


def test_tags_are_learnt_from_the_documents_until_the_last_training_query():
    dated = DOCUMENTS.assign(labels=["a;b", "b", "a", "late"])
    tags = TagEncoder(dim=4, epochs=1)
    train = pd.DataFrame({"query": [1, 2], "document": [0, 0], "label": [1, 0]})
    TableVectorScorer(Lengths(), tags).fit(ScorerInputs(dated, dated, train))
    assert tags.network_.tags == ("a", "b")


PAIRS = pd.DataFrame({"query": [2], "document": [0], "label": [1]})


def naive_overlap(first: str, second: str) -> float:
    a, b = ({tag for tag in labels.lower().split(";") if tag} for labels in (first, second))
    return len(a & b) / len(a | b) if a | b else 0.0


@pytest.fixture(scope="module")
def reports() -> pd.DataFrame:
    labels = ["ui;crash", "UI", "crash;ui", "crash;net", "", "later;ui", ""]
    days = pd.date_range("2024-01-01", periods=len(labels), tz="UTC")
    return pd.DataFrame({"component": "", "labels": labels, "created_at": days})


def test_overlap_is_that_of_sets(reports):
    scorer = TagOverlap()
    scorer.fit(ScorerInputs(reports, reports, PAIRS))
    expected = [[naive_overlap(a, b) for b in reports["labels"]] for a in reports["labels"]]
    scores = scorer.scores(np.arange(7))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, rtol=1e-6)
    assert scores[0, 3] == pytest.approx(1 / 3)


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
