"""Reading a corpus by each engine beside sentence-transformers, and one query among 70,000 reports beside bm25s."""

import tempfile
import time
from collections.abc import Callable, Mapping

import bm25s
import numpy as np
from hydra.utils import instantiate
from material import configuration
from measure import Row, medians
from sentence_loop import sentence_transformer
from transformers import PreTrainedTokenizerBase

from gedbd.data.tokens import tokenize
from gedbd.models.engine import Reader, Torch, encode
from gedbd.models.frozen import calibration_sample, unit_rows
from gedbd.models.index import VectorIndex
from gedbd.models.openvino import PRECISIONS, OpenVino, has_bfloat16

REPORTS, REPEATS, STORED, QUERIES, WARM, TOP_K = 1024, 3, 70_000, 200, 10, 10
PEER = "sentence-transformers"


def main() -> list[Row]:
    """Measures."""
    cfg = configuration()
    (encoder, tokenizer), length = instantiate(cfg.encoder), cfg.encoder.max_tokens
    texts = instantiate(cfg.text)(instantiate(cfg.dataset).reports)
    some = [texts[row] for row in np.random.default_rng(0).permutation(len(texts))[:REPORTS]]
    sample = calibration_sample(texts, tokenizer, length)
    with tempfile.TemporaryDirectory() as folder:
        readers: dict[str, Reader] = {"torch": Torch().prepare(encoder, sample)}
        for precision in PRECISIONS:
            if precision != "bfloat16" or has_bfloat16():
                readers[f"openvino, {precision}"] = OpenVino(precision, folder).prepare(encoder, sample)
        rows = _rates(some, tokenizer, length, readers)
        vectors = encode(tokenize(some, tokenizer, length), readers["torch"])
        return [*rows, *_latencies(texts, tokenizer, length, readers, _crowd(unit_rows(vectors)))]


def _rates(
    texts: list[str], tokenizer: PreTrainedTokenizerBase, length: int, readers: Mapping[str, Reader]
) -> list[Row]:
    """Reports a second, tokenising included."""
    peer = sentence_transformer(length)
    calls: dict[str, Callable[[], object]] = {PEER: lambda: peer.encode(texts, show_progress_bar=False)}
    for name, reader in readers.items():
        calls[name] = lambda reader=reader: encode(tokenize(texts, tokenizer, length), reader)
    taken = medians(calls, REPEATS)
    section, note = "encoding", f"{len(texts):,} reports, {length} tokens"
    rows = [Row(section, f"{PEER}, encode", len(texts) / taken[PEER], "reports/s", note=note)]
    for name in readers:
        rate = len(texts) / taken[name]
        rows += [Row(section, name, rate, "reports/s", PEER, taken[PEER] / taken[name])]
    return rows


def _crowd(vectors: np.ndarray) -> VectorIndex:
    """An index as large as a large tracker: the given vectors again and again, each time a little changed."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(vectors), STORED)
    noise = rng.normal(scale=0.5 / np.sqrt(vectors.shape[1]), size=(STORED, vectors.shape[1]))
    index = VectorIndex(vectors.shape[1])
    index.add(unit_rows((vectors[rows] + noise).astype(np.float32)))
    return index


def _latencies(
    texts: list[str], tokenizer: PreTrainedTokenizerBase, length: int, readers: Mapping[str, Reader], index: VectorIndex
) -> list[Row]:
    """Text in, ranked rows out, one at a time: p50 and p95."""
    lexical = bm25s.BM25()
    stored = (texts * (1 + STORED // len(texts)))[:STORED]
    lexical.index(
        bm25s.tokenize([text[:2000] for text in stored], stopwords="en", show_progress=False), show_progress=False
    )
    calls: dict[str, Callable[[str], object]] = {"bm25s": lambda text: _lexical(lexical, text)}
    for name, reader in readers.items():
        calls[name] = lambda text, reader=reader: _dense(text, tokenizer, length, reader, index)
    waits: dict[str, list[float]] = {name: [] for name in calls}
    queries = np.random.default_rng(1).permutation(len(texts))[: QUERIES + WARM]
    for number, row in enumerate(queries):
        for name, call in calls.items():
            start = time.perf_counter()
            call(texts[row])
            if number >= WARM:
                waits[name].append(1000 * (time.perf_counter() - start))
    rows, peer = [], float(np.median(waits["bm25s"]))
    for name, values in waits.items():
        middle, high = np.percentile(values, [50, 95])
        versus = () if name == "bm25s" else ("bm25s", peer / middle)
        note = f"p95 {high:.1f} ms; {STORED:,} stored"
        rows.append(Row("one query", f"{name}, p50", middle, "ms", *versus, note=note))
    return rows


def _dense(text: str, tokenizer: PreTrainedTokenizerBase, length: int, reader: Reader, index: VectorIndex) -> object:
    batch = tokenize([text], tokenizer, length).batch(np.array([0]))
    return index.search(unit_rows(next(iter(reader.read([batch])))), TOP_K)


def _lexical(lexical: bm25s.BM25, text: str) -> object:
    tokens = bm25s.tokenize([text[:2000]], stopwords="en", show_progress=False)
    return lexical.retrieve(tokens, k=TOP_K, show_progress=False)
