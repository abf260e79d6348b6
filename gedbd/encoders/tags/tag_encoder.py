"""Vectors of documents by their tags: each document gets the vector of its most frequent tag."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from gedbd.encoders.tags.node2vec import node2vec
from gedbd.encoders.tags.tag_network import TagNetwork, build_tag_network


@dataclass(eq=False)
class TagEncoder:
    """Tag network, node2vec, and the choice of a document's tag (Hazra et al., arXiv 2309.05035).

    Args:
        min_jaccard: See ``build_tag_network``.
        dim: See ``node2vec``, as for all that follow.
        p: Return parameter.
        q: In-out parameter.
        walks: Walks that begin at each tag.
        length: Tags of a walk.
        window: Tags on either side that a tag predicts.
        min_count: Least occurrences of a tag in the walks.
        epochs: Passes over the walks.
        seed: Of walks and training.

    Attributes:
        network_: The tag network of the fitted documents.
        vectors_: ``(T, dim)`` vectors of its tags.
        warnings_: What fitting and the last encoding found, in sentences for the user.
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
        """Builds the network of the documents' tags, and learns the vectors; returns itself.

        Args:
            tags: The tags of each training document, see ``gedbd.corpora.tags.tags_of``.

        Raises:
            ValueError: If no document has a tag, an option is invalid, or gensim is not installed.
        """
        self.network_: TagNetwork = build_tag_network(tags, self.min_jaccard)
        learning = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "min_jaccard"}
        self.vectors_ = node2vec(self.network_, **learning)
        # Tags are in alphabetical order, and the sort is stable: of equally frequent tags the first in the alphabet
        # comes first. The rank of a tag is 0 for the most frequent one.
        order = np.argsort(-self.network_.counts, kind="stable")
        self._place_of_rank = order
        self._rank_of_tag = {self.network_.tags[place]: rank for rank, place in enumerate(order)}
        self._fit_warnings = self._describe_network()
        self.warnings_ = self._fit_warnings
        return self

    def main_tags(self, tags: Sequence[tuple[str, ...]]) -> np.ndarray:
        """The most frequent tag of each document in the fitted documents, ``(N,)`` places in ``network_.tags``.

        Of equally frequent tags the first in the alphabet; -1 for a document without a known tag.
        """
        ranks = [min((self._rank_of_tag[tag] for tag in own if tag in self._rank_of_tag), default=-1) for own in tags]
        chosen = np.array(ranks, dtype=np.int64)
        return np.where(chosen >= 0, self._place_of_rank[chosen], -1)

    def encode(self, tags: Sequence[tuple[str, ...]]) -> np.ndarray:
        """The vector of each document's most frequent tag, ``(N, dim)`` float32, see ``main_tags``.

        Tags that the fitted documents lack are skipped; a document without a known tag gets zeros, which
        ``warnings_`` counts.
        """
        places = self.main_tags(tags)
        vectors = np.where(places[:, None] >= 0, self.vectors_[places], np.float32(0))
        unknown = int((places < 0).sum())
        zero = f"{unknown:,} of {len(places):,} documents have no tag of the tag network: their tag vector is zero"
        self.warnings_ = (*self._fit_warnings, *([zero] if unknown else []))
        return vectors

    def _describe_network(self) -> tuple[str, ...]:
        """Warnings about tags whose vectors say little."""
        isolated = int(self.network_.isolated.sum())
        rare = int((~self.vectors_.any(axis=1)).sum())
        total = f"of {len(self.network_.tags):,} tags"
        warnings = []
        if isolated:
            warnings.append(f"{isolated:,} {total} have no edge in the tag network: their vectors are random")
        if rare:
            warnings.append(f"{rare:,} {total} occur less than tags.min_count={self.min_count} times in the walks")
        return tuple(warnings)
