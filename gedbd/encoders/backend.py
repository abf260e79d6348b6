"""How an encoder is run: the contract of backends, and PyTorch."""

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from gedbd.encoders.text_encoder import TextEncoder
from gedbd.io.console import item_progress
from gedbd.text.tokens import TokenTable, split_by_tokens, token_budget

if TYPE_CHECKING:
    pass

PRECISIONS = ("float32", "bfloat16")
MIN_PROGRESS_TEXTS = 65
OPENVINO_TOKENS = 1024  # padded tokens of a batch at which OpenVINO is fast


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
        key: Distinguishes cached vectors from those of other backends; empty for PyTorch and what equals it.
        tokens_a_batch: Padded tokens of a batch at which the backend is fast.
    """

    key: str
    tokens_a_batch: int

    def encode(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[np.ndarray]:
        """``(U, hidden)`` float32 before the projection for each ``input_ids (U, L)`` and ``attention_mask (U, L)``."""


class Backend(Protocol):
    """A way to run encoders. A ``calibrated`` one fits its numbers to sample texts."""

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
    placed = np.empty((len(tokens.lengths), vectors[0].shape[1]), dtype=np.float32)
    placed[np.concatenate(rows)] = np.concatenate(vectors)
    return placed


def encode_batches(
    tokens: TokenTable, prepared: PreparedBackend, label: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Encodes texts in batches of similar length and shows a progress bar with the rate and the remaining time.

    Args:
        tokens: N texts.
        prepared: See ``Backend.prepare``.
        label: Label of the bar.

    Yields:
        Rows ``(U,)`` and their pooled vectors ``(U, hidden)`` float32, batch by batch.
    """
    order = np.argsort(tokens.lengths, kind="stable")
    runs = split_by_tokens(tokens.lengths[order].tolist(), prepared.tokens_a_batch)
    # The longest texts come first: memory peaks at once, and the remaining time is not underestimated.
    batches = [order[first:last] for first, last in reversed(runs)]
    count = len(tokens.lengths)
    with item_progress("reports", transient=False, disable=count < MIN_PROGRESS_TEXTS) as progress:
        task = progress.add_task(label, total=count)
        encoded = prepared.encode(tokens.batch(rows) for rows in batches)
        for rows, vectors in zip(batches, encoded, strict=True):
            yield rows, vectors
            progress.update(task, advance=len(rows))
