"""Builds the graph over all reports from their titles."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.fields import FIELDS, check_field, field_codes
from gedbd.corpora.tags import tags_of
from gedbd.duplicates.graph.title_pca import reduce_titles, sample_cosines
from gedbd.encoders.loaded_encoder import LoadedEncoder

if TYPE_CHECKING:
    from gedbd.encoders.node2vec import TagEncoder, TagNetwork

MAX_FIELD_VALUES = 256
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
    tag_network: "TagNetwork | None" = None


def build_graph(
    corpus: Corpus,
    training: np.ndarray,
    encoder: LoadedEncoder,
    rule: Callable[[Tensor, Tensor], nn.Module],
    scope: str,
    pca_dim: int,
    fields: Sequence[str] = (),
    field_weight: float = 1.0,
    tag_encoder: "TagEncoder | None" = None,
) -> TitleGraph:
    """Encodes titles, reduces their vectors and applies an edge rule.

    The field ``tags`` compares the vectors of the reports' most frequent tags, learnt on training rows.

    Args:
        corpus: N reports.
        training: ``(N,)`` bool, the training rows, on which the reduction is fitted.
        encoder: LoadedEncoder of titles, used as it stands.
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


def fit_tags(tag_encoder: "TagEncoder", corpus: Corpus, training: np.ndarray) -> np.ndarray:
    """Fits a tag encoder on training reports and encodes all: ``(N, dim)``."""
    tags = tags_of(corpus.reports)
    tag_encoder.fit([own for own, learnt in zip(tags, training, strict=True) if learnt])
    return tag_encoder.encode(tags)


def join_fields(
    vectors: Tensor, fields: Sequence[np.ndarray], weight: float, field_vectors: Sequence[np.ndarray] = ()
) -> Tensor:
    """Adds agreement in fields of the tracker's form to the similarity of titles.

    The cosine of two reports becomes (cos + weight * number of fields they agree in) / (1 + weight * number of fields)
    where both have all fields. Empty fields, and values beyond the ``MAX_FIELD_VALUES`` most frequent, agree with none.
    Two reports agree in a field of vectors by their cosine there, between -1 and 1, instead of by 0 or 1.

    Args:
        vectors: ``(N, d)`` unit title vectors.
        fields: Codes of each field, ``(N,)``, -1 where it is empty.
        weight: Weight of a field; the titles have weight 1.
        field_vectors: Vectors of each further field, ``(N, D)``, zero where it is empty.

    Returns:
        ``(N, d + V)`` unit rows, V the number of values and of the further fields' dimensions.
    """
    # A one-hot column for each value, scaled by the root of the weight: two reports that agree get an inner product of
    # exactly the weight.
    parts = [vectors]
    for codes in fields:
        values, counts = np.unique(codes[codes >= 0], return_counts=True)
        common = values[np.argsort(-counts, kind="stable")[:MAX_FIELD_VALUES]]
        parts.append(torch.from_numpy((codes[:, None] == common) * np.sqrt(weight)).float())
    parts += [normalize(torch.from_numpy(rows), dim=1) * weight**0.5 for rows in field_vectors]
    return normalize(torch.cat(parts, dim=1), dim=1)
