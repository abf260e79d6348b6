"""What an encoder is worth on validation below a ranker."""

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import TRAIN, VAL, Corpus
from gedbd.corpora.readers.bug_reports import BUG_FIELDS
from gedbd.retrieval.report_ranking.report_training import RankerOnTop, RankerOptions

LINEAR = RankerOptions(kind="linear")
PAIRS = 12  # of training
DUPLICATES = slice(PAIRS, 2 * PAIRS)  # in another order than their originals
AXES = np.eye(PAIRS + 4, dtype=np.float32)
FIRST, SECOND, OTHER = AXES[PAIRS : PAIRS + 3]


def tracker(group, validation):
    """Reports with one text: training pairs with equal vectors, then the groups and vectors of validation."""
    order = np.random.default_rng(0).permutation(PAIRS)
    groups = np.concatenate([np.arange(PAIRS), order, np.array(group) + 2 * PAIRS])
    reports = pd.DataFrame("", index=range(len(groups)), columns=list(BUG_FIELDS), dtype=str)
    reports["id"] = [str(row) for row in range(len(groups))]
    reports["title"] = "crash"
    reports["created_at"] = pd.Timestamp("2024-01-01", tz="UTC")
    vectors = np.concatenate([AXES[:PAIRS], AXES[order], np.array(validation, dtype=np.float32)])
    parts = np.where(np.arange(len(groups)) < 2 * PAIRS, TRAIN, VAL)
    return Corpus.of_table("pairs", reports, groups), parts, vectors


@pytest.fixture(scope="module")
def one_query():
    """Two originals of validation and a duplicate of the first."""
    return tracker([0, 1, 0], [FIRST, SECOND, FIRST])


def with_wrong_pairs(vectors):
    """Each training duplicate gets the vector of another one."""
    wrong = vectors.copy()
    wrong[DUPLICATES] = np.roll(vectors[DUPLICATES], 1, axis=0)
    return wrong


def test_the_given_vectors_rank_validation_and_those_before_training_are_learnt_from(one_query):
    corpus, parts, vectors = one_query
    on_top = RankerOnTop(corpus, parts, vectors, LINEAR)
    assert on_top.metrics(vectors) == {"ranker_rr@10": 1.0, "ranker_mrr": 1.0}
    nearer_to_second = np.vstack([vectors[:-1], (0.8 * SECOND + 0.6 * FIRST).astype(np.float32)])
    assert on_top.metrics(nearer_to_second) == {"ranker_rr@10": 1.0, "ranker_mrr": 0.5}
    assert on_top.metrics(vectors)["ranker_mrr"] == 1.0
    corpus, parts, vectors = one_query
    wrong = with_wrong_pairs(vectors)
    assert RankerOnTop(corpus, parts, vectors, LINEAR).metrics(wrong)["ranker_mrr"] == 1.0
    # Learnt from wrong pairs, similar vectors speak against a duplicate.
    assert RankerOnTop(corpus, parts, wrong, LINEAR).metrics(vectors)["ranker_mrr"] < 0.5


def test_without_a_training_duplicate_there_is_nothing_to_learn_from(one_query):
    corpus, _, vectors = one_query
    with pytest.raises(ValueError, match="a ranker of reports needs a query with a duplicate among its candidates"):
        RankerOnTop(corpus, np.full(len(corpus), VAL), vectors).metrics(vectors)
