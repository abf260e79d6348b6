import numpy as np
import pandas as pd
import pytest
import torch

from gedbd.questions.baselines.bilstm import BiLstm, BiLstmScorer, draw_triplets
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs
from gedbd.retrieval.scorers.word_vectors import Word2Vec

TITLES = ["crash editor", "print paper", "crash window", "slow page"] * 6
TABLE = pd.DataFrame({"title": TITLES, "description": ""}).assign(created_at=pd.NaT)
# Rows 4 and 0, 5 and 1, ...: the same title.
TRAIN = pd.DataFrame({"query": np.arange(4, 20), "document": np.arange(16), "label": 1})


def scorer(**options: float) -> BiLstmScorer:
    words = Word2Vec(dim=6, min_count=1, epochs=1, sample=0)
    return BiLstmScorer(words, **({"hidden": 4, "dim": 5, "epochs": 3, "lr": 0.02, "batch_size": 8} | options))


def fitted(table: pd.DataFrame = TABLE, **options: float) -> BiLstmScorer:
    made = scorer(**options)
    made.fit(ScorerInputs(table, table, TRAIN))
    return made


@pytest.fixture(scope="module")
def trained() -> BiLstmScorer:
    return fitted(epochs=15)


def test_a_batch_gives_the_vectors_of_its_texts_alone():
    vectors = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    model = BiLstm(vectors, hidden=2, dim=5)
    texts = [np.array([3]), np.array([0, 1, 2]), np.array([2, 2])]
    together = model(texts)
    for row, text in enumerate(texts):
        states = model.lstm(torch.from_numpy(vectors[text])[None])[1][0]
        torch.testing.assert_close(together[row], model.projection(states.flatten()))


def test_training_brings_duplicates_together(trained):
    assert trained.losses_[-1] < 0.5 * trained.losses_[0]
    scores = trained.scores(np.arange(20, 24))
    same = np.array([[TITLES[row] == title for title in TITLES] for row in range(20, 24)])
    assert scores[same].min() > scores[~same].max()


def test_negatives_are_earlier_and_not_relevant():
    inputs = ScorerInputs(TABLE, TABLE, TRAIN)
    rng = np.random.default_rng(0)
    group = inputs.relevance().group
    for _ in range(5):
        query, _, negative = draw_triplets(inputs, rng).T
        assert len(query) == len(TRAIN)
        assert (group[negative] != group[query]).all()
        assert (negative < query).all()


def test_documents_without_words_score_zero_and_are_counted():
    table = TABLE.copy()
    table.loc[[4, 9], "title"] = ""
    found = fitted(table)
    assert (found.scores(np.array([4, 9])) == 0).all()
    assert found.warnings_ == ("bilstm: documents without a known word: 2 of 24, score 0",)


@pytest.mark.parametrize("option", ["hidden", "dim", "max_words", "batch_size"])
def test_sizes_below_one_are_refused(option):
    with pytest.raises(ValueError, match=rf"^bilstm: {option}=0 must be 1 or more$"):
        scorer(**{option: 0})
