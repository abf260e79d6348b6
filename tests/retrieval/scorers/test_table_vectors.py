from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from gedbd.encoders.loaded_encoder import load_tiny_encoder
from gedbd.encoders.node2vec import TagEncoder
from gedbd.encoders.title_body import TitleBody
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs
from gedbd.retrieval.scorers.table_vectors import TableVectorScorer

NO_PAIRS = pd.DataFrame({"query": [], "document": [], "label": []}, dtype=np.int64)


class Lengths:
    """Vectors of two halves that are easy to work out by hand."""

    def encode(self, table: pd.DataFrame) -> np.ndarray:
        title = [[1, 0] if "crash" in text else [0, 1] if text else [0, 0] for text in table["title"]]
        body = [[0.6, 0.8] if text else [0, 0] for text in table["description"]]
        return np.hstack([title, body]).astype(np.float32)


class FittedLengths(Lengths):
    def __init__(self) -> None:
        self.warnings_: tuple[str, ...] = ()

    def fit(self, documents: pd.DataFrame) -> None:
        self.warnings_ = (f"fitted to {len(documents)}",)


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


def test_vectors_that_learn_are_fitted_to_the_documents_alone():
    scorer = TableVectorScorer(FittedLengths())
    scorer.fit(ScorerInputs(DOCUMENTS, DOCUMENTS[:2], NO_PAIRS))
    assert scorer.warnings_ == ("fitted to 4",)
    assert scorer.scores(np.array([1, 0])).shape == (2, 4)


def test_a_single_document_is_like_itself():
    scorer = TableVectorScorer(Lengths())
    one = DOCUMENTS[:1]
    scorer.fit(ScorerInputs(one, one, NO_PAIRS))
    assert scorer.scores(np.array([0])).tolist() == [[pytest.approx(1)]]


def test_a_negative_weight_is_refused():
    with pytest.raises(ValueError, match=r"^tag_weight=-1 must be 0 or more$"):
        TableVectorScorer(Lengths(), tag_weight=-1)


def test_a_corpus_without_tags_is_refused():
    untagged = DOCUMENTS.assign(labels="")
    scorer = TableVectorScorer(Lengths(), TagEncoder())
    with pytest.raises(ValueError, match="tag"):
        scorer.fit(ScorerInputs(untagged, untagged, NO_PAIRS))


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
