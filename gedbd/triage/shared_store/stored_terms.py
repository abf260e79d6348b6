"""Terms as a store keeps them: numbers, lists of the terms of a report, and postings.

The number of a term is a hash of it, so that no process needs a vocabulary. Any two of a hundred million terms have the
same number with a probability of 0.2%.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.reports.report_features import TERM_KINDS
from gedbd.retrieval.vocabulary import Vocabulary

KIND_BITS = 2
HASH_BITS = 61  # with those of the kind 63, so that a signed number of 64 bits is positive
BLOCK = 900  # postings in a row: as many as fit into a page of 8 kB
LIST = np.dtype([("term", "<i8"), ("count", "<i4")])  # a distinct term of a text, and how often it occurs
POSTING = np.dtype([("key", "<i4"), ("count", "<u2"), ("length", "<u2")])  # a report that has a term
MOST = np.iinfo(np.uint16).max


class HashedVocabulary(Vocabulary):
    """Numbers of terms that are hashes. It knows the terms that it has numbered.

    Args:
        remember: Whether it keeps the terms, for ``__getitem__``.
    """

    def __init__(self, remember: bool = False) -> None:
        super().__init__()
        self._terms: dict[int, str] | None = {} if remember else None

    def __getitem__(self, number: int) -> str:
        assert self._terms is not None
        return self._terms[number >> KIND_BITS]

    def __call__(self, texts: Sequence[Sequence[str]], learn: bool) -> list[np.ndarray]:
        """Texts of words as numbers, each ``(L,)`` int64; all words have one, whether they are stored or not."""
        numbered = [np.fromiter(map(hashed, text), dtype=np.int64, count=len(text)) for text in texts]
        if self._terms is not None:
            for text, numbers in zip(texts, numbered, strict=True):
                self._terms |= zip(numbers.tolist(), text, strict=True)
        return numbered


@lru_cache(maxsize=1 << 18)
def hashed(term: str) -> int:
    """The number of a term, below 2 to the power of ``HASH_BITS``."""
    return int.from_bytes(blake2b(term.encode("utf-8", "replace"), digest_size=8).digest()) >> (64 - HASH_BITS)


def of_kind(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Numbers of terms that are those of one kind only, ``(L,)`` int64."""
    return np.asarray((numbers.astype(np.int64) << KIND_BITS) | TERM_KINDS.index(kind))


def term_list(numbers: np.ndarray) -> np.ndarray:
    """The distinct terms of a text, ascending, and their counts, ``(T,)`` of ``LIST``."""
    terms, counts = np.unique(numbers, return_counts=True)
    found = np.empty(len(terms), dtype=LIST)
    found["term"], found["count"] = terms, counts
    return found


class PostingsRow(NamedTuple):
    """Some of the reports that have a term. The fields are columns of the table of postings.

    Attributes:
        term: The term's number.
        first: The lowest key of these reports.
        last: The highest one.
        n: How many reports they are.
        loose: Whether more rows of the term may be joined with it.
        docs: The reports as ``POSTING``, ascending, as bytes.
    """

    term: int
    first: int
    last: int
    n: int
    loose: bool
    docs: bytes


def postings_rows(
    keys: Sequence[int], lists: Mapping[str, Sequence[np.ndarray]], lengths: Mapping[str, Sequence[int]], loose: bool
) -> Iterator[PostingsRow]:
    """The rows of postings of some reports.

    Args:
        keys: The reports, ascending.
        lists: The lists of their terms, by kind.
        lengths: How many terms each text has, by kind.
        loose: See ``PostingsRow``.
    """
    for kind in TERM_KINDS:
        sizes = np.array([len(one) for one in lists[kind]], dtype=np.int64)
        joined = np.concatenate([np.empty(0, dtype=LIST), *lists[kind]])
        docs = np.empty(len(joined), dtype=POSTING)
        docs["key"] = np.repeat(np.asarray(keys, dtype=np.int32), sizes)
        docs["count"] = joined["count"].clip(max=MOST)
        docs["length"] = np.repeat(np.asarray(lengths[kind]).clip(max=MOST), sizes)
        order = np.argsort(joined["term"], kind="stable")  # the keys of each term stay ascending
        yield from term_rows(joined["term"][order], docs[order], loose)


def term_rows(terms: np.ndarray, docs: np.ndarray, loose: bool) -> Iterator[PostingsRow]:
    """Rows of ``BLOCK`` postings and fewer, from a term and a posting each, ``(P,)`` in the order of terms and keys."""
    starts = np.flatnonzero(np.diff(terms, prepend=-1))
    ends = np.append(starts[1:], len(terms))
    plain = docs.tobytes()
    for term, start, end in zip(terms[starts].tolist(), starts.tolist(), ends.tolist(), strict=True):
        for first in range(start, end, BLOCK):
            last = min(first + BLOCK, end)
            part = plain[first * POSTING.itemsize : last * POSTING.itemsize]
            yield PostingsRow(term, int(docs["key"][first]), int(docs["key"][last - 1]), last - first, loose, part)


def without_keys(docs: bytes, keys: np.ndarray) -> np.ndarray:
    """Postings without those of some reports, ``(P,)`` of ``POSTING``."""
    known = np.frombuffer(docs, dtype=POSTING)
    return known[~np.isin(known["key"], keys)]
