"""Graphs over all reports, by reduced vectors of titles, fields and tags, or by rare identifiers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array, vstack
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor, nn
from torch.nn.functional import normalize

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.fields import FIELDS, check_field, field_codes, tags_of
from gedbd.duplicates.graph.adjacency import connect
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.text.words import find_error_lines, find_identifiers

if TYPE_CHECKING:
    from gedbd.encoders.node2vec import TagEncoder, TagNetwork

SAMPLED_PAIRS = 20_000
MAX_FIELD_VALUES = 256
SCOPES = ("all", "train")
TAGS = "tags"
BLOCK_ROWS = 2048


def reduce_titles(vectors: np.ndarray, fit_rows: np.ndarray, pca_dim: int) -> Tensor:
    """Reduces title vectors by PCA and scales them to unit length.

    The paper reduces bert-base-uncased vectors to 10 dimensions. It specifies neither the pooling (``dense_bert``:
    [CLS]) nor the reports on which PCA is fitted: here on training rows only.

    Args:
        vectors: ``(N, hidden)`` title vectors from a frozen encoder.
        fit_rows: ``(N,)`` bool, the rows to fit PCA on.
        pca_dim: Number of components d.

    Returns:
        ``(N, d)`` float32 unit rows; zero vectors stay zero.

    Raises:
        ValueError: If there are fewer training rows or vector dimensions than ``pca_dim``.
    """
    limit = min(int(fit_rows.sum()), vectors.shape[1])
    if not 0 < pca_dim <= limit:
        raise ValueError(
            f"graph.pca_dim={pca_dim} must lie between 1 and {limit}, the number of training rows or the vector size"
        )
    pca = PCA(n_components=pca_dim, svd_solver="covariance_eigh").fit(vectors[fit_rows])
    return normalize(torch.from_numpy(pca.transform(vectors).astype(np.float32)), dim=1)


def sample_cosines(raw: np.ndarray, reduced: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Cosines of up to ``SAMPLED_PAIRS`` fixed random pairs of titles, before and after the reduction.

    The paper (section 6) reduces vectors since raw cosines often exceed .95.

    Args:
        raw: ``(N, hidden)`` title vectors.
        reduced: ``(N, d)`` unit rows.

    Returns:
        Two ``(P,)`` float32 arrays; cosines of zero vectors are 0.
    """
    rng = np.random.default_rng(0)
    first = rng.integers(len(raw), size=SAMPLED_PAIRS)
    second = rng.integers(len(raw), size=SAMPLED_PAIRS)
    is_pair = first != second
    first = first[is_pair]
    second = second[is_pair]
    length = np.linalg.norm(raw, axis=1).clip(1e-12)
    raw_cosine = (raw[first] * raw[second]).sum(axis=1) / (length[first] * length[second])
    unit = reduced.numpy()
    reduced_cosine = (unit[first] * unit[second]).sum(axis=1)
    return raw_cosine.astype(np.float32), reduced_cosine.astype(np.float32)


class TitleGraph(NamedTuple):
    """A graph, with data for figures."""

    adjacency: nn.Module  # the graph
    # cosines of sampled pairs of titles, before and after PCA, if edges depend on titles
    title_cosines: tuple[np.ndarray, np.ndarray] | None = None
    tag_network: "TagNetwork | None" = None  # the tag network of the training reports, if edges depend on it


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

    The field ``tags`` compares vectors of the most frequent tags, learned on training rows.

    Args:
        corpus: N reports.
        training: ``(N,)`` bool, the training rows, on which PCA is fitted.
        encoder: Encoder of titles.
        rule: Builds a graph from unit vectors ``(N, d)`` and a mask ``(N,)`` of the reports that send messages.
        scope: ``all``: every report sends messages; ``train``: only training reports do.
        pca_dim: Number of components.
        fields: See ``join_fields``.
        field_weight: See ``join_fields``.
        tag_encoder: Unfitted encoder; None without the field ``tags``.

    Raises:
        ValueError: If the scope or a field is unknown, or no training report has a tag for the field ``tags``.
    """
    inside = senders(training, scope)
    for field in fields:
        check_field(field, (*FIELDS, TAGS))
    tag_vectors = []
    if tag_encoder:
        tags = tags_of(corpus.reports)
        tag_encoder.fit([report_tags for report_tags, is_training in zip(tags, training, strict=True) if is_training])
        tag_vectors.append(tag_encoder.encode(tags))
    vectors = encoder.pool(corpus.reports["title"].tolist(), label="encode titles")
    reduced = reduce_titles(vectors, training, pca_dim)
    cosines = sample_cosines(vectors, reduced)
    if fields:
        codes = [field_codes(corpus.reports, field) for field in fields if field != TAGS]
        reduced = join_fields(reduced, codes, field_weight, tag_vectors)
    return TitleGraph(rule(reduced, inside), cosines, tag_encoder.network_ if tag_encoder else None)


def senders(training: np.ndarray, scope: str) -> Tensor:
    """The reports that send messages, ``(N,)`` bool. Raises ValueError for an unknown scope."""
    if scope not in SCOPES:
        raise ValueError(f"graph.scope={scope} is unknown: choose {' or '.join(SCOPES)}")
    return torch.from_numpy(training) if scope == "train" else torch.ones(len(training), dtype=torch.bool)


def join_fields(
    vectors: Tensor, fields: Sequence[np.ndarray], weight: float, field_vectors: Sequence[np.ndarray] = ()
) -> Tensor:
    """Adds the equality of fields to the similarity of titles.

    The cosine becomes (cos + weight * number of equal fields) / (1 + weight * number of fields) if both reports have
    all fields. Empty fields, and values beyond the ``MAX_FIELD_VALUES`` most frequent, equal none. A field of vectors
    counts by its cosine instead of 0 or 1.

    Args:
        vectors: ``(N, d)`` unit title vectors.
        fields: Codes of each field, ``(N,)``, -1 for empty.
        weight: Weight of a field; titles have weight 1.
        field_vectors: Vectors of additional fields, ``(N, D)``, zero for empty.

    Returns:
        ``(N, d + V)`` unit rows, V the number of values and of dimensions of further fields.
    """
    # One-hot columns scaled by the root of the weight give equal values the inner product weight.
    parts = [vectors]
    for codes in fields:
        values, counts = np.unique(codes[codes >= 0], return_counts=True)
        common = values[np.argsort(-counts, kind="stable")[:MAX_FIELD_VALUES]]
        parts.append(torch.from_numpy((codes[:, None] == common) * np.sqrt(weight)).float())
    parts += [normalize(torch.from_numpy(rows), dim=1) * weight**0.5 for rows in field_vectors]
    return normalize(torch.cat(parts, dim=1), dim=1)


@dataclass(eq=False)
class SharedIdentifiers:
    """Connects each report with the most similar ones by rare identifiers and error lines.

    Edge weights are cosines of binary TF-IDF vectors.
    """

    k: int  # maximum number of neighbours
    max_reports: int  # maximum document frequency of an identifier or line

    def graph(self, corpus: Corpus, inside: Tensor) -> TitleGraph:
        """Builds the graph of N reports.

        Args:
            corpus: N reports.
            inside: ``(N,)`` bool, the reports that send messages; identifiers are counted in these.

        Raises:
            ValueError: If no two reports share a rare identifier.
        """
        reports = corpus.reports
        texts = [f"{title}\n{body}" for title, body in zip(reports["title"], reports["description"], strict=True)]
        senders = inside.nonzero().squeeze(1).numpy()
        vectorizer = TfidfVectorizer(analyzer=_identifiers, binary=True, max_df=self.max_reports, dtype=np.float32)
        try:
            vectorizer.fit([texts[row] for row in senders])
        except ValueError:  # of scikit-learn, for an empty vocabulary
            raise ValueError(f"{corpus.name}: no report has a rare identifier: choose another graph") from None
        vectors = csr_array(vectorizer.transform(texts))
        edges, weight = _nearest(vectors, senders, self.k)
        if not len(weight):
            raise ValueError(f"{corpus.name}: no two reports share a rare identifier: choose another graph")
        return TitleGraph(connect(torch.from_numpy(edges), torch.from_numpy(weight), inside))


def _identifiers(text: str) -> list[str]:
    return [*find_identifiers(text), *find_error_lines(text)]


def _nearest(vectors: csr_array, senders: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The edges ``(2, E)`` from the ``k`` nearest senders of each row, with cosines above 0, ``(E,)``."""
    columns = vectors[senders].T.tocsr()
    blocks = [vectors[start : start + BLOCK_ROWS] @ columns for start in range(0, vectors.shape[0], BLOCK_ROWS)]
    cosines = vstack([_strongest(block, k + 1) for block in blocks]).tocoo()  # a report is its own nearest neighbour
    is_edge = senders[cosines.col] != cosines.row
    edges = np.stack([senders[cosines.col], cosines.row])[:, is_edge].astype(np.int64)
    return edges, cosines.data[is_edge].clip(max=1)


def _strongest(cosines: csr_array, k: int) -> csr_array:
    """The k highest entries of each row."""
    entries = cosines.tocoo()
    order = np.lexsort((entries.col, -entries.data, entries.row))
    row = entries.row[order]
    # Rows 0 0 0 1 1 have the ranks 0 1 2 0 1.
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    kept = order[rank < k]
    return csr_array((entries.data[kept], (entries.row[kept], entries.col[kept])), shape=cosines.shape)
