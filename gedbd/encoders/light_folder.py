"""Stores an encoder for ``LightEncoder``."""

import hashlib
import json
from pathlib import Path

import numpy as np
from transformers import PreTrainedModel

from gedbd.encoders.encoder import Encoder
from gedbd.encoders.light_encoder import FORMAT, SETTINGS, TOKENIZER, WEIGHTS, text_hash
from gedbd.encoders.light_layers import DENSE, NORMS
from gedbd.encoders.weights import fingerprint
from gedbd.io.files import replacing, write_text

# The names of BERT's weights in a layer, in the order of ``DENSE`` and ``NORMS``; query, key and value are joined.
BERT_DENSE = ("attention.output.dense", "intermediate.dense", "output.dense")
BERT_NORMS = ("attention.output.LayerNorm", "output.LayerNorm")
QKV = ("query", "key", "value")


def check_light(encoder: Encoder) -> None:
    """Raises ValueError, saying why, if ``LightEncoder`` cannot compute an encoder."""
    config = encoder.model.backbone.config
    found = {
        "model_type": config.model_type,
        "hidden_act": getattr(config, "hidden_act", None),
        "position_embedding_type": getattr(config, "position_embedding_type", "absolute"),
        "is_decoder": getattr(config, "is_decoder", False),
        "fast tokenizer": hasattr(encoder.tokenizer, "backend_tokenizer"),
    }
    needed = ("bert", "gelu", "absolute", False, True)
    for (name, value), wanted in zip(found.items(), needed, strict=True):
        if value != wanted:
            raise ValueError(f"the light encoder computes {name}={wanted}, not {value}: use the encoder itself")


def light_fingerprint(encoder: Encoder) -> str:
    """A hash of all that a vector depends on: weights, pooling, projection, tokenizer and length."""
    settings = [encoder.model.pooling, encoder.is_trained, encoder.max_tokens, _tokenizer_text(encoder)]
    digest = hashlib.blake2b(json.dumps(settings).encode(), digest_size=16)
    digest.update(fingerprint(encoder.model if encoder.is_trained else encoder.model.backbone).encode())
    return digest.hexdigest()


def write_light_encoder(encoder: Encoder, folder: str | Path) -> None:
    """Writes weights, tokenizer and settings, the settings last; the folder is made if absent.

    Raises:
        ValueError: If the architecture is another one than BERT, see ``check_light``.
    """
    from safetensors.numpy import save_file

    check_light(encoder)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SETTINGS).unlink(missing_ok=True)
    weights = light_weights(encoder.model.backbone)
    if encoder.is_trained:
        projection = encoder.model.projection.state_dict()
        weights |= {f"projection.{name}": value.cpu().numpy() for name, value in projection.items()}
    with replacing(folder / WEIGHTS) as unfinished:
        save_file({name: np.ascontiguousarray(value) for name, value in weights.items()}, unfinished)
    tokenizer = _tokenizer_text(encoder)
    write_text(folder / TOKENIZER, tokenizer)
    config = encoder.model.backbone.config
    settings = {
        "format": FORMAT,
        "fingerprint": light_fingerprint(encoder),
        "tokenizer_hash": text_hash(tokenizer),
        "pooling": encoder.model.pooling,
        "epsilon": config.layer_norm_eps,
        "num_heads": config.num_attention_heads,
        "num_layers": config.num_hidden_layers,
        "max_tokens": encoder.max_tokens,
    }
    write_text(folder / SETTINGS, json.dumps(settings, indent=1))


def light_weights(backbone: PreTrainedModel) -> dict[str, np.ndarray]:
    """The weights of a BERT under the names of ``weight_names``, float32."""
    state = {name: value.float().cpu().numpy() for name, value in backbone.state_dict().items()}
    kinds = ("weight", "bias")
    weights = {f"embeddings.norm.{kind}": state[f"embeddings.LayerNorm.{kind}"] for kind in kinds}
    weights["embeddings.words"] = state["embeddings.word_embeddings.weight"]
    # A single text is of type 0 throughout.
    types = state["embeddings.token_type_embeddings.weight"]
    weights["embeddings.rest"] = state["embeddings.position_embeddings.weight"] + types[0]
    for layer in range(backbone.config.num_hidden_layers):
        prefix = f"encoder.layer.{layer}"
        for kind in kinds:
            joined = [state[f"{prefix}.attention.self.{name}.{kind}"] for name in QKV]
            weights[f"{layer}.{DENSE[0]}.{kind}"] = np.concatenate(joined)
            for ours, theirs in zip((*DENSE[1:], *NORMS), (*BERT_DENSE, *BERT_NORMS), strict=True):
                weights[f"{layer}.{ours}.{kind}"] = state[f"{prefix}.{theirs}.{kind}"]
    return weights


def _tokenizer_text(encoder: Encoder) -> str:
    """The tokenizer as JSON, without the length that texts were last cut to."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(encoder.tokenizer.backend_tokenizer.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return str(tokenizer.to_str())
