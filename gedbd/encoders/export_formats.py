"""Formats of exported encoders: folders that other software reads without gedbd."""

import inspect
import json
import logging
import os
import warnings
from collections.abc import Callable, Mapping
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import normalize
from transformers import AutoTokenizer

from gedbd.encoders.adapters import DOWN, SCALE
from gedbd.encoders.loaded_encoder import LoadedEncoder, load_encoder
from gedbd.encoders.model_options import ADAPTER, model_options
from gedbd.encoders.text_encoder import TextEncoder, padded_copy

TOLERANCE = 1e-5
HALF_TOLERANCE = 1e-3  # with factors in float16
CHECKED = {"longest": 40, "shortest": 40, "random": 120}
INPUTS = ("input_ids", "attention_mask")
PROMPTS = "config_sentence_transformers.json"
BATCH = 32
MODULES = {"Transformer": "", "Pooling": "1_Pooling", "Dense": "2_Dense", "Normalize": "3_Normalize"}


class Format(NamedTuple):
    """A format: the packages it needs, a function that writes an empty folder, and one that encodes with the result.

    ``read`` uses the format's own library, as other software would: N texts to ``(N, D)``. Its vectors may differ from
    gedbd's by ``tolerance``.
    """

    packages: tuple[str, ...]
    write: Callable[[Path, LoadedEncoder], None]
    read: Callable[[Path, list[str]], np.ndarray]
    tolerance: float = TOLERANCE


def read_onnx(folder: Path, texts: list[str]) -> np.ndarray:
    """Vectors of texts ``(N, D)`` float32, computed with the files of ``write_onnx``."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    session = InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    prefix = json.loads((folder / PROMPTS).read_text()).get("prompts", {}).get("document", "")
    texts = [prefix + text for text in texts]
    vectors = []
    for start in range(0, len(texts), BATCH):
        tokens = tokenizer(texts[start : start + BATCH], padding=True, truncation=True, return_tensors="np")
        vectors.append(session.run(None, {name: tokens[name] for name in INPUTS})[0])
    return np.concatenate(vectors)


def read_sentence_transformers(folder: Path, texts: list[str]) -> np.ndarray:
    """Vectors of texts ``(N, D)`` float32, computed with the files of ``write_sentence_transformers``."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=False, local_files_only=True)
    return np.asarray(model.encode(texts, batch_size=BATCH, show_progress_bar=False))


def write_onnx(folder: Path, encoder: LoadedEncoder) -> None:
    """Writes ``model.onnx``, ``(U, L), (U, L) -> (U, D)`` for any U and L, tokenizer, ``config.json`` and prefix."""
    import onnx

    plain = _write_common(folder, encoder)
    plain.backbone.config.save_pretrained(folder)
    input_ids = torch.full((2, 8), int(encoder.tokenizer.pad_token_id))
    attention_mask = torch.ones_like(input_ids)
    attention_mask[1, 4:] = 0  # the example has padding, so that the graph reads the mask
    axes = {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens")}
    # The exporter warns of optional packages and unused names.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(action="ignore"), torch.no_grad():
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
    # The metadata of each node holds paths of this machine.
    model = onnx.load(folder / "model.onnx")
    for part in (*model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info, model.graph):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    onnx.save(model, folder / "model.onnx")


def write_sentence_transformers(folder: Path, encoder: LoadedEncoder) -> None:
    """Writes the modules that ``SentenceTransformer(folder)`` loads: backbone, pooling, projection, normalisation."""
    plain = _write_common(folder, encoder)
    plain.backbone.save_pretrained(folder)
    _write_modules(folder, encoder, plain)


def adapter_format(factors: Mapping[str, Tensor], base: str) -> Format:
    """PEFT's format: the difference to a base in float16, with all other files of sentence-transformers.

    Args:
        factors: The weights of adapters, see ``add_adapters``, by their names in ``TextEncoder``.
        base: The model that they change, a folder or a name on the hub.
    """
    names = {name: name.removeprefix("backbone.") for name in factors}
    rank = next(len(value) for name, value in factors.items() if name.endswith(DOWN))
    config = {"peft_type": "LORA", "task_type": "FEATURE_EXTRACTION", "inference_mode": True, "bias": "none"}
    config |= {"base_model_name_or_path": base, "r": rank, "lora_alpha": int(SCALE * rank)}
    config["target_modules"] = sorted({name.rpartition(".")[0] for name in names.values()})

    def write(folder: Path, encoder: LoadedEncoder) -> None:
        _write_modules(folder, encoder, _write_common(folder, encoder))
        weights = {f"base_model.model.{name}.weight": factors[key].half() for key, name in names.items()}
        save_file(weights, folder / "adapter_model.safetensors")
        _save_json(folder / ADAPTER, config)

    def read(folder: Path, texts: list[str]) -> np.ndarray:
        return load_encoder("adapter", str(folder), **model_options("adapter", str(folder))).encode(texts)

    return Format((), write, read, HALF_TOLERANCE)


def _write_modules(folder: Path, encoder: LoadedEncoder, plain: TextEncoder) -> None:
    """Writes the modules of sentence-transformers, all but the weights of the backbone."""
    for part in list(MODULES.values())[1:]:
        (folder / part).mkdir()
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (name, path) in enumerate(MODULES.items())
    ]
    transformer_config: dict[str, object] = {"max_seq_length": encoder.max_tokens, "do_lower_case": False}
    if "add_pooling_layer" in inspect.signature(type(plain.backbone)).parameters:
        # Otherwise transformers adds an untrained one.
        transformer_config["model_args"] = {"add_pooling_layer": False}
    hidden = plain.hidden
    dim = plain.projection.out_features
    pooling = {f"pooling_mode_{name}": name.startswith(plain.pooling) for name in ("cls_token", "mean_tokens")}
    dense = {"in_features": hidden, "out_features": dim, "bias": True}
    _save_json(folder / "modules.json", modules)
    _save_json(folder / "sentence_bert_config.json", transformer_config)
    _save_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": hidden, **pooling})
    _save_json(folder / "2_Dense" / "config.json", dense | {"activation_function": "torch.nn.modules.linear.Identity"})
    # Unused dimensions of a pooled vector get zero weights: no module truncates vectors before a projection.
    weight = torch.zeros(dim, hidden)
    weight[:, : plain.features] = plain.projection.weight.detach()
    weights = {"linear.weight": weight, "linear.bias": plain.projection.bias.detach().contiguous()}
    save_file(weights, folder / "2_Dense" / "model.safetensors")


FORMATS = {
    "sentence_transformers": Format(
        ("sentence_transformers",), write_sentence_transformers, read_sentence_transformers
    ),
    "onnx": Format(("onnx", "onnxruntime", "onnxscript"), write_onnx, read_onnx),
}


def find_format(name: str) -> Format:
    """Finds a format by its name.

    Raises:
        ValueError: If the name is unknown, or a package that the format needs is not installed.
    """
    if name not in FORMATS:
        raise ValueError(f"format={name} is unknown: choose {' or '.join(FORMATS)}")
    for package in FORMATS[name].packages:
        if find_spec(package) is None:
            raise ValueError(f"format={name}: {package} is not installed: pip install 'gedbd[export]'")
    return FORMATS[name]


def some_texts(texts: list[str]) -> list[str]:
    """Distinct texts to compare an exported model on: an empty one, the longest, the shortest, and random others."""
    by_length = sorted(set(texts), key=lambda text: (len(text), text))
    count = min(len(by_length), CHECKED["random"])
    rows = np.random.default_rng(0).choice(len(by_length), count, replace=False)
    shortest = by_length[: CHECKED["shortest"]]
    longest = by_length[-CHECKED["longest"] :]
    sampled = [by_length[row] for row in rows]
    # Keys of a dictionary keep their order, unlike those of a set.
    return list(dict.fromkeys(["", *shortest, *longest, *sampled]))


def largest_difference(vectors: np.ndarray, expected: np.ndarray, tolerance: float = TOLERANCE) -> float:
    """The largest absolute difference between two sets of vectors ``(N, D)``.

    Raises:
        ValueError: If it is more than ``tolerance``, or not a number.
    """
    largest = float(np.abs(vectors - expected).max())
    # Not "largest > TOLERANCE": a comparison with NaN is false.
    if not largest <= tolerance:
        raise ValueError(
            f"the exported model's vectors differ from gedbd's by {largest:.1e}, more than {tolerance:.0e}: nothing was"
            " written; this encoder cannot be exported in this format with the installed packages"
        )
    return largest


def check_free(out: Path) -> None:
    """Raises ValueError if no folder can be made there: the name is taken, or its parent is missing or not writable."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ValueError(f"out={out} exists and is not an empty folder: give another folder, or delete it")
    parent = out.absolute().parent
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise ValueError(f"out={out} cannot be written: give a new folder inside a writable one")


class _UnitVectors(nn.Module):
    """The module that the graph is traced from: ``(U, L), (U, L) -> (U, D)``."""

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return normalize(self.encoder(input_ids, attention_mask), dim=-1)


def _write_common(folder: Path, encoder: LoadedEncoder) -> TextEncoder:
    """Writes tokenizer and prefix, and returns a copy of the model that can be written."""
    tokenizer = deepcopy(encoder.tokenizer)
    tokenizer.model_max_length = encoder.max_tokens
    # tokenizer.json stores the truncation and padding of the last call: it truncates and pads by default.
    tokenizer([""], padding=True, truncation=True)
    tokenizer.save_pretrained(folder)
    config: dict[str, object] = {"similarity_fn_name": "cosine"}
    if encoder.prefix:
        # sentence-transformers reads it from here, as the prompt of queries and documents.
        prompts = {"query": encoder.prefix, "document": encoder.prefix}
        config |= {"prompts": prompts, "default_prompt_name": "document"}
    _save_json(folder / PROMPTS, config)
    return padded_copy(encoder.model)


def _save_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
