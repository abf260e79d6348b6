"""One ONNX graph from tokens to unit vectors."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from gedbd.encoders.encoder import TextEncoder
from gedbd.encoders.export.plain_model import plain_copy, save_tokenizer

BATCH = 32
INPUTS = ("input_ids", "attention_mask")


def write_onnx(folder: Path, encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> None:
    """Writes ``model.onnx``, ``(U, L), (U, L) -> (U, D)`` for any U and L, with tokenizer and ``config.json``.

    Args:
        folder: See ``write_sentence_transformers``, as the others.
        encoder: Encoder with the weights to write.
        tokenizer: Its tokenizer.
        max_tokens: Length that texts are cut to.
    """
    plain = plain_copy(encoder)
    plain.backbone.config.save_pretrained(folder)
    save_tokenizer(folder, tokenizer, max_tokens)
    input_ids = torch.full((2, 8), int(tokenizer.pad_token_id))
    attention_mask = torch.ones_like(input_ids)
    attention_mask[1, 4:] = 0
    axes = {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens")}
    with _hushed(), torch.no_grad():
        torch.onnx.export(
            _UnitVectors(plain).eval(),
            (input_ids, attention_mask),
            folder / "model.onnx",
            input_names=INPUTS,
            output_names=["vectors"],
            dynamic_shapes=(axes, axes),
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    _forget_origin(folder / "model.onnx")


def read_onnx(folder: Path, texts: list[str]) -> np.ndarray:
    """Vectors of texts ``(N, D)`` float32, by what ``write_onnx`` wrote."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    session = InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    vectors = []
    for start in range(0, len(texts), BATCH):
        tokens = tokenizer(texts[start : start + BATCH], padding=True, truncation=True, return_tensors="np")
        vectors.append(session.run(None, {name: tokens[name] for name in INPUTS})[0])
    return np.concatenate(vectors)


class _UnitVectors(nn.Module):
    """What goes into the graph: ``(U, L), (U, L) -> (U, D)``."""

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return normalize(self.encoder(input_ids, attention_mask), dim=-1)


def _forget_origin(path: Path) -> None:
    """Takes out of an ONNX file where each node came from: paths of this machine, which are nobody's business."""
    import onnx

    model = onnx.load(path)
    for part in (*model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info, model.graph):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    onnx.save(model, path)


@contextmanager
def _hushed() -> Iterator[None]:
    """The exporter remarks on packages that it does not need and names that it does not use."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
