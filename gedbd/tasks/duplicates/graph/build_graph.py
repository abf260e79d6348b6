"""Builds the graph over all reports from their titles."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.fields import check_field, field_codes
from gedbd.encoders.encoder import Encoder
from gedbd.tasks.duplicates.graph.title_vectors import join_fields, reduce_titles, sample_cosines

SCOPES = ("all", "train")


class TitleGraph(NamedTuple):
    """The graph, and cosines of some pairs of titles, raw and reduced, for a figure."""

    adjacency: nn.Module
    title_cosines: tuple[np.ndarray, np.ndarray]


def build_graph(
    corpus: Corpus,
    training: np.ndarray,
    encoder: Encoder,
    rule: Callable[[Tensor, Tensor], nn.Module],
    scope: str,
    pca_dim: int,
    fields: Sequence[str] = (),
    field_weight: float = 1.0,
) -> TitleGraph:
    """Encodes titles, reduces their vectors and applies an edge rule.

    Args:
        corpus: N reports.
        training: ``(N,)`` bool, the training rows, on which the reduction is fitted.
        encoder: Encoder of titles, used as it stands.
        rule: Makes a graph of unit vectors ``(N, d)`` and a mask ``(N,)`` of the reports that send messages.
        scope: ``all``: every report sends messages; ``train``: only training reports do.
        pca_dim: Dimensions of the reduced vectors.
        fields: See ``join_fields``.
        field_weight: See ``join_fields``.

    Raises:
        ValueError: If the scope or a field is unknown.
    """
    for field in fields:
        check_field(field)
    if scope not in SCOPES:
        raise ValueError(f"graph.scope={scope} is unknown: choose {' or '.join(SCOPES)}")
    vectors = encoder.pool(list(corpus.reports["title"]), label="encode titles")
    reduced = reduce_titles(vectors, training, pca_dim)
    cosines = sample_cosines(vectors, reduced)
    if fields:
        codes = [field_codes(corpus.reports, field) for field in fields]
        reduced = join_fields(reduced, codes, field_weight)
    inside = training if scope == "train" else np.ones(len(corpus), dtype=bool)
    return TitleGraph(rule(reduced, torch.from_numpy(inside)), cosines)
