"""Write a trained encoder for others: ``python -m gedbd.export run=outputs/... out=model_folder``."""

from pathlib import Path

import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console
from transformers import PreTrainedTokenizerBase

from gedbd.configuration.command import command
from gedbd.encoders.embedding_cache import report_vectors
from gedbd.encoders.encoder import load_weights
from gedbd.encoders.export import find_format
from gedbd.encoders.export.checks import check_free, largest_difference, some_texts, whole_folder
from gedbd.evaluation.model_card import MADE_UP, model_card
from gedbd.evaluation.run_folders import Run
from gedbd.experiments.checkpoint import check_corpus, find_run
from gedbd.io.library_logs import silence_library_logs


@command("export")
def main(cfg: DictConfig) -> None:
    """Writes a run's text branch, holds it to gedbd's own vectors, and leaves the folder only if they agree."""
    console, folder, out = Console(), Path(cfg.run), Path(cfg.out)
    form = find_format(cfg.format)
    check_free(out)
    saved, weights = find_run(folder, cfg.checkpoint)
    if not (folder / "results.csv").is_file():
        raise ValueError(f"run={folder} is unfinished: it goes on with ckpt_path={folder}/checkpoints/last.ckpt")
    silence_library_logs()
    corpus = instantiate(saved.dataset)
    check_corpus(folder, corpus)
    encoder, tokenizer = instantiate(saved.encoder)
    load_weights(encoder, weights)
    reader = encoder, tokenizer, saved.encoder.max_tokens
    texts = some_texts(_texts(saved, corpus.reports, tokenizer))
    expected = report_vectors(texts, *reader, cfg.cache_dir, None, projected=True)
    with whole_folder(out) as fresh:
        form.write(fresh, *reader)
        (example,) = _texts(saved, MADE_UP, tokenizer)
        (fresh / "README.md").write_text(model_card(Run(folder), corpus, cfg.format, cfg.checkpoint, example))
        largest = largest_difference(form.read(fresh, texts), expected)
    console.print(
        f"{out}: {cfg.format}, {len(texts)} texts read with it and with gedbd, largest difference {largest:.1e}",
        highlight=False,
        soft_wrap=True,
    )


def _texts(cfg: DictConfig, reports: pd.DataFrame, tokenizer: PreTrainedTokenizerBase) -> list[str]:
    return list(instantiate(cfg.text)(reports, tokenizer, cfg.encoder.max_tokens))


if __name__ == "__main__":
    main()
