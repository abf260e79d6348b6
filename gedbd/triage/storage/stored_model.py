"""The model in an index: a hash that identifies it, a check for damage, and the encoder that it describes."""

import hashlib
import io
import json
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig

from gedbd.configuration.allowed_targets import read_settings
from gedbd.configuration.encoder_options import DEFAULT_ENCODER, is_base_of_default
from gedbd.corpora.bug_report import Report, as_table
from gedbd.corpora.templates import FieldTemplate, Text
from gedbd.encoders.given_encoder import GivenEncoder, is_given
from gedbd.io.console import silence_library_logs
from gedbd.retrieval.report_ranking.feature_store import TERMS_VERSION
from gedbd.text.cleaning import Cleaning
from gedbd.triage.storage.index_folder import QUERY_ENCODERS
from gedbd.triage.storage.report_store import ReportStore, damaged
from gedbd.triage.triage_model import TriageModel

if TYPE_CHECKING:
    from gedbd.encoders.loaded_encoder import LoadedEncoder
    from gedbd.encoders.query_encoder import QueryEncoder

REQUIRED = ("name", "model", "settings", "matching", "dim")
EXACT = "float32"
# Backends whose vectors are those of OpenVINO, within rounding.
CONVERTED_BACKENDS = ("gedbd.encoders.backend.Quickest", "gedbd.encoders.openvino_backend.OpenVino")
CONVERTED_PRECISIONS = ("float32", "bfloat16")
OLDER_TERMS = (
    "%s: its words were found by an earlier version of gedbd: run gedbd index again, or reports that are not in English"
    " are found less well"
)
OLDER_ENCODER = (
    "%s: its encoder is %s, the former default; gedbd index with replace=true encodes its reports again with %s, which"
    " was trained on duplicate bug reports"
)
MAX_BATCH = 16
BATCH_SIZE = 64
EncodeReports = Callable[[pd.DataFrame], np.ndarray]
log = logging.getLogger("gedbd")
LoadModel = Callable[[ReportStore], tuple[EncodeReports, TriageModel]]


class ReportEncoder:
    """Encodes the texts of reports, for one thread at a time, as tokenizers and backends require."""

    def __init__(self, encoder: "LoadedEncoder | QueryEncoder | GivenEncoder", text: Text) -> None:
        self.encoder = encoder
        self.text = text
        self._lock = threading.Lock()

    def __call__(self, reports: pd.DataFrame) -> np.ndarray:
        """``(B, D)`` unit rows of B rows of a corpus. B is small: all are encoded in one batch."""
        with self._lock:
            texts, _ = self.text(reports, self.encoder.tokenizer, self.encoder.text_tokens)
            return self.encoder.encode(texts, kind="query")


class BatchingEncoder:
    """Encodes the reports of several threads in a separate thread, all waiting ones in one batch.

    An encoder uses every core for a single text, but not well: eight texts take less than eight times the time.
    """

    def __init__(self, encode: Callable[[pd.DataFrame], np.ndarray]) -> None:
        self.encode = encode
        self._waiting: SimpleQueue[tuple[pd.DataFrame, Future[np.ndarray]]] = SimpleQueue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encoder")

    def __call__(self, report: pd.DataFrame) -> Future[np.ndarray]:
        """Starts to encode one report; the result is its ``(D,)`` vector."""
        future: Future[np.ndarray] = Future()
        self._waiting.put((report, future))
        # One call per report; if an earlier call has encoded the report, it does nothing.
        self._thread.submit(self._encode_waiting)
        return future

    def _encode_waiting(self) -> None:
        batch = [self._waiting.get() for _ in range(min(self._waiting.qsize(), MAX_BATCH))]
        if not batch:
            return
        try:
            reports = [report for report, _ in batch]
            # One report alone is not copied: pandas takes half a millisecond for it.
            vectors = self.encode(pd.concat(reports, ignore_index=True) if len(reports) > 1 else reports[0])
        except Exception as error:  # each thread that waits gets the error
            for _, future in batch:
                future.set_exception(error)
            return
        for (_, future), vector in zip(batch, vectors, strict=True):
            future.set_result(vector)


class LoadedModel(NamedTuple):
    """The model of an index in this process.

    ``key`` is the hash of the model, ``name`` the name of the tracker. ``encode`` returns the vectors ``(B, D)`` of B
    reports, encoded like the stored ones; ``encode_one`` starts to encode one report, for several threads. ``matching``
    is learned from the tracker's history.
    """

    key: str
    name: str
    encode: EncodeReports
    encode_one: BatchingEncoder
    matching: TriageModel

    @classmethod
    def of(cls, store: ReportStore, load: "LoadModel") -> "LoadedModel":
        """Loads the model of a store."""
        encode, matching = load(store)
        return cls(store.fact("model"), store.fact("name"), encode, BatchingEncoder(encode), matching)

    def vectors(self, reports: list[Report]) -> np.ndarray:
        """``(B, D)`` vectors of B reports, of which there may be many."""
        table = as_table(reports)
        starts = range(0, len(table), BATCH_SIZE)
        return np.concatenate([self.encode(table.iloc[start : start + BATCH_SIZE]) for start in starts])


def model_key(settings: str, matching: str, weights: bytes) -> str:
    """A hash that identifies a model: its settings and what a backtest has learned, both as JSON, and its weights."""
    about = {"settings": settings, "matching": matching}
    return hashlib.blake2b(json.dumps(about).encode() + weights, digest_size=16).hexdigest()


def check_model(path: Path | str, about: Mapping[str, str], weights: bytes) -> None:
    """Raises ValueError if a required fact about an index is missing, or its model is not what was written."""
    for name in REQUIRED:
        if name not in about:
            raise damaged(path, f"its {name} is missing")
    if model_key(about["settings"], about["matching"], weights) != about["model"]:
        raise damaged(path, "its encoder or its settings differ from their checksum")


def fitted(path: Path | str, about: Mapping[str, str], name: str) -> Any:
    """Texts that were fitted to the corpus, from JSON. Raises ValueError if they cannot be read."""
    try:
        lines = json.loads(about[name])
    except (KeyError, ValueError, RecursionError) as error:
        raise damaged(path, f"its {name} cannot be read") from error
    if not (isinstance(lines, list) and all(isinstance(text, str) for text in lines)):
        raise damaged(path, f"its {name} is not a list of texts")
    return lines


def template_of(store: ReportStore) -> frozenset[str]:
    """The lines of the tracker's issue template, which were left out of the stored descriptions."""
    return frozenset(fitted(store.path, {"template": store.fact("template") or "[]"}, "template"))


def with_stored_boilerplate(text: Text, about: dict[str, str], path: Path | str) -> Text:
    """A text template that removes the boilerplate found in the corpus, not in the few reports at hand."""
    if isinstance(text, FieldTemplate) and isinstance(text.cleaning, Cleaning):
        text.cleaning = replace(text.cleaning, shared=frozenset(fitted(path, about, "boilerplate")))
    return text


def load_model(
    store: ReportStore,
    source: str,
    cache_dir: str,
    backend: DictConfig | None,
    given: GivenEncoder | None = None,
    read_only: bool = False,
) -> tuple[ReportEncoder, TriageModel]:
    """Loads the encoder and the model of an index.

    Args:
        store: The index.
        source: Name of the index in messages.
        cache_dir: Folder of 8-bit models.
        backend: Backend of queries; None for that of the stored reports.
        given: The encoder of an index that was built with a Python object.
        read_only: Whether to load PyTorch instead of writing a missing converted encoder.

    Raises:
        ValueError: If a part of the model is missing, damaged or of another version, or an argument does not fit.
    """
    about = store.about()
    weights = store.weights()
    check_model(store.path, about, weights)
    if about.get("terms") != TERMS_VERSION:
        log.warning(OLDER_TERMS, source)
    matching = TriageModel.from_json(about["matching"], source)
    settings = read_settings(about["settings"], source, cache_dir)
    if not weights and is_base_of_default(settings.encoder):
        log.warning(OLDER_ENCODER, source, settings.encoder.name, DEFAULT_ENCODER)
    if backend is not None:
        _check_backend(settings.backend, backend)
        settings.backend = backend
    settings.cache_dir = cache_dir

    def load() -> "LoadedEncoder":
        if find_spec("torch") is None:
            raise ValueError(
                f"{source}: PyTorch is not installed, and the index holds no encoder that runs without it here: install"
                " gedbd with all its packages, or search the index once where it was built"
            )
        silence_library_logs()
        return load_encoder(settings, weights)

    encoder: LoadedEncoder | QueryEncoder | GivenEncoder
    if given is not None:
        if not is_given(settings.encoder):
            raise ValueError(f"{source} sets the encoder: leave encoder= out")
        given.check(settings.encoder, source)
        encoder = given
    elif is_given(settings.encoder):
        encoder = load()
    else:
        folder = encoder_folder(store, cache_dir)
        encoder = query_encoder(settings.backend, folder, about["model"], load, read_only)
    text = with_stored_boilerplate(instantiate(settings.text), about, store.path)
    if isinstance(text, FieldTemplate):
        text.captions = None  # the images of a new report have no captions yet
    encoder.calibration = fitted(store.path, about, "calibration") if encoder.backend.calibrated else None
    encoder.prepare()  # reports errors of the backend when the index is opened, not at the first query
    return ReportEncoder(encoder, text), matching


def load_encoder(settings: DictConfig, weights: bytes, **options: Any) -> "LoadedEncoder":
    """Loads the encoder of ``settings`` with the weights that ``torch.save`` wrote, if there are any."""
    encoder: LoadedEncoder = instantiate(settings.encoder, backend=instantiate(settings.backend), **options)
    if weights:
        encoder.load_weights(io.BytesIO(weights))
    return encoder


def encoder_folder(store: ReportStore, cache_dir: str) -> Path:
    """The folder of the converted query encoder: beside an index file, or in the cache for a model on a server."""
    if isinstance(store.path, Path):
        return store.path.parent / QUERY_ENCODERS
    return Path(cache_dir).expanduser() / QUERY_ENCODERS / store.about()["model"]


def query_encoder(
    backend: DictConfig, folder: Path, model: str, load: Callable[[], "LoadedEncoder"], read_only: bool = False
) -> "QueryEncoder | LoadedEncoder":
    """The query encoder: the converted one in ``folder`` if OpenVINO can run it, else the result of ``load``.

    ``model`` identifies the model of the index; see ``encoder_folder`` and ``stored_query_encoder``.
    """
    precision = backend.get("precision", EXACT)
    if backend.get("_target_") in CONVERTED_BACKENDS and precision in CONVERTED_PRECISIONS:
        from gedbd.encoders.query_encoder import can_convert, stored_query_encoder

        if can_convert(precision):
            return stored_query_encoder(folder, model, precision, load, read_only)
    encoder = load()
    encoder.model.eval()
    return encoder


def _check_backend(stored: DictConfig, requested: DictConfig) -> None:
    """Raises ValueError if vectors of two backends differ by more than rounding."""
    precisions = [backend.get("precision", EXACT) for backend in (stored, requested)]
    if precisions != [EXACT, EXACT] and precisions[0] != precisions[1]:
        raise ValueError(
            f"backend: the stored reports were encoded in {precisions[0]}, so queries in {precisions[1]} cannot be"
            " compared with them: build the index with this backend"
        )
