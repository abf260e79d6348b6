import numpy as np
import pytest

from gedbd.encoders.tags import tag_network
from gedbd.encoders.tags.tag_network import build_tag_network


def naive_jaccard(tags, min_jaccard):
    names = sorted({tag for own in tags for tag in own})
    documents = [{row for row, own in enumerate(tags) if name in own} for name in names]
    weights = np.zeros((len(names), len(names)))
    for first, a in enumerate(documents):
        for second, b in enumerate(documents):
            jaccard = len(a & b) / len(a | b)
            if first != second and jaccard > min_jaccard:
                weights[first, second] = jaccard
    return weights


def test_weights_by_hand():
    network = build_tag_network([("b", "a"), ("a", "b", "c"), ("c", "a"), (), ("d",)])
    assert network.tags == ("a", "b", "c", "d")
    assert network.counts.tolist() == [3, 2, 2, 1]
    expected = [[0, 2 / 3, 2 / 3, 0], [2 / 3, 0, 1 / 3, 0], [2 / 3, 1 / 3, 0, 0], [0, 0, 0, 0]]
    assert network.weights.toarray() == pytest.approx(np.array(expected))
    assert network.num_edges == 3
    assert network.isolated.tolist() == [False, False, False, True]


def test_an_edge_needs_more_than_the_least_overlap():
    # Of 200 documents with one of the tags, one has both: 1/200 is not above 0.005, 1/199 is.
    common = [("a", "b")] + [("a",)] * 99
    assert build_tag_network(common + [("b",)] * 100).num_edges == 0
    assert build_tag_network(common + [("b",)] * 99).num_edges == 1


@pytest.mark.parametrize("block", [3, 256])
def test_agrees_with_sets_in_blocks_of_any_size(block, monkeypatch):
    monkeypatch.setattr(tag_network, "BLOCK_TAGS", block)
    rng = np.random.default_rng(0)
    tags = [tuple(f"t{tag}" for tag in rng.integers(0, 20, size=rng.integers(0, 4))) for _ in range(300)]
    network = build_tag_network(tags, min_jaccard=0.05)
    weights = network.weights.toarray()
    np.testing.assert_array_equal(weights, naive_jaccard(tags, 0.05))
    assert 0 < network.num_edges == (weights > 0).sum() // 2


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"tags.min_jaccard=1 must be 0 or more, and below 1"):
        build_tag_network([("a",)], min_jaccard=1)
    with pytest.raises(ValueError, match="no document has a tag"):
        build_tag_network([(), ()])
