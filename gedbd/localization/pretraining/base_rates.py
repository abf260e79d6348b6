"""Accuracies without a model: what frequencies and distances alone predict."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from gedbd.localization.code_encoder.code_inputs import CODE_BLOCK, NODE_BLOCK, CodeInput
from gedbd.localization.pretraining.masking import ALIGNMENT, EDGE, MLM, Sample

MAX_DISTANCE = 40  # farther nodes count as this far


class BaseRates:
    """Predicts tokens and edges by what was frequent among training samples.

    A token is the most frequent one. An edge is predicted where the majority of the training pairs with the same
    property are edges; the property of an edge to a type or role is which one it is; of one between nodes its
    distance in the order of nodes; of one between a token of code and a node the difference of their places, each as
    a share of all tokens of code and of all nodes, in units of nodes.

    Args:
        samples: Samples of training methods.
    """

    def __init__(self, samples: Iterable[Sample]) -> None:
        self.token_counts: Counter[int] = Counter()
        self.pair_counts: dict[tuple[str, int], np.ndarray] = {}
        for sample in samples:
            self.token_counts.update(sample.targets.tolist())
            for name in sample.pairs:
                keys, labels = keys_of(sample, name)
                for key, label in zip(keys.tolist(), labels.tolist(), strict=True):
                    counts = self.pair_counts.setdefault((name, key), np.zeros(2, dtype=np.int64))
                    counts[label] += 1

    def accuracies(self, samples: Iterable[Sample], objectives: Iterable[str]) -> dict[str, float]:
        """The accuracy on samples by objective, for edges at least 0.5."""
        correct: Counter[str] = Counter()
        count: Counter[str] = Counter()
        token = self.token_counts.most_common(1)[0][0] if self.token_counts else None
        for sample in samples:
            correct[MLM] += int((sample.targets == token).sum())
            count[MLM] += len(sample.targets)
            for name in sample.pairs:
                keys, labels = keys_of(sample, name)
                predicted = [self._predicted(name, key) for key in keys.tolist()]
                correct[name] += int((np.array(predicted, dtype=np.int64) == labels).sum())
                count[name] += len(labels)
        found = {}
        for name in objectives:
            share = correct[name] / count[name] if count[name] else float("nan")
            found[name] = share if name == MLM else max(0.5, share)
        return found

    def _predicted(self, name: str, key: int) -> int:
        counts = self.pair_counts.get((name, key))
        return int(counts is not None and counts[1] > counts[0])


def keys_of(sample: Sample, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The property of each pair by which a base rate is counted, and the labels, ``(P,)`` integers each."""
    ends, label = sample.pairs[name]
    if name == ALIGNMENT:
        keys = _places_apart(sample.visible, ends)
    elif name == EDGE:
        keys = (ends[1] - ends[0]).clip(-MAX_DISTANCE, MAX_DISTANCE)
    else:
        # Blocks of types and roles begin after the nodes, whose number differs, and end with the input.
        keys = ends[1] - len(sample.visible)
    return keys.astype(np.int64), label.astype(np.int64)


def _places_apart(method: CodeInput, ends: np.ndarray) -> np.ndarray:
    """How far a token of code is from a node, in units of nodes.

    Token 50 of 100 and node 2 of 8 are at 50/100 and 2/8 of all: 4 - 2 = 2 nodes apart.
    """
    first_token, num_tokens = method.blocks[CODE_BLOCK]
    first_node, num_nodes = method.blocks[NODE_BLOCK]
    expected = (ends[0] - first_token) / max(num_tokens, 1) * num_nodes
    apart: np.ndarray = np.floor(expected - (ends[1] - first_node))
    return apart.clip(-MAX_DISTANCE, MAX_DISTANCE)
