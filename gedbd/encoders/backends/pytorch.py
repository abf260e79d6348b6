"""PyTorch as a backend, on a GPU or the CPU."""

import os
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

from gedbd.encoders.text_encoder import TextEncoder
from gedbd.text.tokens import TokenTable, token_budget

PRECISIONS = ("float32", "bfloat16")


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
        """See ``Backend``."""
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
        """See ``PreparedBackend``. Restores the encoder's device and mode afterwards."""
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
