"""Encodes a corpus and hands the vectors to a file or a vector database."""

import time
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.encoders.embedding_cache import report_vectors
from gedbd.encoders.encoder import load_weights
from gedbd.encoders.sinks.qdrant import Store, check_size, send_vectors
from gedbd.encoders.sinks.vector_file import save_vectors


def encode_corpus(cfg: DictConfig, weights: Path | None, store: Store | None, console: Console) -> None:
    """Encodes all reports, and writes or sends their vectors.

    Args:
        cfg: The composed configuration of ``conf/encode.yaml``.
        weights: The checkpoint of a trained encoder; None for the encoder as it was downloaded.
        store: A collection of a vector database; None for the file ``cfg.out``.
        console: Where counts and warnings go.
    """
    backend = instantiate(cfg.backend)
    encoder, tokenizer = instantiate(cfg.encoder)
    if weights is not None:
        load_weights(encoder, weights)
    if store:
        check_size(store, encoder.projection.in_features if weights is None else encoder.projection.out_features)
    corpus = instantiate(cfg.dataset)
    text = instantiate(cfg.text)
    texts = text(corpus.reports, tokenizer, cfg.encoder.max_tokens)
    for notice in (*corpus.notices, *getattr(text, "notices_", ())):
        console.print(f"{corpus.name}: {notice}", markup=False, highlight=False)
    started = time.perf_counter()
    reader = encoder, tokenizer, cfg.encoder.max_tokens, cfg.cache_dir, backend
    vectors = report_vectors(texts, *reader, projected=weights is not None)
    seconds = time.perf_counter() - started
    if store:
        for notice in send_vectors(store, corpus, vectors):
            console.print(f"{cfg.out}: {notice}", markup=False, highlight=False)
    else:
        save_vectors(Path(cfg.out), corpus.reports["issue_id"], vectors)
    console.print(
        f"{cfg.out}: {vectors.shape[0]:,} reports, {vectors.shape[1]} numbers each, in {seconds:.1f} s"
        f" ({vectors.shape[0] / seconds:,.0f} reports/s; vectors of known texts come from {cfg.cache_dir})",
        highlight=False,
        soft_wrap=True,
    )
