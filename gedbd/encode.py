"""Write the vectors of a corpus: ``python -m gedbd.encode run=outputs/... out=vectors.npz``."""

import time
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from gedbd.configuration.command import command
from gedbd.encoders.embedding_cache import report_vectors
from gedbd.encoders.encoder import load_weights
from gedbd.encoders.sinks.qdrant import check_size, open_store, send_vectors
from gedbd.encoders.sinks.vector_file import check_writable, save_vectors
from gedbd.experiments.checkpoint import find_run
from gedbd.io.library_logs import silence_library_logs


@command("encode")
def main(cfg: DictConfig) -> None:
    """Reads all reports with a run's trained encoder, or the untrained one; writes or sends ids and unit vectors."""
    console, weights = Console(), None
    store = open_store(cfg.out) if "://" in cfg.out else None
    if store is None:
        check_writable(Path(cfg.out))
    if cfg.run:
        saved, weights = find_run(Path(cfg.run), cfg.checkpoint)
        cfg.encoder, cfg.text = saved.encoder, saved.text
        if OmegaConf.is_missing(cfg.dataset, "path"):
            cfg.dataset = saved.dataset
    silence_library_logs()
    backend, (encoder, tokenizer) = instantiate(cfg.backend), instantiate(cfg.encoder)
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
        f" ({vectors.shape[0] / seconds:,.0f} reports/s; texts met before come from {cfg.cache_dir})",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    main()
