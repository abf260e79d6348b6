"""Late interaction: each token of a query is matched with its nearest token of a document."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

from gedbd.corpora.templates import Text
from gedbd.encoders.backend import process_device
from gedbd.encoders.loaded_encoder import LoadedEncoder, unit_rows
from gedbd.io.console import track
from gedbd.retrieval.scorers.scorer_contract import EarlierScorer, ScorerInputs
from gedbd.text.tokens import split_by_tokens, token_budget

TEXTS_AT_ONCE = 1000
SAMPLED_DOCUMENTS = 2000
MIN_CLUSTERED_TOKENS = 200_000  # with fewer tokens, search is exhaustive
TRAINING_TOKENS_PER_CLUSTER = 50
DOCUMENTS_AT_ONCE = 1000
MAX_EXACT_TOKENS = 200_000  # scored at once: 100 MB with 128 dimensions


TokenVectors = Callable[[pd.DataFrame, Literal["document", "query"]], Iterable[np.ndarray]]
"""Computes the unit vectors of the tokens of documents or queries, ``(L, D)`` float32 for each row of the table."""


@dataclass(eq=False)
class MaxSim(EarlierScorer):
    """Sum over the query's tokens of the maximum cosine with a token of the document.

    s(q, d) = sum over i of max over j of q_i . d_j. Source: Khattab and Zaharia, "ColBERT", SIGIR 2020.

    A faiss index selects a shortlist of documents: each query token finds its nearest tokens, and adds the largest
    cosine to each of their documents. The shortlist is scored exactly; other documents score 1 less than its lowest
    score. Below 200,000 tokens the index is flat; above, it has sqrt(T) clusters and 4 bits per dimension. With 46,000
    documents of 128 tokens and 128 dimensions, peak memory was 2.6 GB; vectors are stored as float16.
    """

    vectors: TokenVectors  # computes the token vectors
    shortlist: int = 200  # number of documents that are scored exactly
    nearest: int = 200  # number of nearest tokens of each query token
    clusters_searched: int = 16  # number of clusters searched for each query token
    seed: int = 0  # seed of the sample that clusters are learned from

    def __post_init__(self) -> None:
        if min(self.shortlist, self.nearest, self.clusters_searched) < 1:
            sizes = f"shortlist={self.shortlist}, nearest={self.nearest} and clusters_searched={self.clusters_searched}"
            raise ValueError(f"MaxSim: {sizes} must be 1 or more")

    def read(self, inputs: ScorerInputs) -> None:
        """Stores and indexes the vectors of all tokens."""
        self.tokens_ = [vectors.astype(np.float16) for vectors in self.vectors(inputs.documents, "document")]
        self.queries_ = [np.asarray(vectors, dtype=np.float32) for vectors in self.vectors(inputs.queries, "query")]
        # Document d has the tokens starts_[d] ... starts_[d + 1] - 1.
        self.starts_ = np.concatenate([[0], np.cumsum([len(vectors) for vectors in self.tokens_])]).astype(np.int64)
        self.index_ = self._index() if self.num_documents_ > self.shortlist else None

    def earlier_scores(self, row: int, before: int) -> np.ndarray:
        """Sums of cosines; 1 below the lowest sum outside the shortlist; 0 for a query without tokens."""
        query = self.queries_[row]
        scores = np.zeros(before)
        shortlist = self._shortlist(query, before) if len(query) else np.empty(0, dtype=np.int64)
        if len(shortlist):
            exact = self._exact(query, shortlist)
            scores[:] = exact.min() - 1
            scores[shortlist] = exact
        return scores

    def _shortlist(self, query: np.ndarray, before: int) -> np.ndarray:
        """The documents to score exactly, ascending, all with at least one token."""
        num_tokens = np.diff(self.starts_[: before + 1])
        if self.index_ is None or before <= self.shortlist:
            return np.flatnonzero(num_tokens)
        best = self._nearest_by_document(query, before)
        # Stable: older documents come first among ties.
        order = np.argsort(-best, kind="stable")[: self.shortlist]
        return np.sort(order[best[order] > -np.inf])

    def _nearest_by_document(self, query: np.ndarray, before: int) -> np.ndarray:
        """Sums of cosines, ``(before,)``; -inf for a document without any nearest token."""
        import faiss

        assert self.index_ is not None
        count = int(self.starts_[before])
        options: dict[str, Any] = {"sel": faiss.IDSelectorRange(0, count)}
        parameters: Any = faiss.SearchParameters
        if isinstance(self.index_, faiss.IndexIVF):
            parameters = faiss.SearchParametersIVF
            options["nprobe"] = self.clusters_searched
        cosines, tokens = self.index_.search(query, min(self.nearest, count), params=parameters(**options))
        documents = np.searchsorted(self.starts_, tokens, side="right") - 1
        sums = np.full(before, -np.inf)
        # faiss pads with -1 where it has fewer neighbours.
        for token_cosines, token_documents, is_hit in zip(cosines, documents, tokens >= 0, strict=True):
            # Cosines descend: the first of each document is its largest.
            hits, first = np.unique(token_documents[is_hit], return_index=True)
            sums[hits] = np.where(np.isinf(sums[hits]), 0, sums[hits]) + token_cosines[is_hit][first]
        return sums

    def _exact(self, query: np.ndarray, documents: np.ndarray) -> np.ndarray:
        """Scores of documents that have tokens, ``(S,)``."""
        scores = np.empty(len(documents))
        sizes = self.starts_[documents + 1] - self.starts_[documents]
        # Sizes 3, 2, 4 and a limit of 5 tokens give the blocks 0, 0, 1.
        blocks = (np.cumsum(sizes) - 1) // MAX_EXACT_TOKENS
        for block in np.unique(blocks):
            positions = np.flatnonzero(blocks == block)
            tokens = np.concatenate([self.tokens_[row] for row in documents[positions]])
            starts = np.cumsum(sizes[positions]) - sizes[positions]
            cosines = query @ tokens.astype(np.float32).T
            scores[positions] = np.maximum.reduceat(cosines, starts, axis=1).sum(axis=0)
        return scores

    def _index(self) -> Any:
        """An index of all tokens by inner product."""
        import faiss

        total, dim = int(self.starts_[-1]), max((vectors.shape[1] for vectors in self.tokens_), default=1)
        index: Any
        if total < MIN_CLUSTERED_TOKENS:
            index = faiss.IndexFlatIP(dim)
        else:
            clusters = int(np.sqrt(total))
            index = faiss.index_factory(dim, f"IVF{clusters},SQ4", faiss.METRIC_INNER_PRODUCT)
            index.cp.seed = self.seed
            index.train(self._sample(clusters * TRAINING_TOKENS_PER_CLUSTER))
        for start in track(range(0, len(self.tokens_), DOCUMENTS_AT_ONCE), "index tokens"):
            index.add(np.concatenate(self.tokens_[start : start + DOCUMENTS_AT_ONCE]).astype(np.float32))
        return index

    def _sample(self, count: int) -> np.ndarray:
        """A random sample of tokens, ``(count, D)`` float32."""
        sample = np.random.default_rng(self.seed).choice(int(self.starts_[-1]), count, replace=False)
        rows = np.searchsorted(self.starts_, sample, side="right") - 1
        positions = sample - self.starts_[rows]
        tokens = [self.tokens_[row][position] for row, position in zip(rows, positions, strict=True)]
        return np.stack(tokens).astype(np.float32)


@dataclass(eq=False)
class FrozenTokens:
    """Unit vectors of the tokens of texts, except special tokens and the encoder's prefix; see ``TokenVectors``."""

    encoder: LoadedEncoder  # encoder whose last layer gives the vectors
    text: Text  # how documents and queries become texts
    # size D of the vectors. They are projected to the first D principal components (without centring, so that inner
    # products stay close), learned from the first 2,000 documents. No projection if None, or if not below the hidden
    # size of the encoder
    dim: int | None = 128

    def __post_init__(self) -> None:
        if self.dim is not None and self.dim < 1:
            raise ValueError(f"FrozenTokens' dim={self.dim} must be 1 or more, or null")
        self.directions_: np.ndarray | None = None

    def __call__(self, table: pd.DataFrame, kind: Literal["document", "query"]) -> Iterator[np.ndarray]:
        """The vectors of each row's tokens, ``(L, D)`` float32 each; the first documents define the projection."""
        texts, _ = self.text(table, self.encoder.tokenizer, self.encoder.text_tokens)
        if kind == "document":
            self.directions_ = self._directions(texts[:SAMPLED_DOCUMENTS])
        for vectors in self._last_layer(texts, f"encode tokens of {len(texts):,} texts"):
            yield unit_rows(vectors if self.directions_ is None else vectors @ self.directions_)

    def _directions(self, texts: list[str]) -> np.ndarray | None:
        """The projection, ``(hidden, D)``, or None."""
        hidden = int(self.encoder.model.backbone.config.hidden_size)
        if self.dim is None or self.dim >= hidden:
            return None
        moments = np.zeros((hidden, hidden))
        for vectors in self._last_layer(texts, "learn the projection of tokens"):
            unit = unit_rows(vectors)
            moments += unit.T @ unit
        _, directions = np.linalg.eigh(moments)  # eigenvalues ascend
        return np.asarray(directions[:, -self.dim :], dtype=np.float32)

    def _last_layer(self, texts: list[str], label: str) -> Iterator[np.ndarray]:
        """The vectors of each text's tokens, ``(L, hidden)`` float32, in the order of the texts."""
        for start in track(range(0, len(texts), TEXTS_AT_ONCE), label):
            yield from self._chunk(texts[start : start + TEXTS_AT_ONCE])

    def _chunk(self, texts: list[str]) -> list[np.ndarray]:
        model = self.encoder.model.to(process_device()).eval()
        tokens = self.encoder.tokenize(texts)
        device = process_device()
        order = np.argsort(tokens.lengths, kind="stable")
        special = np.array(self.encoder.tokenizer.all_special_ids)
        chunk: list[np.ndarray] = [np.empty(0)] * len(texts)
        for first, last in split_by_tokens(tokens.lengths[order].tolist(), token_budget(device)):
            rows = order[first:last]
            input_ids, attention_mask = tokens.batch(rows)
            with torch.no_grad():
                vectors = model.token_vectors(input_ids.to(device), attention_mask.to(device))
            for row, row_vectors in zip(rows.tolist(), vectors, strict=True):
                ids = tokens.ids[tokens.starts[row] : tokens.starts[row + 1]]
                chunk[row] = row_vectors.cpu().numpy()[~np.isin(ids, special)][self.encoder.prefix_tokens :]
        return chunk
