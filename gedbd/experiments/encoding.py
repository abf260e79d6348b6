"""Encodes a corpus and hands the vectors to a file or a vector database."""

import time
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.encoders.qdrant import Store, check_size, send_vectors
from gedbd.encoders.vector_files import save_vectors
from gedbd.experiments.reading import read_corpus
from gedbd.io.console import print_line, stage


@stage("encode the corpus")
def encode_corpus(cfg: DictConfig, weights: Path | None, store: Store | None, console: Console) -> None:
    """Encodes all reports, and writes or sends their vectors.

    Args:
        cfg: The composed configuration of ``conf/encode.yaml``.
        weights: The checkpoint of a trained encoder; None for the encoder as it was downloaded.
        store: A collection of a vector database; None for the file ``cfg.out``.
        console: Where counts and warnings go.
    """
    encoder: LoadedEncoder = instantiate(cfg.encoder, backend=instantiate(cfg.backend), cache_dir=cfg.cache_dir)
    if weights is not None:
        encoder.load_weights(weights)
    if store:
        check_size(store, encoder.dim)
    corpus = read_corpus(cfg.dataset)
    text = instantiate(cfg.text)
    texts, text_warnings = text(corpus.reports, encoder.tokenizer, encoder.text_tokens)
    for warning in (*corpus.warnings, *text_warnings):
        print_line(console, f"{corpus.name}: {warning}")
    started = time.perf_counter()
    vectors = encoder.encode(texts)
    seconds = time.perf_counter() - started
    if store:
        for warning in send_vectors(store, corpus, vectors):
            print_line(console, f"{cfg.out}: {warning}")
    else:
        save_vectors(Path(cfg.out), corpus.reports["id"], vectors)
    print_line(
        console,
        f"{cfg.out}: {vectors.shape[0]:,} reports, {vectors.shape[1]} dimensions, in {seconds:.1f} s"
        f" ({vectors.shape[0] / seconds:,.0f} reports/s; vectors of texts encoded before come from {cfg.cache_dir})",
    )
