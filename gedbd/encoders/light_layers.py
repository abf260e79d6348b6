"""The layers of BERT in NumPy, for one text at a time."""

from collections.abc import Mapping

import numpy as np

EMBEDDINGS = ("embeddings.words", "embeddings.rest", "embeddings.norm.weight", "embeddings.norm.bias")
DENSE = ("qkv", "attended", "wide", "narrow")
NORMS = ("norm_1", "norm_2")


def weight_names(num_layers: int) -> list[str]:
    """Names of the weights that ``bert`` reads.

    ``embeddings.rest`` is the sum of the position and the type embeddings; ``qkv`` joins query, key and value.
    """
    layers = [f"{number}.{part}" for number in range(num_layers) for part in (*DENSE, *NORMS)]
    return [*EMBEDDINGS, *(f"{layer}.{kind}" for layer in layers for kind in ("weight", "bias"))]


def bert(
    weights: Mapping[str, np.ndarray], token_ids: np.ndarray, num_layers: int, num_heads: int, epsilon: float
) -> np.ndarray:
    """The vectors of the last layer, ``(L,) -> (L, H)`` float32.

    Args:
        weights: See ``weight_names``; a dense layer's weight is ``(out, in)``.
        token_ids: Ids of L tokens, none of them padding.
        num_layers: Number of layers.
        num_heads: Heads of the attention.
        epsilon: Added to variances.
    """
    hidden = weights["embeddings.words"][token_ids] + weights["embeddings.rest"][: len(token_ids)]
    hidden = _normalised(hidden, weights, "embeddings.norm", epsilon)
    for layer in range(num_layers):
        joined = _dense(hidden, weights, f"{layer}.qkv")
        attended = _dense(_attention(joined, num_heads), weights, f"{layer}.attended")
        hidden = _normalised(hidden + attended, weights, f"{layer}.norm_1", epsilon)
        wide = gelu(_dense(hidden, weights, f"{layer}.wide"))
        hidden = _normalised(hidden + _dense(wide, weights, f"{layer}.narrow"), weights, f"{layer}.norm_2", epsilon)
    return hidden


def gelu(x: np.ndarray) -> np.ndarray:
    """The activation x P(Z <= x), Z standard normal, within 1e-6.

    The error function is formula 7.1.26 of Abramowitz and Stegun: importing SciPy's takes longer than a search.
    """
    size = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * size)
    polynomial = np.full_like(t, 1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        polynomial *= t
        polynomial += np.float32(coefficient)
    # polynomial * t * exp(-size**2) / 2 is P(Z > |x|).
    tail = polynomial * t * np.exp(-size * size) * np.float32(0.5)
    return np.asarray(x * np.where(x > 0, 1 - tail, tail))


def _attention(joined: np.ndarray, num_heads: int) -> np.ndarray:
    """Attention of all tokens to all, ``(L, 3 H) -> (L, H)``."""
    length, width = joined.shape
    size = width // 3 // num_heads
    query, key, value = joined.reshape(length, 3, num_heads, size).transpose(1, 2, 0, 3)
    logits = query @ key.transpose(0, 2, 1) * np.float32(size**-0.5)
    logits -= logits.max(axis=-1, keepdims=True)
    weights = np.exp(logits)
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.asarray((weights @ value).transpose(1, 0, 2).reshape(length, -1))


def _dense(x: np.ndarray, weights: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    return np.asarray(x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"])


def _normalised(x: np.ndarray, weights: Mapping[str, np.ndarray], name: str, epsilon: float) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    scaled = centred / np.sqrt(variance + np.float32(epsilon))
    return np.asarray(scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"])
