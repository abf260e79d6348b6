import math

import pytest
import torch

from gedbd.losses.info_nce import info_nce, max_sim

T = 0.07


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def naive(anchor, positive, negatives):
    """-log of the share of the positive, one anchor at a time; ``negatives`` lists those of each anchor."""
    losses = []
    for a, p, others in zip(anchor.tolist(), positive.tolist(), negatives, strict=True):
        near = math.exp(cosine(a, p) / T)
        losses.append(-math.log(near / (near + sum(math.exp(cosine(a, n) / T) for n in others))))
    return losses


@pytest.fixture
def vectors():
    return torch.randn(3, 5), torch.randn(3, 5)


def test_one_negative_for_each_anchor(vectors):
    anchor, positive = vectors
    negatives = torch.randn(3, 5)
    expected = naive(anchor, positive, [[row] for row in negatives.tolist()])
    assert info_nce(anchor, positive, negatives, T).tolist() == pytest.approx(expected, rel=1e-4)


def test_shared_negatives_of_which_each_anchor_leaves_some_out(vectors):
    anchor, positive = vectors
    bank = torch.randn(4, 5)
    masked = torch.tensor([[True, False, False, False], [False] * 4, [False, True, True, False]])
    kept = [[row for row, gone in zip(bank.tolist(), gaps, strict=True) if not gone] for gaps in masked.tolist()]
    expected = naive(anchor, positive, kept)
    assert info_nce(anchor, positive, bank[None], T, masked).tolist() == pytest.approx(expected, rel=1e-4)


def test_without_negatives_the_loss_is_zero_and_has_a_gradient(vectors):
    anchor, positive = vectors
    anchor.requires_grad_(True)
    loss = info_nce(anchor, positive, torch.randn(1, 4, 5), T, torch.ones(3, 4, dtype=torch.bool))
    loss.sum().backward()
    assert loss.tolist() == [0.0] * 3
    assert anchor.grad is not None
    assert torch.equal(anchor.grad, torch.zeros(3, 5))


def test_length_of_vectors_does_not_count(vectors):
    anchor, positive = vectors
    negatives = torch.randn(3, 5)
    torch.testing.assert_close(
        info_nce(3 * anchor, 0.5 * positive, 7 * negatives, T), info_nce(anchor, positive, negatives, T)
    )


def test_bfloat16_is_computed_in_float32(vectors):
    anchor, positive = vectors
    with torch.autocast("cpu", torch.bfloat16):
        found = info_nce(anchor, positive, anchor.flip(0), T)
    assert torch.equal(found, info_nce(anchor, positive, anchor.flip(0), T))


def test_each_token_of_a_query_takes_its_nearest_token_of_the_document():
    # Cosines .71 and 0 of the first token, .71 and 1 of the second; the tokens that do not count would be nearer.
    query = torch.tensor([[[1.0, 0], [0, 2], [5, 5]]])
    document = torch.tensor([[[1.0, 1], [0, 3], [9, 0]]])
    found = max_sim(query, document, torch.tensor([[True, True, False]]), torch.tensor([[True, True, False]]))
    assert found.tolist() == pytest.approx([math.sqrt(0.5) + 1])


def test_late_interaction_agrees_with_loops():
    query, document = torch.randn(3, 4, 6), torch.randn(3, 5, 6)
    lengths = [(4, 5), (2, 3), (1, 1)]
    in_query = torch.arange(4) < torch.tensor([[own] for own, _ in lengths])
    in_document = torch.arange(5) < torch.tensor([[own] for _, own in lengths])
    expected = [
        sum(max(cosine(q, d) for d in ds[:num_d]) for q in qs[:num_q])
        for (num_q, num_d), qs, ds in zip(lengths, query.tolist(), document.tolist(), strict=True)
    ]
    assert max_sim(query, document, in_query, in_document).tolist() == pytest.approx(expected, rel=1e-4)
