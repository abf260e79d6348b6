"""The contract of backends, and the batches of texts that they encode."""

from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np
from torch import Tensor

from gedbd.encoders.text_encoder import TextEncoder
from gedbd.io.console import item_progress
from gedbd.text.tokens import TokenTable, split_by_tokens

MIN_PROGRESS_TEXTS = 65
OPENVINO_TOKENS = 1024  # padded tokens of a batch at which OpenVINO is fast


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
