"""node2vec: vectors of a network's nodes, learnt from random walks (Grover and Leskovec, 2016)."""

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array

from gedbd.encoders.tags.tag_network import TagNetwork
from gedbd.io.console import track

MIN_PROGRESS_WALKS = 5000


def node2vec(
    network: TagNetwork,
    dim: int = 64,
    p: float = 1.3,
    q: float = 0.8,
    walks: int = 5,
    length: int = 80,
    window: int = 10,
    min_count: int = 3,
    epochs: int = 5,
    seed: int = 0,
) -> np.ndarray:
    """Vectors of tags: skip-gram with negative sampling over biased random walks.

    A tag without an edge has no walk. It gets a random direction and the mean length of the other vectors (1 if there
    is no edge at all): similar to no other tag, equal to itself. Frequent tags are not sub-sampled, as the walks are a
    sample already. The numbers follow from the seed alone: training has one thread.

    Args:
        network: T tags.
        dim: Dimensions of a vector.
        p: Return parameter: the weight of the step back is divided by it.
        q: In-out parameter: the weight of a step away from the previous tag is divided by it.
        walks: Walks that begin at each tag.
        length: Tags of a walk.
        window: Tags on either side that a tag predicts.
        min_count: A tag that occurs less often in the walks gets a zero vector.
        epochs: Passes of skip-gram over the walks.
        seed: Of walks and training.

    Returns:
        ``(T, dim)`` float32, not of unit length.

    Raises:
        ValueError: If an option is invalid, or gensim is not installed.
    """
    vectors = np.zeros((len(network.tags), dim), dtype=np.float32)
    rng = np.random.default_rng(seed)
    paths = random_walks(network.weights, walks, length, p, q, rng)
    if len(paths):
        rows, learnt = _skip_gram(paths, dim, window, min_count, epochs, seed)
        vectors[rows] = learnt
    lengths = np.linalg.norm(vectors, axis=1)
    mean_length = lengths[lengths > 0].mean() if lengths.any() else 1.0
    random = rng.standard_normal((int(network.isolated.sum()), dim))
    vectors[network.isolated] = mean_length * random / np.linalg.norm(random, axis=1, keepdims=True)
    return vectors


def random_walks(
    weights: csr_array, walks: int, length: int, p: float, q: float, rng: np.random.Generator
) -> np.ndarray:
    """Second-order random walks from every node with an edge, all of them in step: ``(W, length)`` int32 nodes.

    After a step from t to v, the next node x is drawn with a probability in proportion to ``w(v, x) * a``, where a is
    1/p if x is t, 1 if x is a neighbour of t, and 1/q otherwise. The first step follows w alone. A node is drawn by w
    and accepted with probability a / max(a), which gives the same distribution without its M x T table of weights.

    Args:
        weights: ``(T, T)`` symmetric weights above 0, with sorted columns.
        walks: Walks that begin at each node, in random order.
        length: Nodes of a walk, 2 or more.
        p: Return parameter, see ``node2vec``.
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
    few = len(paths) < MIN_PROGRESS_WALKS
    for place in track(range(2, length), "random walks over tags", transient=True, disable=few):
        paths[:, place] = steps.draw_biased(paths[:, place - 2], paths[:, place - 1], rng)
    return paths


class _Steps:
    """Draws the next nodes of many walks at once.

    Args:
        weights: See ``random_walks``.
        p: Return parameter.
        q: In-out parameter.
    """

    def __init__(self, weights: csr_array, p: float, q: float) -> None:
        self.num_nodes = weights.shape[0]
        self.indptr = weights.indptr.astype(np.int64)
        self.columns = weights.indices
        self.degree = np.diff(self.indptr)
        source = np.repeat(np.arange(self.num_nodes), self.degree)
        # An edge as one number, in ascending order: with 10 nodes, the edge from 2 to 7 is 27.
        self.edges = source * self.num_nodes + self.columns
        self.back, self.away = 1 / p, 1 / q
        # Node 3 with the probabilities .2 and .8 has the ends 3.2 and 4: the number 3.5 is in the second interval.
        share = weights.data / np.asarray(weights.sum(axis=1))[source]
        running = np.concatenate([[0.0], share.cumsum()])
        self.ends = source + running[1:] - running[self.indptr[source]]

    def draw(self, nodes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A neighbour of each node by the edges' weights, ``(W,) -> (W,)``."""
        place = np.searchsorted(self.ends, nodes + rng.random(len(nodes)), side="right")
        # The sum of the shares may differ from 1 in the last digit.
        return np.asarray(self.columns[place.clip(self.indptr[nodes], self.indptr[nodes + 1] - 1)])

    def draw_biased(self, previous: np.ndarray, nodes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The next nodes after steps from ``previous`` to ``nodes``, ``(W,), (W,) -> (W,)``."""
        drawn = self.draw(nodes, rng)
        open_ = np.flatnonzero(self.degree[nodes] > 1)
        highest = max(self.back, 1.0, self.away)
        while len(open_):
            bias = self.bias(previous[open_], drawn[open_])
            rejected = rng.random(len(open_)) * highest >= bias
            open_ = open_[rejected]
            drawn[open_] = self.draw(nodes[open_], rng)
        return drawn

    def bias(self, previous: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        """The factor a of each step, ``(W,), (W,) -> (W,)``: 1/p, 1 or 1/q."""
        edge = previous.astype(np.int64) * self.num_nodes + drawn
        place = np.searchsorted(self.edges, edge).clip(max=len(self.edges) - 1)
        bias = np.where(self.edges[place] == edge, 1.0, self.away)
        return np.where(previous == drawn, self.back, bias)


class _Sentences:
    """Walks as sentences of words, read once an epoch; the word of node 7 is ``7``."""

    def __init__(self, paths: np.ndarray) -> None:
        self.paths = paths
        self.words = np.array([str(node) for node in range(int(paths.max()) + 1)], dtype=object)

    def __iter__(self) -> Iterator[list[str]]:
        few = len(self.paths) < MIN_PROGRESS_WALKS
        for path in track(self.paths, "learn tag vectors", transient=True, disable=few):
            yield self.words[path].tolist()


def _skip_gram(
    paths: np.ndarray, dim: int, window: int, min_count: int, epochs: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Skip-gram over walks: the nodes that have a vector, ``(M,)``, and their vectors, ``(M, dim)``."""
    try:
        from gensim.models import Word2Vec
    except ImportError as error:
        raise ValueError("tags: gensim is not installed: pip install 'gedbd[questions]'") from error
    model = Word2Vec(
        vector_size=dim,
        window=window,
        min_count=min_count,
        sg=1,
        sample=0,
        workers=1,  # several threads would add up their steps in an order of chance
        epochs=epochs,
        seed=seed,
    )
    sentences = _Sentences(paths)
    model.build_vocab(sentences)
    if len(model.wv):  # not if all tags are rare: gensim refuses to train without words
        model.train(sentences, total_examples=model.corpus_count, epochs=epochs)
    rows = np.array([int(word) for word in model.wv.index_to_key], dtype=np.int64)
    return rows, np.asarray(model.wv.vectors)
