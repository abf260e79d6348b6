import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array

from gedbd.encoders.tags.node2vec import node2vec, random_walks
from gedbd.encoders.tags.tag_network import TagNetwork, build_tag_network

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
def cliques() -> TagNetwork:
    return build_tag_network(CLIQUES)


def unit_vectors(network: TagNetwork, seed: int = 0) -> np.ndarray:
    vectors = node2vec(network, dim=16, length=20, walks=10, seed=seed)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


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


def test_vectors_separate_two_cliques(cliques):
    unit = unit_vectors(cliques)
    cosine = unit @ unit.T
    inside = [*cosine[:4, :4].ravel(), *cosine[4:8, 4:8].ravel()]
    assert min(inside) > cosine[:4, 4:8].max() + 0.3


def test_a_tag_without_an_edge_has_a_random_direction_and_the_mean_length(cliques):
    vectors = node2vec(cliques, dim=64, length=20)
    lengths = np.linalg.norm(vectors, axis=1)
    assert lengths[8] == pytest.approx(lengths[:8].mean(), rel=1e-5)
    unit = vectors / lengths[:, None]
    assert np.abs(unit[8] @ unit[:8].T).max() < 0.5
    unconnected = node2vec(build_tag_network([("a",), ("b",)]), dim=64)
    assert np.linalg.norm(unconnected, axis=1) == pytest.approx([1, 1])


def test_rare_tags_have_zero_vectors():
    pair = build_tag_network([("a", "b")])
    vectors = node2vec(pair, dim=4, walks=1, length=3, min_count=4)  # each of two walks has its first tag twice
    assert not vectors.any()


def test_the_seed_fixes_the_vectors(cliques):
    first = unit_vectors(cliques)
    np.testing.assert_array_equal(first, unit_vectors(cliques))
    assert np.abs(first - unit_vectors(cliques, seed=1)).max() > 0.01


@pytest.mark.slow
def test_vectors_do_not_depend_on_the_hashes_of_a_process():
    script = (
        "from gedbd.encoders.tags.tag_encoder import TagEncoder\n"
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 0}, "tags.dim=0 must be 1 or more"),
        ({"walks": 0}, "tags.walks=0 must be 1 or more"),
        ({"length": 1}, "tags.length=1 must be 2 or more"),
        ({"p": 0.0}, "tags.p=0.0 must lie between"),
        ({"q": 101}, "tags.q=101 must lie between"),
    ],
)
def test_bad_options_are_refused(cliques, options, message):
    with pytest.raises(ValueError, match=message):
        node2vec(cliques, **options)


def test_a_missing_gensim_is_named(cliques, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(ValueError, match=r"gensim is not installed: pip install 'gedbd\[questions\]'"):
        node2vec(cliques)
