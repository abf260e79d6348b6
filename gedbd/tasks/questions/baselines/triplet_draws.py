"""Random triplets of training pairs."""

from typing import NamedTuple

import numpy as np

from gedbd.retrieval.scorers.scorer import ScorerInputs

MAX_DRAWS = 20


class Triplets(NamedTuple):
    """T triplets of rows, each ``(T,)``: a query, a relevant document and one that is not."""

    query: np.ndarray
    positive: np.ndarray
    negative: np.ndarray


def draw_triplets(inputs: ScorerInputs, rng: np.random.Generator) -> Triplets:
    """A random earlier document that is not relevant as the negative of each positive training pair.

    Pairs for which none is found are left out.

    Raises:
        ValueError: If there are none for any pair, or there is no positive pair.
    """
    positives = inputs.train.loc[inputs.train["label"] == 1, ["query", "document"]].to_numpy(dtype=np.int64)
    relevance = inputs.relevance()
    num_earlier = inputs.num_earlier
    found = []
    for query, document in positives:
        right = relevance.relevant(int(query))
        draws = rng.integers(max(1, num_earlier[query]), size=MAX_DRAWS)
        wrong = draws[~np.isin(draws, right) & (draws < num_earlier[query])]
        if len(wrong):
            found.append((query, document, wrong[0]))
    if not found:
        raise ValueError(
            "no training pair has an earlier document that is not relevant: there is nothing to learn from"
        )
    return Triplets(*np.array(found, dtype=np.int64).T)
