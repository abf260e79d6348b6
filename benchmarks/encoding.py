"""Reading a corpus by each backend beside sentence-transformers."""

import tempfile
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from hydra.utils import instantiate
from measure import Row, repeated, take_turns
from prepared_data import configuration
from sentence_loop import sentence_transformer
from transformers import PreTrainedTokenizerBase

from gedbd.encoders.backend import PreparedBackend, Torch, encode_texts
from gedbd.encoders.loaded_encoder import LoadedEncoder, calibration_texts
from gedbd.encoders.openvino_backend import OpenVino
from gedbd.encoders.openvino_model import PRECISIONS, has_bfloat16
from gedbd.text.tokens import tokenize

REPORTS, REPEATS = 512, 3
PEER = "sentence-transformers"


def main() -> list[Row]:
    """Measures."""
    texts, tokenizer, length, backends = prepared()
    some = [texts[row] for row in np.random.default_rng(0).permutation(len(texts))[:REPORTS]]
    return _rates(some, tokenizer, length, backends)


def prepared() -> tuple[list[str], PreTrainedTokenizerBase, int, dict[str, PreparedBackend]]:
    """Texts, tokenizer, tokens of a text, and the encoder made ready by every backend that this machine can run."""
    cfg = configuration()
    encoder: LoadedEncoder = instantiate(cfg.encoder)
    tokenizer, length = encoder.tokenizer, encoder.max_tokens
    texts = instantiate(cfg.text)(instantiate(cfg.dataset).reports, tokenizer, length).texts
    sample = encoder.tokenize(calibration_texts(texts))
    backends: dict[str, PreparedBackend] = {"torch": Torch().prepare(encoder.model)}
    folder = tempfile.mkdtemp()
    for precision in PRECISIONS:
        if precision != "bfloat16" or has_bfloat16():
            backends[f"openvino, {precision}"] = OpenVino(precision, folder).prepare(encoder.model, sample)
    return texts, tokenizer, length, backends


def _rates(
    texts: list[str], tokenizer: PreTrainedTokenizerBase, length: int, backends: Mapping[str, PreparedBackend]
) -> list[Row]:
    """Reports a second, tokenising included."""
    peer = sentence_transformer(length)

    def encode(backend: PreparedBackend) -> object:
        return encode_texts(tokenize(texts, tokenizer, length), backend)

    calls: dict[str, Callable[[], object]] = {PEER: lambda: peer.encode(texts, show_progress_bar=False)}
    for name, backend in backends.items():
        calls[name] = partial(encode, backend)
    rates = {name: len(texts) / values for name, values in take_turns(calls, REPEATS).items()}
    section, note = "encoding", f"{len(texts):,} reports, {length} tokens"
    rows = [repeated(section, f"{PEER}, encode", rates[PEER], "reports/s", note=note)]
    return rows + [repeated(section, name, rates[name], "reports/s", (PEER, rates[PEER])) for name in backends]
