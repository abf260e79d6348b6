"""Vectors of documents by node2vec on the network of their tags (Grover and Leskovec, 2016).

The weight of an edge is the Jaccard index of the documents of two tags. A document gets the vector of its most frequent
tag.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array, vstack

from gedbd.corpora.fields import occurrence_matrix
from gedbd.io.console import track

BLOCK_TAGS = 256


@dataclass(frozen=True)
class TagNetwork:
    """A network of T tags with E edges.

    Attributes:
        tags: The tags in alphabetical order.
        counts: ``(T,)`` number of documents of each tag.
        weights: ``(T, T)`` symmetric float64 matrix of edge weights with an empty diagonal; 2 E entries are stored.
    """

    tags: tuple[str, ...]
    counts: np.ndarray
    weights: csr_array

    @property
    def isolated(self) -> np.ndarray:
        """``(T,)`` bool, the tags without an edge."""
        return np.asarray(np.diff(self.weights.indptr) == 0)


def build_tag_network(tags: Sequence[tuple[str, ...]], min_jaccard: float = 0.005) -> TagNetwork:
    """Builds the tag network of N documents.

    The weight of tags a and b is ``J(a, b) = |A & B| / |A | B|``, A and B the sets of documents that have them (Hazra
    et al., arXiv 2309.05035). Memory grows with the number of co-occurring pairs of tags, not with T x T.

    Args:
        tags: The tags of each document.
        min_jaccard: Edges must have a weight above this.

    Raises:
        ValueError: If there is no tag.
    """
    names = tuple(sorted({tag for document in tags for tag in document}))
    if not names:
        raise ValueError(
            "tag network: no document has a tag, that is a component or a label, to learn from: choose a method that"
            " reads no tags, or name their column (dataset.columns.labels=)"
        )
    occurrences = occurrence_matrix(tags, {tag: number for number, tag in enumerate(names)})
    counts = np.bincount(occurrences.indices, minlength=len(names))
    return TagNetwork(names, counts, _jaccard_edges(occurrences, counts, min_jaccard))


def _jaccard_edges(occurrences: csr_array, counts: np.ndarray, min_jaccard: float) -> csr_array:
    """The edges, ``(T, T)``."""
    # In blocks of tags, so that weak pairs are dropped early.
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


@dataclass(eq=False)
class TagEncoder:
    """Encodes documents by node2vec vectors of their tags (Hazra et al., arXiv 2309.05035).

    Args:
        min_jaccard: See ``build_tag_network``.
        dim: Dimension of a vector.
        p: Return parameter of node2vec.
        q: In-out parameter of node2vec.
        walks: Number of walks from each tag.
        length: Number of tags of a walk.
        window: Window size of skip-gram.
        min_count: Tags that occur less often in the walks get a zero vector.
        epochs: Number of epochs of skip-gram.
        seed: Seed of walks and training.

    Attributes:
        network_: The tag network of the fitted documents.
        vectors_: ``(T, dim)`` vectors of its tags.
        warnings_: Warnings of fitting and of the last encoding.
    """

    min_jaccard: float = 0.005
    dim: int = 64
    p: float = 1.3
    q: float = 0.8
    walks: int = 5
    length: int = 80
    window: int = 10
    min_count: int = 3
    epochs: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        self.warnings_: tuple[str, ...] = ()

    def fit(self, tags: Sequence[tuple[str, ...]]) -> "TagEncoder":
        """Builds the tag network and learns the vectors.

        Raises:
            ValueError: If no document has a tag, an option is invalid, or gensim is not installed.
        """
        self.network_ = build_tag_network(tags, self.min_jaccard)
        self.vectors_ = self.learn(self.network_)
        # A stable sort of alphabetical tags: rank 0 is the most frequent tag, and ties are in alphabetical order.
        order = np.argsort(-self.network_.counts, kind="stable")
        self._tag_of_rank = order
        self._rank_of_tag = {self.network_.tags[number]: rank for rank, number in enumerate(order)}
        isolated = int(self.network_.isolated.sum())
        rare = int((~self.vectors_.any(axis=1)).sum())
        total = f"of {len(order):,} tags"
        self._fit_warnings: tuple[str, ...] = ()
        if isolated:
            self._fit_warnings += (f"{isolated:,} {total} have no edge in the tag network: their vectors are random",)
        if rare:
            self._fit_warnings += (
                f"{rare:,} {total} occur fewer than tags.min_count={self.min_count} times in the walks",
            )
        self.warnings_ = self._fit_warnings
        return self

    def learn(self, network: TagNetwork) -> np.ndarray:
        """Learns vectors of tags by skip-gram with negative sampling over biased random walks.

        A tag without an edge has no walk. It gets a random direction and the mean length of the other vectors (1 if no
        tag has an edge). Frequent tags are not subsampled. Training is deterministic, in one thread.

        Returns:
            ``(T, dim)`` float32, not of unit length.

        Raises:
            ValueError: If gensim is not installed.
        """
        vectors = np.zeros((len(network.tags), self.dim), dtype=np.float32)
        rng = np.random.default_rng(self.seed)
        paths = random_walks(network.weights, self.walks, self.length, self.p, self.q, rng)
        if len(paths):
            rows, learned = self._skip_gram(paths)
            vectors[rows] = learned
        lengths = np.linalg.norm(vectors, axis=1)
        mean_length = lengths[lengths > 0].mean() if lengths.any() else 1.0
        random = rng.standard_normal((int(network.isolated.sum()), self.dim))
        vectors[network.isolated] = mean_length * random / np.linalg.norm(random, axis=1, keepdims=True)
        return vectors

    def _skip_gram(self, paths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the nodes with a vector, ``(M,)``, and their vectors, ``(M, dim)``."""
        try:
            from gensim.models import Word2Vec
        except ImportError as error:
            raise ValueError("tags: gensim is not installed: pip install 'gedbd[questions]'") from error
        model = Word2Vec(
            vector_size=self.dim,
            window=self.window,
            min_count=self.min_count,
            sg=1,
            sample=0,
            workers=1,  # the order of updates of several threads is random
            epochs=self.epochs,
            seed=self.seed,
        )
        sentences = _Sentences(paths)
        model.build_vocab(sentences)
        if len(model.wv):  # gensim cannot train if all tags are rare
            model.train(sentences, total_examples=model.corpus_count, epochs=self.epochs)
        rows = np.array([int(word) for word in model.wv.index_to_key], dtype=np.int64)
        return rows, np.asarray(model.wv.vectors)

    def main_tags(self, tags: Sequence[tuple[str, ...]]) -> np.ndarray:
        """The most frequent known tag of each document, ``(N,)`` indices of ``network_.tags``, by the fitted documents.

        Ties are resolved in alphabetical order; a document without a known tag has -1.
        """
        rank_of = self._rank_of_tag
        best = [min((rank_of[tag] for tag in document if tag in rank_of), default=-1) for document in tags]
        ranks = np.array(best, dtype=np.int64)
        return np.where(ranks >= 0, self._tag_of_rank[ranks], -1)

    def encode(self, tags: Sequence[tuple[str, ...]]) -> np.ndarray:
        """The vector of each document's main tag, ``(N, dim)`` float32; zeros without a known tag, with a warning."""
        indices = self.main_tags(tags)
        vectors = np.where(indices[:, None] >= 0, self.vectors_[indices], np.float32(0))
        unknown = int((indices < 0).sum())
        zero = f"{unknown:,} of {len(indices):,} documents have no tag of the tag network: their tag vector is zero"
        self.warnings_ = (*self._fit_warnings, *([zero] if unknown else []))
        return vectors


def random_walks(
    weights: csr_array, walks: int, length: int, p: float, q: float, rng: np.random.Generator
) -> np.ndarray:
    """Second-order random walks of node2vec from every node with an edge, ``(W, length)`` int32.

    After a step from t to v, the probability of the next node x is proportional to ``w(v, x) * a``, where a is 1/p if x
    is t, 1 if x is a neighbour of t, and 1/q otherwise. The first step depends on w alone. Rejection sampling draws a
    node by w and accepts it with probability a / max(a).

    Args:
        weights: ``(T, T)`` symmetric weights above 0, with sorted columns.
        walks: Number of walks from each node, in random order.
        length: Number of nodes of a walk, 2 or more.
        p: Return parameter.
        q: In-out parameter.
        rng: Source of random numbers.
    """
    steps = _Steps(weights, p, q)
    starts = np.flatnonzero(np.diff(weights.indptr))
    paths = np.empty((walks * len(starts), length), dtype=np.int32)
    paths[:, 0] = np.concatenate([rng.permutation(starts) for _ in range(walks)])
    if not len(paths):
        return paths
    paths[:, 1] = steps.draw(paths[:, 0], rng)
    for step in track(range(2, length), "random walks over tags"):
        paths[:, step] = steps.draw_biased(paths[:, step - 2], paths[:, step - 1], rng)
    return paths


class _Steps:
    """Samples the next nodes of many walks at once; for the arguments see ``random_walks``."""

    def __init__(self, weights: csr_array, p: float, q: float) -> None:
        self.num_nodes = weights.shape[0]
        self.indptr = weights.indptr.astype(np.int64)
        self.columns = weights.indices
        self.degree = np.diff(self.indptr)
        source = np.repeat(np.arange(self.num_nodes), self.degree)
        # An edge as one number, in ascending order: with 10 nodes, the edge from 2 to 7 is 27.
        self.edges = source * self.num_nodes + self.columns
        self.back, self.away = 1 / p, 1 / q
        # Node 3 with the probabilities .2 and .8 has the interval ends 3.2 and 4; 3.5 is in the second interval.
        probability = weights.data / np.asarray(weights.sum(axis=1))[source]
        running = np.concatenate([[0.0], probability.cumsum()])
        self.ends = source + running[1:] - running[self.indptr[source]]

    def draw(self, nodes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Samples a neighbour of each node by the edge weights, ``(W,) -> (W,)``."""
        position = np.searchsorted(self.ends, nodes + rng.random(len(nodes)), side="right")
        # The sum of the probabilities may differ from 1 by rounding.
        return np.asarray(self.columns[position.clip(self.indptr[nodes], self.indptr[nodes + 1] - 1)])

    def draw_biased(self, previous: np.ndarray, nodes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Samples the next nodes after steps from ``previous`` to ``nodes``, ``(W,), (W,) -> (W,)``."""
        drawn = self.draw(nodes, rng)
        pending = np.flatnonzero(self.degree[nodes] > 1)
        highest = max(self.back, 1.0, self.away)
        while len(pending):
            bias = self.bias(previous[pending], drawn[pending])
            rejected = rng.random(len(pending)) * highest >= bias
            pending = pending[rejected]
            drawn[pending] = self.draw(nodes[pending], rng)
        return drawn

    def bias(self, previous: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        """The factor a of each step, ``(W,), (W,) -> (W,)``: 1/p, 1 or 1/q."""
        edge = previous.astype(np.int64) * self.num_nodes + drawn
        position = np.searchsorted(self.edges, edge).clip(max=len(self.edges) - 1)
        bias = np.where(self.edges[position] == edge, 1.0, self.away)
        return np.where(previous == drawn, self.back, bias)


class _Sentences:
    """Walks as sentences for gensim; the word of node 7 is ``7``."""

    def __init__(self, paths: np.ndarray) -> None:
        self.paths = paths
        self.words = np.array([str(node) for node in range(int(paths.max()) + 1)], dtype=object)

    def __iter__(self) -> Iterator[list[str]]:
        for path in track(self.paths, "learn tag vectors"):
            yield self.words[path].tolist()
