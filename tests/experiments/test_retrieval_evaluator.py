import numpy as np
import pandas as pd
import pytest
import torch

from gedbd.experiments.retrieval_system import RetrievalEvaluator
from gedbd.losses.cosine_embedding import CosineEmbeddingLoss
from gedbd.retrieval.ranking_tasks import EarlierReports
from gedbd.retrieval.vectors import Embedded

# Reports 0 and 2 are a group. Cosines: .6 of (0, 1), 1 of (0, 2), .6 of (1, 2).
Z = torch.tensor([[1.0, 0.0], [0.6, 0.8], [1.0, 0.0]])
PAIRS = pd.DataFrame({"earlier": [0, 1, 0], "later": [2, 2, 1], "label": [1, 0, 0], "part": ["val", "val", "test"]})


@pytest.fixture
def reports() -> Embedded:
    return Embedded(torch.arange(3), Z, Z.flip(1))


def test_pairs_of_a_part_are_scored_by_hand(reports):
    scored = RetrievalEvaluator(np.array([0, 1, 0]), PAIRS, {}).score(reports, "val", CosineEmbeddingLoss(0.5))
    np.testing.assert_allclose(scored.table["score"], [1.0, 0.6], atol=1e-6)
    assert scored.loss.item() == pytest.approx((0.0 + 0.1) / 2, abs=1e-6)
    assert 0.6 < scored.best_threshold() <= 1
    assert scored.metrics(0.8)["f1"] == 1
    assert scored.metrics(0.5)["precision"] == 0.5


def test_queries_are_ranked_where_there_are_any(reports, make_corpus):
    corpus = make_corpus([0, 1, 0])
    queries = {"test": {"earlier": EarlierReports.find(corpus, np.array([False, False, True]))}}
    evaluator = RetrievalEvaluator(corpus.group, PAIRS, queries)
    assert evaluator.rank(reports, "val") == {}
    rankings = evaluator.rank(reports, "test", text_too=True)
    assert {name: ranking.queries["rank"].tolist() for name, ranking in rankings["earlier"].items()} == {
        "score": [1],
        "score_text": [1],
    }
