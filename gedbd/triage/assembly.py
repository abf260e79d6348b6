"""Builds indexes, encoders and models from configuration, for the commands backtest, index, search and serve."""

import io
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from gedbd.configuration.allowed_targets import keep_local, read_settings
from gedbd.configuration.resolvers import encoding_precision
from gedbd.configuration.saved_options import CONFIG, read_saved
from gedbd.corpora.corpus import Corpus
from gedbd.encoders.given_encoder import GivenEncoder, is_given
from gedbd.evaluation.run_folders import MATCHING
from gedbd.experiments.corpus_reading import read_corpus
from gedbd.io.console import print_line, silence_library_logs, stage
from gedbd.text.templates import FieldTemplate, Text
from gedbd.triage.building import IndexModel, store_corpus, with_stored_boilerplate
from gedbd.triage.index import Index
from gedbd.triage.report_encoder import ReportEncoder
from gedbd.triage.storage.index_store import FILE, IndexStore
from gedbd.triage.storage.stored_model import check_model, check_names, fitted, read_matching
from gedbd.triage.storage.sync import Changes
from gedbd.triage.triage_model import TriageModel, default_model

if TYPE_CHECKING:
    from gedbd.encoders.loaded_encoder import LoadedEncoder


QUICKEST = "gedbd.encoders.backends.quickest.Quickest"
EXACT = "float32"


class EncodedCorpus(NamedTuple):
    """The vectors of a corpus.

    Attributes:
        vectors: ``(N, D)`` unit rows.
        warnings: What the text template found, in sentences for the user.
    """

    vectors: np.ndarray
    warnings: tuple[str, ...]


def check_backtest(cfg: DictConfig) -> None:
    """Raises ValueError if the options of a backtest are invalid, before any long work."""
    if OmegaConf.is_missing(cfg.dataset, "path"):
        raise ValueError(
            "no reports given: set dataset=csv dataset.path=bugs.csv, or dataset=demo for the bundled reports"
        )
    if not cfg.split._target_.endswith("TimeSplit"):
        raise ValueError("a backtest replays reports in chronological order: set split=time")
    if cfg.weights not in ("best", "refit"):
        raise ValueError(f"weights={cfg.weights} is unknown: choose best or refit")
    for name in ("target_precision", "confidence_level"):
        if not (isinstance(cfg[name], int | float) and 0 < cfg[name] < 1):
            raise ValueError(f"{name}={cfg[name]} must be a number above 0 and below 1")
    for name in ("max_replayed", "judge"):
        if not (isinstance(cfg[name], int) and cfg[name] >= 1):
            raise ValueError(f"{name}={cfg[name]} must be a whole number, 1 or more")
    if cfg.fill and not Path(cfg.fill).is_file():
        raise ValueError(f"fill={cfg.fill}: no such file")


@stage("encode the reports")
def encode_corpus(cfg: DictConfig, corpus: Corpus, weights: Path | None) -> EncodedCorpus:
    """Encodes all reports with the configured encoder, trained if there are weights."""
    encoder: LoadedEncoder = instantiate(cfg.encoder, backend=instantiate(cfg.backend), cache_dir=cfg.cache_dir)
    if weights is not None:
        encoder.load_weights(weights)
    text: Text = instantiate(cfg.text)
    texts, warnings = text(corpus.reports, encoder.tokenizer, encoder.text_tokens)
    return EncodedCorpus(encoder.encode(texts), warnings)


def update_index(cfg: DictConfig, out: Path, console: Console) -> Changes:
    """Brings an index to the state of a corpus; with another model than before, every report is encoded again.

    Args:
        cfg: The composed configuration of ``conf/index.yaml``.
        out: The folder of the index.
        console: Where warnings are printed.
    """
    tested, matching, weights = chosen_model(cfg)
    if out.exists() and not out.is_dir():
        raise ValueError(f"out={out} is a file: give a new or existing folder")
    dataset = tested.dataset if OmegaConf.is_missing(cfg.dataset, "path") else cfg.dataset
    if cfg.dataset.get("url_template") is not None:
        dataset.url_template = cfg.dataset.url_template
    backend = cfg.get("backend") or tested.backend
    corpus = read_corpus(dataset)
    for warning in corpus.warnings:
        print_line(console, f"{corpus.name}: {warning}")
    print_line(console, matching.target.statement)
    # Resolved, so that the index keeps the precision of backend=auto whatever machine it is opened on.
    backend = OmegaConf.to_container(backend, resolve=True)
    settings = OmegaConf.create({"encoder": tested.encoder, "text": tested.text, "backend": backend})
    model = IndexModel(settings, matching, weights, cfg.cache_dir)
    return store_corpus(out, corpus, model, partial(print_line, console))


@stage("open the index")
def open_index(folder: str | Path, cache_dir: str, backend: DictConfig | None = None) -> Index:
    """Opens an index.

    Args:
        folder: The folder of the index.
        cache_dir: Where 8-bit models are kept.
        backend: Encodes queries instead of the backend that has encoded the stored reports.

    Raises:
        ValueError: If there is no index, or it is damaged or of another version.
    """
    folder = Path(folder)
    check_index(folder)
    from threadpoolctl import threadpool_limits

    silence_library_logs()
    # Encoders have threads of their own; those of BLAS would compete with them for the same cores.
    threadpool_limits(1, user_api="blas")
    return Index(folder, lambda store: load_model(store, f"index={folder}", cache_dir, backend))


def check_index(folder: Path) -> None:
    """Raises ValueError if there is no index in a folder."""
    if not (folder / FILE).is_file():
        raise ValueError(f"index={folder}: no {FILE} there; build an index with gedbd index run=BACKTEST out={folder}")


def load_model(
    store: IndexStore, source: str, cache_dir: str, backend: DictConfig | None, given: GivenEncoder | None = None
) -> tuple[ReportEncoder, TriageModel]:
    """The encoder and the model that an index holds; see ``open_index``.

    Args:
        store: The file of the index.
        source: What messages call it.
        cache_dir: See ``open_index``.
        backend: See ``open_index``.
        given: The encoder, where the index was built with an object in Python.
    """
    about = store.about()
    weights = store.weights()
    check_names(store.path, about)
    matching = read_matching(about["matching"], source)
    check_model(store.path, about, weights)
    settings = read_settings(about["settings"], source, cache_dir)
    if backend is not None:
        _check_backend(settings.backend, backend)
        settings.backend = backend
    settings.cache_dir = cache_dir
    encoder = _stored_encoder(settings, weights, source, given)
    return _report_encoder(encoder, settings, about, store.path), matching


def _stored_encoder(
    settings: Any, weights: bytes, source: str, given: GivenEncoder | None
) -> "LoadedEncoder | GivenEncoder":
    """The encoder of an index: made from its settings, or the given one if they describe it."""
    if given is not None:
        if not is_given(settings.encoder):
            raise ValueError(f"{source} sets the encoder: leave encoder= out")
        given.check(settings.encoder, source)
        return given
    encoder: LoadedEncoder = instantiate(settings.encoder, backend=instantiate(settings.backend))
    if weights:
        encoder.load_weights(io.BytesIO(weights))
    encoder.model.eval()
    return encoder


def _report_encoder(
    encoder: "LoadedEncoder | GivenEncoder", settings: Any, about: dict[str, str], path: Path
) -> ReportEncoder:
    text = with_stored_boilerplate(instantiate(settings.text), about, path)
    if isinstance(text, FieldTemplate):
        text.captions = None  # the images of a new report have no captions yet
    encoder.calibration = fitted(path, about, "calibration") if encoder.backend.calibrated else None
    encoder.prepare()  # what the backend refuses is reported when the index is opened, not with the first query
    return ReportEncoder(encoder, text)


def _check_backend(stored: DictConfig, asked: DictConfig) -> None:
    """Raises ValueError if vectors of two backends differ by more than rounding."""
    precisions = [backend.get("precision", EXACT) for backend in (stored, asked)]
    if precisions != [EXACT, EXACT] and precisions[0] != precisions[1]:
        raise ValueError(
            f"backend: the stored reports were encoded in {precisions[0]}, so queries in {precisions[1]} cannot be"
            " compared with them: build the index with this backend"
        )


def chosen_model(cfg: DictConfig) -> tuple[DictConfig, TriageModel, Path | None]:
    """What ``find_backtest`` returns for ``run=``; without it, the command's own options and the default model.

    Raises:
        ValueError: If neither a backtest nor a corpus is given, or ``run=`` is no finished backtest.
    """
    if cfg.run:
        return find_backtest(Path(cfg.run))
    if OmegaConf.is_missing(cfg.dataset, "path"):
        raise ValueError(
            "no reports given: set dataset=csv dataset.path=bugs.csv for the default ranker, or run= to a folder"
            " written by gedbd backtest"
        )
    options = OmegaConf.create({name: cfg[name] for name in ("dataset", "encoder", "text")})
    options.backend = cfg.get("backend") or {"_target_": QUICKEST, "precision": encoding_precision()}
    return options, default_model(), None


def find_backtest(folder: Path) -> tuple[DictConfig, TriageModel, Path | None]:
    """A backtest's configuration, its model, and the checkpoint of its encoder, None for an untrained one.

    Raises:
        ValueError: If the folder is not a finished backtest, or the run it used is missing.
    """
    if not folder.is_dir():
        raise ValueError(f"run={folder}: no such folder; give a folder written by gedbd backtest")
    if not (folder / MATCHING).is_file():
        raise ValueError(
            f"run={folder} is not a finished backtest: it has no {MATCHING}; run gedbd backtest run={folder}"
            " and give the folder that it writes"
        )
    cfg = read_saved(folder)
    keep_local(cfg, str(folder / CONFIG))
    weights = None
    if cfg.run:
        from gedbd.experiments.checkpoint import find_run  # it imports torch

        _, weights = find_run(Path(cfg.run), cfg.get("weights", "best"))
    text = (folder / MATCHING).read_text(encoding="utf-8", errors="replace")
    return cfg, read_matching(text, f"run={folder}"), weights
