"""An index on a PostgreSQL server with pgvector: reports, vectors, postings, links, and the model that encoded them.

Why PostgreSQL and not a vector database: a change of a report changes its vector, its words, its group and the model's
facts together, which needs transactions over all of them; searches see one state of it while another is written.

The number of a term is a hash of it, so that no process needs a vocabulary. Among a hundred
million terms, any two have the same number with a probability of 0.2%.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import Any

import numpy as np

from gedbd.corpora.bug_report import DATES, FIELDS, Report, as_table, plain_component
from gedbd.corpora.relevance import find_groups
from gedbd.io.console import track
from gedbd.io.sqlite_file import LOCK_TIMEOUT_S, MARKS, StoreUnavailable
from gedbd.retrieval.inverted_index import Vocabulary
from gedbd.retrieval.report_ranking.feature_store import MEAN_STEP, TERM_KINDS, UNIT, days_of, terms_of, whole_numbers
from gedbd.triage.storage.postgres_connections import ServerConnections, without_nul
from gedbd.triage.storage.report_store import (
    TERM_COLUMNS,
    Link,
    ReportOrFilters,
    ReportStore,
    report_values,
    written_date,
)

NAME = "gedbd"  # of the schema that holds the tables
FORMER = "gedbd_former"  # of the tables of another model while it is replaced
FORMAT = 1
# Locks of the whole database. A writer takes the first one before it locks any table, so that writers do not
# deadlock; gedbd index holds the second one.
WRITER = 0x6764_6264
CORPUS = 0x6764_6265
PATH = f"SET LOCAL search_path = {NAME}, public"
TIMEOUT = "SET LOCAL lock_timeout = {}"
BEGIN_READING = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    PATH,
    # Before the first statement that reads, which fixes the snapshot: waits while tables are replaced.
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
NEAREST += " WITH (ef_construction = 128)"  # twice pgvector's default: 1% of the nearest vectors are missed, not 2%
# Links of some reports, and of reports that links connect with them, also through deleted reports.
LINKED = """
WITH RECURSIVE reached(id) AS (
    SELECT unnest(%s::text[]) UNION
    SELECT other.id FROM reached JOIN LATERAL (
        SELECT duplicate AS id FROM links WHERE report = reached.id UNION ALL
        SELECT report FROM links WHERE duplicate = reached.id
    ) other ON true
) SELECT report, duplicate FROM links WHERE report IN (SELECT id FROM reached)"""
# The components that contain a text between commas, read from the index instead of from all reports.
COMPONENTS = """
WITH RECURSIVE components(name) AS (
    SELECT min(plain_component) FROM reports UNION ALL
    SELECT (SELECT min(plain_component) FROM reports WHERE plain_component > name) FROM components
    WHERE name IS NOT NULL
) SELECT name FROM components WHERE position(%s IN ', ' || name || ', ') > 0"""
ADD_POSTINGS = """
INSERT INTO postings SELECT * FROM fresh_postings
ON CONFLICT (term, block) DO UPDATE SET docs = postings.docs || excluded.docs"""
HASH_BITS = 61  # a number and its kind fit into a positive number of 64 bits
BLOCK = 4096  # number of keys of reports whose postings of a term share a row
LIST = np.dtype([("term", "<i8"), ("count", "<i4")])  # a distinct term of a text, and how often it occurs
POSTING = np.dtype([("key", "<i4"), ("count", "<u2"), ("length", "<u2")])  # a report that has a term
MAX_COUNT = np.iinfo(np.uint16).max
MIN_NEAREST = 100_000  # reports from which on vectors get an index; comparing fewer with a query takes 50 ms
MAX_NEAREST_DIM = 4000  # of pgvector's indexes
WRITTEN_AT_ONCE = 16 * BLOCK  # reports, whose terms are held in memory
REMOVED_AT_ONCE = 1000
LISTS = ", ".join(TERM_COLUMNS)
REPORT_TYPES = ("int4", *["text"] * (len(FIELDS) + 1), "int4", "text", "float8", "float8", "int4[]", *["bytea"] * 4)
POSTING_TYPES = ("int8", "int4", "bytea")
VECTOR_HEAD = np.dtype([("dim", ">i2"), ("unused", ">i2")])  # of a vector as pgvector sends it


class HashedVocabulary(Vocabulary):
    """A vocabulary that numbers each word by its hash, and names the words that it has numbered."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[int, str] = {}

    def __getitem__(self, number: int) -> str:
        return self._names[number]

    def __call__(self, texts: Sequence[Sequence[str]], learn: bool) -> list[np.ndarray]:
        """Converts texts to the numbers of their words, each ``(L,)`` int64; learned words cannot be named."""
        if not learn:
            self._names |= {_hash(word): word for text in texts for word in text}
        return [np.fromiter(map(_hash, text), dtype=np.int64, count=len(text)) for text in texts]


@lru_cache(maxsize=1 << 18)
def _hash(term: str) -> int:
    return int.from_bytes(blake2b(term.encode("utf-8", "replace"), digest_size=8).digest()) >> (64 - HASH_BITS)


def of_kind(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Adds one of ``TERM_KINDS`` to numbers of terms, so that kinds do not share numbers."""
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
    """The postings of reports with ascending keys: term, block of keys, and the reports in this block as ``POSTING``.

    ``lists`` are the lists of their terms, and ``lengths`` the numbers of terms of each text, by kind.
    """
    for kind in TERM_KINDS:
        sizes = [len(terms_of_report) for terms_of_report in lists[kind]]
        joined = np.concatenate([np.empty(0, dtype=LIST), *lists[kind]])
        docs = np.empty(len(joined), dtype=POSTING)
        docs["key"] = np.repeat(np.asarray(keys, dtype=np.int32), sizes)
        docs["count"] = joined["count"].clip(max=MAX_COUNT)
        docs["length"] = np.repeat(np.asarray(lengths[kind]).clip(max=MAX_COUNT), sizes)
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


@dataclass
class Totals:
    """Statistics of all reports, which each transaction updates."""

    count: int = 0  # number of reports
    next_key: int = 0  # the key of the next new report
    lengths: Sequence[int] = (0,) * len(TERM_KINDS)  # total number of terms of all reports, for each of ``TERM_KINDS``
    # ``(D,)`` the sum of the vectors as ``whole_numbers``; one 0 before the first report
    vector_sum: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    # ``(D,)`` see ``FeatureStore.mean_vector``
    mean_vector: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.float32))
    touched: set[str] = field(default_factory=set)  # ids of reports whose groups may have changed

    def add(self, sign: int, vectors: np.ndarray, lengths: Iterable[Sequence[int]]) -> None:
        """Adds reports to the sums, or subtracts them if ``sign`` is -1."""
        self.vector_sum = self.vector_sum + sign * whole_numbers(vectors).sum(axis=0)
        added = np.array(list(lengths), dtype=np.int64).reshape(-1, len(TERM_KINDS)).sum(axis=0)
        self.lengths = (np.asarray(self.lengths) + sign * added).tolist()


class PostgresStore(ReportStore):
    """One index. Threads, processes and machines may share it; they see complete changes only.

    Args:
        url: See ``ServerConnections``.
        create: Whether to accept a database without an index.
        timeout_s: How long to wait for a lock of another process, in seconds.

    Raises:
        ValueError: If the address is invalid, the server cannot be used, or there is no index.
    """

    key_column = "key"

    def __init__(self, url: str, create: bool = True, timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self.server = ServerConnections(url)  # the connections
        self.path = self.server.public_url  # the address without the password
        self._timeout = TIMEOUT.format(round(1000 * timeout_s))
        self._totals: Totals | None = None
        try:
            if not self.is_empty:
                ((version,),) = self.server.query(f"SELECT format FROM {NAME}.totals")
                if version != FORMAT:
                    cure = f"run DROP SCHEMA {NAME} CASCADE there and build it again with gedbd index"
                    raise ValueError(f"{self.path} has format {version}, this version reads {FORMAT}: {cure}")
            elif create:
                self.server.query("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
            else:
                raise ValueError(f"{self.path} holds no index: build one with gedbd index store=... dataset=...")
        except StoreUnavailable as error:
            self.close()
            raise ValueError(str(error)) from error.__cause__
        except ValueError:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connections."""
        self.server.close()

    def snapshot(self) -> AbstractContextManager[None]:
        """Runs a read-only transaction, which sees the state at its beginning."""
        return self.server.transaction(self._timeout, *BEGIN_READING)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Runs a transaction that changes the index; one process at a time."""
        with self.server.transaction(self._timeout, *BEGIN_WRITING):
            self._totals = Totals() if self.is_empty else self.totals()
            try:
                yield
                self._finish(self._totals)
            finally:
                self._totals = None

    @contextmanager
    def sole_builder(self) -> Iterator[None]:
        """A lock for storing a corpus: two at once would leave reports of both. Raises ValueError if it is held."""
        with self.server.connection() as connection:
            ((is_free,),) = connection.execute("SELECT pg_try_advisory_lock(%s)", [CORPUS]).fetchall()
            if not is_free:
                raise ValueError(f"{self.path}: the index is updated with a corpus by another process: wait for it")
            yield
            connection.execute("SELECT pg_advisory_unlock(%s)", [CORPUS])

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written yet."""
        return self.server.query(f"SELECT to_regclass('{NAME}.totals')::text")[0][0] is None

    def totals(self) -> Totals:
        """The totals in the transaction of this thread."""
        ((count, next_key, lengths, total, mean),) = self.server.query(
            "SELECT count, next_key, lengths, vector_sum, mean_vector FROM totals"
        )
        return Totals(count, next_key, lengths, np.frombuffer(total, np.int64), np.frombuffer(mean, np.float32))

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement, in the transaction of this thread or in a separate read-only one."""
        with self.snapshot():
            return self.server.query(statement.replace("?", "%s"), *values)

    def select(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows of a query with ``MARKS`` in place of a list of values; none without values."""
        return self.query(query.replace(f"IN {MARKS}", "= ANY(?)"), list(values)) if values else []

    def storable(self, item: ReportOrFilters) -> ReportOrFilters:
        """A report, or filters of reports, without NUL characters."""
        return replace(item, **{name: without_nul(value) for name, value in vars(item).items()})

    def touch(self, ids: Iterable[str]) -> None:
        """Records reports whose groups are updated at the end of the transaction."""
        self._changing().touched |= set(ids)

    def count(self) -> int:
        """Number of reports."""
        return int(self.query("SELECT count FROM totals")[0][0])

    def clear_model(self) -> None:
        """Deletes the model and its reports.

        Searches use the former tables until the transaction ends. Nothing is deleted row by row, and vectors may have
        another size.
        """
        query = self.server.query
        touched = self._changing().touched
        had_tables = not self.is_empty
        if had_tables:
            query(f"ALTER SCHEMA {NAME} RENAME TO {FORMER}")
        for statement in CREATE.split(";\n"):
            query(statement)
        if had_tables:
            links = query(f"INSERT INTO links SELECT * FROM {FORMER}.links RETURNING report, duplicate")
            touched |= set(chain.from_iterable(links))
        self._totals = Totals(touched=touched)

    def write_reports(self, reports: Sequence[Report], vectors: Sequence[np.ndarray]) -> None:
        """Appends reports with their vectors, each ``(D,)``; one with a stored id replaces that report in place."""
        for start in track(range(0, len(reports), WRITTEN_AT_ONCE), "write the index"):
            batch = slice(start, start + WRITTEN_AT_ONCE)
            self._write_batch(reports[batch], vectors[batch])

    def _write_batch(self, reports: Sequence[Report], vectors: Sequence[np.ndarray]) -> None:
        totals = self._changing()
        ids = [report.issue_id for report in reports]
        known = dict(self.server.query("SELECT issue_id, key FROM reports WHERE issue_id = ANY(%s)", ids))
        fresh = [issue_id for issue_id in ids if issue_id not in known]
        key_of = known | {issue_id: key for key, issue_id in enumerate(fresh, start=totals.next_key)}
        order = sorted(range(len(reports)), key=lambda position: key_of[ids[position]])
        reports = [reports[position] for position in order]
        matrix = np.asarray([vectors[position] for position in order], dtype=np.float32)
        keys = [key_of[report.issue_id] for report in reports]
        self._remove(list(known.values()))
        table = as_table(reports)
        texts = terms_of(table, HashedVocabulary(), learn=True)
        lists = {kind: list(map(term_list, texts[kind])) for kind in TERM_KINDS}
        lengths = {kind: list(map(len, texts[kind])) for kind in TERM_KINDS}
        own_lengths = list(zip(*lengths.values(), strict=True))
        days = zip(*(map(_or_none, days_of(table[name]).tolist()) for name in DATES), strict=True)
        rows = (
            (key, *report_values(report), key, plain_component(report.component), *own_days, list(sizes), *own_lists)
            for key, report, own_days, sizes, own_lists in zip(
                keys, reports, days, own_lengths, zip(*lists.values(), strict=True), strict=True
            )
        )
        self.server.copy("reports", REPORT_TYPES, rows)
        head = np.array((matrix.shape[1], 0), dtype=VECTOR_HEAD).tobytes()
        sent = (head + vector.tobytes() for vector in matrix.astype(">f4"))
        self.server.copy("vectors", ("int4", "bytea"), zip(keys, sent, strict=True))
        postings = postings_rows(keys, lists, lengths)
        if known or totals.next_key % BLOCK:
            # Some of their blocks may already have rows with other reports.
            self.server.query("CREATE TEMPORARY TABLE fresh_postings (LIKE postings) ON COMMIT DROP")
            self.server.copy("fresh_postings", POSTING_TYPES, postings)
            self.server.query(ADD_POSTINGS)
            self.server.query("DROP TABLE fresh_postings")
        else:
            self.server.copy("postings", POSTING_TYPES, postings)
        totals.add(1, matrix, own_lengths)
        totals.count += len(reports)
        totals.next_key += len(fresh)
        totals.touched |= set(ids)

    def delete(self, ids: Iterable[str]) -> None:
        """Deletes reports. Their links stay: two duplicates of a deleted report are still duplicates of each other."""
        given = list(ids)
        keys = [key for (key,) in self.server.query("SELECT key FROM reports WHERE issue_id = ANY(%s)", given)]
        self._remove(keys)
        self.server.query("INSERT INTO holes SELECT unnest(%s::int[])", keys)
        self.touch(given)

    def forget(self, ids: Sequence[str]) -> list[str]:
        """Erases reports; the server overwrites the bytes later, see ``docs/guides/large.md``."""
        with self.transaction():
            missing = self.erase(ids)
        self.tidy()
        return missing

    def write_links(self, links: Iterable[Link]) -> None:
        """Adds links, each of a report, its duplicate and a source."""
        columns = [list(column) for column in zip(*links, strict=True)] or [[], [], []]
        add = "INSERT INTO links SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]) ON CONFLICT DO NOTHING"
        self.server.query(add, *columns)
        self.touch((*columns[0], *columns[1]))

    def write_not_encoded(self, reports: Iterable[Report]) -> None:
        """Updates the fields of stored reports that are not encoded: addresses and dates of resolution."""
        given = list(reports)
        days = map(_or_none, days_of(as_table(given)["resolved_at"]).tolist())
        update = "UPDATE reports SET url = %s, resolved_at = %s, resolved = %s WHERE issue_id = %s"
        for report, day in zip(given, days, strict=True):
            self.server.query(update, report.url, written_date(report.resolved_at), day, report.issue_id)

    def tidy(self) -> None:
        """Frees the space of deleted rows, and updates the statistics of the query planner."""
        with self.server.connection() as connection:
            for name in ("reports", "vectors", "postings", "links", "holes"):
                connection.execute(f"VACUUM (ANALYZE) {NAME}.{name}")

    def _changing(self) -> Totals:
        assert self._totals is not None
        return self._totals

    def _remove(self, keys: list[int]) -> None:
        """Deletes the rows of reports, and subtracts them from the totals."""
        query = self.server.query
        select = f"SELECT lengths, vector, {LISTS} FROM reports JOIN vectors USING (key) WHERE key = ANY(%s)"
        delete = "DELETE FROM postings USING unnest(%s::bigint[], %s::int[]) AS old (term, block)"
        delete += " WHERE postings.term = old.term AND postings.block = old.block RETURNING postings.*"
        for start in range(0, len(keys), REMOVED_AT_ONCE):
            batch = keys[start : start + REMOVED_AT_ONCE]
            rows = query(select, batch)
            lists = [
                of_kind(np.frombuffer(b"".join(row[2 + number] for row in rows), dtype=LIST)["term"], kind)
                for number, kind in enumerate(TERM_KINDS)
            ]
            terms, blocks = np.meshgrid(np.unique(np.concatenate(lists)), np.unique(np.array(batch) // BLOCK))
            kept = []
            for term, block, docs in query(delete, terms.ravel().tolist(), blocks.ravel().tolist()):
                postings = np.frombuffer(docs, dtype=POSTING)
                rest = postings[~np.isin(postings["key"], batch)]
                if len(rest):
                    kept.append((term, block, rest.tobytes()))
            self.server.copy("postings", POSTING_TYPES, kept)
            self._changing().add(-1, read_vectors([row[1] for row in rows]), [row[0] for row in rows])
            self._changing().count -= len(batch)
            for table in ("reports", "vectors"):
                query(f"DELETE FROM {table} WHERE key = ANY(%s)", batch)

    def _finish(self, totals: Totals) -> None:
        """Updates groups, the mean vector and totals at the end of a transaction."""
        query = self.server.query
        self._regroup(totals.touched)
        steps = totals.count // MEAN_STEP
        last = query("SELECT vector FROM vectors ORDER BY key DESC LIMIT %s", totals.count % MEAN_STEP)
        total = totals.vector_sum - whole_numbers(read_vectors([vector for (vector,) in last])).sum(axis=0)
        totals.mean_vector = (total / (max(steps, 1) * MEAN_STEP * UNIT)).astype(np.float32)
        query(
            "UPDATE totals SET count = %s, next_key = %s, lengths = %s, vector_sum = %s, mean_vector = %s",
            *(totals.count, totals.next_key, list(totals.lengths)),
            *(totals.vector_sum.tobytes(), totals.mean_vector.tobytes()),
        )
        dim = len(totals.vector_sum)
        has_nearest = query("SELECT to_regclass('nearest') IS NOT NULL")[0][0]
        if totals.count >= MIN_NEAREST and dim <= MAX_NEAREST_DIM and not has_nearest:
            query(NEAREST.format(dim=dim))
        # Running searches end first; those that begin meanwhile wait for the new tables.
        query(f"DROP SCHEMA IF EXISTS {FORMER} CASCADE")

    def _regroup(self, touched: set[str]) -> None:
        """Writes the groups of reports: the lowest key among those that links connect, also through deleted reports."""
        links = self.server.query(LINKED, list(touched))
        names = list(touched.union(chain.from_iterable(links)))
        position_of = {name: position for position, name in enumerate(names)}
        ends = np.array([position_of[end] for end in chain.from_iterable(links)], dtype=np.int64).reshape(-1, 2)
        component = find_groups(ends.T, len(names))
        rows = self.server.query("SELECT key, grp, issue_id FROM reports WHERE issue_id = ANY(%s) ORDER BY key", names)
        lowest: dict[int, int] = {}
        changed = {}
        for key, former, name in rows:
            group = lowest.setdefault(int(component[position_of[name]]), key)
            if group != former:
                changed[key] = group
        update = "UPDATE reports SET grp = new.grp FROM unnest(%s::int[], %s::int[]) AS new (key, grp)"
        self.server.query(f"{update} WHERE reports.key = new.key", list(changed), list(changed.values()))


def _or_none(day: float) -> float | None:
    return None if np.isnan(day) else day


def read_vectors(sent: Sequence[bytes]) -> np.ndarray:
    """Vectors as pgvector sends them, ``(R, D)`` float32."""
    if not sent:
        return np.empty((0, 1), dtype=np.float32)
    dim = int(np.frombuffer(sent[0], dtype=VECTOR_HEAD, count=1)["dim"][0])
    rows = np.frombuffer(b"".join(sent), dtype=[("head", VECTOR_HEAD), ("vector", ">f4", (dim,))])
    return rows["vector"].astype(np.float32)
