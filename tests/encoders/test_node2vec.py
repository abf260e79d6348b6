"""Tag networks, walks and vectors, by their definitions and by hand."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array

from gedbd.encoders import node2vec
from gedbd.encoders.node2vec import TagEncoder, build_tag_network, random_walks

TRAIN = [("python", "pandas"), ("python", "numpy"), ("numpy", "pandas"), ("java",), ()]  # python, numpy, pandas: 2
# A triangle 0 1 2 with a tail 2 - 3 - 4; node 5 has no edge.
EDGES = {(0, 1): 0.5, (0, 2): 0.25, (1, 2): 1.0, (2, 3): 0.5, (3, 4): 0.1}
P, Q = 0.5, 2.0
CLIQUES = [("a", "b", "c", "d"), ("e", "f", "g", "h"), ("single",)]


def weights_of_edges() -> csr_array:
    dense = np.zeros((6, 6))
    for (first, second), weight in EDGES.items():
        dense[first, second] = weight
        dense[second, first] = weight
    return csr_array(dense)


def naive_probabilities(dense: np.ndarray, previous: int, node: int) -> np.ndarray:
    """Grover and Leskovec, section 3.2, by its definition."""
    mass = np.zeros(len(dense))
    for following in np.flatnonzero(dense[node]):
        if following == previous:
            bias = 1 / P
        elif dense[previous, following] > 0:
            bias = 1
        else:
            bias = 1 / Q
        mass[following] = bias * dense[node, following]
    return mass / mass.sum()


@pytest.fixture(scope="module")
def walks() -> np.ndarray:
    return random_walks(weights_of_edges(), 8000, 9, P, Q, np.random.default_rng(0))


@pytest.fixture(scope="module")
def encoder() -> TagEncoder:
    return TagEncoder(dim=8, length=10).fit(TRAIN)


def vectors_of(tags: list[tuple[str, ...]], **options: int) -> np.ndarray:
    return TagEncoder(**options).fit(tags).vectors_


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
    assert network.weights.nnz == 6
    assert network.isolated.tolist() == [False, False, False, True]


def test_an_edge_needs_more_than_the_least_overlap():
    # Of 200 documents with one of the tags, one has both: 1/200 is not above 0.005, 1/199 is.
    common = [("a", "b")] + [("a",)] * 99
    assert build_tag_network(common + [("b",)] * 100).weights.nnz == 0
    assert build_tag_network(common + [("b",)] * 99).weights.nnz == 2


@pytest.mark.parametrize("block", [3, 256])
def test_agrees_with_sets_in_blocks_of_any_size(block, monkeypatch):
    monkeypatch.setattr(node2vec, "BLOCK_TAGS", block)
    rng = np.random.default_rng(0)
    tags = [tuple(f"t{tag}" for tag in rng.integers(0, 20, size=rng.integers(0, 4))) for _ in range(300)]
    network = build_tag_network(tags, min_jaccard=0.05)
    weights = network.weights.toarray()
    np.testing.assert_array_equal(weights, naive_jaccard(tags, 0.05))
    assert 0 < network.weights.nnz == (weights > 0).sum()


def test_probabilities_by_hand():
    # From 0 to 2: back to 0 with 2 * .25, on to its neighbour 1 with 1 * 1, away to 3 with .5 * .5; together 1.75.
    probabilities = naive_probabilities(weights_of_edges().toarray(), previous=0, node=2)
    assert probabilities[[0, 1, 3]] == pytest.approx([0.5 / 1.75, 1 / 1.75, 0.25 / 1.75])


@pytest.mark.parametrize(("previous", "node"), [(0, 2), (3, 2), (1, 2), (0, 1), (2, 3), (4, 3), (3, 4)])
def test_steps_have_the_probabilities_of_the_definition(walks, previous, node):
    triples = np.lib.stride_tricks.sliding_window_view(walks, 3, axis=1).reshape(-1, 3)
    following = triples[(triples[:, 0] == previous) & (triples[:, 1] == node), 2]
    found = np.bincount(following, minlength=6) / len(following)
    expected = naive_probabilities(weights_of_edges().toarray(), previous, node)
    assert len(following) > 3000
    # Four standard deviations of a share among so many steps.
    assert np.abs(found - expected).max() < 4 * np.sqrt(0.25 / len(following))


def test_the_first_step_follows_the_weights(walks):
    second = walks[walks[:, 0] == 2, 1]
    found = np.bincount(second, minlength=6) / len(second)
    assert found == pytest.approx(np.array([0.25, 1.0, 0, 0.5, 0, 0]) / 1.75, abs=0.03)


def test_walks_begin_at_every_node_with_an_edge_and_follow_edges(walks):
    assert np.bincount(walks[:, 0], minlength=6).tolist() == [8000] * 5 + [0]
    dense = weights_of_edges().toarray()
    assert (dense[walks[:, :-1], walks[:, 1:]] > 0).all()


def test_vectors_separate_two_cliques_and_follow_from_the_seed():
    options = {"dim": 16, "length": 20, "walks": 10}
    first, again, other = (vectors_of(CLIQUES, **options, seed=seed) for seed in (0, 0, 1))
    unit = first / np.linalg.norm(first, axis=1, keepdims=True)
    cosine = unit @ unit.T
    inside = [*cosine[:4, :4].ravel(), *cosine[4:8, 4:8].ravel()]
    assert min(inside) > cosine[:4, 4:8].max() + 0.3
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01


def test_a_tag_without_an_edge_has_a_random_direction_and_the_mean_length():
    vectors = vectors_of(CLIQUES, dim=64, length=20)
    lengths = np.linalg.norm(vectors, axis=1)
    assert lengths[8] == pytest.approx(lengths[:8].mean(), rel=1e-5)
    unit = vectors / lengths[:, None]
    assert np.abs(unit[8] @ unit[:8].T).max() < 0.5
    assert np.linalg.norm(vectors_of([("a",), ("b",)], dim=64), axis=1) == pytest.approx([1, 1])


@pytest.mark.slow
def test_vectors_do_not_depend_on_the_hashes_of_a_process():
    script = (
        "from gedbd.encoders.node2vec import TagEncoder\n"
        f"print(TagEncoder(dim=8, length=10).fit({CLIQUES!r}).vectors_.tobytes().hex())"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert printed[0]
    assert printed[0] == printed[1]


def test_a_document_has_the_vector_of_its_most_frequent_tag(encoder):
    assert encoder.network_.tags == ("java", "numpy", "pandas", "python")
    # java occurs once; of equally frequent tags the first in the alphabet is taken.
    tags = [("java", "python"), ("python", "pandas"), ("unknown", "java"), ("unknown",), ()]
    assert encoder.main_tags(tags).tolist() == [3, 2, 0, -1, -1]
    vectors = encoder.encode(tags)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors[:3], encoder.vectors_[[3, 2, 0]])
    assert not vectors[3:].any()
    assert "2 of 5 documents have no tag of the tag network: their tag vector is zero" in encoder.warnings_


def test_warnings_name_isolated_and_rare_tags(encoder):
    assert encoder.fit(TRAIN).warnings_ == ("1 of 4 tags have no edge in the tag network: their vectors are random",)
    # Each of two walks has its first tag twice.
    rare = TagEncoder(dim=4, walks=1, length=3, min_count=4).fit([("a", "b")])
    assert not rare.vectors_.any()
    assert rare.warnings_ == ("2 of 2 tags occur fewer than tags.min_count=4 times in the walks",)


def test_documents_without_tags_are_refused():
    with pytest.raises(ValueError, match="no document has a tag"):
        TagEncoder().fit([(), ()])


def test_a_missing_gensim_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(ValueError, match=r"gensim is not installed: pip install 'gedbd\[questions\]'"):
        TagEncoder().fit(CLIQUES)
