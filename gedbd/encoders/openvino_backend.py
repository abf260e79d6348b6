"""The OpenVINO backend, which is faster on CPUs, most of all in reduced precision."""

import hashlib
import json
import logging
import warnings
from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from gedbd.encoders.backbone import max_positions
from gedbd.encoders.encoder_weights import fingerprint
from gedbd.encoders.openvino_model import (
    OPENVINO_TOKENS,
    PRECISIONS,
    OpenVinoModel,
    has_bfloat16,
    import_openvino,
    telemetry_disabled,
)
from gedbd.encoders.text_encoder import TextEncoder, padded_copy
from gedbd.io.files import whole_folder
from gedbd.text.tokens import TokenTable

if TYPE_CHECKING:
    import openvino as ov


class OpenVino:
    """OpenVINO on the CPU, with as many threads as PyTorch has.

    Args:
        precision: ``float32``, ``bfloat16``, or ``int8``: matrix products of 8-bit integers, whose ranges nncf fits to
            the calibration texts; everything else is float32.
        cache_dir: Folder of int8 models, created if absent; the same weights and texts are quantised once. The other
            precisions do not use it.

    Raises:
        ValueError: If the precision is unknown, OpenVINO is not installed, or the CPU has no bfloat16.
    """

    def __init__(self, precision: str, cache_dir: str | Path | None = None) -> None:
        if precision not in PRECISIONS:
            raise ValueError(f"backend.precision={precision} is unknown: choose {', '.join(PRECISIONS)}")
        for package in ("openvino", "nncf") if precision == "int8" else ("openvino",):
            if find_spec(package) is None:
                raise ValueError(
                    f"backend: {package} is not installed: pip install 'gedbd[openvino]', or backend=torch"
                )
        if precision == "bfloat16" and not has_bfloat16():
            raise ValueError(
                "backend.precision=bfloat16: this CPU does not support it: choose backend=openvino or"
                " backend=openvino_int8"
            )
        self.precision = precision
        self.folder = Path(cache_dir or ".").expanduser()
        self.calibrated = precision == "int8"

    def prepare(self, encoder: TextEncoder, calibration: TokenTable | None) -> "PreparedOpenVino":
        """Prepares an encoder; the first batch converts it and, if necessary, quantises it."""
        return PreparedOpenVino(encoder, calibration, self.precision, self.folder)


class PreparedOpenVino:
    """Encodes several batches at a time; see ``PreparedBackend``."""

    tokens_a_batch = OPENVINO_TOKENS

    def __init__(self, encoder: TextEncoder, calibration: TokenTable | None, precision: str, folder: Path) -> None:
        self.encoder = encoder
        self.calibration = calibration
        self.precision = precision
        self.folder = folder
        self.key = f"openvino-{precision}"
        if precision == "int8":
            assert calibration is not None
            # All that the quantised numbers depend on.
            key_parts = [fingerprint(encoder.backbone), encoder.pooling, version("openvino"), version("nncf")]
            key_parts += [hashlib.blake2b(part.tobytes()).hexdigest() for part in (calibration.ids, calibration.starts)]
            self.key += f"-{hashlib.blake2b(json.dumps(key_parts).encode(), digest_size=8).hexdigest()}"

    def encode(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[np.ndarray]:
        """The vectors of each batch, in order. A single batch uses all threads; several batches run in parallel."""
        return self._runtime.encode((input_ids.numpy(), mask.numpy()) for input_ids, mask in batches)

    @cached_property
    def _runtime(self) -> OpenVinoModel:
        return OpenVinoModel(self._model, self.precision, torch.get_num_threads(), max_positions(self.encoder.backbone))

    @cached_property
    def _model(self) -> "ov.Model":
        ov = import_openvino()

        if self.precision != "int8":
            return convert(self.encoder)
        model_folder = self.folder / self.key
        if not model_folder.is_dir():
            assert self.calibration is not None
            model = quantise(convert(self.encoder), self.calibration)
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                with whole_folder(model_folder) as unfinished:
                    # By default OpenVINO halves the precision of stored weights.
                    ov.save_model(model, unfinished / "model.xml", compress_to_fp16=False)
            except OSError:  # of two processes that write at once, the first one's files stay
                if not model_folder.is_dir():
                    raise
        return ov.Core().read_model(model_folder / "model.xml")


class _Pooled(nn.Module):
    """The module that is converted: the pooling of padded batches."""

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__()
        self.encoder = padded_copy(encoder)
        # OpenVINO turns the mask of fused attention into scores of minus infinity. Padding beyond a sliding window, as
        # ModernBERT has, then sees no token: its vector is not a number, which spreads to the text. The eager
        # implementation uses the smallest finite number instead.
        if hasattr(encoder.backbone.config, "sliding_window"):
            self.encoder.backbone.set_attn_implementation("eager")

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.encoder.pool(input_ids, attention_mask)


def convert(encoder: TextEncoder) -> "ov.Model":
    """An OpenVINO model of an encoder: ``(U, L), (U, L) -> (U, hidden)`` before the projection, for any U and L."""
    ov = import_openvino()

    input_ids = torch.ones((2, 8), dtype=torch.int64)
    attention_mask = torch.ones_like(input_ids)
    attention_mask[1, 4:] = 0
    example = {"input_ids": input_ids, "attention_mask": attention_mask}
    with telemetry_disabled(), warnings.catch_warnings(action="ignore"), torch.no_grad():
        return ov.convert_model(_Pooled(encoder).eval(), example_input=example)


def quantise(model: "ov.Model", calibration: TokenTable) -> "ov.Model":
    """A converted encoder with 8-bit integers in its matrix products.

    Args:
        model: See ``convert``.
        calibration: Texts that the ranges are fitted to, one at a time, because padding would widen the ranges.
    """
    with telemetry_disabled():
        import nncf

        # nncf.set_log_level would raise the level of handlers that others have added, too.
        logging.getLogger("nncf").setLevel(logging.ERROR)
        rows = range(len(calibration.lengths))
        texts = nncf.Dataset(rows, lambda row: [part.numpy() for part in calibration.batch(np.array([row]))])
        size = len(calibration.lengths)
        return nncf.quantize(model, texts, model_type=nncf.ModelType.TRANSFORMER, subset_size=size)
