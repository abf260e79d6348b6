"""Tokenization: token ids of all texts in one table, padded a batch at a time."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from tokenizers import Tokenizer

from gedbd.io.console import track

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    AnyTokenizer: TypeAlias = "PreTrainedTokenizerBase | StoredTokenizer"
    import torch
    from torch import Tensor
CHUNK_TEXTS = 1000  # texts tokenized at a time
COVERED_CHARACTERS = 1000  # of a text whose coverage is measured
LAST_WORD = re.compile(r"\S+$")
# Characters to read for each token, more than the average, so that the rest of a long text is seldom read.
CHARACTERS_PER_TOKEN = 8
CPU_TOKENS = 2048
GPU_TOKENS = 65_536


class StoredTokenizer:
    """A tokenizer of transformers, read from its file without importing transformers.

    It is not thread-safe, since truncation is part of the tokenizer's state.

    Args:
        file: ``tokenizer.json``, as transformers writes it.
        pad_token_id: Id of the padding token.
        name: Name in messages.

    Raises:
        ValueError: If the file is missing or damaged.
    """

    is_fast = True

    def __init__(self, file: Path, pad_token_id: int, name: str) -> None:
        self.pad_token_id = pad_token_id
        self.name_or_path = name
        try:
            self._tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # tokenizers raises no narrower type
            raise ValueError(f"{file} is damaged: {error}") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def __call__(
        self,
        texts: list[str],
        max_length: int,
        truncation: Literal[True] = True,
        add_special_tokens: bool = True,
        return_offsets_mapping: bool = False,
        return_attention_mask: bool = False,
    ) -> dict[str, Any]:
        """Tokenizes N texts, with the arguments of transformers that gedbd uses; there is no padding to mask.

        Returns:
            ``input_ids`` of at most ``max_length`` tokens, with special ones, and optionally ``offset_mapping``, the
            start and end of each token: lists of N lists.
        """
        self._tokenizer.enable_truncation(max_length)
        encoded = self._tokenizer.encode_batch(texts, add_special_tokens=add_special_tokens)
        result: dict[str, Any] = {"input_ids": [item.ids for item in encoded]}
        if return_offsets_mapping:
            result["offset_mapping"] = [item.offsets for item in encoded]
        return result

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text, without special tokens."""
        self._tokenizer.no_truncation()
        tokens: list[str] = self._tokenizer.encode(text, add_special_tokens=False).tokens
        return tokens

    def num_special_tokens_to_add(self) -> int:
        """The number of special tokens of a text."""
        return int(self._tokenizer.num_special_tokens_to_add(False))


@dataclass(frozen=True)
class TokenTable:
    """The token ids of N texts in one array."""

    ids: np.ndarray  # ``(T,)`` int32, all texts concatenated
    starts: np.ndarray  # ``(N + 1,)`` int64; text i is ``ids[starts[i]:starts[i + 1]]``
    pad_id: int  # id of the padding token

    @property
    def lengths(self) -> np.ndarray:
        """``(N,)`` number of tokens of each text."""
        return np.diff(self.starts)

    def of_rows(self, rows: np.ndarray) -> "TokenTable":
        """The texts of some rows, in their order."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        # Rows 2 and 0 with ids 5..6 and 0..2 take the positions 5, 6, 0, 1, 2: each place, moved by its row's start.
        positions = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], lengths)
        return TokenTable(self.ids[positions], starts, self.pad_id)

    def truncated(self, max_tokens: int) -> "TokenTable":
        """The same texts with at most ``max_tokens`` tokens, of which the last is the text's, such as [SEP]."""
        lengths = self.lengths
        starts = np.concatenate([[0], np.cumsum(np.minimum(lengths, max_tokens))])
        # Tokens of a text are counted from 0: of 5 tokens, 3 are 0, 1 and 4.
        number = np.arange(len(self.ids)) - np.repeat(self.starts[:-1], lengths)
        is_kept = (number < max_tokens - 1) | (number == np.repeat(lengths - 1, lengths))
        return TokenTable(self.ids[is_kept], starts, self.pad_id)

    def batch(self, rows: np.ndarray) -> "tuple[Tensor, Tensor]":
        """Pads texts as ``padded`` does, and returns tensors."""
        import torch

        input_ids, attention_mask = self.padded(rows)
        return torch.from_numpy(input_ids), torch.from_numpy(attention_mask)

    def padded(self, rows: np.ndarray, length: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Pads texts to the longest one, or to a larger ``length``.

        Args:
            rows: ``(U,)`` rows of the texts.
            length: Number of tokens.

        Returns:
            ``input_ids`` and ``attention_mask``, both ``(U, L)`` int64.
        """
        chosen = self.of_rows(rows)
        lengths = chosen.lengths
        # Lengths 1 and 3 give the mask [1 0 0], [1 1 1], whose true cells take the concatenated ids in order.
        mask = np.arange(lengths.max(initial=length)) < lengths[:, None]
        input_ids = np.full(mask.shape, self.pad_id, dtype=np.int64)
        input_ids[mask] = chosen.ids
        return input_ids, mask.astype(np.int64)


def split_by_tokens(lengths: Sequence[int], budget: int) -> list[tuple[int, int]]:
    """Splits texts of ascending lengths into batches that, padded, have at most ``budget`` tokens.

    Returns:
        Start and end (exclusive) of each batch; a text longer than the budget forms a batch.
    """
    batches = []
    first = 0
    for number, length in enumerate(lengths):
        # Lengths ascend, so the current text is the longest of the batch.
        if number > first and (number - first + 1) * length > budget:
            batches.append((first, number))
            first = number
    return [*batches, (first, len(lengths))] if len(lengths) else []


def token_budget(device: "torch.device") -> int:
    """Tokens to compute at a time: as many as fit into the cache of a CPU, or fill a GPU."""
    return CPU_TOKENS if device.type == "cpu" else GPU_TOKENS


def tokenize(texts: list[str], tokenizer: "AnyTokenizer", max_tokens: int) -> TokenTable:
    """Tokenizes texts.

    Args:
        texts: N texts.
        tokenizer: The encoder's tokenizer.
        max_tokens: Maximum number of tokens, including special tokens; longer texts are truncated.

    Raises:
        ValueError: If the tokenizer has no padding token.
    """
    if tokenizer.pad_token_id is None:
        raise ValueError(
            f"the tokenizer of {tokenizer.name_or_path} has no padding token: choose an encoder that has one"
        )
    rows: list[np.ndarray] = []
    for start in track(range(0, len(texts), CHUNK_TEXTS), "tokenize"):
        chunk = texts[start : start + CHUNK_TEXTS]
        heads = [_head(text, max_tokens * CHARACTERS_PER_TOKEN) for text in chunk]
        ids = _token_ids(heads, tokenizer, max_tokens)
        for i, (head, text) in enumerate(zip(heads, chunk, strict=True)):
            # Read the whole text if its beginning has too few tokens.
            if len(head) < len(text) and len(ids[i]) < max_tokens:
                ids[i] = _token_ids([text], tokenizer, max_tokens)[0]
        rows += ids
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return TokenTable(np.concatenate(rows), starts.astype(np.int64), int(tokenizer.pad_token_id))


def cut_to_tokens(texts: list[str], tokenizer: "AnyTokenizer", budgets: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Truncates texts to their numbers of tokens, between words unless that would leave less than half of the budget.

    Args:
        texts: N texts.
        tokenizer: The encoder's tokenizer, which must be a fast one.
        budgets: ``(N,)`` maximum number of tokens of each text, without special tokens.

    Returns:
        The texts, and their ``(N,)`` numbers of tokens.
    """
    cut = list(texts)
    counts = np.zeros(len(texts), dtype=np.int64)
    budgets = np.maximum(budgets, 0)
    for start in range(0, len(texts), CHUNK_TEXTS):
        rows = range(start, min(start + CHUNK_TEXTS, len(texts)))
        # One more token than the budget tells whether a text exceeds it.
        heads = [_head(texts[row], (int(budgets[row]) + 1) * CHARACTERS_PER_TOKEN) for row in rows]
        max_tokens = int(budgets[start : start + CHUNK_TEXTS].max()) + 1
        for row, ends in zip(rows, _token_ends(heads, tokenizer, max_tokens), strict=True):
            # Read the whole text if its beginning has too few tokens.
            if len(ends) <= budgets[row] and len(heads[row - start]) < len(texts[row]):
                (ends,) = _token_ends([texts[row]], tokenizer, max_tokens)
            cut[row], counts[row] = _first_words(texts[row], ends, int(budgets[row]))
    return cut, counts


def _token_ends(texts: list[str], tokenizer: "AnyTokenizer", max_tokens: int) -> list[list[int]]:
    """The character positions at which the first tokens of each text end."""
    encoded = tokenizer(
        texts, add_special_tokens=False, truncation=True, max_length=max_tokens, return_offsets_mapping=True
    )
    return [[end for _, end in offsets] for offsets in encoded["offset_mapping"]]


def _first_words(text: str, ends: list[int], budget: int) -> tuple[str, int]:
    """The words within the budget, and their number of tokens."""
    if len(ends) <= budget:
        return text, len(ends)
    last = ends[budget - 1] if budget else 0
    kept = text[:last]
    # Within a word, go back to its start.
    if not text[last].isspace():
        kept = LAST_WORD.sub("", kept)
    kept = kept.rstrip()
    count = bisect_right(ends, len(kept))
    return (kept, count) if count >= budget / 2 else (text[:last], budget)


def poorly_covered(texts: list[str], tokenizer: "PreTrainedTokenizerBase") -> tuple[float, float]:
    """The fractions of unknown tokens and of single non-ASCII letters, which show a tokenizer unfit for the language.

    Ideographs and Kana do not count, as a single one is often a word.

    Args:
        texts: The texts; the first ``COVERED_CHARACTERS`` of each are read.
        tokenizer: A fast tokenizer.
    """
    texts = [text[:COVERED_CHARACTERS] for text in texts]
    # Without a length, transformers warns of texts that are longer than the model reads.
    encoded = tokenizer(
        texts, add_special_tokens=False, truncation=True, max_length=COVERED_CHARACTERS, return_offsets_mapping=True
    )
    unknown = tokenizer.unk_token_id
    num_tokens = 0
    num_unknown = 0
    num_letters = 0
    for text, ids, offsets in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        num_tokens += len(ids)
        num_unknown += ids.count(unknown)
        if not text.isascii():
            pieces = [text[start:end] for (start, end), token in zip(offsets, ids, strict=True) if token != unknown]
            num_letters += sum(map(_is_letter, pieces))
    return num_unknown / max(num_tokens, 1), num_letters / max(num_tokens, 1)


def _is_letter(piece: str) -> bool:
    return len(piece) == 1 and piece.isalpha() and not (piece.isascii() or "\u3040" <= piece <= "\u9fff")


def _head(text: str, characters: int) -> str:
    """The first words of a text."""
    if len(text) <= characters:
        return text
    # Cut between words, since a part of a word has different tokens.
    return text[: max(text.rfind(" ", 0, characters), text.rfind("\n", 0, characters), 0)]


def _token_ids(texts: list[str], tokenizer: "AnyTokenizer", max_tokens: int) -> list[np.ndarray]:
    encoded = tokenizer(texts, truncation=True, max_length=max_tokens, return_attention_mask=False)
    return [np.asarray(row, dtype=np.int32) for row in encoded["input_ids"]]
