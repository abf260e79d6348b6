import numpy as np
import pandas as pd
import pytest
from small_reports import filled, scores_of

from gedbd.corpora.fields import components, products
from gedbd.retrieval.ranking_tasks import EarlierReports, rank
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs, linked_groups
from gedbd.retrieval.scorers.simple_scorers import Closure, Constant, FieldAgreement, KnownDuplicates, Recency


def pairs_of(*rows: tuple[int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(np.array(rows, dtype=np.int64).reshape(-1, 3), columns=["document", "query", "label"])


def test_constant_calls_every_pair_a_duplicate_and_puts_the_oldest_report_first(make_corpus):
    corpus = make_corpus([0, 1, 0, 1, 4])
    constant = Constant()
    constant.fit(ScorerInputs(corpus.reports, corpus.reports, pairs_of()))
    scores = constant.scores(np.array([4, 2]))
    assert scores.dtype == np.float32
    assert scores.tolist() == [[1] * 5] * 2
    assert scores.min() >= constant.threshold
    ranking = rank(EarlierReports.find(corpus, np.ones(5, dtype=bool)), constant)
    assert ranking.queries[["query", "rank"]].to_numpy().tolist() == [[2, 1], [3, 2]]
    assert ranking.top["candidate"].tolist() == [0, 1, 0, 1]


def test_closure_follows_chains_of_positive_training_pairs_and_no_others(make_corpus):
    corpus = make_corpus([0, 0, 0, 0, 4, 4, 6])
    closure = Closure()
    # 0 - 1 - 3 is a chain; 2 and 5 have duplicates that training does not see; 3 - 4 and 5 - 6 are negatives
    closure.fit(ScorerInputs(corpus.reports, corpus.reports, pairs_of((1, 3, 1), (3, 4, 0), (0, 1, 1), (5, 6, 0))))
    scores = closure.scores(np.array([3, 2, 5, 6, 0]))
    assert scores.dtype == np.float32
    assert scores.tolist() == [
        [1, 1, 0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 0, 1],
        [1, 1, 0, 1, 0, 0, 0],
    ]
    assert 0 < closure.threshold <= 1


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ((), [0, 1, 2, 3, 4, 5]),
        (((0, 5, 0), (2, 3, 0)), [0, 1, 2, 3, 4, 5]),
        (((2, 5, 1),), [0, 1, 2, 3, 4, 2]),
        (((4, 5, 1), (1, 4, 1), (0, 3, 1), (0, 1, 0)), [0, 1, 2, 0, 1, 1]),
        (((1, 2, 1), (1, 2, 1), (0, 2, 1)), [0, 0, 0, 3, 4, 5]),
    ],
)
def test_a_known_group_is_named_after_its_oldest_report(pairs, expected):
    group = linked_groups(pairs_of(*pairs), 6)
    assert group.dtype == np.int64
    assert group.tolist() == expected


@pytest.mark.parametrize("field", ["component", "version", "priority"])
def test_reports_agree_where_both_fill_a_field_with_the_same(make_corpus, field):
    found = scores_of(FieldAgreement(field), filled(make_corpus, **{field: ["GUI", "", " gui ", "core", "  ", ""]}))
    assert found.dtype == np.float32
    # case and blanks around do not matter; an empty one agrees with nothing, not even with itself
    assert found.tolist() == [
        [1, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]


@pytest.mark.parametrize(
    ("component", "issue_id", "product"),
    [
        ("Core/Layout", "17", "core"),
        ("Core/Layout/Text", "17", "core"),
        ("Layout", "17", ""),
        ("", "HDFS-12", "hdfs"),
        ("Core/Layout", "HDFS-12", "core"),
        ("/Layout", "HDFS-12", "hdfs"),
        ("", "MAPREDUCE_2-7", "mapreduce_2"),
        ("", "12-HDFS", ""),
        ("", "A-B-3", ""),
    ],
)
def test_the_product_stands_before_a_slash_or_in_the_id(make_corpus, component, issue_id, product):
    corpus = filled(make_corpus, component=[component, ""], id=[issue_id, "1"])
    assert products(corpus.reports).str.lower().tolist() == [product, ""]


def test_a_product_column_goes_before_all_else_and_a_component_loses_the_product_it_names(make_corpus):
    corpus = filled(
        make_corpus, component=["Core/Layout", " Core/Layout", "Layout", "Core/"], product=["Shell ", "", "", ""]
    )
    assert products(corpus.reports).tolist() == ["Shell", "Core", "", "Core"]
    assert components(corpus.reports).tolist() == ["Core/Layout", "Layout", "Layout", "Core/"]


def test_recency_worked_out_by_hand(make_corpus):
    found = scores_of(Recency(), make_corpus([0, 1, 2, 3], days=[3, 3, 10, 12]))
    assert found.dtype == np.float32
    expected = -np.log([[1, 1, 8, 10], [1, 1, 8, 10], [8, 8, 1, 3], [10, 10, 3, 1]])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


TABLE = pd.DataFrame({"title": list("abcdef")})
# Groups 0 0 2 0 4 4: documents 0, 1 and 3 are duplicates, and so are 4 and 5.
TRAIN = pd.DataFrame({"query": [1, 3, 5, 5], "document": [0, 1, 4, 2], "label": [1, 1, 1, 0]})


def test_the_size_of_a_group_counts_documents_before_the_query_only():
    scorer = KnownDuplicates()
    scorer.fit(ScorerInputs(TABLE, TABLE, TRAIN))
    scores = np.exp(scorer.scores(np.array([0, 2, 3, 5])))
    np.testing.assert_allclose(scores[:, :2], [[1, 1], [2, 2], [2, 2], [3, 3]], rtol=1e-6)
    np.testing.assert_allclose(scores[:, 2], 1)
    np.testing.assert_allclose(scores[:, 4], 1, rtol=1e-6)  # 5 is the query itself, and 4 the only one before it
