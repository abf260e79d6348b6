"""Builds the graph over all reports from their titles."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.fields import FIELDS, check_field, field_codes
from gedbd.corpora.tags import tags_of
from gedbd.encoders.encoder import Encoder
from gedbd.encoders.tags.tag_encoder import TagEncoder
from gedbd.encoders.tags.tag_network import TagNetwork
from gedbd.tasks.duplicates.graph.title_vectors import join_fields, reduce_titles, sample_cosines

SCOPES = ("all", "train")
TAGS = "tags"


class TitleGraph(NamedTuple):
    """The graph, and what figures show of it.

    Attributes:
        adjacency: The graph.
        title_cosines: Cosines of some pairs of titles, raw and reduced, if edges depend on titles.
        tag_network: The network of the training reports' tags, if edges depend on it.
    """

    adjacency: nn.Module
    title_cosines: tuple[np.ndarray, np.ndarray] | None = None
    tag_network: TagNetwork | None = None


def build_graph(
    corpus: Corpus,
    training: np.ndarray,
    encoder: Encoder,
    rule: Callable[[Tensor, Tensor], nn.Module],
    scope: str,
    pca_dim: int,
    fields: Sequence[str] = (),
    field_weight: float = 1.0,
    tag_encoder: TagEncoder | None = None,
) -> TitleGraph:
    """Encodes titles, reduces their vectors and applies an edge rule.

    The field ``tags`` compares the vectors of the reports' most frequent tags, learnt on training rows.

    Args:
        corpus: N reports.
        training: ``(N,)`` bool, the training rows, on which the reduction is fitted.
        encoder: Encoder of titles, used as it stands.
        rule: Makes a graph of unit vectors ``(N, d)`` and a mask ``(N,)`` of the reports that send messages.
        scope: ``all``: every report sends messages; ``train``: only training reports do.
        pca_dim: Dimensions of the reduced vectors.
        fields: See ``join_fields``.
        field_weight: See ``join_fields``.
        tag_encoder: Not yet fitted; None without the field ``tags``.

    Raises:
        ValueError: If the scope or a field is unknown, or no training report has a tag for the field ``tags``.
    """
    inside = senders(training, scope)
    for field in fields:
        check_field(field, (*FIELDS, TAGS))
    tag_vectors = [fit_tags(tag_encoder, corpus, training)] if tag_encoder else []
    vectors = encoder.pool(corpus.reports["title"].tolist(), label="encode titles")
    reduced = reduce_titles(vectors, training, pca_dim)
    cosines = sample_cosines(vectors, reduced)
    if fields:
        codes = [field_codes(corpus.reports, field) for field in fields if field != TAGS]
        reduced = join_fields(reduced, codes, field_weight, tag_vectors)
    return TitleGraph(rule(reduced, inside), cosines, tag_encoder.network_ if tag_encoder else None)


def senders(training: np.ndarray, scope: str) -> Tensor:
    """The reports that send messages, ``(N,)`` bool, see ``build_graph``; raises ValueError for an unknown scope."""
    if scope not in SCOPES:
        raise ValueError(f"graph.scope={scope} is unknown: choose {' or '.join(SCOPES)}")
    return torch.from_numpy(training) if scope == "train" else torch.ones(len(training), dtype=torch.bool)


def fit_tags(tag_encoder: TagEncoder, corpus: Corpus, training: np.ndarray) -> np.ndarray:
    """Fits a tag encoder on training reports and encodes all: ``(N, dim)``."""
    tags = tags_of(corpus.reports)
    tag_encoder.fit([own for own, learnt in zip(tags, training, strict=True) if learnt])
    return tag_encoder.encode(tags)
