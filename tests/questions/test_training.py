"""Small trainings on vectors whose noise hides the duplicates until it is projected away."""

import numpy as np
import pandas as pd
import pytest
import torch

from gedbd.losses import MultipleNegativesLoss, TripletLoss
from gedbd.questions.question_data import QuestionDataset, TripletBatchSampler
from gedbd.questions.question_module import ResidualHead, SigmoidHead, check_head, make_head, method_id
from gedbd.questions.triplet_scorer import TripletScorer
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs

NUM_QUESTIONS, NUM_GROUPS = 120, 40


class GivenVectors:
    """Vectors of documents, by their row."""

    warnings_ = ()

    def __init__(self, vectors):
        self.vectors = vectors

    def fit(self, documents):
        pass

    def encode(self, table):
        return self.vectors[: len(table)]


class FirstTag:
    """Vectors of tags: one place for each known tag, of any length."""

    warnings_ = ("tags are few",)

    def fit(self, tags):
        self.known = sorted({own[0] for own in tags if own})

    def encode(self, tags):
        return np.array([[7.0 * (own[:1] == (tag,)) for tag in self.known] for own in tags], dtype=np.float32)


@pytest.fixture(scope="module")
def group():
    label = np.random.default_rng(0).permutation(np.arange(NUM_QUESTIONS) % NUM_GROUPS)
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    return first[inverse]


@pytest.fixture(scope="module")
def table(group):
    labels = [f"tag{number % 3};other" for number in group]
    return pd.DataFrame({"title": "", "description": "", "component": "", "labels": labels}, index=range(NUM_QUESTIONS))


@pytest.fixture(scope="module")
def vectors(group):
    """Eight numbers say the group, eight larger ones are noise."""
    rng = np.random.default_rng(1)
    meaning = rng.normal(size=(NUM_QUESTIONS, 8))[group] + 0.1 * rng.normal(size=(NUM_QUESTIONS, 8))
    noise = 2 * rng.normal(size=(NUM_QUESTIONS, 8))
    return np.hstack([meaning, noise]).astype(np.float32) / 5


@pytest.fixture(scope="module")
def inputs(table, group):
    earlier, later = np.nonzero(np.triu(group[:, None] == group, 1))
    is_train = later < 80
    return ScorerInputs.of_reports(
        table, pd.DataFrame({"earlier": earlier[is_train], "later": later[is_train], "label": 1})
    )


def mean_reciprocal_rank(scores, group, since=80):
    ranks = []
    for row in range(since, NUM_QUESTIONS):
        right = np.flatnonzero(group[:row] == group[row])
        if len(right):
            ranks.append((scores[row, :row] >= scores[row, right].max()).sum())
    return float(np.mean(1 / np.array(ranks)))


def fitted(inputs, vectors, loss, **options):
    scorer = TripletScorer(GivenVectors(vectors), loss, **options)
    scorer.fit(inputs)
    return scorer.scores(np.arange(NUM_QUESTIONS))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("loss", "options"),
    [
        (TripletLoss(margin=0.3), {"negatives": "buckets", "alpha": -1.0, "dim": 32, "lr": 0.01}),
        (TripletLoss(margin=0.3), {"negatives": "mined", "dim": 32, "lr": 0.01}),
        (MultipleNegativesLoss(0.1), {"negatives": "in_batch", "head": "residual", "lr": 0.01}),
    ],
)
def test_a_small_training_finds_the_duplicates_of_later_questions(inputs, vectors, group, loss, options):
    frozen = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    before = mean_reciprocal_rank(frozen @ frozen.T, group)
    after = mean_reciprocal_rank(fitted(inputs, vectors, loss, epochs=15, batch_size=16, **options), group)
    assert after > before + 0.1


def test_a_training_depends_on_its_seed_alone(inputs, vectors):
    options = {"negatives": "mined", "epochs": 2, "dim": 8}
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = fitted(inputs, vectors, TripletLoss(), **options)
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(6)
    np.testing.assert_array_equal(first, fitted(inputs, vectors, TripletLoss(), **options))
    assert (first != fitted(inputs, vectors, TripletLoss(), seed=1, **options)).any()


def test_the_tag_is_read_and_its_warnings_are_told(inputs, vectors):
    scorer = TripletScorer(GivenVectors(vectors), MultipleNegativesLoss(0.1), FirstTag(), head="residual", epochs=1)
    scorer.fit(inputs)
    assert scorer.warnings_[0] == "tags are few"
    assert scorer.vectors_.shape == (NUM_QUESTIONS, 16)


def test_what_cannot_be_trained_is_refused(inputs, vectors):
    untagged = ScorerInputs.of_reports(
        inputs.documents.assign(labels=""), inputs.train.rename(columns={"query": "later", "document": "earlier"})
    )
    with pytest.raises(ValueError, match="no training document of the corpus has a label or component"):
        TripletScorer(GivenVectors(vectors), TripletLoss(), FirstTag()).fit(untagged)
    no_pairs = ScorerInputs.of_reports(inputs.documents, pd.DataFrame({"earlier": [0], "later": [1], "label": [0]}))
    with pytest.raises(ValueError, match="a duplicate pair in the training split"):
        TripletScorer(GivenVectors(vectors), TripletLoss()).fit(no_pairs)
    with pytest.raises(ValueError, match="TripletLoss reads triplets"):
        TripletScorer(GivenVectors(vectors), TripletLoss(), negatives="in_batch")


def test_projections_start_as_published_or_frozen_and_others_are_refused():
    features = torch.randn(5, 7)
    expected = torch.nn.functional.normalize(features[:, :4], dim=1)
    torch.testing.assert_close(ResidualHead(7, 4)(features), expected)
    head = make_head("sigmoid", 7, 4, 3)
    assert isinstance(head, SigmoidHead)
    features = torch.randn(5, 7)
    expected = 1 / (1 + torch.exp(-(features @ head.linear.weight.T + head.linear.bias)))
    torch.testing.assert_close(head(features), expected)
    with pytest.raises(ValueError, match=r"task\.head=linear"):
        check_head("linear")


def test_methods_are_named_by_projection_and_network():
    names = [method_id(head, network) for head in ("sigmoid", "residual") for network in (False, True)]
    assert names == ["te", "te_network", "te_modern", "te_network_modern"]


def test_batches_hold_each_question_once_and_processes_share_them():
    pairs = np.array([[9, 4], [9, 2], [7, 1]])
    samplers = [TripletBatchSampler(pairs, lambda rng: np.array([1, 4, 2]), 2, 0, rank, 2) for rank in (0, 1)]
    dataset = QuestionDataset(torch.arange(20.0).reshape(10, 2), np.arange(10))
    seen = []
    for sampler in samplers:
        assert len(list(sampler)) == len(sampler) == 1
        for step in sampler:
            batch = dataset[step]
            rows = batch.n_id.numpy()
            assert (np.diff(rows) > 0).all()
            np.testing.assert_array_equal(batch.features.numpy()[:, 0], 2 * rows)
            seen += [tuple(rows[triplet]) for triplet in batch.triplets.numpy()]
    assert set(seen) == {(9, 4, 1), (9, 2, 4), (7, 1, 2)}
    assert len(seen) == 4  # the first one is repeated, so that both processes have two
