"""One query among 70,000 reports, by each engine beside bm25s: text in, ranked rows out."""

import time
from collections.abc import Callable

import bm25s
import numpy as np
from encoding import prepared
from measure import Row
from transformers import PreTrainedTokenizerBase

from gedbd.data.tokens import tokenize
from gedbd.models.engine import Reader, encode
from gedbd.models.frozen import unit_rows
from gedbd.models.index import VectorIndex

READ, STORED, QUERIES, WARM, TOP_K = 1024, 70_000, 300, 20, 10


def main() -> list[Row]:
    """Measures one way after the other, as each would serve."""
    texts, tokenizer, length, readers = prepared()
    index = _crowd(unit_rows(encode(tokenize(texts[:READ], tokenizer, length), readers["torch"])))
    lexical = _lexical(texts)
    queries = [texts[row] for row in np.random.default_rng(1).permutation(len(texts))[: QUERIES + WARM]]
    peer = _row("bm25s", lambda text: _search_words(lexical, text), queries, None)
    rows = [peer]
    for name, reader in readers.items():
        rows.append(
            _row(name, lambda text, reader=reader: _search(text, tokenizer, length, reader, index), queries, peer)
        )
    return rows


def _row(name: str, search: Callable[[str], object], queries: list[str], peer: Row | None) -> Row:
    """Median and 95th percentile of milliseconds."""
    waits = []
    for text in queries:
        start = time.perf_counter()
        search(text)
        waits.append(1000 * (time.perf_counter() - start))
    middle, high = np.percentile(waits[WARM:], [50, 95])
    note = f"p95 {high:.1f} ms; {STORED:,} stored"
    versus = ("bm25s", peer.value / middle) if peer else ()
    return Row("one query", f"{name}, p50", float(middle), "ms", *versus, note=note)


def _crowd(vectors: np.ndarray) -> VectorIndex:
    """An index as large as a large tracker: the given vectors again and again, each time a little changed."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(vectors), STORED)
    noise = rng.normal(scale=0.5 / np.sqrt(vectors.shape[1]), size=(STORED, vectors.shape[1]))
    index = VectorIndex(vectors.shape[1])
    index.add(unit_rows((vectors[rows] + noise).astype(np.float32)))
    return index


def _lexical(texts: list[str]) -> bm25s.BM25:
    """As many reports, with their words as the baseline reads them."""
    stored = (texts * (1 + STORED // len(texts)))[:STORED]
    index = bm25s.BM25()
    index.index(_words(stored), show_progress=False)
    return index


def _words(texts: list[str]) -> object:
    return bm25s.tokenize([text[:2000] for text in texts], stopwords="en", show_progress=False)


def _search_words(index: bm25s.BM25, text: str) -> object:
    return index.retrieve(_words([text]), k=TOP_K, show_progress=False)


def _search(text: str, tokenizer: PreTrainedTokenizerBase, length: int, reader: Reader, index: VectorIndex) -> object:
    batch = tokenize([text], tokenizer, length).batch(np.array([0]))
    return index.search(unit_rows(next(iter(reader.read([batch])))), TOP_K)
