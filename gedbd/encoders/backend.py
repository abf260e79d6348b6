"""How an encoder is run: the interface of backends, PyTorch, and the quickest backend of this machine."""

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from gedbd.encoders.openvino_model import OPENVINO_TOKENS, has_bfloat16
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.io.console import is_quiet, item_progress, say_once
from gedbd.text.tokens import TokenTable, split_by_tokens, token_budget

if TYPE_CHECKING:
    from gedbd.encoders.openvino_backend import PreparedOpenVino

PRECISIONS = ("float32", "bfloat16")
MIN_PROGRESS_TEXTS = 65
# Architectures for which OpenVINO's vectors are tested to equal PyTorch's.
CONVERTIBLE = ("bert", "distilbert", "modernbert", "mpnet", "nomic_bert", "roberta", "xlm-roberta")
# Tokens times parameters. Converting MiniLM, of 23 million parameters, takes as long as OpenVINO saves on about 400
# reports of 110 tokens.
MIN_CONVERTED_WORK = 10**12


class Torch:
    """PyTorch, on a GPU if there is one.

    Args:
        precision: ``float32``, or ``bfloat16``, which PyTorch uses for matrix products only.

    Raises:
        ValueError: If the precision is unknown.
    """

    calibrated = False

    def __init__(self, precision: str = "float32") -> None:
        if precision not in PRECISIONS:
            raise ValueError(f"backend.precision={precision} is unknown: choose {' or '.join(PRECISIONS)}")
        self.precision = precision

    def prepare(self, encoder: TextEncoder, calibration: TokenTable | None = None) -> "PreparedTorch":
        """The encoder as PyTorch runs it."""
        return PreparedTorch(encoder, self.precision)


class PreparedTorch:
    """Encodes in evaluation mode, without gradient; see ``PreparedBackend``."""

    def __init__(self, encoder: TextEncoder, precision: str = "float32") -> None:
        self.encoder = encoder
        self.precision = precision
        self.key = "" if precision == "float32" else f"torch-{precision}"
        self.device = process_device()
        self.tokens_a_batch = token_budget(self.device)

    def encode(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[np.ndarray]:
        """The vectors of each batch, in order. Restores the encoder's device and mode afterwards."""
        was_training = self.encoder.training
        device_before = next(self.encoder.parameters()).device
        self.encoder.to(self.device).eval()
        reduced = self.precision == "bfloat16"
        try:
            for input_ids, attention_mask in batches:
                with torch.no_grad(), torch.autocast(self.device.type, torch.bfloat16, enabled=reduced):
                    vectors = self.encoder.pool(input_ids.to(self.device), attention_mask.to(self.device))
                yield vectors.cpu().numpy()
        finally:
            self.encoder.to(device_before).train(was_training)


def process_device() -> torch.device:
    """The GPU of this process, by its local rank under torchrun or SLURM; the CPU if there is no GPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    number = int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", 0)))
    return torch.device(f"cuda:{number % torch.cuda.device_count()}")


class PreparedBackend(Protocol):
    """A backend with the weights of one encoder.

    Attributes:
        key: Distinguishes cached vectors from those of other backends; empty for PyTorch and backends equal to it.
        tokens_a_batch: Number of padded tokens per batch at which the backend is fast.
    """

    key: str
    tokens_a_batch: int

    def encode(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[np.ndarray]:
        """``(U, hidden)`` float32 before the projection for each ``input_ids (U, L)`` and ``attention_mask (U, L)``."""


class Backend(Protocol):
    """A way to run encoders. A ``calibrated`` backend adapts to sample texts."""

    calibrated: bool

    def prepare(self, encoder: TextEncoder, calibration: TokenTable | None) -> PreparedBackend:
        """Prepares an encoder.

        Args:
            encoder: The weights, used as they stand; they must not change while the result is in use.
            calibration: Texts like those to encode, required by a calibrated backend. The vectors depend on them, so
                compare only vectors from the same sample.
        """


def encode_texts(tokens: TokenTable, prepared: PreparedBackend, label: str = "encode") -> np.ndarray:
    """Pooled vectors of all texts, ``(N, hidden)`` float32 in the order of the texts; see ``encode_batches``."""
    rows, vectors = zip(*encode_batches(tokens, prepared, label), strict=True)
    pooled = np.empty((len(tokens.lengths), vectors[0].shape[1]), dtype=np.float32)
    pooled[np.concatenate(rows)] = np.concatenate(vectors)
    return pooled


def encode_batches(
    tokens: TokenTable, prepared: PreparedBackend, label: str, once: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Encodes texts in batches of similar length and shows the progress; ``once`` says that the vectors are cached.

    Yields:
        Rows ``(U,)`` and their pooled vectors ``(U, hidden)`` float32, batch by batch.
    """
    lengths = tokens.lengths
    order = np.argsort(lengths, kind="stable")
    runs = split_by_tokens(lengths[order].tolist(), prepared.tokens_a_batch)
    # The longest texts come first, so that memory peaks at once.
    batches = [order[first:last] for first, last in reversed(runs)]
    count = len(lengths)
    encoded_tokens = 0
    with item_progress("reports", transient=False, disable=count < MIN_PROGRESS_TEXTS) as progress:
        task = progress.add_task(label, total=count, once=once)
        encoded = prepared.encode(tokens.batch(rows) for rows in batches)
        for rows, vectors in zip(batches, encoded, strict=True):
            yield rows, vectors
            encoded_tokens += int(lengths[rows].sum())
            progress.update(task, advance=len(rows), share=encoded_tokens / len(tokens.ids))


class Quickest:
    """PyTorch on a GPU; on a CPU, the quickest backend whose vectors equal those of PyTorch within rounding.

    That is OpenVINO if it is installed. It must convert the encoder first, so PyTorch is quicker for few texts.

    Args:
        precision: ``float32`` or ``bfloat16``. An index stores it, and searches use it, also on other machines.

    Raises:
        ValueError: If the precision is unknown.
    """

    calibrated = False

    def __init__(self, precision: str) -> None:
        self.torch = Torch(precision)

    def prepare(self, encoder: TextEncoder, calibration: TokenTable | None = None) -> "PreparedQuickest":
        """Prepares the encoder; the first texts decide which backend runs it."""
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
        return "" if has_bfloat16() else "this CPU has no bfloat16"
    return ""


class PreparedQuickest:
    """Encodes by PyTorch, or by OpenVINO if the texts have enough tokens; see ``PreparedBackend``.

    In float32 it shares the cached vectors of PyTorch: the two differ by rounding only.

    Args:
        plain: The PyTorch backend.
        obstacle: Why PyTorch encodes any number of texts; empty if OpenVINO may encode.

    Attributes:
        min_tokens: Minimum number of tokens for OpenVINO.
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
        """The OpenVINO backend, which converts the encoder."""
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
        """The chosen backend, and the reason."""
        precision = self.plain.precision
        if not is_converted:
            reason = self.obstacle or "the texts are too few to convert the encoder for OpenVINO"
            return f"PyTorch in {precision}, as {reason}"
        choice = f"OpenVINO in {precision}, the quickest exact one on this CPU"
        if precision == "float32" and has_bfloat16():
            choice += "; backend=openvino_bf16 is about 3 times as fast, with cosines within about .001"
        return choice
