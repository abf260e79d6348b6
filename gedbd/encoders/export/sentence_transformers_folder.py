"""The format of sentence-transformers, readable since its version 2."""

import inspect
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from gedbd.encoders.encoder import Encoder
from gedbd.encoders.export.plain_model import plain_copy, save_prompts, save_tokenizer

BATCH = 32
MODULES = {"Transformer": "", "Pooling": "1_Pooling", "Dense": "2_Dense", "Normalize": "3_Normalize"}


def write_sentence_transformers(folder: Path, encoder: Encoder) -> None:
    """Writes the modules that ``SentenceTransformer(folder)`` loads: backbone, pooling, projection, normalisation.

    Args:
        folder: An empty folder.
        encoder: Encoder to write; it is not changed.
    """
    plain = plain_copy(encoder.model)
    plain.backbone.save_pretrained(folder)
    save_tokenizer(folder, encoder.tokenizer, encoder.max_tokens)
    for part in list(MODULES.values())[1:]:
        (folder / part).mkdir()
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (name, path) in enumerate(MODULES.items())
    ]
    reading: dict[str, object] = {"max_seq_length": encoder.max_tokens, "do_lower_case": False}
    if "add_pooling_layer" in inspect.signature(type(plain.backbone)).parameters:
        reading["model_args"] = {"add_pooling_layer": False}  # without it, transformers adds an untrained one
    hidden = plain.hidden
    dim = plain.projection.out_features
    pooling = {f"pooling_mode_{name}": name.startswith(plain.pooling) for name in ("cls_token", "mean_tokens")}
    dense = {"in_features": hidden, "out_features": dim, "bias": True}
    _save_json(folder / "modules.json", modules)
    _save_json(folder / "sentence_bert_config.json", reading)
    save_prompts(folder, encoder.prefix)
    _save_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": hidden, **pooling})
    _save_json(folder / "2_Dense" / "config.json", dense | {"activation_function": "torch.nn.modules.linear.Identity"})
    # Numbers of a pooled vector that are not used get weights of zero: no module cuts vectors before a projection.
    weight = torch.zeros(dim, hidden)
    weight[:, : plain.features] = plain.projection.weight.detach()
    weights = {"linear.weight": weight, "linear.bias": plain.projection.bias.detach().contiguous()}
    save_file(weights, folder / "2_Dense" / "model.safetensors")


def read_sentence_transformers(folder: Path, texts: list[str]) -> np.ndarray:
    """Vectors of texts ``(N, D)`` float32, computed with the files of ``write_sentence_transformers``."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=False, local_files_only=True)
    return np.asarray(model.encode(texts, batch_size=BATCH, show_progress_bar=False))


def _save_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
