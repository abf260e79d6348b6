"""What all baselines of duplicate questions do alike."""

import numpy as np
import pandas as pd
import pytest
import torch
from small_questions import TABLE, TRAIN, fitted

from gedbd.questions.baselines.bilstm import BiLstmScorer
from gedbd.questions.baselines.dup_predictor import DupPredictor
from gedbd.questions.baselines.dupe import Dupe
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs
from gedbd.retrieval.scorers.word_vectors import Word2Vec

ROWS = np.arange(len(TABLE))
MAKE = {
    "bilstm": lambda: BiLstmScorer(Word2Vec(dim=6, min_count=1, epochs=1, sample=0), hidden=4, dim=5, epochs=2),
    "dup_predictor": lambda: DupPredictor(num_topics=3, topic_epochs=2, topic_min_count=1, starts=2, steps=4),
    "dupe": Dupe,
}
ONE_PAIR = pd.DataFrame({"query": [1], "document": [0], "label": [1]})


@pytest.mark.parametrize("name", MAKE)
def test_another_fit_is_the_same_and_leaves_the_random_numbers_of_others_alone(name):
    state = torch.get_rng_state()
    first = fitted(MAKE[name]()).scores(ROWS)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(5)
    assert (fitted(MAKE[name]()).scores(ROWS) == first).all()


@pytest.mark.parametrize("name", ["dup_predictor", "dupe"])
def test_queries_of_another_table_score_like_their_copies(name):
    scorer = MAKE[name]()
    scorer.fit(ScorerInputs(TABLE, TABLE.copy(), TRAIN))
    np.testing.assert_allclose(scorer.scores(ROWS), fitted(MAKE[name]()).scores(ROWS), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "num_warnings"), [("bilstm", 1), ("dup_predictor", 4), ("dupe", 4)])
def test_a_corpus_without_words_scores_all_alike_and_says_so(name, num_warnings):
    empty = TABLE.assign(title="", description="", labels="", code="")
    scorer = fitted(MAKE[name](), empty)
    assert len(np.unique(scorer.scores(ROWS))) == 1
    assert sum(warning.startswith(f"{name}: ") for warning in scorer.warnings_) == num_warnings


@pytest.mark.parametrize(
    ("name", "train", "message"),
    [
        *(
            ("bilstm", train, "no training pair has an earlier document that is not relevant")
            for train in (TRAIN.assign(label=0), TRAIN[:0], ONE_PAIR)
        ),
        ("dup_predictor", TRAIN.assign(label=0), "dup_predictor needs a duplicate pair in the training part"),
        (
            "dup_predictor",
            pd.DataFrame({"query": [0], "document": [0], "label": [1]}),
            "dup_predictor needs a training query with an earlier duplicate",
        ),
        *(
            ("dupe", TRAIN.assign(label=label), "dupe needs a positive and a negative pair in the training part")
            for label in (0, 1)
        ),
    ],
)
def test_training_without_what_it_learns_from_is_refused(name, train, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        fitted(MAKE[name](), train=train)
