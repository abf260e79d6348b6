"""Vectors of many reports or changes."""

from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import normalize

from gedbd.encoders.code.batches import BatchEdges, CodeBatch, collate
from gedbd.io.progress import track
from gedbd.tasks.localization.inputs import Inputs
from gedbd.tasks.localization.model import TokenFeatures, Tower
from gedbd.text.tokens import split_by_tokens, token_budget

MIN_PROGRESS_INPUTS = 500


class Encoded(NamedTuple):
    """Vectors of N texts.

    Attributes:
        projected: ``(N, dim)`` float32 unit rows.
        features: ``(N, F)`` float32 unit rows: pooled features before the projector.
        tokens: ``(T, dim)`` float16 unit rows of the tokens of comment and code, text by text; None unless wanted. A
            token's features pass through the projector, which was trained on the means of such features.
        starts: ``(N + 1,)`` where the tokens of each text begin: those of text i are starts[i] to starts[i + 1].
    """

    projected: np.ndarray
    features: np.ndarray
    tokens: np.ndarray | None = None
    starts: np.ndarray | None = None


@torch.no_grad()  # not inference_mode: features that are kept are read by training later
def encode(tower: Tower, inputs: Inputs, rows: np.ndarray, bf16: bool, with_tokens: bool, label: str) -> Encoded:
    """Encodes some inputs in batches of similar length, and leaves the mode of the tower as it was.

    Args:
        tower: Encoder and projector.
        inputs: Of the side of the tower.
        rows: ``(N,)`` which inputs.
        bf16: Whether the encoder computes in bfloat16, by autocast.
        with_tokens: Whether the vectors of tokens are wanted; they take N times about 100 times dim times 2 bytes.
        label: What the progress bar says.
    """
    quiet = len(rows) < MIN_PROGRESS_INPUTS
    device = tower.projector.first.weight.device
    was_training = tower.training
    tower.eval()
    made = track(rows.tolist(), f"read {label}", transient=True, disable=quiet)
    lengths = np.array([len(inputs[row]) for row in made], dtype=np.int64)
    order = np.argsort(lengths, kind="stable")
    features = np.zeros((len(rows), tower.width), dtype=np.float32)
    projected = np.zeros((len(rows), tower.projector.second.out_features), dtype=np.float32)
    empty = np.zeros((0, projected.shape[1]), dtype=np.float16)
    tokens = [empty] * len(rows)
    runs = split_by_tokens(lengths[order].tolist(), token_budget(device))
    for first, last in track(runs, f"encode {label}", transient=True, disable=quiet):
        chosen = order[first:last]
        batch = on_device(collate([inputs[row] for row in rows[chosen].tolist()]), device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            read = tower.read(batch) if with_tokens else None
            pooled = tower(batch) if read is None else tower.pool(read)
        features[chosen] = normalize(pooled, dim=1).cpu().numpy()
        projected[chosen] = normalize(tower.projector(pooled), dim=1).cpu().numpy()
        if read is not None:
            for number, vectors in zip(chosen.tolist(), _token_vectors(tower, read), strict=True):
                tokens[number] = vectors
    tower.train(was_training)
    if not with_tokens:
        return Encoded(projected, features)
    starts = np.cumsum([0, *(len(vectors) for vectors in tokens)])
    return Encoded(projected, features, np.concatenate([empty, *tokens]), starts)


def _token_vectors(tower: Tower, read: TokenFeatures) -> list[np.ndarray]:
    """The projected tokens of each text of a batch."""
    vectors = normalize(tower.projector(read.tokens[read.is_text]), dim=1).half().cpu().numpy()
    return np.split(vectors, np.cumsum(read.is_text.sum(1).cpu().numpy())[:-1])


def on_device(batch: CodeBatch, device: torch.device) -> CodeBatch:
    """The batch with all its tensors on a device."""
    edges = BatchEdges(*(edge.to(device) for edge in batch.edges))
    n_id, input_ids, lengths, blocks = (tensor.to(device) for tensor in batch[:4])
    return CodeBatch(n_id, input_ids, lengths, blocks, edges)
