"""Uses a trained encoder: writes its vectors of a corpus to a file, and exports it."""

import time
from pathlib import Path
from typing import NamedTuple

from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.corpora.templates import Text
from gedbd.encoders.adapters import DOWN, UP
from gedbd.encoders.encoder_weights import encoder_state
from gedbd.encoders.export_formats import Format, adapter_format, largest_difference, some_texts
from gedbd.encoders.hub_repository import HubRepository
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.experiments.corpus_reading import print_fields, read_corpus
from gedbd.experiments.model_card import MADE_UP, model_card
from gedbd.experiments.run_folder import Run, check_corpus, find_run
from gedbd.io.console import print_line, stage
from gedbd.io.files import whole_folder
from gedbd.io.table_files import save_vectors


@stage("encode the corpus")
def encode_corpus(cfg: DictConfig, weights: Path | None, console: Console) -> None:
    """Encodes all reports, and writes their vectors to ``cfg.out``.

    Without weights, it uses the encoder as it was downloaded.
    """
    encoder: LoadedEncoder = instantiate(cfg.encoder, backend=instantiate(cfg.backend), cache_dir=cfg.cache_dir)
    if weights is not None:
        encoder.load_weights(weights)
    corpus = read_corpus(cfg.dataset)
    text = instantiate(cfg.text)
    texts, text_warnings = text(corpus.reports, encoder.tokenizer, encoder.text_tokens)
    print_fields(console, corpus)
    for warning in (*corpus.warnings, *text_warnings):
        print_line(console, f"{corpus.name}: {warning}")
    started = time.perf_counter()
    vectors = encoder.encode(texts)
    seconds = time.perf_counter() - started
    save_vectors(Path(cfg.out), corpus.reports["id"], vectors)
    print_line(
        console,
        f"{cfg.out}: {vectors.shape[0]:,} reports, {vectors.shape[1]} dimensions, in {seconds:.1f} s"
        f" ({vectors.shape[0] / seconds:,.0f} reports/s; vectors of texts encoded before come from {cfg.cache_dir})",
    )


class Export(NamedTuple):
    """An exported encoder."""

    texts: int  # number of texts that were encoded with both it and gedbd
    difference: float  # largest absolute difference between elements of their vectors


def run_adapter(folder: Path, checkpoint: str) -> Format:
    """The format of the adapters that a run trained.

    Raises:
        ValueError: If it trained no adapters, or not those of a model that they can name as their base.
    """
    saved, weights = find_run(folder, checkpoint)
    factors = {name: value for name, value in encoder_state(weights).items() if name.endswith((DOWN, UP))}
    base = saved.encoder.get("model")
    if not factors:
        raise ValueError(f"run={folder}: it trained all weights, not adapters: leave to=adapter out")
    if base is None or saved.encoder.get("adapter") is not None:
        raise ValueError(
            f"run={folder}: encoder={saved.encoder.name} is no pretrained model that adapters can name as their base:"
            " leave to=adapter out"
        )
    return adapter_format(factors, str(Path(base).resolve() if Path(base).is_dir() else base))


@stage("export and check")
def export_run(
    folder: Path,
    checkpoint: str,
    name: str,
    form: Format,
    out: Path,
    cache_dir: str,
    license: str | None = None,
    repository: HubRepository | None = None,
) -> Export:
    """Exports a run's encoder with a model card; writes nothing if its vectors differ from gedbd's.

    ``name`` is that of the format, for the model card; the folder ``out`` does not exist or is empty. A repository,
    which the folder will be uploaded to, is made before anything is encoded; nothing is uploaded.

    Raises:
        ValueError: If the run is unfinished, its corpus has changed, the hub refuses the repository, or the vectors
            differ.
    """
    saved, weights = find_run(folder, checkpoint)
    if not (folder / "results.csv").is_file() and checkpoint != "refit":  # that one is written when it is finished
        raise ValueError(f"run={folder} is unfinished: resume it with ckpt_path={folder}/checkpoints/last.ckpt")
    corpus = read_corpus(saved.dataset)
    check_corpus(folder, corpus)
    if repository is not None:
        repository.create(license)
    encoder: LoadedEncoder = instantiate(saved.encoder, cache_dir=cache_dir)
    encoder.load_weights(weights)
    text: Text = instantiate(saved.text)
    texts = some_texts(text(corpus.reports, encoder.tokenizer, encoder.text_tokens).texts)
    expected = encoder.encode(texts)
    with whole_folder(out) as fresh:
        form.write(fresh, encoder)
        (example,) = text(MADE_UP, encoder.tokenizer, encoder.text_tokens).texts
        card = model_card(
            Run(folder),
            corpus,
            name,
            checkpoint,
            example,
            license=license,
            repository=None if repository is None else repository.name,
            max_tokens=encoder.max_tokens,
        )
        (fresh / "README.md").write_text(card, encoding="utf-8")
        # safetensors makes its files readable only by their owner.
        for path in fresh.rglob("*.safetensors"):
            path.chmod(fresh.stat().st_mode & 0o666)
        difference = largest_difference(form.read(fresh, texts), expected, form.tolerance)
    return Export(len(texts), difference)
