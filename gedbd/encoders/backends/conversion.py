"""Converts encoders to OpenVINO models, and quantises these."""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from gedbd.encoders.packing import can_pack
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.text.tokens import TokenTable

if TYPE_CHECKING:
    import openvino as ov


class _Pooled(nn.Module):
    """The module that is converted: backbone and pooling of padded batches, without branches."""

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__()
        # A copy, because packed attention cannot be traced.
        self.backbone = deepcopy(encoder.backbone).cpu()
        self.pooling = encoder.pooling
        # OpenVINO turns the mask of fused attention into scores of minus infinity. Padding beyond a sliding window, as
        # ModernBERT has, then sees no token: its vector is not a number, which spreads to the text. The plain
        # implementation has the smallest finite number instead.
        if hasattr(self.backbone.config, "sliding_window"):
            self.backbone.set_attn_implementation("eager")
        elif can_pack(self.backbone):
            self.backbone.set_attn_implementation("sdpa")

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden: Tensor = self.backbone(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        if self.pooling == "cls":
            return hidden[:, 0]
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weight).sum(1) / weight.sum(1)


def convert(encoder: TextEncoder) -> "ov.Model":
    """An OpenVINO model of an encoder: ``(U, L), (U, L) -> (U, hidden)`` before the projection, for any U and L."""
    import openvino as ov

    input_ids = torch.ones((2, 8), dtype=torch.int64)
    attention_mask = torch.ones_like(input_ids)
    attention_mask[1, 4:] = 0
    example = {"input_ids": input_ids, "attention_mask": attention_mask}
    with _telemetry_disabled(), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return ov.convert_model(_Pooled(encoder).eval(), example_input=example)


def quantise(model: "ov.Model", calibration: TokenTable) -> "ov.Model":
    """A converted encoder with 8-bit integers in its matrix products.

    Args:
        model: See ``convert``.
        calibration: Texts that the ranges are fitted to, one at a time, because padding would widen the ranges.
    """
    with _telemetry_disabled():
        import nncf

        nncf.set_log_level(logging.ERROR)
        rows = range(len(calibration.lengths))
        texts = nncf.Dataset(rows, lambda row: [part.numpy() for part in calibration.batch(np.array([row]))])
        size = len(calibration.lengths)
        return nncf.quantize(model, texts, model_type=nncf.ModelType.TRANSFORMER, subset_size=size)


@contextmanager
def _telemetry_disabled() -> Iterator[None]:
    """Disables the usage reports of openvino and nncf, which they do not send from continuous integration."""
    before = os.environ.get("CI")
    os.environ["CI"] = "true"
    try:
        yield
    finally:
        os.environ.pop("CI")
        if before is not None:
            os.environ["CI"] = before
