"""Reading a corpus by each backend beside sentence-transformers."""

import tempfile
from collections.abc import Callable, Mapping

import numpy as np
from hydra.utils import instantiate
from measure import Row, medians
from prepared_data import configuration
from sentence_loop import sentence_transformer
from transformers import PreTrainedTokenizerBase

from gedbd.encoders.backends.openvino import PRECISIONS, OpenVino, has_bfloat16
from gedbd.encoders.backends.pytorch import Reader, Torch, encode
from gedbd.encoders.embedding_cache import calibration_texts
from gedbd.text.tokens import tokenize

REPORTS, REPEATS = 1024, 3
PEER = "sentence-transformers"


def main() -> list[Row]:
    """Measures."""
    texts, tokenizer, length, readers = prepared()
    some = [texts[row] for row in np.random.default_rng(0).permutation(len(texts))[:REPORTS]]
    return _rates(some, tokenizer, length, readers)


def prepared() -> tuple[list[str], PreTrainedTokenizerBase, int, dict[str, Reader]]:
    """Texts, tokenizer, tokens of a text, and the encoder made ready by every backend that this machine can run."""
    cfg = configuration()
    (encoder, tokenizer), length = instantiate(cfg.encoder), cfg.encoder.max_tokens
    texts = instantiate(cfg.text)(instantiate(cfg.dataset).reports, tokenizer, length).texts
    sample, readers = tokenize(calibration_texts(texts), tokenizer, length), {"torch": Torch().prepare(encoder)}
    folder = tempfile.mkdtemp()
    for precision in PRECISIONS:
        if precision != "bfloat16" or has_bfloat16():
            readers[f"openvino, {precision}"] = OpenVino(precision, folder).prepare(encoder, sample)
    return texts, tokenizer, length, readers


def _rates(
    texts: list[str], tokenizer: PreTrainedTokenizerBase, length: int, readers: Mapping[str, Reader]
) -> list[Row]:
    """Reports a second, tokenising included."""
    peer = sentence_transformer(length)
    calls: dict[str, Callable[[], object]] = {PEER: lambda: peer.encode(texts, show_progress_bar=False)}
    for name, reader in readers.items():
        calls[name] = lambda reader=reader: encode(tokenize(texts, tokenizer, length), reader)
    taken = medians(calls, REPEATS)
    section, note = "encoding", f"{len(texts):,} reports, {length} tokens"
    rows = [Row(section, f"{PEER}, encode", len(texts) / taken[PEER], "reports/s", note=note)]
    for name in readers:
        rate = len(texts) / taken[name]
        rows += [Row(section, name, rate, "reports/s", PEER, taken[PEER] / taken[name])]
    return rows
