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
from transformers import AutoTokenizer

from gedbd.encoders.encoder import Encoder
from gedbd.encoders.export.plain_model import plain_copy, read_prefix, save_prompts, save_tokenizer
from gedbd.encoders.text_encoder import TextEncoder

BATCH = 32
INPUTS = ("input_ids", "attention_mask")


def write_onnx(folder: Path, encoder: Encoder) -> None:
    """Writes ``model.onnx``, ``(U, L), (U, L) -> (U, D)`` for any U and L, tokenizer, ``config.json`` and the prefix.

    Args:
        folder: An empty folder.
        encoder: Encoder to write; it is not changed.
    """
    plain = plain_copy(encoder.model)
    plain.backbone.config.save_pretrained(folder)
    save_tokenizer(folder, encoder.tokenizer, encoder.max_tokens)
    save_prompts(folder, encoder.prefix)
    input_ids = torch.full((2, 8), int(encoder.tokenizer.pad_token_id))
    attention_mask = torch.ones_like(input_ids)
    attention_mask[1, 4:] = 0  # the example has padding, so that the graph reads the mask
    axes = {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens")}
    with _silenced(), torch.no_grad():
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
    _remove_origins(folder / "model.onnx")


def read_onnx(folder: Path, texts: list[str]) -> np.ndarray:
    """Vectors of texts ``(N, D)`` float32, computed with the files of ``write_onnx``."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    session = InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    texts = [read_prefix(folder) + text for text in texts]
    vectors = []
    for start in range(0, len(texts), BATCH):
        tokens = tokenizer(texts[start : start + BATCH], padding=True, truncation=True, return_tensors="np")
        vectors.append(session.run(None, {name: tokens[name] for name in INPUTS})[0])
    return np.concatenate(vectors)


class _UnitVectors(nn.Module):
    """The module that the graph is traced from: ``(U, L), (U, L) -> (U, D)``."""

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return normalize(self.encoder(input_ids, attention_mask), dim=-1)


def _remove_origins(path: Path) -> None:
    """Removes the origin of each node from an ONNX file: it holds paths of this machine."""
    import onnx

    model = onnx.load(path)
    for part in (*model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info, model.graph):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    onnx.save(model, path)


@contextmanager
def _silenced() -> Iterator[None]:
    """Hides the exporter's warnings about optional packages and unused names."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
