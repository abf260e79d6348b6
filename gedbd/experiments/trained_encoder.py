"""Use of a trained encoder: its vectors of a corpus for a file or a vector database, and its export."""

import time
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.encoders.export_formats import Format, largest_difference, some_texts
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.encoders.qdrant import QdrantCollection
from gedbd.encoders.vector_files import save_vectors
from gedbd.evaluation.model_card import MADE_UP, model_card
from gedbd.evaluation.run_folders import Run
from gedbd.experiments.checkpoint import check_corpus, find_run
from gedbd.experiments.corpus_reading import read_corpus
from gedbd.io.console import print_line, stage
from gedbd.io.files import whole_folder
from gedbd.text.templates import Text


@stage("encode the corpus")
def encode_corpus(cfg: DictConfig, weights: Path | None, collection: QdrantCollection | None, console: Console) -> None:
    """Encodes all reports, and writes or sends their vectors.

    Args:
        cfg: The composed configuration of ``conf/encode.yaml``.
        weights: The checkpoint of a trained encoder; None for the encoder as it was downloaded.
        collection: A collection of a vector database; None for the file ``cfg.out``.
        console: Where counts and warnings go.
    """
    encoder: LoadedEncoder = instantiate(cfg.encoder, backend=instantiate(cfg.backend), cache_dir=cfg.cache_dir)
    if weights is not None:
        encoder.load_weights(weights)
    if collection:
        collection.check_size(encoder.dim)
    corpus = read_corpus(cfg.dataset)
    text = instantiate(cfg.text)
    texts, text_warnings = text(corpus.reports, encoder.tokenizer, encoder.text_tokens)
    for warning in (*corpus.warnings, *text_warnings):
        print_line(console, f"{corpus.name}: {warning}")
    started = time.perf_counter()
    vectors = encoder.encode(texts)
    seconds = time.perf_counter() - started
    if collection:
        for warning in collection.send(corpus, vectors):
            print_line(console, f"{cfg.out}: {warning}")
    else:
        save_vectors(Path(cfg.out), corpus.reports["id"], vectors)
    print_line(
        console,
        f"{cfg.out}: {vectors.shape[0]:,} reports, {vectors.shape[1]} dimensions, in {seconds:.1f} s"
        f" ({vectors.shape[0] / seconds:,.0f} reports/s; vectors of texts encoded before come from {cfg.cache_dir})",
    )


@stage("export and check")
def export_run(folder: Path, checkpoint: str, name: str, form: Format, out: Path, cache_dir: str) -> tuple[int, float]:
    """Writes the folder; where its vectors differ from gedbd's, nothing is left behind.

    Args:
        folder: The run folder.
        checkpoint: ``best`` or ``last``.
        name: The format's name, for the model card.
        form: The format.
        out: A folder that does not exist, or an empty one.
        cache_dir: Where vectors are kept.

    Returns:
        How many texts were compared, and the largest difference of their vectors' numbers.

    Raises:
        ValueError: If the run is unfinished, its corpus has changed, or the vectors differ.
    """
    saved, weights = find_run(folder, checkpoint)
    if not (folder / "results.csv").is_file():
        raise ValueError(f"run={folder} is unfinished: resume it with ckpt_path={folder}/checkpoints/last.ckpt")
    corpus = read_corpus(saved.dataset)
    check_corpus(folder, corpus)
    encoder: LoadedEncoder = instantiate(saved.encoder, cache_dir=cache_dir)
    encoder.load_weights(weights)
    text: Text = instantiate(saved.text)
    texts = some_texts(text(corpus.reports, encoder.tokenizer, encoder.text_tokens).texts)
    expected = encoder.encode(texts)
    with whole_folder(out) as fresh:
        form.write(fresh, encoder)
        (example,) = text(MADE_UP, encoder.tokenizer, encoder.text_tokens).texts
        (fresh / "README.md").write_text(model_card(Run(folder), corpus, name, checkpoint, example))
        difference = largest_difference(form.read(fresh, texts), expected)
    return len(texts), difference
