"""The quickest backend of this machine, in a given precision."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gedbd.encoders.backend import MIN_PROGRESS_TEXTS, OPENVINO_TOKENS, PreparedTorch, Torch
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.io.console import is_quiet, say_once
from gedbd.text.tokens import TokenTable

if TYPE_CHECKING:
    from gedbd.encoders.openvino_backend import PreparedOpenVino

# Architectures whose vectors by OpenVINO are tested to equal PyTorch's.
CONVERTIBLE = ("bert", "distilbert", "modernbert", "mpnet", "nomic_bert", "roberta", "xlm-roberta")
# Tokens times parameters. Converting MiniLM, of 23 million parameters, takes as long as OpenVINO saves on about 400
# reports of 110 tokens.
MIN_CONVERTED_WORK = 10**12


class Quickest:
    """PyTorch on a GPU; on a CPU, the quickest backend whose vectors equal those of PyTorch within rounding.

    That is OpenVINO if it is installed. It has to convert the encoder, so PyTorch encodes a few texts sooner.

    Args:
        precision: ``float32`` or ``bfloat16``. An index stores it and is searched in it, also on other machines.

    Raises:
        ValueError: If the precision is unknown.
    """

    calibrated = False

    def __init__(self, precision: str) -> None:
        self.torch = Torch(precision)

    def prepare(self, encoder: TextEncoder, calibration: TokenTable | None = None) -> "PreparedQuickest":
        """The encoder, whose backend is chosen by its first texts."""
        plain = self.torch.prepare(encoder)
        if plain.device.type == "cuda":
            return PreparedQuickest(plain, f"there is a GPU, {torch.cuda.get_device_name(plain.device)}")
        obstacle = openvino_obstacle(encoder, plain.precision)
        return PreparedQuickest(plain, f"there is no GPU, and {obstacle}" if obstacle else "")


def openvino_obstacle(encoder: TextEncoder, precision: str) -> str:
    """Why OpenVINO cannot encode on this CPU in a precision; empty if it can."""
    if find_spec("openvino") is None:
        return "openvino is not installed (pip install openvino)"
    architecture = encoder.backbone.config.model_type
    if architecture not in CONVERTIBLE:
        return f"OpenVINO is not tested with {architecture}"
    if precision == "bfloat16":
        from gedbd.encoders.openvino_model import has_bfloat16

        return "" if has_bfloat16() else "this CPU has no bfloat16"
    return ""


class PreparedQuickest:
    """Encodes by PyTorch, or by OpenVINO if the texts have enough tokens; see ``PreparedBackend``.

    In float32 it shares the cached vectors of PyTorch: the two differ by rounding only.

    Args:
        plain: PyTorch.
        obstacle: Why PyTorch encodes any number of texts; empty if OpenVINO may encode.

    Attributes:
        min_tokens: Number of tokens from which OpenVINO encodes.
    """

    def __init__(self, plain: PreparedTorch, obstacle: str) -> None:
        self.plain = plain
        self.obstacle = obstacle
        parameters = sum(parameter.numel() for parameter in plain.encoder.parameters())
        # In bfloat16 the two differ by more than rounding, so the number of texts must not decide.
        self.min_tokens = MIN_CONVERTED_WORK // parameters if plain.precision == "float32" else 0
        self.tokens_a_batch = plain.tokens_a_batch if obstacle else OPENVINO_TOKENS
        # Empty in float32, and in bfloat16 the key of the backend that encodes.
        self.key = plain.key if obstacle else plain.key.replace("torch", "openvino")

    @cached_property
    def converted(self) -> "PreparedOpenVino":
        """OpenVINO."""
        from gedbd.encoders.openvino_backend import OpenVino

        return OpenVino(self.plain.precision).prepare(self.plain.encoder, None)

    def encode(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[np.ndarray]:
        """The vectors of each batch, in order. The choice is printed once, if there are many texts."""
        batches = iter(batches)
        head = []
        texts = 0
        tokens = 0
        for input_ids, attention_mask in batches:
            head.append((input_ids, attention_mask))
            texts += len(input_ids)
            tokens += int(attention_mask.sum())
            if texts >= MIN_PROGRESS_TEXTS and tokens >= self.min_tokens:
                break
        is_converted = not self.obstacle and tokens >= self.min_tokens
        if texts >= MIN_PROGRESS_TEXTS and not is_quiet():
            say_once(f"backend=auto: {self._choice(is_converted)}")
        yield from (self.converted if is_converted else self.plain).encode(chain(head, batches))

    def _choice(self, is_converted: bool) -> str:
        """What encodes, and why."""
        precision = self.plain.precision
        if not is_converted:
            reason = self.obstacle or "the texts are too few to convert the encoder for OpenVINO"
            return f"PyTorch in {precision}, as {reason}"
        choice = f"OpenVINO in {precision}, the quickest exact one on this CPU"
        from gedbd.encoders.openvino_model import has_bfloat16

        if precision == "float32" and has_bfloat16():
            choice += "; backend=openvino_bf16 is about 3 times as fast, with cosines within about .001"
        return choice
