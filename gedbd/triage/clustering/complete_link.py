"""Complete-link clustering of pairs with probabilities, where most pairs have none."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush


def complete_link(pairs: Sequence[tuple[int, int]], probability: Sequence[float]) -> list[list[int]]:
    """Clusters in which every two members are one of the given pairs.

    Agglomerative clustering: the two clusters with the highest probability become one, until none are left. The
    probability of two clusters is the lowest of all pairs between them, so that two alike pairs with a common member do
    not make a cluster of three: the other two must be alike as well. Of equal probabilities, the clusters with the
    lowest members come first. It takes time and memory in proportion to the pairs, not to the square of the items.

    Args:
        pairs: P pairs of different items, each pair once in any order.
        probability: P numbers, one a pair.

    Returns:
        The clusters of two and more, each ascending, the one with the lowest member first.
    """
    # By the lowest member of a cluster: the clusters that may join it, with the probability.
    near: dict[int, dict[int, float]] = {}
    heap: list[tuple[float, int, int]] = []
    for (one, other), value in zip(pairs, probability, strict=True):
        near.setdefault(one, {})[other] = value
        near.setdefault(other, {})[one] = value
        heap.append((-value, min(one, other), max(one, other)))
    heapify(heap)
    members = {item: [item] for item in near}
    while heap:
        negative, first, second = heappop(heap)
        # An entry is outdated if one of the clusters has changed since.
        if near.get(first, {}).get(second) != -negative:
            continue
        members[first] += members.pop(second)
        theirs = near.pop(second)
        ours = near[first]
        del ours[second]
        for third in theirs:
            if third != first:
                del near[third][second]
        for third in list(ours):
            if third not in theirs:
                del ours[third], near[third][first]
            else:
                value = min(ours[third], theirs[third])
                ours[third] = near[third][first] = value
                heappush(heap, (-value, min(first, third), max(first, third)))
    found = (sorted(cluster) for cluster in members.values() if len(cluster) > 1)
    return sorted(found)
