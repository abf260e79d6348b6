"""Builds or updates an index from a corpus, an encoder and a triage model."""

import io
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from gedbd.corpora.corpus import Corpus
from gedbd.encoders.given_encoder import GivenEncoder
from gedbd.io.console import silence_library_logs
from gedbd.io.locks import sole_process
from gedbd.text.cleaning import Cleaning, shared_lines
from gedbd.text.templates import FieldTemplate, Text
from gedbd.triage.storage.compaction import compact
from gedbd.triage.storage.index_store import FILE, IndexStore
from gedbd.triage.storage.stored_model import check_model, check_names, fitted, model_key
from gedbd.triage.storage.sync import Changes, Model, synchronise
from gedbd.triage.triage_model import TriageModel

if TYPE_CHECKING:
    from gedbd.encoders.loaded_encoder import LoadedEncoder

LOCK = "index.lock"  # held while a corpus is stored: two at once would leave reports of both
UPDATE_TIMEOUT_S = 60.0  # a command may wait longer for a lock than a service


class IndexModel(NamedTuple):
    """What an index is built with.

    Attributes:
        settings: The sections encoder, text and backend, the last one resolved.
        matching: A ranker, probabilities, and what a backtest measured.
        weights: The checkpoint of a trained encoder; None for the encoder as it was downloaded.
        cache_dir: Folder of the vectors of known texts.
        given: The encoder, where it is an object in Python; then the settings only describe it.
    """

    settings: DictConfig
    matching: TriageModel
    weights: Path | None
    cache_dir: str
    given: GivenEncoder | None = None


def store_corpus(out: Path, corpus: Corpus, index_model: IndexModel, tell: Callable[[str], None]) -> Changes:
    """Brings an index to the state of a corpus; with another model than before, every report is encoded again.

    Args:
        out: The folder of the index, made if absent.
        corpus: All reports.
        index_model: LoadedEncoder and triage model.
        tell: Receives warnings.

    Raises:
        ValueError: If another process is storing a corpus in this index.
    """
    out.mkdir(0o700, parents=True, exist_ok=True)
    settings = index_model.settings.copy()
    # The index stores a reference instead of this machine's folder, and can be opened on another one.
    if "cache_dir" in settings.backend:
        settings.backend.cache_dir = "${cache_dir}"
    plain = json.dumps(OmegaConf.to_container(settings), sort_keys=True)
    settings.cache_dir = index_model.cache_dir
    silence_library_logs()
    with (
        sole_process(out / LOCK, f"{out}: the index is updated with a corpus"),
        closing(IndexStore(out / FILE, timeout_s=UPDATE_TIMEOUT_S)) as store,
    ):
        model = _build_model(plain, index_model.matching, index_model.weights, corpus, store)
        encode = _corpus_encoder(settings, model, store.path, index_model.given)
        changes = synchronise(store, corpus, model, encode)
    try:
        compact(out / FILE)
    except OSError as error:
        tell(f"{out}: the files for quick opening cannot be written ({error})")
    return changes


def _build_model(
    settings: str, matching: TriageModel, weights: Path | None, corpus: Corpus, store: IndexStore
) -> Model:
    """The model for an index: the stored one if it is the same, which keeps what was fitted to its corpus."""
    state = b""
    if weights is not None:
        import torch

        from gedbd.encoders.encoder_weights import read_state

        encoder_state = {key: value for key, value in read_state(weights).items() if key.startswith("encoder.")}
        stream = io.BytesIO()
        torch.save({"state_dict": encoder_state}, stream)
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
    lines: set[str] = set()
    if cleaning.get("boilerplate", "keep") != "keep":
        lines = shared_lines(list(corpus.reports["description"]))
    return Model(about | {"boilerplate": json.dumps(sorted(lines))}, state)


def _corpus_encoder(
    settings: DictConfig, model: Model, path: Path, given: GivenEncoder | None
) -> Callable[[pd.DataFrame], np.ndarray]:
    """Encodes many reports through the embedding cache; the encoder is loaded when the first ones are given."""
    from gedbd.encoders.loaded_encoder import calibration_texts

    @cache
    def load() -> "tuple[LoadedEncoder | GivenEncoder, Text]":
        text = with_stored_boilerplate(instantiate(settings.text), model.about, path)
        if given is not None:
            return given, text
        backend = instantiate(settings.backend)
        encoder: LoadedEncoder = instantiate(settings.encoder, backend=backend, cache_dir=settings.cache_dir)
        if model.weights:
            encoder.load_weights(io.BytesIO(model.weights))
        return encoder, text

    def encode(reports: pd.DataFrame) -> np.ndarray:
        encoder, text = load()
        texts, _ = text(reports, encoder.tokenizer, encoder.text_tokens)
        if encoder.backend.calibrated:
            if "calibration" not in model.about:
                model.about["calibration"] = json.dumps(calibration_texts(texts))
            encoder.calibration = fitted(path, model.about, "calibration")
        return encoder.encode(texts)

    return encode


def with_stored_boilerplate(text: Text, about: dict[str, str], path: Path) -> Text:
    """A text template that removes the boilerplate found in the corpus, not in the few reports at hand."""
    if isinstance(text, FieldTemplate) and isinstance(text.cleaning, Cleaning):
        text.cleaning = replace(text.cleaning, shared=frozenset(fitted(path, about, "boilerplate")))
    return text
