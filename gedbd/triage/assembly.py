"""Builds what helps a triager from configuration, for the commands backtest, index, search and serve."""

import io
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from gedbd.configuration.allowed_targets import read_settings
from gedbd.configuration.saved_options import read_saved
from gedbd.corpora.documents import Corpus
from gedbd.evaluation.run_folders import MATCHING
from gedbd.io.library_logs import silence_library_logs
from gedbd.text.cleaning import Cleaning, shared_lines
from gedbd.text.templates import FieldTemplate, Text
from gedbd.triage.index import Index
from gedbd.triage.storage.store import FILE, Store
from gedbd.triage.storage.stored_model import check_model, check_names, fitted, model_key, read_matching
from gedbd.triage.storage.sync import Changes, Model, synchronise
from gedbd.triage.training import Matching

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from gedbd.encoders.encoder import TextEncoder
    from gedbd.triage.report_encoder import ReportReader

EXACT = "float32"
UPDATE_TIMEOUT_S = 60.0  # a command may wait longer for a lock than a service


class Read(NamedTuple):
    """A corpus as an encoder reads it.

    Attributes:
        vectors: ``(N, D)`` unit rows.
        notices: What the text template met.
    """

    vectors: np.ndarray
    notices: tuple[str, ...]


def check_backtest(cfg: DictConfig) -> None:
    """Raises ValueError if a backtest is asked for that cannot be made, before any long work."""
    if OmegaConf.is_missing(cfg.dataset, "path"):
        raise ValueError("which tracker? dataset=csv dataset.path=bugs.csv, or dataset=demo for the bundled reports")
    if not cfg.split._target_.endswith("TimeSplit"):
        raise ValueError("a backtest replays history in the order of time: split=time")
    for name in ("target_precision", "confidence_level"):
        if not (isinstance(cfg[name], int | float) and 0 < cfg[name] < 1):
            raise ValueError(f"{name}={cfg[name]} must be a number above 0 and below 1")
    if not (isinstance(cfg.max_replayed, int) and cfg.max_replayed >= 1):
        raise ValueError(f"max_replayed={cfg.max_replayed} must be a whole number, 1 or more")
    if cfg.fill and not Path(cfg.fill).is_file():
        raise ValueError(f"fill={cfg.fill}: there is no such file")


def read_reports(cfg: DictConfig, corpus: Corpus, weights: Path | None) -> Read:
    """Reads all reports with the configured encoder, trained if there are weights."""
    from gedbd.encoders.embedding_cache import report_vectors
    from gedbd.encoders.encoder import load_weights

    encoder, tokenizer = instantiate(cfg.encoder)
    if weights is not None:
        load_weights(encoder, weights)
    text: Text = instantiate(cfg.text)
    texts = text(corpus.reports, tokenizer, cfg.encoder.max_tokens)
    reader = encoder, tokenizer, cfg.encoder.max_tokens, cfg.cache_dir, instantiate(cfg.backend)
    vectors = report_vectors(texts, *reader, projected=weights is not None)
    return Read(vectors, tuple(getattr(text, "notices_", ())))


def find_backtest(folder: Path) -> tuple[DictConfig, Matching, Path | None]:
    """A backtest's configuration, what it has learnt, and the weights of the encoder it used, if that was trained.

    Raises:
        ValueError: If the folder is no finished backtest, or the run it used is gone.
    """
    if not folder.is_dir():
        raise ValueError(f"run={folder}: there is no such folder; python -m gedbd.backtest leaves one to give here")
    if not (folder / MATCHING).is_file():
        raise ValueError(
            f"run={folder} has no {MATCHING}, so it is not known how often its matches are right:"
            f" python -m gedbd.backtest run={folder} measures that and leaves a folder to give here"
        )
    cfg = read_saved(folder)
    weights = None
    if cfg.run:
        from gedbd.experiments.checkpoint import find_run

        _, weights = find_run(Path(cfg.run), "best")
    text = (folder / MATCHING).read_text(encoding="utf-8", errors="replace")
    return cfg, read_matching(text, f"run={folder}"), weights


def update_index(cfg: DictConfig, out: Path, console: Console) -> Changes:
    """Brings an index to the state of a corpus; of one that was built with another model everything is made anew.

    Args:
        cfg: The composed configuration of ``conf/index.yaml``.
        out: The index' folder.
        console: Where notices go.
    """
    tested, matching, weights = find_backtest(Path(cfg.run))
    if out.exists() and not out.is_dir():
        raise ValueError(f"out={out} is a file: give a folder, which need not be there yet")
    dataset = tested.dataset if OmegaConf.is_missing(cfg.dataset, "path") else cfg.dataset
    if cfg.dataset.get("url_template") is not None:
        dataset.url_template = cfg.dataset.url_template
    backend = cfg.get("backend") or tested.backend
    corpus: Corpus = instantiate(dataset)
    for notice in corpus.notices:
        console.print(f"{corpus.name}: {notice}", markup=False, highlight=False)
    console.print(matching.target.statement, highlight=False)
    out.mkdir(parents=True, exist_ok=True)
    settings = OmegaConf.create({"encoder": tested.encoder, "text": tested.text, "backend": backend})
    if "cache_dir" in settings.backend:
        settings.backend.cache_dir = "${cache_dir}"
    plain = json.dumps(OmegaConf.to_container(settings), sort_keys=True)
    settings.cache_dir = cfg.cache_dir
    silence_library_logs()
    with closing(Store(out / FILE, timeout_s=UPDATE_TIMEOUT_S)) as store:
        model = _model(plain, matching, weights, corpus, store)
        return synchronise(store, corpus, model, _vectors(settings, model, store.path))


def open_index(folder: str | Path, cache_dir: str, backend: DictConfig | None = None) -> Index:
    """Opens an index.

    Args:
        folder: Where it lies.
        cache_dir: Where 8-bit models are kept.
        backend: Reads queries in place of the one that has read the stored reports.

    Raises:
        ValueError: If there is none.
    """
    folder = Path(folder)
    if not (folder / FILE).is_file():
        raise ValueError(f"index={folder}: there is no {FILE} in it; python -m gedbd.index out={folder} builds one")
    from threadpoolctl import threadpool_limits

    silence_library_logs()
    # Encoders bring threads of their own, and two sets of them on the same cores wait for each other.
    threadpool_limits(1, user_api="blas")
    return Index(folder, lambda store: _stored_model(store, f"index={folder}", cache_dir, backend))


def _stored_model(
    store: Store, source: str, cache_dir: str, backend: DictConfig | None
) -> tuple["ReportReader", Matching]:
    """The reader of reports that an index holds, and what was learnt from its tracker; see ``open_index``."""
    about, weights = store.about(), store.weights()
    check_names(store.path, about)
    matching = read_matching(about["matching"], source)
    check_model(store.path, about, weights)
    settings = read_settings(about["settings"], source, cache_dir)
    if backend is not None:
        _check_backend(settings.backend, backend)
        settings.backend = backend
    return _reader(settings, about, weights, cache_dir, store.path), matching


def _model(settings: str, matching: Matching, weights: Path | None, corpus: Corpus, store: Store) -> Model:
    """The model of an index; as it is stored if it is the same, so that what was fitted to texts stays."""
    state = b""
    if weights is not None:
        import torch

        from gedbd.encoders.encoder import read_state

        whole = read_state(weights)
        stream = io.BytesIO()
        torch.save({"state_dict": {key: value for key, value in whole.items() if key.startswith("encoder.")}}, stream)
        state = stream.getvalue()
    about = {"settings": settings, "matching": matching.as_json()}
    key = model_key(settings, about["matching"], state)
    about |= {"model": key, "name": corpus.name}
    stored = {} if store.is_empty else store.about()
    if stored.get("model") == key:
        check_names(store.path, stored)
        check_model(store.path, stored, store.weights())
        return Model(stored, state)
    cleaning = json.loads(settings)["text"].get("cleaning", {})
    lines = (
        shared_lines(list(corpus.reports["description"])) if cleaning.get("boilerplate", "keep") != "keep" else set()
    )
    return Model(about | {"boilerplate": json.dumps(sorted(lines))}, state)


def _vectors(settings: DictConfig, model: Model, path: Path) -> Callable[[pd.DataFrame], np.ndarray]:
    """Reads many reports with a model, by way of the cache: one that was read before is not read again."""
    from gedbd.encoders.embedding_cache import calibration_texts, report_vectors
    from gedbd.encoders.encoder import load_weights

    @cache
    def load() -> tuple["TextEncoder", "PreTrainedTokenizerBase", Text]:
        encoder, tokenizer = instantiate(settings.encoder)
        if model.weights:
            load_weights(encoder, io.BytesIO(model.weights))
        return encoder, tokenizer, _settle(instantiate(settings.text), model.about, path)

    def read(reports: pd.DataFrame) -> np.ndarray:
        encoder, tokenizer, text = load()
        texts = text(reports, tokenizer, settings.encoder.max_tokens)
        if "calibration" not in model.about:
            model.about["calibration"] = json.dumps(calibration_texts(texts))
        reader = encoder, tokenizer, settings.encoder.max_tokens, settings.cache_dir, instantiate(settings.backend)
        calibration = fitted(path, model.about, "calibration")
        return report_vectors(texts, *reader, projected=bool(model.weights), calibration=calibration)

    return read


def _reader(settings: Any, about: dict[str, str], weights: bytes, cache_dir: str, path: Path) -> "ReportReader":
    from gedbd.encoders.encoder import load_weights
    from gedbd.text.tokens import tokenize
    from gedbd.triage.report_encoder import ReportReader

    settings.cache_dir = cache_dir
    encoder, tokenizer = instantiate(settings.encoder)
    if weights:
        load_weights(encoder, io.BytesIO(weights))
    encoder.eval()
    text = _settle(instantiate(settings.text), about, path)
    if isinstance(text, FieldTemplate):
        text.captions = None  # nobody has described what comes with a report that is just being written
    backend, length = instantiate(settings.backend), settings.encoder.max_tokens
    sample = tokenize(fitted(path, about, "calibration"), tokenizer, length) if backend.calibrated else None
    return ReportReader(encoder, tokenizer, length, text, backend.prepare(encoder, sample), bool(weights))


def _check_backend(stored: DictConfig, asked: DictConfig) -> None:
    """Raises ValueError if vectors of two backends differ by more than rounding."""
    precisions = [backend.get("precision", EXACT) for backend in (stored, asked)]
    if precisions != [EXACT, EXACT] and precisions[0] != precisions[1]:
        raise ValueError(
            f"backend: the stored reports were read in {precisions[0]}, and queries in {precisions[1]} would not fit:"
            " build the index with this backend"
        )


def _settle(text: Text, about: dict[str, str], path: Path) -> Text:
    """Boilerplate is what was found in the corpus, not in the few reports at hand."""
    if isinstance(text, FieldTemplate) and isinstance(text.cleaning, Cleaning):
        text.cleaning = replace(text.cleaning, shared=frozenset(fitted(path, about, "boilerplate")))
    return text
