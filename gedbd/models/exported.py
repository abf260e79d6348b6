"""A trained text branch as a folder that others read without gedbd.

Two formats: ``sentence_transformers``, in the layout that every release since the second reads, and ``onnx``, one graph
from tokens to unit vectors. A ``Format`` writes its folder and reads texts with it as a stranger would.
"""

import inspect
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import normalize
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from gedbd.models.encoder import TextEncoder
from gedbd.models.packing import can_pack

TOLERANCE = 1e-5
CHECKED = {"longest": 40, "shortest": 40, "random": 120}
BATCH = 32
INPUTS = ("input_ids", "attention_mask")
MODULES = {"Transformer": "", "Pooling": "1_Pooling", "Dense": "2_Dense", "Normalize": "3_Normalize"}


class Format(NamedTuple):
    """A format: the packages it needs, its writer into an empty folder, and its reader, ``N texts -> (N, D)``."""

    packages: tuple[str, ...]
    write: Callable[[Path, TextEncoder, PreTrainedTokenizerBase, int], None]
    read: Callable[[Path, list[str]], np.ndarray]


def find_format(name: str) -> Format:
    """A format by its name.

    Raises:
        ValueError: If there is none, or a package that it needs is not installed.
    """
    if name not in FORMATS:
        raise ValueError(f"format={name} is unknown: choose {' or '.join(FORMATS)}")
    for package in FORMATS[name].packages:
        if find_spec(package) is None:
            raise ValueError(f"format={name}: {package} is not installed: pip install 'gedbd[export]'")
    return FORMATS[name]


def write_sentence_transformers(
    folder: Path, encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase, max_tokens: int
) -> None:
    """Writes what ``SentenceTransformer(folder)`` loads: backbone, pooling, projection, length 1.

    Args:
        folder: An empty folder.
        encoder: Encoder with the weights to write; it is left as it is.
        tokenizer: Its tokenizer.
        max_tokens: Length that texts are cut to.
    """
    plain = _plain(encoder)
    plain.backbone.save_pretrained(folder)
    _save_tokenizer(folder, tokenizer, max_tokens)
    for part in list(MODULES.values())[1:]:
        (folder / part).mkdir()
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (name, path) in enumerate(MODULES.items())
    ]
    reading: dict[str, object] = {"max_seq_length": max_tokens, "do_lower_case": False}
    if "add_pooling_layer" in inspect.signature(type(plain.backbone)).parameters:
        reading["model_args"] = {"add_pooling_layer": False}  # else an untrained one would be made, with a warning
    hidden, dim = plain.projection.in_features, plain.projection.out_features
    pooling = {f"pooling_mode_{name}": name.startswith(plain.pooling) for name in ("cls_token", "mean_tokens")}
    dense = {"in_features": hidden, "out_features": dim, "bias": True}
    _save_json(folder / "modules.json", modules)
    _save_json(folder / "sentence_bert_config.json", reading)
    _save_json(folder / "config_sentence_transformers.json", {"similarity_fn_name": "cosine"})
    _save_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": hidden, **pooling})
    _save_json(folder / "2_Dense" / "config.json", dense | {"activation_function": "torch.nn.modules.linear.Identity"})
    weights = {f"linear.{name}": value.contiguous() for name, value in plain.projection.state_dict().items()}
    save_file(weights, folder / "2_Dense" / "model.safetensors")


def read_sentence_transformers(folder: Path, texts: list[str]) -> np.ndarray:
    """Vectors of texts ``(N, D)`` float32, by what ``write_sentence_transformers`` wrote."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return np.asarray(model.encode(texts, batch_size=BATCH, show_progress_bar=False))


def write_onnx(folder: Path, encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> None:
    """Writes ``model.onnx``, ``(U, L), (U, L) -> (U, D)`` for any U and L, with tokenizer and ``config.json``.

    Args:
        folder: See ``write_sentence_transformers``, as the others.
        encoder: Encoder with the weights to write.
        tokenizer: Its tokenizer.
        max_tokens: Length that texts are cut to.
    """
    plain = _plain(encoder)
    plain.backbone.config.save_pretrained(folder)
    _save_tokenizer(folder, tokenizer, max_tokens)
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


FORMATS = {
    "sentence_transformers": Format(
        ("sentence_transformers",), write_sentence_transformers, read_sentence_transformers
    ),
    "onnx": Format(("onnx", "onnxruntime", "onnxscript"), write_onnx, read_onnx),
}


def some_texts(texts: list[str]) -> list[str]:
    """Distinct texts to hold an exported model to: an empty one, the longest, the shortest, and others at random.

    Args:
        texts: All texts of a corpus.
    """
    by_length = sorted(set(texts), key=lambda text: (len(text), text))
    drawn = np.random.default_rng(0).choice(len(by_length), min(len(by_length), CHECKED["random"]), replace=False)
    chosen = [*by_length[: CHECKED["shortest"]], *by_length[-CHECKED["longest"] :], *(by_length[row] for row in drawn)]
    return list(dict.fromkeys(["", *chosen]))


def largest_difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference between the numbers of two sets of vectors ``(N, D)``.

    Raises:
        ValueError: If it is more than ``TOLERANCE``, or none.
    """
    largest = float(np.abs(found - expected).max())
    if not largest <= TOLERANCE:
        raise ValueError(
            f"the exported model's vectors differ from gedbd's by {largest:.1e}, more than {TOLERANCE:.0e}: nothing was"
            " written; this encoder cannot be exported in this format with the installed packages"
        )
    return largest


def check_free(out: Path) -> None:
    """Raises ValueError if no folder can be made there: something stands there, or there is nowhere to put it."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ValueError(f"out={out} exists and is not an empty folder: give another name, or remove it")
    if not os.access(out.absolute().parent, os.W_OK):
        raise ValueError(f"out={out} cannot be written: give a folder inside an existing one that you may write to")


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """An empty folder beside ``out`` that becomes ``out`` at the end, or goes away where something failed."""
    with tempfile.TemporaryDirectory(dir=out.absolute().parent) as beside:
        fresh = Path(beside) / "model"
        fresh.mkdir()
        yield fresh
        for path in fresh.rglob("*.safetensors"):  # these are written for their owner's eyes only
            path.chmod(fresh.stat().st_mode & 0o666)
        fresh.rename(out)


class _UnitVectors(nn.Module):
    """What goes into the graph: ``(U, L), (U, L) -> (U, D)``."""

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return normalize(self.encoder(input_ids, attention_mask), dim=-1)


def _plain(encoder: TextEncoder) -> TextEncoder:
    """A copy that reads padded batches: the packed attention is known to gedbd alone."""
    plain = deepcopy(encoder).cpu().eval()
    if can_pack(plain.backbone):
        plain.backbone.set_attn_implementation("sdpa")
    return plain


def _save_tokenizer(folder: Path, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> None:
    mine = deepcopy(tokenizer)
    mine.model_max_length = max_tokens
    mine.save_pretrained(folder)


def _save_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


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
