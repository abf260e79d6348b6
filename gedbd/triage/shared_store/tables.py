"""The tables of an index on a PostgreSQL server, statements about them, and the terms and postings in them.

The number of a term is a hash of it, so that no process needs a vocabulary. Any two of a hundred million terms have the
same number with a probability of 0.2%.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from gedbd.corpora.bug_report import DATES, FIELDS
from gedbd.retrieval.reports.report_features import TERM_KINDS
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.triage.storage.report_store import TERM_COLUMNS

NAME = "gedbd"  # of the schema that holds the tables
FORMER = "gedbd_former"  # of the tables of another model while it is replaced
FORMAT = 1
# Locks of the whole database. A writer takes the first one before it locks any table, so that no two wait for each
# other; gedbd index holds the second one.
WRITER = 0x6764_6264
CORPUS = 0x6764_6265
PATH = f"SET LOCAL search_path = {NAME}, public"
TIMEOUT = "SET LOCAL lock_timeout = {}"
BEGIN_READING = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    PATH,
    # Before the first statement that reads, at which all see one state: it waits while tables are replaced.
    f"LOCK TABLE {NAME}.totals IN ACCESS SHARE MODE",
    "SET LOCAL jit = off",
    "SET LOCAL hnsw.ef_search = 1000",
    "SET LOCAL hnsw.iterative_scan = relaxed_order",
    "SET LOCAL hnsw.max_scan_tuples = 200000",
)
BEGIN_WRITING = (f"SELECT pg_advisory_xact_lock({WRITER})", PATH)
# Words and vectors do not compress. Those of a report stay in its row, from which its description may be moved.
PLAIN = ";\n".join(f"ALTER TABLE reports ALTER {name} SET STORAGE MAIN" for name in TERM_COLUMNS)
CREATE = f"""
CREATE SCHEMA {NAME};
CREATE TABLE about (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE weights (part serial PRIMARY KEY, data bytea NOT NULL);
CREATE TABLE totals (
    format int NOT NULL, count int NOT NULL, next_key int NOT NULL, lengths bigint[] NOT NULL,
    vector_sum bytea NOT NULL, mean_vector bytea NOT NULL
);
CREATE TABLE reports (
    key int PRIMARY KEY,
    {", ".join(f"{name} text" if name in DATES else f"{name} text NOT NULL" for name in FIELDS)},
    content text NOT NULL, grp int NOT NULL, plain_component text NOT NULL, day float8, resolved float8,
    lengths int[] NOT NULL, {", ".join(f"{name} bytea NOT NULL" for name in TERM_COLUMNS)}
);
{PLAIN};
CREATE UNIQUE INDEX ON reports (issue_id);
CREATE INDEX ON reports (grp);
CREATE INDEX ON reports (plain_component, key);
CREATE INDEX ON reports (day);
CREATE INDEX ON reports (resolved);
CREATE TABLE vectors (key int PRIMARY KEY, vector vector NOT NULL);
ALTER TABLE vectors ALTER vector SET STORAGE MAIN;
CREATE TABLE postings (term bigint, block int, docs bytea NOT NULL, PRIMARY KEY (term, block));
ALTER TABLE postings ALTER docs SET STORAGE EXTERNAL;
CREATE TABLE holes (key int PRIMARY KEY);
CREATE TABLE links (report text, duplicate text, source text, PRIMARY KEY (report, duplicate, source));
CREATE INDEX ON links (duplicate);
INSERT INTO totals VALUES ({FORMAT}, 0, 0, ARRAY[0, 0, 0, 0], '', '')"""
NEAREST = "CREATE INDEX nearest ON vectors USING hnsw ((vector::halfvec({dim})) halfvec_ip_ops)"
# Reports and links that are connected with some reports, deleted ones included.
LINKED = """
WITH RECURSIVE reached(id) AS (
    SELECT unnest(%s::text[]) UNION
    SELECT other.id FROM reached JOIN LATERAL (
        SELECT duplicate AS id FROM links WHERE report = reached.id UNION ALL
        SELECT report FROM links WHERE duplicate = reached.id
    ) other ON true
) SELECT report, duplicate FROM links WHERE report IN (SELECT id FROM reached)"""
# The components with a text between commas. The index gives each at once, without reading all reports.
COMPONENTS = """
WITH RECURSIVE named(one) AS (
    SELECT min(plain_component) FROM reports UNION ALL
    SELECT (SELECT min(plain_component) FROM reports WHERE plain_component > one) FROM named WHERE one IS NOT NULL
) SELECT one FROM named WHERE position(%s IN ', ' || one || ', ') > 0"""
ADD_POSTINGS = """
INSERT INTO postings SELECT * FROM fresh_postings
ON CONFLICT (term, block) DO UPDATE SET docs = postings.docs || excluded.docs"""
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
    listed = np.empty(len(terms), dtype=LIST)
    listed["term"] = terms
    listed["count"] = counts
    return listed


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
        sizes = [len(terms_of_report) for terms_of_report in lists[kind]]
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
