import numpy as np
import pandas as pd
import pytest
from small_reports import PrecomputedScores

from gedbd.retrieval.scorers.bm25 import Bm25, TfIdf
from gedbd.retrieval.scorers.dense_scorer import VectorScorer, cosines
from gedbd.retrieval.scorers.rep import Bm25F, Rep
from gedbd.retrieval.scorers.scorer_contract import BLOCK, ScorerInputs, pair_scores
from gedbd.retrieval.scorers.simple_scorers import Closure, Constant, FieldAgreement, Recency

NO_TRAIN = pd.DataFrame({"query": [], "document": [], "label": []}, dtype=np.int64)


def table(titles: list[str], days: list[float | None], component: str = "") -> pd.DataFrame:
    created_at = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(pd.Series(days, dtype=float), unit="D")
    frame = pd.DataFrame({"title": titles, "created_at": created_at})
    return frame.assign(
        description="", component=component, product="", issue_id=[str(row) for row in range(len(days))]
    )


@pytest.fixture
def two_tables() -> ScorerInputs:
    """Four documents, and two queries that no document equals; the second is created after two of the documents."""
    documents = table(["crash paste", "mail lost", "crash", "print"], [0, 1, 5, 9])
    queries = table(["crash crash unknown", "lost mail"], [20, 2])
    train = pd.DataFrame({"query": [0, 0, 1], "document": [2, 0, 3], "label": [1, 1, 0]})
    return ScorerInputs(documents, queries, train)


@pytest.mark.parametrize("scorer", [Bm25(), TfIdf()])
def test_queries_of_another_table_score_as_if_they_were_the_same_text(two_tables, scorer):
    scorer.fit(two_tables)
    found = scorer.scores(np.array([1, 0]))
    assert found.shape == (2, 4)
    assert found[0].argmax() == 1
    assert found[1].argmax() == 2
    assert found[1, [1, 3]].tolist() == [0, 0]


def test_fields_and_dates_of_two_tables():
    documents = table(["a", "b"], [0, 8], component="Mail")
    inputs = ScorerInputs(documents, table(["c"], [10], component=" mail"), NO_TRAIN)
    agreement, recency, constant = FieldAgreement("component"), Recency(), Constant()
    for scorer in (agreement, recency, constant):
        scorer.fit(inputs)
    assert agreement.scores(np.array([0])).tolist() == [[1, 1]]
    assert recency.scores(np.array([0]))[0] == pytest.approx(-np.log([11, 3]))
    assert constant.scores(np.array([0])).tolist() == [[1, 1]]


def test_documents_that_exist_when_a_query_is_made(two_tables):
    assert two_tables.num_earlier.tolist() == [4, 2]
    undated = ScorerInputs(two_tables.documents, table(["x"], [None]), NO_TRAIN)
    assert undated.num_earlier.tolist() == [4]
    reports = two_tables.documents
    assert ScorerInputs.of_reports(reports, NO_TRAIN).num_earlier.tolist() == [0, 1, 2, 3]


def test_relevance_is_direct_between_two_tables_and_transitive_within_one(two_tables):
    assert two_tables.relevance().relevant(0).tolist() == [0, 2]
    assert two_tables.relevance().relevant(1).tolist() == []
    chain = pd.DataFrame({"earlier": [0, 1, 2], "later": [1, 3, 3], "label": [1, 1, 0]})
    inputs = ScorerInputs.of_reports(two_tables.documents, chain)
    assert inputs.relevance().relevant(3).tolist() == [0, 1]


@pytest.mark.parametrize("scorer", [Closure(), Bm25F(), Rep()])
def test_a_scorer_of_one_table_refuses_two(two_tables, scorer):
    with pytest.raises(ValueError, match="compares documents of one table: it needs queries that are documents too"):
        scorer.fit(two_tables)


def test_pairs_have_the_scores_of_their_places():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(3 * BLOCK, 50)).astype(np.float32)
    queries, documents = rng.integers(0, 3 * BLOCK, 500), rng.integers(0, 50, 500)
    np.testing.assert_array_equal(
        pair_scores(PrecomputedScores(matrix), queries, documents), matrix[queries, documents]
    )
    assert pair_scores(PrecomputedScores(matrix), queries[:0], documents[:0]).shape == (0,)


@pytest.mark.parametrize("count", [3, 12_000])
def test_cosines_do_not_depend_on_how_many_queries_there_are(count):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(count, 16)).astype(np.float32)
    whole = cosines(vectors, vectors[:2])
    np.testing.assert_allclose(cosines(vectors, vectors[1:2])[0], whole[1], rtol=1e-4, atol=1e-4)
    assert VectorScorer(vectors[2:], vectors).scores(np.array([1])).shape == (1, count - 2)
