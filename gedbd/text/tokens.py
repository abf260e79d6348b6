"""Texts as token numbers, tokenised once and padded a batch at a time."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from rich.progress import track
from torch import Tensor
from transformers import PreTrainedTokenizerBase

CHUNK = 1000
LAST_WORD = re.compile(r"\S+$")
CHARACTERS_A_TOKEN = 16
CACHE_SIZED, DEVICE_SIZED = 2048, 65_536


@dataclass(frozen=True)
class TokenTable:
    """The token numbers of N texts, end to end.

    Attributes:
        ids: ``(T,)`` int32, all texts one after the other.
        starts: ``(N + 1,)`` int64; text i is ``ids[starts[i]:starts[i + 1]]``.
        pad_id: Number of the padding token.
    """

    ids: np.ndarray
    starts: np.ndarray
    pad_id: int

    @property
    def lengths(self) -> np.ndarray:
        """``(N,)`` tokens of each text."""
        return np.diff(self.starts)

    def batch(self, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Pads some texts to the longest of them.

        Returns:
            ``input_ids`` and ``attention_mask``, both ``(U, L)`` int64.
        """
        lengths = self.lengths[rows]
        mask = np.arange(lengths.max(initial=1)) < lengths[:, None]
        input_ids = np.full(mask.shape, self.pad_id, dtype=np.int64)
        input_ids[mask] = np.concatenate([self.ids[self.starts[row] : self.starts[row + 1]] for row in rows])
        return torch.from_numpy(input_ids), torch.from_numpy(mask.astype(np.int64))


def split_by_tokens(lengths: Sequence[int], budget: int) -> list[tuple[int, int]]:
    """Cuts texts of ascending lengths into runs that, padded to their longest, hold at most ``budget`` tokens.

    Returns:
        First and last (exclusive) of each run; a text longer than the budget is a run of its own.
    """
    runs, first = [], 0
    for number, length in enumerate(lengths):
        if number > first and (number - first + 1) * length > budget:
            runs.append((first, number))
            first = number
    return [*runs, (first, len(lengths))] if len(lengths) else []


def token_budget(device: torch.device) -> int:
    """Tokens to compute at a time: on a CPU what its cache holds (more is slower), on a GPU what fills it."""
    return CACHE_SIZED if device.type == "cpu" else DEVICE_SIZED


def tokenize(texts: list[str], tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> TokenTable:
    """Tokenises texts with the encoder's own tokenizer, cut to ``max_tokens`` with its special tokens."""
    if tokenizer.pad_token_id is None:
        raise ValueError(
            f"the tokenizer of {tokenizer.name_or_path} has no padding token: choose an encoder that has one"
        )
    rows: list[np.ndarray] = []
    chunks = range(0, len(texts), CHUNK)
    for start in track(chunks, "tokenise") if len(chunks) > 1 else chunks:
        rows += _tokenize(texts[start : start + CHUNK], tokenizer, max_tokens)
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return TokenTable(np.concatenate(rows), starts.astype(np.int64), int(tokenizer.pad_token_id))


def cut_to_tokens(
    texts: list[str], tokenizer: PreTrainedTokenizerBase, budgets: np.ndarray
) -> tuple[list[str], np.ndarray]:
    """Cuts texts to their first words, so that each has no more tokens than it may have.

    A word is cut too where it is so long that the words before it would fill less than half.

    Args:
        texts: N texts.
        tokenizer: The encoder's tokenizer; a fast one, which tells where each token lies.
        budgets: ``(N,)`` tokens that each text may have, special tokens not counted.

    Returns:
        The texts, and the ``(N,)`` tokens that each of them has.
    """
    cut, counts = list(texts), np.zeros(len(texts), dtype=np.int64)
    budgets = np.maximum(budgets, 0)
    for start in range(0, len(texts), CHUNK):
        rows = range(start, min(start + CHUNK, len(texts)))
        heads = [_head(texts[row], (int(budgets[row]) + 1) * CHARACTERS_A_TOKEN) for row in rows]
        most = int(budgets[start : start + CHUNK].max()) + 1
        for row, ends in zip(rows, _token_ends(heads, tokenizer, most), strict=True):
            if len(ends) <= budgets[row] and len(heads[row - start]) < len(texts[row]):
                (ends,) = _token_ends([texts[row]], tokenizer, most)
            cut[row], counts[row] = _first_words(texts[row], ends, int(budgets[row]))
    return cut, counts


def _token_ends(texts: list[str], tokenizer: PreTrainedTokenizerBase, most: int) -> list[list[int]]:
    """For each text where its first tokens end, in characters."""
    options = {"add_special_tokens": False, "truncation": True, "max_length": most, "return_offsets_mapping": True}
    return [[end for _, end in offsets] for offsets in tokenizer(texts, **options)["offset_mapping"]]


def _first_words(text: str, ends: list[int], budget: int) -> tuple[str, int]:
    """The words that lie within the budget, and how many tokens they are."""
    if len(ends) <= budget:
        return text, len(ends)
    last = ends[budget - 1] if budget else 0
    kept = (text[:last] if text[last].isspace() else LAST_WORD.sub("", text[:last])).rstrip()
    count = bisect_right(ends, len(kept))
    return (kept, count) if count >= budget / 2 else (text[:last], budget)


def _tokenize(texts: list[str], tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> list[np.ndarray]:
    """Reads only the head of a very long text, and all of it if the head held too few tokens."""
    heads = [_head(text, max_tokens * CHARACTERS_A_TOKEN) for text in texts]
    ids = _numbers(heads, tokenizer, max_tokens)
    for i, (head, text) in enumerate(zip(heads, texts, strict=True)):
        if len(head) < len(text) and len(ids[i]) < max_tokens:
            ids[i] = _numbers([text], tokenizer, max_tokens)[0]
    return ids


def _head(text: str, characters: int) -> str:
    """The first words of a text. A word cut in two would be read as other tokens than the whole one."""
    if len(text) <= characters:
        return text
    return text[: max(text.rfind(" ", 0, characters), text.rfind("\n", 0, characters), 0)]


def _numbers(texts: list[str], tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> list[np.ndarray]:
    encoded = tokenizer(texts, truncation=True, max_length=max_tokens, return_attention_mask=False)
    return [np.asarray(row, dtype=np.int32) for row in encoded["input_ids"]]
