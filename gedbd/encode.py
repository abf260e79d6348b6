"""Write the vectors of a corpus: ``python -m gedbd.encode run=outputs/... out=vectors.npz``."""

import time
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from gedbd.configuration.command import command
from gedbd.encoders.encoder import Encoder
from gedbd.encoders.sinks.qdrant import check_size, open_store, send_vectors
from gedbd.encoders.sinks.vector_file import check_writable, save_vectors
from gedbd.experiments.checkpoint import find_run
from gedbd.experiments.prepare import silence_library_logs


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
    encoder: Encoder = instantiate(cfg.encoder, backend=instantiate(cfg.backend), cache_dir=cfg.cache_dir)
    if weights is not None:
        encoder.load_weights(weights)
    if store:
        check_size(store, encoder.dim)
    corpus = instantiate(cfg.dataset)
    text = instantiate(cfg.text)
    texts = text(corpus.reports, encoder.tokenizer, encoder.max_tokens)
    for notice in (*corpus.notices, *getattr(text, "notices_", ())):
        console.print(f"{corpus.name}: {notice}", markup=False, highlight=False)
    started = time.perf_counter()
    vectors = encoder.encode(texts)
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
