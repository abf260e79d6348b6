"""The tag network: tags are nodes, and an edge's weight is the Jaccard overlap of the two tags' documents."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array, vstack

from gedbd.corpora.tags import occurrence_matrix

BLOCK_TAGS = 256


@dataclass(frozen=True)
class TagNetwork:
    """A network of T tags with E edges.

    Attributes:
        tags: The tags in alphabetical order.
        counts: ``(T,)`` number of documents of each.
        weights: ``(T, T)`` symmetric float64 matrix of edge weights with an empty diagonal; 2 E entries are stored.
    """

    tags: tuple[str, ...]
    counts: np.ndarray
    weights: csr_array

    @property
    def num_edges(self) -> int:
        """The number of edges E; an edge has no direction."""
        return int(self.weights.nnz // 2)

    @property
    def isolated(self) -> np.ndarray:
        """``(T,)`` bool, the tags without an edge."""
        return np.asarray(np.diff(self.weights.indptr) == 0)


def build_tag_network(tags: Sequence[tuple[str, ...]], min_jaccard: float = 0.005) -> TagNetwork:
    """The tag network of N documents.

    The weight of tags a and b is ``J(a, b) = |A & B| / |A | B|``, A and B the sets of documents that have them (Hazra
    et al., arXiv 2309.05035). Memory is in proportion to the tags' pairs that occur together, not to T x T.

    Args:
        tags: The tags of each document.
        min_jaccard: Edges with a weight above this, not equal to it, are kept.

    Raises:
        ValueError: If there is no tag.
    """
    names = tuple(sorted({tag for own in tags for tag in own}))
    if not names:
        raise ValueError(
            "tag network: no document has a tag, that is a component or a label, to learn from: choose a method that"
            " reads no tags, or name their column (dataset.columns.labels=)"
        )
    occurrences = occurrence_matrix(tags, {tag: place for place, tag in enumerate(names)})
    counts = np.bincount(occurrences.indices, minlength=len(names))
    return TagNetwork(names, counts, _jaccard_edges(occurrences, counts, min_jaccard))


def _jaccard_edges(occurrences: csr_array, counts: np.ndarray, min_jaccard: float) -> csr_array:
    """The edges, ``(T, T)``."""
    # In blocks of tags: weak pairs are dropped before all pairs are in memory.
    by_tag = occurrences.T.tocsr()
    blocks = []
    for start in range(0, by_tag.shape[0], BLOCK_TAGS):
        common = (by_tag[start : start + BLOCK_TAGS] @ occurrences).tocoo()
        first, second = common.coords
        union = counts[first + start] + counts[second] - common.data
        jaccard = common.data / union
        kept = (jaccard > min_jaccard) & (first + start != second)
        block = coo_array((jaccard[kept], (first[kept], second[kept])), shape=common.shape)
        blocks.append(block)
    edges = csr_array(vstack(blocks, format="csr"))
    edges.sort_indices()
    return edges
