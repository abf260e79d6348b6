"""Reads reports as they come in, with the encoder and the text template that the stored ones were read with."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from gedbd.encoders.backends.pytorch import Reader
    from gedbd.encoders.encoder import TextEncoder
    from gedbd.text.templates import Text

MOST_AT_ONCE = 16


class ReportReader:
    """Vectors of reports. Several threads may call it: tokenizers and backends take one at a time, so the others wait.

    Args:
        encoder: Encoder with the weights to use as they stand.
        tokenizer: Its tokenizer.
        max_tokens: Length that texts are cut to.
        text: How reports become texts.
        reader: What a backend has made of the encoder.
        projected: Whether vectors go through the projection, which has been trained.
    """

    def __init__(
        self,
        encoder: "TextEncoder",
        tokenizer: "PreTrainedTokenizerBase",
        max_tokens: int,
        text: "Text",
        reader: "Reader",
        projected: bool,
    ) -> None:
        self.encoder, self.tokenizer, self.max_tokens = encoder, tokenizer, max_tokens
        self.text, self.reader, self.projected = text, reader, projected
        self._turn = threading.Lock()

    def __call__(self, reports: pd.DataFrame) -> np.ndarray:
        """``(B, D)`` unit rows of B rows of a corpus; B is small, for all are read at once."""
        with self._turn:
            return self._read(reports)

    def _read(self, reports: pd.DataFrame) -> np.ndarray:
        import torch

        from gedbd.encoders.embedding_cache import unit_rows
        from gedbd.text.tokens import tokenize

        texts = self.text(reports, self.tokenizer, self.max_tokens)
        tokens = tokenize(texts, self.tokenizer, self.max_tokens)
        (vectors,) = self.reader.read([tokens.batch(np.arange(len(texts)))])
        if self.projected:
            with torch.no_grad():
                vectors = self.encoder.projection(torch.from_numpy(vectors)).numpy()
        return unit_rows(vectors)


class Together:
    """Lets several threads that each want one report read share a batch: all that wait are read at once.

    An encoder uses every core for a single text, but not well; eight texts take far less time than eight times one.

    Args:
        read: Gives ``(B, D)`` vectors of B rows of a corpus; called by one thread at a time.
    """

    def __init__(self, read: Callable[[pd.DataFrame], np.ndarray]) -> None:
        self.read = read
        self._waiting: list[tuple[pd.DataFrame, Future[np.ndarray]]] = []
        self._list, self._turn = threading.Lock(), threading.Lock()

    def __call__(self, report: pd.DataFrame) -> np.ndarray:
        """``(D,)``. Whoever gets the turn reads for all that wait, who then find their answer there."""
        answer: Future[np.ndarray] = Future()
        with self._list:
            self._waiting.append((report, answer))
        while not answer.done():
            with self._turn:
                if not answer.done():
                    self._read_waiting()
        return answer.result()

    def _read_waiting(self) -> None:
        with self._list:
            batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
        try:
            vectors = self.read(pd.concat([report for report, _ in batch], ignore_index=True))
        except Exception as error:  # not swallowed: each of those who wait for it gets it
            for _, answer in batch:
                answer.set_exception(error)
            return
        for (_, answer), vector in zip(batch, vectors, strict=True):
            answer.set_result(vector)
