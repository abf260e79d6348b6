"""Terms as a server keeps them: numbers, lists of the terms of a report, and postings.

The number of a term is a hash of it, so that no process needs a vocabulary. Any two of a hundred million terms have the
same number with a probability of 0.2%.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from gedbd.retrieval.reports.report_features import TERM_KINDS
from gedbd.retrieval.vocabulary import Vocabulary

HASH_BITS = 61  # a number and its kind fit into a positive number of 64 bits
BLOCK = 4096  # keys of the reports whose postings of a term are one row
LIST = np.dtype([("term", "<i8"), ("count", "<i4")])  # a distinct term of a text, and how often it occurs
POSTING = np.dtype([("key", "<i4"), ("count", "<u2"), ("length", "<u2")])  # a report that has a term
MOST = np.iinfo(np.uint16).max


class HashedVocabulary(Vocabulary):
    """Numbers of terms that are hashes: all words have one. It names the terms that it has numbered."""

    def __init__(self) -> None:
        super().__init__()
        self._named: dict[int, str] = {}

    def __getitem__(self, number: int) -> str:
        return self._named[number]

    def __call__(self, texts: Sequence[Sequence[str]], learn: bool) -> list[np.ndarray]:
        """Texts of words as numbers, each ``(L,)`` int64; if they are learned, they cannot be named."""
        if not learn:
            self._named |= {_hashed(word): word for text in texts for word in text}
        return [np.fromiter(map(_hashed, text), dtype=np.int64, count=len(text)) for text in texts]


@lru_cache(maxsize=1 << 18)
def _hashed(term: str) -> int:
    return int.from_bytes(blake2b(term.encode("utf-8", "replace"), digest_size=8).digest()) >> (64 - HASH_BITS)


def of_kind(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Numbers of terms of one kind of ``TERM_KINDS``, which no term of another kind has."""
    return np.asarray(numbers | (TERM_KINDS.index(kind) << HASH_BITS))


def term_list(numbers: np.ndarray) -> np.ndarray:
    """The distinct terms of a text, ascending, and their counts, ``(T,)`` of ``LIST``."""
    terms, counts = np.unique(numbers, return_counts=True)
    found = np.empty(len(terms), dtype=LIST)
    found["term"] = terms
    found["count"] = counts
    return found


def postings_rows(
    keys: Sequence[int], lists: Mapping[str, Sequence[np.ndarray]], lengths: Mapping[str, Sequence[int]]
) -> Iterator[tuple[int, int, bytes]]:
    """The postings of some reports: a term, a block of keys, and the reports among these as ``POSTING``.

    Args:
        keys: The reports, ascending.
        lists: The lists of their terms, by kind.
        lengths: How many terms each text has, by kind.
    """
    for kind in TERM_KINDS:
        sizes = [len(one) for one in lists[kind]]
        joined = np.concatenate([np.empty(0, dtype=LIST), *lists[kind]])
        docs = np.empty(len(joined), dtype=POSTING)
        docs["key"] = np.repeat(np.asarray(keys, dtype=np.int32), sizes)
        docs["count"] = joined["count"].clip(max=MOST)
        docs["length"] = np.repeat(np.asarray(lengths[kind]).clip(max=MOST), sizes)
        order = np.argsort(joined["term"], kind="stable")  # the keys of each term stay ascending
        terms = of_kind(joined["term"][order], kind)
        docs = docs[order]
        blocks = docs["key"] // BLOCK
        is_first = (np.diff(terms, prepend=-1) != 0) | (np.diff(blocks, prepend=-1) != 0)
        starts = np.flatnonzero(is_first)
        plain = docs.tobytes()
        ends = [POSTING.itemsize * end for end in (*starts[1:].tolist(), len(docs))]
        first = 0
        for term, block, end in zip(terms[starts].tolist(), blocks[starts].tolist(), ends, strict=False):
            yield term, block, plain[first:end]
            first = end
