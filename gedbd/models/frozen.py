"""Vectors of texts from an encoder as it was downloaded, kept on disk by content.

Titles make the graph's edges with them, and the untrained encoder is a baseline with them. One SQLite file an encoder:
a text that was seen before is never encoded again, an interrupted run keeps what it had, and concurrent runs may share
it.
"""

import hashlib
import os
import sqlite3
from pathlib import Path

import numpy as np
import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from transformers import PreTrainedTokenizerBase

from gedbd.data.token_cache import cache_folder
from gedbd.data.tokens import TokenTable, tokenize
from gedbd.models.encoder import TextEncoder, fingerprint

BATCH = 64
BATCHES_A_COMMIT = 16
QUESTION_MARKS = 500


def frozen_vectors(
    texts: list[str],
    encoder: TextEncoder,
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int,
    cache_dir: str | Path,
    label: str = "encode",
) -> np.ndarray:
    """Pooled vectors before the projection, in evaluation mode, without gradient.

    Args:
        texts: N texts.
        encoder: Encoder with the weights to use as they stand.
        tokenizer: Its tokenizer.
        max_tokens: Length that texts are cut to.
        cache_dir: Folder of the cache files, made if absent.
        label: What the progress bar says.

    Returns:
        ``(N, hidden)`` float32.
    """
    folder = cache_folder(cache_dir)
    name = f"{fingerprint(encoder.backbone)}-{encoder.pooling}-{max_tokens}"
    keys = [hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest() for text in texts]
    with sqlite3.connect(folder / f"{name}.sqlite", timeout=60) as cache:
        cache.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
        stored = _read(cache, keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in stored}
        if missing:
            stored |= _encode(missing, encoder, tokenize(list(missing.values()), tokenizer, max_tokens), cache, label)
    cache.close()
    return np.frombuffer(bytearray().join(stored[key] for key in keys), dtype=np.float32).reshape(len(keys), -1)


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1; a zero row stays zero."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12))


def _read(cache: sqlite3.Connection, keys: list[bytes]) -> dict[bytes, bytes]:
    """The stored vectors among those asked for. In the order of the file each of its pages is read once."""
    stored: dict[bytes, bytes] = {}
    wanted = sorted(set(keys))
    for start in range(0, len(wanted), QUESTION_MARKS):
        some = wanted[start : start + QUESTION_MARKS]
        query = f"SELECT key, vector FROM vectors WHERE key IN ({','.join('?' * len(some))})"
        stored.update(cache.execute(query, some))
    return stored


@torch.no_grad()
def _encode(
    texts: dict[bytes, str], encoder: TextEncoder, tokens: TokenTable, cache: sqlite3.Connection, label: str
) -> dict[bytes, bytes]:
    """Encodes in order of length, so that little is padded, and stores as it goes."""
    device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu"
    was_training, home = encoder.training, next(encoder.parameters()).device
    encoder.to(device).eval()
    keys, order = list(texts), np.argsort(-tokens.lengths, kind="stable")
    done: dict[bytes, bytes] = {}
    columns = (
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, disable=len(keys) <= BATCH) as progress:
        task = progress.add_task(label, total=len(keys), rate="")
        for number, start in enumerate(range(0, len(keys), BATCH), start=1):
            rows = order[start : start + BATCH]
            input_ids, attention_mask = tokens.batch(rows)
            vectors = encoder.pool(input_ids.to(device), attention_mask.to(device)).cpu().numpy()
            fresh = {keys[row]: vector.tobytes() for row, vector in zip(rows, vectors, strict=True)}
            cache.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", fresh.items())
            done |= fresh
            if number % BATCHES_A_COMMIT == 0:
                cache.commit()
            progress.update(task, advance=len(rows), rate=f"{progress.tasks[0].speed or 0:.0f} reports/s")
    cache.commit()
    encoder.to(home).train(was_training)
    return done
