"""Encodes single reports as they arrive, with the text template and the encoder of the stored reports."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gedbd.corpora.templates import Text

if TYPE_CHECKING:  # it imports torch
    from gedbd.encoders.given_encoder import GivenEncoder
    from gedbd.encoders.loaded_encoder import LoadedEncoder
    from gedbd.encoders.query_encoder import QueryEncoder

MAX_BATCH = 16


class ReportEncoder:
    """Encodes reports. It may be called from several threads, which take turns: tokenizers and backends need that.

    Args:
        encoder: Encodes texts; it has a tokenizer.
        text: Makes texts of reports.
    """

    def __init__(self, encoder: "LoadedEncoder | QueryEncoder | GivenEncoder", text: Text) -> None:
        self.encoder = encoder
        self.text = text
        self._turn = threading.Lock()

    def __call__(self, reports: pd.DataFrame) -> np.ndarray:
        """``(B, D)`` unit rows of B rows of a corpus. B is small: all are encoded in one batch."""
        with self._turn:
            texts, _ = self.text(reports, self.encoder.tokenizer, self.encoder.text_tokens)
            return self.encoder.encode(texts, kind="query")


class BatchingEncoder:
    """Encodes the reports of several threads in shared batches, in a thread of its own: all that wait at once.

    An encoder uses every core for a single text, but not well: eight texts take less than eight times the time.

    Args:
        encode: Gives ``(B, D)`` vectors of B rows of a corpus.
    """

    def __init__(self, encode: Callable[[pd.DataFrame], np.ndarray]) -> None:
        self.encode = encode
        self._waiting: list[tuple[pd.DataFrame, Future[np.ndarray]]] = []
        self._list_lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encoder")

    def __call__(self, report: pd.DataFrame) -> Future[np.ndarray]:
        """Starts to encode one report; the result is its ``(D,)`` vector."""
        answer: Future[np.ndarray] = Future()
        with self._list_lock:
            self._waiting.append((report, answer))
        # One call for each report: those whose report an earlier call encodes find nothing to do.
        self._thread.submit(self._encode_waiting)
        return answer

    def _encode_waiting(self) -> None:
        with self._list_lock:
            batch = self._waiting[:MAX_BATCH]
            self._waiting = self._waiting[MAX_BATCH:]
        if not batch:
            return
        try:
            reports = [report for report, _ in batch]
            # One report alone is not copied: pandas takes half a millisecond for it.
            vectors = self.encode(pd.concat(reports, ignore_index=True) if len(reports) > 1 else reports[0])
        except Exception as error:  # each thread that waits gets the error
            for _, answer in batch:
                answer.set_exception(error)
            return
        for (_, answer), vector in zip(batch, vectors, strict=True):
            answer.set_result(vector)
