import numpy as np
import pytest
import torch

from gedbd.encoders.backend import Torch
from gedbd.encoders.loaded_encoder import LoadedEncoder, load_tiny_encoder
from gedbd.retrieval.report_ranking.cross_scores import CrossEncoderOptions, CrossScores, PairExample
from gedbd.retrieval.report_ranking.report_scorer import RankedList, ReportText

WORDS = ["mail", "folder", "crash", "search", "printer", "calendar", "reply", "theme", "update", "password"]
# Report i + 10 has the words of report i: they are duplicates.
GROUPS = np.arange(20) % 10
NOTHING = RankedList(0, np.arange(0), np.arange(0))
OPTIONS = CrossEncoderOptions(negatives=2, epochs=3, lr=1e-3, batch_size=4)


def texts() -> list[ReportText]:
    rng = np.random.default_rng(0)
    titles = [" ".join(rng.choice(WORDS, 3)) for _ in range(10)]
    return [ReportText(title, f"{title} again") for title in titles * 2]


def lists() -> list[RankedList]:
    """The ten later reports; the right candidate is in place 2 of 6."""
    found = []
    for query in range(10, 20):
        wrong = np.setdiff1d(np.arange(10), [query - 10])[:5]
        found.append(RankedList(query, np.array([query - 10]), np.insert(wrong, 1, query - 10)))
    return found


def encoder(hidden: int = 16) -> LoadedEncoder:
    return load_tiny_encoder("tiny", "mean", dim=8, max_tokens=32, hidden=hidden, layers=1, dropout=0.1, seed=0)


def scorer(**changed) -> CrossScores:
    return CrossScores(encoder(), **{"max_tokens": 32, "depth": 4, "options": OPTIONS} | changed)


@pytest.fixture(scope="module")
def trained() -> CrossScores:
    made = scorer()
    made.fit(texts(), lists())
    return made


def test_the_first_candidates_are_scored_alone_and_together(trained):
    together = trained.score_lists(texts(), lists()[:3])
    for listed, scores in zip(lists(), together, strict=False):
        (alone,) = trained.score_lists(texts(), [listed])
        # bfloat16 has 8 bits of precision.
        assert alone == pytest.approx(scores, abs=2e-2, nan_ok=True)
        assert (alone.dtype, alone.shape) == (np.float32, (6,))
        assert np.isnan(alone).tolist() == [False] * 4 + [True] * 2
    assert [own.shape for own in trained.score_lists(texts(), [NOTHING])] == [(0,)]


def test_a_backend_gives_the_scores_of_the_model_as_it_was_trained_last(trained):
    made = scorer(backend=Torch())
    made.fit(texts(), lists()[:2])
    made.score_lists(texts(), lists())
    made.fit(texts(), lists())
    expected = trained.score_lists(texts(), lists())
    for own, other in zip(made.score_lists(texts(), lists()), expected, strict=True):
        assert own == pytest.approx(other, abs=2e-2, nan_ok=True)
    assert [own.shape for own in made.score_lists(texts(), [NOTHING])] == [(0,)]


def test_training_starts_from_the_same_weights_and_leaves_the_encoder(trained):
    start = encoder()
    before = {name: value.clone() for name, value in start.model.state_dict().items()}
    again = CrossScores(start, max_tokens=32, depth=4, options=OPTIONS)
    again.fit(texts(), lists()[:2])
    again.fit(texts(), lists())
    assert all(torch.equal(value, before[name]) for name, value in start.model.state_dict().items())
    assert np.array_equal(
        again.score_lists(texts(), lists())[0], trained.score_lists(texts(), lists())[0], equal_nan=True
    )


def test_no_query_of_a_fold_is_scored_by_what_its_group_taught():
    # Queries 18 and 19 become duplicates: they share a fold. Folds go by the first query of each group.
    groups = GROUPS.copy()
    groups[19] = groups[18]
    made = scorer(options=OPTIONS._replace(epochs=1))
    scores = made.fit_held_out(texts(), lists(), groups)
    expected = scorer(options=OPTIONS._replace(epochs=1))
    even = [listed for place, listed in enumerate(lists()) if place in (0, 2, 4, 6, 8, 9)]
    expected.fit(texts(), even)
    odd = [listed for place, listed in enumerate(lists()) if place in (1, 3, 5, 7)]
    for place, other in zip((1, 3, 5, 7), expected.score_lists(texts(), odd), strict=True):
        assert np.array_equal(scores[place], other, equal_nan=True)
    expected.fit(texts(), lists())
    assert np.array_equal(
        made.score_lists(texts(), lists())[0], expected.score_lists(texts(), lists())[0], equal_nan=True
    )


def test_examples_are_the_best_relevant_and_irrelevant_candidates_near_the_top():
    made = scorer(depth=3)
    example = made._example(RankedList(9, np.array([4, 7]), np.array([1, 7, 2, 4, 3])))
    assert (example.query, example.relevant, example.irrelevant.tolist()) == (9, 7, [1, 2])
    below = made._example(RankedList(9, np.array([4, 7]), np.array([1, 2, 3])))
    assert isinstance(below, PairExample)
    assert (below.relevant, below.irrelevant.tolist()) == (4, [1, 2, 3])
    assert made._example(RankedList(9, np.array([], dtype=int), np.array([1, 2]))) is None
    assert made._example(RankedList(9, np.array([1]), np.array([1]))) is None
