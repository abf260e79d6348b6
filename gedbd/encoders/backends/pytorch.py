"""Reads many texts with a finished encoder, by the backend of one's choice.

An ``Backend`` makes an encoder ready; the ``Reader`` that comes of it turns padded batches into pooled vectors.
``encode`` takes texts in order of length and gives the reader about the same number of tokens a batch, so that little
is padded.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np
import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from gedbd.encoders.encoder import TextEncoder
from gedbd.text.tokens import TokenTable, split_by_tokens, token_budget

SHOWN_FROM = 65


class Reader(Protocol):
    """An encoder made ready by a backend.

    Attributes:
        key: By which kept vectors are told from those of other readers of the encoder; empty for PyTorch's.
        tokens_a_batch: Padded tokens that a batch should have for the backend to be quick.
    """

    key: str
    tokens_a_batch: int

    def read(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[np.ndarray]:
        """``(U, hidden)`` float32 before the projection for each ``input_ids (U, L)`` and ``attention_mask (U, L)``."""


class Backend(Protocol):
    """A way of running encoders. ``calibrated`` ones fit their numbers to texts."""

    calibrated: bool

    def prepare(self, encoder: TextEncoder, calibration: TokenTable | None) -> Reader:
        """Makes an encoder ready.

        Args:
            encoder: Encoder with the weights to use as they stand; they must not change while it is read with.
            calibration: Texts like those to be read, which a calibrated backend must have. Other texts, other vectors:
                what is to be compared must come of one reader, or of readers that were given the same.
        """


class Torch:
    """PyTorch, on a GPU if there is one."""

    calibrated = False

    def prepare(self, encoder: TextEncoder, calibration: TokenTable | None = None) -> "TorchReader":
        """See ``Backend``."""
        return TorchReader(encoder)


class TorchReader:
    """Reads in evaluation mode, without gradient; see ``Reader``."""

    key = ""

    def __init__(self, encoder: TextEncoder) -> None:
        self.encoder = encoder
        self.device = own_device()
        self.tokens_a_batch = token_budget(self.device)

    def read(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[np.ndarray]:
        """See ``Reader``. The encoder's device and mode are restored afterwards."""
        was_training, home = self.encoder.training, next(self.encoder.parameters()).device
        self.encoder.to(self.device).eval()
        try:
            for input_ids, attention_mask in batches:
                with torch.no_grad():
                    vectors = self.encoder.pool(input_ids.to(self.device), attention_mask.to(self.device))
                yield vectors.cpu().numpy()
        finally:
            self.encoder.to(home).train(was_training)


def own_device() -> torch.device:
    """The GPU of this process among those of its node, as torchrun or SLURM counts processes; without one, the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    number = int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", 0)))
    return torch.device(f"cuda:{number % torch.cuda.device_count()}")


def encode(tokens: TokenTable, reader: Reader, label: str = "encode") -> np.ndarray:
    """Pooled vectors of all texts, ``(N, hidden)`` float32 in the order of the texts; see ``encode_batches``."""
    rows, vectors = zip(*encode_batches(tokens, reader, label), strict=True)
    placed = np.empty((len(tokens.lengths), vectors[0].shape[1]), dtype=np.float32)
    placed[np.concatenate(rows)] = np.concatenate(vectors)
    return placed


def encode_batches(tokens: TokenTable, reader: Reader, label: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Reads texts, the longest first, and shows a progress bar with rate and time to go.

    Args:
        tokens: N texts.
        reader: See ``Backend.prepare``.
        label: What the bar says.

    Yields:
        Rows ``(U,)`` and their pooled vectors ``(U, hidden)`` float32, as soon as they are there.
    """
    order = np.argsort(tokens.lengths, kind="stable")
    runs = split_by_tokens(tokens.lengths[order].tolist(), reader.tokens_a_batch)
    batches = [order[first:last] for first, last in reversed(runs)]
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    count = len(tokens.lengths)
    with Progress(*columns, TimeRemainingColumn(), disable=count < SHOWN_FROM) as progress:
        task = progress.add_task(label, total=count, rate="")
        read = reader.read(tokens.batch(rows) for rows in batches)
        for rows, vectors in zip(batches, read, strict=True):
            yield rows, vectors
            progress.update(task, advance=len(rows), rate=f"{progress.tasks[0].speed or 0:.0f} reports/s")
