"""The quickest backend of this machine, in a given precision."""

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from gedbd.encoders.backends.backend import MIN_PROGRESS_TEXTS
from gedbd.encoders.backends.openvino import OpenVino, PreparedOpenVino, has_bfloat16
from gedbd.encoders.backends.pytorch import PreparedTorch, Torch
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.io.console import open_console, print_detail
from gedbd.text.tokens import TokenTable

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
        self.precision = precision

    def prepare(self, encoder: TextEncoder, calibration: TokenTable | None = None) -> "PreparedQuickest":
        """See ``Backend``."""
        plain = self.torch.prepare(encoder)
        if plain.device.type == "cuda":
            return PreparedQuickest(plain, None, 0, f"there is a GPU, {torch.cuda.get_device_name(plain.device)}")
        obstacle = openvino_obstacle(encoder, self.precision)
        if obstacle:
            return PreparedQuickest(plain, None, 0, f"there is no GPU, and {obstacle}")
        parameters = sum(parameter.numel() for parameter in encoder.parameters())
        # In bfloat16 the two differ by more than rounding, so the number of texts must not decide.
        min_tokens = MIN_CONVERTED_WORK // parameters if self.precision == "float32" else 0
        converted = OpenVino(self.precision).prepare(encoder, None)
        return PreparedQuickest(
            plain, converted, min_tokens, "the texts are too few to convert the encoder for OpenVINO"
        )


def openvino_obstacle(encoder: TextEncoder, precision: str) -> str:
    """Why OpenVINO cannot encode on this CPU in a precision; empty if it can."""
    if find_spec("openvino") is None:
        return "openvino is not installed (pip install openvino)"
    architecture = encoder.backbone.config.model_type
    if architecture not in CONVERTIBLE:
        return f"OpenVINO is not tested with {architecture}"
    if precision == "bfloat16" and not has_bfloat16():
        return "this CPU has no bfloat16"
    return ""


class PreparedQuickest:
    """Encodes by PyTorch, or by OpenVINO if the texts have enough tokens; see ``PreparedBackend``.

    In float32 it shares the cached vectors of PyTorch: the two differ by rounding only.

    Args:
        plain: PyTorch.
        converted: OpenVINO; None to use PyTorch for any number of texts.
        min_tokens: Number of tokens from which OpenVINO encodes.
        reason: Why PyTorch encodes, if it does.
    """

    def __init__(self, plain: PreparedTorch, converted: PreparedOpenVino | None, min_tokens: int, reason: str) -> None:
        self.plain = plain
        self.converted = converted
        self.min_tokens = min_tokens
        self.reason = reason
        self.tokens_a_batch = converted.tokens_a_batch if converted else plain.tokens_a_batch
        self.key = converted.key if converted and plain.key else plain.key

    def encode(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[np.ndarray]:
        """See ``PreparedBackend``. The choice is printed once, if there are many texts."""
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
        chosen = self.converted if self.converted and tokens >= self.min_tokens else self.plain
        if texts >= MIN_PROGRESS_TEXTS:
            _print_once(self._statement(chosen))
        yield from chosen.encode(chain(head, batches))

    def _statement(self, chosen: PreparedTorch | PreparedOpenVino) -> str:
        if chosen is self.plain:
            return f"backend=auto: PyTorch in {self.plain.precision}, as {self.reason}"
        statement = f"backend=auto: OpenVINO in {chosen.precision}, the quickest exact one on this CPU"
        if chosen.precision == "float32" and has_bfloat16():
            statement += "; backend=openvino_bf16 is about 3 times as fast, with cosines within about .001"
        return statement


@cache
def _print_once(statement: str) -> None:
    print_detail(open_console(), statement)
