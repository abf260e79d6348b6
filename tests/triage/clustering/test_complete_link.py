"""Complete-link clustering of sparse pairs."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage

from gedbd.triage.clustering.complete_link import complete_link


def test_no_chain_grows():
    # 1 is like 2 and like 3, but 2 and 3 are not alike: the more probable pair stays.
    assert complete_link([(1, 2), (3, 1)], [0.8, 0.9]) == [[1, 3]]
    # 4 joins them although its pair with 1 is the least probable: every pair is there.
    pairs = [(1, 3), (3, 4), (1, 4), (1, 2)]
    assert complete_link(pairs, [0.9, 0.8, 0.5, 0.7]) == [[1, 3, 4]]


def test_the_lowest_of_equal_probabilities_comes_first():
    assert complete_link([(5, 6), (6, 7), (1, 5)], [0.5, 0.5, 0.5]) == [[1, 5], [6, 7]]
    assert complete_link([], []) == []


@pytest.mark.parametrize("seed", range(40))
def test_the_clusters_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    one, other = np.triu_indices(int(rng.integers(2, 40)), 1)
    probability = rng.random(len(one))
    is_pair = probability > rng.uniform(0.1, 0.95)
    distance = np.where(is_pair, 1 - probability, 2.0)
    label = fcluster(linkage(distance, "complete"), 1.0, "distance")
    members = [np.flatnonzero(label == number).tolist() for number in np.unique(label)]
    pairs = list(zip(one[is_pair].tolist(), other[is_pair].tolist(), strict=True))
    assert complete_link(pairs, probability[is_pair].tolist()) == sorted(own for own in members if len(own) > 1)
