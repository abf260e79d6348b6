"""The encoder of an index's queries as files, which are read without importing PyTorch or transformers.

The folder is named after all that the files depend on. It holds the model that OpenVINO has converted (``model.xml``,
``model.bin``), ``tokenizer.json``, the projection (``projection.npz``), and ``encoder.json``: lengths, prefix and the
SHA-256 of the other files.
"""

import json
import logging
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gedbd.encoders.openvino_model import OpenVinoModel, has_bfloat16, import_openvino
from gedbd.io.checksums import checksum
from gedbd.io.files import read_object, whole_folder
from gedbd.text.tokens import StoredTokenizer, tokenize

if TYPE_CHECKING:
    from gedbd.encoders.loaded_encoder import LoadedEncoder

METADATA_FILE = "encoder.json"
MODEL = "model.xml"
TOKENIZER = "tokenizer.json"
PROJECTION = "projection.npz"
SIZES = ("max_tokens", "prefix_tokens", "features", "pad_token_id", "dim")
log = logging.getLogger("gedbd")


class QueryEncoder:
    """Encodes queries as ``LoadedEncoder`` does, within rounding.

    Raises:
        ValueError: If a file is damaged.
        OSError: If a file is missing; or KeyError for one that has no checksum.
    """

    backend = SimpleNamespace(calibrated=False)
    calibration = None

    def __init__(self, folder: Path) -> None:
        ov = import_openvino()

        metadata = read_object(folder / METADATA_FILE, "sha256", "precision", "prefix", "max_positions", *SIZES)
        self.dim: int = metadata["dim"]
        self.max_tokens: int = metadata["max_tokens"]
        self.text_tokens: int = metadata["max_tokens"] - metadata["prefix_tokens"]
        self.prefix: str = metadata["prefix"]
        self._features: int = metadata["features"]
        self._projection: tuple[np.ndarray, np.ndarray] | None = None
        with ThreadPoolExecutor(1) as thread:
            # Hashing lets other threads run: the model is read meanwhile.
            sums = thread.submit(lambda: {name: checksum(folder / name) for name in metadata["sha256"]})
            model = ov.Core().read_model(folder / MODEL)
            self.tokenizer = StoredTokenizer(folder / TOKENIZER, metadata["pad_token_id"], metadata["tokenizer"])
            if PROJECTION in metadata["sha256"]:
                with np.load(folder / PROJECTION, allow_pickle=False) as arrays:
                    self._projection = (arrays["weight"], arrays["bias"])
            mismatched = [name for name, digest in sums.result().items() if digest != metadata["sha256"][name]]
        if mismatched:
            raise ValueError(f"{mismatched[0]} differs from its checksum")
        num_threads = 0  # one for each core, unless OMP_NUM_THREADS, which PyTorch follows too, is a number
        with suppress(ValueError):
            num_threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
        self._model = OpenVinoModel(model, metadata["precision"], num_threads, metadata["max_positions"])

    def prepare(self) -> None:
        """Does nothing: the model is compiled for the length of a query when there is one."""

    def encode(
        self, texts: list[str], kind: Literal["document", "query"] = "query", label: str = "encode reports"
    ) -> np.ndarray:
        """``(N, D)`` float32 unit rows of N texts; the other arguments are those of ``LoadedEncoder.encode``.

        The vector of a text does not depend on the other texts: texts are encoded together that are padded to the same
        length when alone, because a vector changes with the length by rounding.
        """
        tokens = tokenize([self.prefix + text for text in texts], self.tokenizer, self.max_tokens)
        lengths = np.array([self._model.padded_length(length) for length in tokens.lengths.tolist()])
        vectors = np.empty((len(texts), self._features), dtype=np.float32)
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length)
            (pooled,) = self._model.encode([tokens.padded(rows, length)])
            vectors[rows] = pooled[:, : self._features]
        if self._projection is not None:
            weight, bias = self._projection
            vectors = vectors @ weight.T + bias
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12))


def can_convert(precision: str) -> bool:
    """Whether OpenVINO can encode queries here in a precision, ``float32`` or ``bfloat16``."""
    return find_spec("openvino") is not None and (precision == "float32" or has_bfloat16())


def stored_query_encoder(
    folder: Path, made_of: str, precision: str, load: Callable[[], "LoadedEncoder"], read_only: bool = False
) -> "QueryEncoder | LoadedEncoder":
    """The query encoder in a folder; if it is missing or damaged, the original is loaded and converted.

    Args:
        folder: The folder of all query encoders of an index: one, unless its model has just changed.
        made_of: A hash of the model of the index.
        precision: ``float32`` or ``bfloat16``.
        load: Loads the original.
        read_only: Write nothing.

    Returns:
        The query encoder; the original if it cannot be converted, or its files cannot or may not be written.
    """
    encoder_folder = folder / f"{made_of}-{precision}"
    if read_only or encoder_folder.is_dir():
        try:
            return QueryEncoder(encoder_folder)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
        if read_only:
            message = "%s cannot be used, so PyTorch is loaded; gedbd search writes it again: %s"
            log.warning(message, encoder_folder, reason)
            return load()
        log.warning("%s is damaged and is written again: %s", encoder_folder, reason)
        shutil.rmtree(encoder_folder, ignore_errors=True)
    original = load()
    from gedbd.encoders.backend import CONVERTIBLE  # it imports PyTorch

    # The architecture must be tested with OpenVINO, and the tokenizer must fit into one file.
    if original.model.backbone.config.model_type not in CONVERTIBLE or not original.tokenizer.is_fast:
        return original
    try:
        write_query_encoder(encoder_folder, original, precision)
        return QueryEncoder(encoder_folder)
    except OSError as error:
        log.warning("%s cannot be written, so each search loads PyTorch: %s", encoder_folder, error)
        return original


def write_query_encoder(folder: Path, encoder: "LoadedEncoder", precision: str) -> None:
    """Converts an encoder and writes its files; other folders beside it are deleted.

    Raises:
        OSError: If the files cannot be written.
    """
    ov = import_openvino()

    from gedbd.encoders.backbone import max_positions
    from gedbd.encoders.openvino_backend import convert

    model = encoder.model
    metadata: dict[str, Any] = {
        "precision": precision,
        "prefix": encoder.prefix,
        "prefix_tokens": encoder.prefix_tokens,
        "max_tokens": encoder.max_tokens,
        "max_positions": max_positions(model.backbone),
        "features": model.features,
        "dim": encoder.dim,
        "pad_token_id": encoder.tokenizer.pad_token_id,
        "tokenizer": str(encoder.tokenizer.name_or_path),
    }
    folder.parent.mkdir(0o700, parents=True, exist_ok=True)
    try:
        with whole_folder(folder) as unfinished:
            # By default OpenVINO halves the precision of stored weights.
            ov.save_model(convert(model), unfinished / MODEL, compress_to_fp16=False)
            tokenizer: Any = encoder.tokenizer
            tokenizer.backend_tokenizer.save(str(unfinished / TOKENIZER))
            if encoder.is_trained:
                weight, bias = (part.detach().numpy() for part in (model.projection.weight, model.projection.bias))
                np.savez(unfinished / PROJECTION, weight=weight, bias=bias)
            metadata["sha256"] = {file.name: checksum(file) for file in sorted(unfinished.iterdir())}
            (unfinished / METADATA_FILE).write_text(json.dumps(metadata, indent=2), encoding="utf-8")
    except OSError:  # of two processes that write at once, the first one's files stay
        if not folder.is_dir():
            raise
    for other in folder.parent.iterdir():
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
