"""An index on a PostgreSQL server with pgvector: reports, vectors, postings, links, and the model that encoded them.

Why PostgreSQL and not a vector database: a change of a report changes its vector, its words, its group and the model's
facts together, which needs transactions over all of them; searches see one state of it while another is written.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from gedbd.corpora.fields import product_names
from gedbd.corpora.relevance import find_groups
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.retrieval.reports.feature_store import MEAN_STEP, UNIT, whole_numbers
from gedbd.retrieval.reports.report_features import FIELDS as CATEGORIES
from gedbd.retrieval.reports.report_features import EMPTY, TERM_KINDS, days_of, terms_of
from gedbd.triage.bug_report import DATES, FIELDS, Report, as_table
from gedbd.triage.shared_store import tables
from gedbd.triage.shared_store.connections import LOCK_TIMEOUT_S, ServerConnections
from gedbd.triage.shared_store.stored_terms import (
    BLOCK,
    LIST,
    POSTING,
    HashedVocabulary,
    PostingsRow,
    hashed,
    of_kind,
    postings_rows,
    term_list,
    term_rows,
    without_keys,
)
from gedbd.triage.storage.index_store import bridging_links, calibration_without
from gedbd.triage.storage.rows import TERM_COLUMNS, Version, report_from_values, written_date

MIN_NEAREST = 100_000  # reports from which on vectors get an index; comparing fewer with a query takes 50 ms
MAX_NEAREST_DIM = 4000  # of pgvector's indexes
WRITTEN_AT_ONCE = 1 << 18  # reports, whose terms are held in memory
MAX_LOOSE = 1000  # reports whose postings are rows of their own
TERMS_AT_ONCE = 2000
MAX_TOUCHED = 2000  # reports whose groups are looked up one by one
CHUNK_BYTES = 1 << 26  # of the weights
COLUMNS = ", ".join(FIELDS)
LISTS = ", ".join(TERM_COLUMNS)
VECTOR_HEAD = np.dtype([("dim", ">i2"), ("unused", ">i2")])  # of a vector as pgvector sends it
NUL = "\ufffd"  # what takes the place of NUL characters, which PostgreSQL cannot store
LINKED = """
WITH RECURSIVE reached(id) AS (
    SELECT unnest(%s::text[]) UNION
    SELECT other.id FROM reached JOIN LATERAL (
        SELECT duplicate AS id FROM links WHERE report = reached.id UNION ALL
        SELECT report FROM links WHERE duplicate = reached.id
    ) other ON true
) SELECT report, duplicate FROM links WHERE report IN (SELECT id FROM reached)"""


@dataclass
class StoreChange:
    """A transaction in progress, and the totals of all reports as it leaves them.

    Attributes:
        count: Number of reports.
        next_key: The lowest key that no report has had.
        lengths: How many terms of each of ``TERM_KINDS`` all reports have together.
        loose: How many reports have postings in rows of their own.
        vector_sum: ``(D,)`` the sum of the vectors as ``whole_numbers``.
        mean_vector: ``(D,)`` see ``FeatureStore.mean_vector``.
        is_fresh: Whether all tables are new and take the place of the old ones at the end.
        touched: Ids of reports whose groups may have changed; None for all.
        moved: Whether the mean is of other reports than before.
    """

    count: int
    next_key: int
    lengths: list[int]
    loose: int
    vector_sum: np.ndarray
    mean_vector: np.ndarray
    is_fresh: bool = False
    touched: set[str] | None = field(default_factory=set)
    moved: bool = False

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> "StoreChange":
        """From the columns of the table of totals behind the format."""
        count, next_key, lengths, loose, vector_sum, mean = row
        return cls(
            count,
            next_key,
            list(lengths),
            loose,
            np.frombuffer(vector_sum, dtype=np.int64),
            np.frombuffer(mean, dtype=np.float32),
        )

    def touch(self, ids: Iterable[str]) -> None:
        """Marks reports whose groups may have changed."""
        if self.touched is not None:
            self.touched |= set(ids)
            if len(self.touched) > MAX_TOUCHED:
                self.touched = None


class PostgresStore:
    """One index. Threads, processes and machines may share it; they see complete changes only.

    It offers what ``IndexStore`` offers, and raises ``StoreUnavailable`` likewise.

    Args:
        url: See ``ServerConnections``.
        create: Whether there may be no index yet.
        timeout_s: How long to wait for a lock that another process has.

    Attributes:
        path: The address without the password.
        server: The connections.

    Raises:
        ValueError: If the address is invalid, the server cannot be used, or there is no index.
    """

    def __init__(self, url: str, create: bool = True, timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self.server = ServerConnections(url)
        self.path = self.server.shown
        self._timeout_s = timeout_s
        self._change: StoreChange | None = None
        try:
            self._check(create)
        except StoreUnavailable as error:
            self.close()
            raise ValueError(str(error)) from error.__cause__
        except BaseException:
            self.close()
            raise

    def _check(self, create: bool) -> None:
        if self.is_empty:
            if not create:
                raise ValueError(f"{self.path} holds no index: build one with gedbd index store={self.path}")
            with self.server.alone() as connection:
                connection.execute(tables.EXTENSION)
            return
        ((version,),) = self.server.query(f"SELECT format FROM {tables.NAME}.totals")
        if version != tables.FORMAT:
            cure = f"run DROP SCHEMA {tables.NAME} CASCADE there and build it again with gedbd index"
            raise ValueError(f"{self.path} has format {version}, this version reads {tables.FORMAT}: {cure}")

    def close(self) -> None:
        """Closes the connections."""
        self.server.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A transaction that only reads, and sees the state at its beginning."""
        if self.server.is_in_transaction:
            yield
            return
        with self.server.transaction(read_only=True, lock_timeout_s=self._timeout_s) as connection:
            # While another model takes the place of this one, the lock waits for the new tables.
            connection.execute(tables.BEGIN_READING)
            yield

    @contextmanager
    def transaction(self) -> Iterator[StoreChange]:
        """A change by one process at a time; all of it is stored, or nothing."""
        with self.server.transaction(read_only=False, lock_timeout_s=self._timeout_s) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [tables.WRITER])
            connection.execute(tables.PATH.format(tables.NAME))
            if self.is_empty:
                change = StoreChange(0, 0, [0] * len(TERM_KINDS), 0, np.empty(0, np.int64), np.empty(0, np.float32))
            else:
                change = StoreChange.of_row(self.totals())
            self._change = change
            try:
                yield change
                self._finish(change)
            finally:
                self._change = None

    @contextmanager
    def sole_builder(self) -> Iterator[None]:
        """Held while a corpus is stored: two at once would leave reports of both. Raises ValueError if it is held."""
        with self.server.alone() as connection:
            ((is_free,),) = connection.execute("SELECT pg_try_advisory_lock(%s)", [tables.CORPUS]).fetchall()
            if not is_free:
                raise ValueError(f"{self.path} is being updated with a corpus by another process: wait until it ends")
            yield

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written yet."""
        ((found,),) = self.server.query("SELECT to_regclass(%s)::text", f"{tables.NAME}.totals")
        return found is None and (self._change is None or not self._change.is_fresh)

    def totals(self) -> tuple[Any, ...]:
        """The totals in the order of ``StoreChange``."""
        return self.server.query("SELECT count, next_key, lengths, loose, vector_sum, mean_vector FROM totals")[0]

    def has_nearest(self) -> bool:
        """Whether there is an index of vectors."""
        return bool(self.server.query("SELECT to_regclass('nearest') IS NOT NULL")[0][0])

    def count(self) -> int:
        """Number of reports."""
        return int(self._read("SELECT count FROM totals")[0][0])

    def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.snapshot():
            return self.server.query(statement, *values)

    def about(self) -> dict[str, str]:
        """See ``IndexStore``."""
        return dict(self._read("SELECT name, value FROM about"))

    def weights(self) -> bytes:
        """See ``IndexStore``."""
        return b"".join(data for (data,) in self._read("SELECT data FROM weights ORDER BY part"))

    def contents(self) -> dict[str, Version]:
        """See ``IndexStore``."""
        names = ", ".join(Version._fields)
        rows = self._read(f"SELECT issue_id, {names} FROM reports ORDER BY key")
        return {issue_id: Version(*values) for issue_id, *values in rows}

    def reports(self, ids: Sequence[str]) -> dict[str, Report]:
        """See ``IndexStore``."""
        rows = self._read(f"SELECT {COLUMNS} FROM reports WHERE issue_id = ANY(%s)", list(ids))
        return {row[0]: report_from_values(row) for row in rows}

    def urls(self, ids: Sequence[str]) -> dict[str, str]:
        """See ``IndexStore``."""
        return dict(self._read("SELECT issue_id, url FROM reports WHERE url <> '' AND issue_id = ANY(%s)", list(ids)))

    def vectors(self) -> tuple[list[str], np.ndarray]:
        """See ``StoredIndex``."""
        rows = self._read("SELECT issue_id, vector FROM features JOIN vectors USING (key) ORDER BY key")
        return [issue_id for issue_id, _ in rows], read_vectors([vector for _, vector in rows])

    def write_about(self, values: dict[str, str]) -> None:
        """See ``IndexStore``."""
        update = "INSERT INTO about VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        self.server.write_all(update, list(values.items()))

    def write_model(self, values: dict[str, str], weights: bytes) -> None:
        """Replaces the model, and deletes everything that the former model encoded. Links stay.

        New tables take the place of the old ones at the end of the transaction, and searches use the old ones until
        then: so nothing has to be deleted row by row, and vectors may have another size.
        """
        change = self._changing()
        had_tables = not self.is_empty
        query = self.server.query
        query(f"DROP SCHEMA IF EXISTS {tables.FRESH} CASCADE")
        query(f"CREATE SCHEMA {tables.FRESH}")
        query(tables.PATH.format(tables.FRESH))
        for statement in tables.CREATE.split(";\n"):
            query(statement)
        if had_tables:
            query(f"INSERT INTO links SELECT * FROM {tables.NAME}.links")
        empty = StoreChange.of_row(self.totals())
        vars(change).update(vars(empty) | {"is_fresh": True, "touched": None})
        self.write_about(values)
        chunks = [[weights[start : start + CHUNK_BYTES]] for start in range(0, len(weights), CHUNK_BYTES)]
        self.server.write_all("INSERT INTO weights (data) VALUES (%s)", chunks)

    def write_reports(self, reports: Sequence[Report], vectors: Sequence[np.ndarray]) -> None:
        """Adds reports at the end; a report with a stored id replaces it and keeps its place."""
        for start in range(0, len(reports), WRITTEN_AT_ONCE):
            part = slice(start, start + WRITTEN_AT_ONCE)
            self._write_part(reports[part], vectors[part])

    def _write_part(self, reports: Sequence[Report], vectors: Sequence[np.ndarray]) -> None:
        change = self._changing()
        ids = [report.issue_id for report in reports]
        known = dict(self.server.query("SELECT issue_id, key FROM reports WHERE issue_id = ANY(%s)", ids))
        key_of = known | {one: change.next_key + place for place, one in enumerate(set_aside(ids, known))}
        order = sorted(range(len(reports)), key=lambda place: key_of[ids[place]])
        hashes = [reports[place].content_hash for place in order]
        reports = [storable(reports[place]) for place in order]
        keys = [key_of[report.issue_id] for report in reports]
        matrix = np.asarray([vectors[place] for place in order], dtype=np.float32)
        self._remove(list(known.values()))
        table = as_table(reports)
        texts = terms_of(table, HashedVocabulary(), learn=False)
        lists = {kind: [term_list(of_kind(text, kind)) for text in texts[kind]] for kind in TERM_KINDS}
        lengths = {kind: [len(text) for text in texts[kind]] for kind in TERM_KINDS}
        codes = zip(*columns_of(table).values(), strict=True)
        times = zip(*(usable_or_none(table[name]) for name in DATES), strict=True)
        self._copy(
            "reports",
            ["int4", *["text"] * (len(FIELDS) + 1)],
            ((key, *_values(one), content) for key, one, content in zip(keys, reports, hashes, strict=True)),
        )
        features = zip(
            keys,
            (report.issue_id for report in reports),
            keys,
            codes,
            times,
            zip(*(lengths[kind] for kind in TERM_KINDS), strict=True),
            zip(*(lists[kind] for kind in TERM_KINDS), strict=True),
            strict=True,
        )
        self._copy(
            "features",
            ["int4", "text", "int4", *["int8"] * len(CATEGORIES), "float8", "float8", "int4[]", *["bytea"] * 4],
            (
                (key, one, grp, *code, *days, list(sizes), *(part.tobytes() for part in own))
                for key, one, grp, code, days, sizes, own in features
            ),
        )
        self._copy_vectors(keys, matrix)
        is_loose = len(reports) < MAX_LOOSE
        self._copy_postings(postings_rows(keys, lists, lengths, is_loose))
        added = len(reports) - len(known)
        change.count += added
        change.next_key += added
        change.lengths = [own + sum(lengths[kind]) for own, kind in zip(change.lengths, TERM_KINDS, strict=True)]
        change.loose += len(reports) if is_loose else 0
        change.vector_sum = change.vector_sum + _sum(matrix) if len(change.vector_sum) else _sum(matrix)
        change.touch(ids)

    def delete(self, ids: Iterable[str]) -> None:
        """See ``IndexStore``."""
        change = self._changing()
        given = list(ids)
        if not given:
            return
        keys = [key for (key,) in self.server.query("SELECT key FROM reports WHERE issue_id = ANY(%s)", given)]
        self._remove(keys)
        self.server.query("INSERT INTO holes SELECT unnest(%s::int[])", keys)
        change.count -= len(keys)
        change.touch(given)

    def forget(self, ids: Sequence[str]) -> None:
        """See ``IndexStore``; PostgreSQL overwrites the bytes later, see ``docs/guides/serving.md``."""
        written = self.about().get("calibration")
        if written is not None:
            for report in self.reports(ids).values():
                written = calibration_without(report, written)
            self.write_about({"calibration": written})
        self.delete(ids)
        drop = "DELETE FROM links WHERE report = %s OR duplicate = %s RETURNING report, duplicate, source"
        for one in ids:
            links = self.server.query(drop, one, one)
            self.write_links(bridging_links(one, links))  # type: ignore[arg-type]
            self._changing().touch(end for link in links for end in link[:2])

    def write_links(self, links: Iterable[tuple[str, str, str]]) -> None:
        """See ``IndexStore``."""
        rows = list(links)
        columns = [[row[place] for row in rows] for place in range(3)]
        add = "INSERT INTO links SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]) ON CONFLICT DO NOTHING"
        self.server.query(add, *columns)
        self._changing().touch(columns[0] + columns[1])

    def clear_links(self, source: str) -> None:
        """See ``IndexStore``."""
        self.server.query("DELETE FROM links WHERE starts_with(source, %s)", source)
        self._changing().touched = None

    def delete_links(self, report: str, duplicate: str, source: str | None) -> bool:
        """See ``IndexStore``."""
        either = "(report, duplicate) IN ((%s, %s), (%s, %s))"
        drop = f"DELETE FROM links WHERE {either} AND source = coalesce(%s, source) RETURNING 1"
        found = self.server.query(drop, report, duplicate, duplicate, report, source)
        self._changing().touch([report, duplicate])
        return bool(found)

    def write_not_encoded(self, reports: Iterable[Report]) -> None:
        """See ``IndexStore``."""
        given = [storable(report) for report in reports]
        days = usable_or_none(as_table(given)["resolved_at"])
        rows = [(one.url, written_date(one.resolved_at), one.issue_id) for one in given]
        self.server.write_all("UPDATE reports SET url = %s, resolved_at = %s WHERE issue_id = %s", rows)
        pairs = [(day, one.issue_id) for day, one in zip(days, given, strict=True)]
        same = "FROM reports WHERE reports.issue_id = %s AND features.key = reports.key"
        self.server.write_all(f"UPDATE features SET resolved = %s {same}", pairs)

    def merge_postings(self) -> None:
        """Joins the rows of postings that single additions have made, in a transaction of the caller."""
        terms = [term for (term,) in self.server.query("SELECT DISTINCT term FROM postings WHERE loose ORDER BY term")]
        select = "SELECT term, first, n, docs FROM postings WHERE term = ANY(%s) AND n < %s ORDER BY term, first"
        for start in range(0, len(terms), TERMS_AT_ONCE):
            rows = self.server.query(select, terms[start : start + TERMS_AT_ONCE], BLOCK)
            docs = np.frombuffer(b"".join(row[3] for row in rows), dtype=POSTING)
            own = np.repeat(np.array([row[0] for row in rows]), [row[2] for row in rows])
            order = np.lexsort((docs["key"], own))
            self._replace_postings([row[:2] for row in rows], term_rows(own[order], docs[order], loose=False))
        self._changing().loose = 0

    def tidy(self) -> None:
        """Frees the space of what was deleted, and tells the planner how large the tables are."""
        with self.server.alone() as connection:
            connection.execute(f"SET search_path = {tables.NAME}, public")
            for name in ("reports", "features", "vectors", "postings", "links", "holes"):
                connection.execute(f"VACUUM (ANALYZE) {name}")

    def _changing(self) -> StoreChange:
        assert self._change is not None
        return self._change

    def _remove(self, keys: list[int]) -> None:
        """Deletes the rows of some reports, and takes them out of all totals but their number."""
        if not keys:
            return
        change = self._changing()
        select = f"SELECT key, lengths, vector, {LISTS} FROM features JOIN vectors USING (key) WHERE key = ANY(%s)"
        rows = self.server.query(select, keys)
        change.vector_sum = change.vector_sum - _sum(read_vectors([row[2] for row in rows]))
        change.lengths = [own - sum(row[1][place] for row in rows) for place, own in enumerate(change.lengths)]
        change.moved = True
        gone = np.unique(keys)
        terms = np.unique(np.frombuffer(b"".join(part for row in rows for part in row[3:]), dtype=LIST)["term"])
        select = "SELECT term, first, docs FROM postings WHERE term = ANY(%s) AND first <= %s AND last >= %s"
        for start in range(0, len(terms), TERMS_AT_ONCE):
            some = terms[start : start + TERMS_AT_ONCE].tolist()
            found = self.server.query(select, some, int(gone[-1]), int(gone[0]))
            left = [(term, first, docs, without_keys(docs, gone)) for term, first, docs in found]
            changed = [one for one in left if len(one[2]) != one[3].nbytes]
            rest = [one for one in changed if len(one[3])]
            fresh = (row for term, _, _, docs in rest for row in term_rows(np.full(len(docs), term), docs, False))
            self._replace_postings([one[:2] for one in changed], fresh)
        for table in ("reports", "features", "vectors"):
            self.server.query(f"DELETE FROM {table} WHERE key = ANY(%s)", keys)

    def _replace_postings(self, old: Sequence[Sequence[int]], rows: Iterable[PostingsRow]) -> None:
        """Rows of postings instead of others, given by term and first key."""
        drop = "DELETE FROM postings USING unnest(%s::bigint[], %s::int[]) AS old (term, first)"
        same = "WHERE postings.term = old.term AND postings.first = old.first"
        self.server.query(f"{drop} {same}", [term for term, _ in old], [first for _, first in old])
        self._copy_postings(rows)

    def _copy_postings(self, rows: Iterable[PostingsRow]) -> None:
        self._copy("postings", ["int8", "int4", "int4", "int4", "bool", "bytea"], rows)

    def _copy(self, table: str, types: list[str], rows: Iterable[Sequence[Any]]) -> None:
        with self.server.transaction(read_only=False) as connection, connection.cursor() as cursor:
            with cursor.copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy:  # type: ignore[arg-type]
                copy.set_types(types)
                for row in rows:
                    copy.write_row(row)

    def _copy_vectors(self, keys: Sequence[int], vectors: np.ndarray) -> None:
        """Writes vectors as pgvector reads them: all have the same size, so that NumPy lays them out."""
        dim = vectors.shape[1]
        parts = [("fields", ">i2"), ("key_size", ">i4"), ("key", ">i4"), ("size", ">i4")]
        rows = np.zeros(len(keys), dtype=[*parts, ("head", VECTOR_HEAD), ("vector", ">f4", (dim,))])
        rows["fields"], rows["key_size"], rows["key"] = 2, 4, keys
        rows["size"], rows["head"]["dim"] = VECTOR_HEAD.itemsize + 4 * dim, dim
        rows["vector"] = vectors
        with self.server.transaction(read_only=False) as connection, connection.cursor() as cursor:
            with cursor.copy("COPY vectors FROM STDIN (FORMAT binary)") as copy:
                copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
                for start in range(0, len(rows), 1 << 12):
                    copy.write(rows[start : start + (1 << 12)].tobytes())
                copy.write(b"\xff\xff")

    def _finish(self, change: StoreChange) -> None:
        """Brings groups and totals up to date, at the end of a transaction."""
        if change.touched is None or change.touched:
            self._regroup(change.touched)
        self._refresh_mean(change)
        update = (
            "UPDATE totals SET count = %s, next_key = %s, lengths = %s, loose = %s, vector_sum = %s, mean_vector = %s"
        )
        values = (change.count, change.next_key, change.lengths, change.loose)
        self.server.query(update, *values, change.vector_sum.tobytes(), change.mean_vector.tobytes())
        dim = len(change.vector_sum)
        if change.count >= MIN_NEAREST and dim <= MAX_NEAREST_DIM and not self.has_nearest():
            self.server.query(tables.NEAREST.format(dim=dim))
        if change.is_fresh:
            # Searches that are under way end first; those that begin meanwhile wait for the new tables.
            for statement in tables.REPLACE.split(";\n"):
                self.server.query(statement)

    def _refresh_mean(self, change: StoreChange) -> None:
        """The mean of all vectors but the last few, which changes with every ``MEAN_STEP`` reports."""
        before = 0 if change.is_fresh else int(self.server.query("SELECT count FROM totals")[0][0])
        steps = change.count // MEAN_STEP
        if not change.moved and steps == before // MEAN_STEP:
            return
        last = self.server.query("SELECT vector FROM vectors ORDER BY key DESC LIMIT %s", change.count % MEAN_STEP)
        total = change.vector_sum - (_sum(read_vectors([row[0] for row in last])) if last else 0)
        change.mean_vector = (total / (max(steps, 1) * MEAN_STEP * UNIT)).astype(np.float32)
        if not steps:
            change.mean_vector = np.zeros(len(change.vector_sum), dtype=np.float32)

    def _regroup(self, touched: set[str] | None) -> None:
        """Writes the group of each report: the lowest key of those that links connect, deleted ones included."""
        if touched is None:
            links = self.server.query("SELECT report, duplicate FROM links")
            former = dict(self.server.query("SELECT key, grp FROM features WHERE grp <> key"))
            key_of = dict(self.server.query("SELECT issue_id, key FROM features")) if links else {}
        else:
            links = self.server.query(LINKED, list(touched))
            ids = list(touched.union(end for link in links for end in link))
            join = "FROM reports JOIN features USING (key) WHERE reports.issue_id = ANY(%s)"
            rows = self.server.query(f"SELECT reports.issue_id, key, grp {join}", ids)
            key_of = {one: key for one, key, _ in rows}
            former = {key: grp for _, key, grp in rows}
        group = _groups(links, key_of)
        changed = {key: group.get(key, key) for key in former if group.get(key, key) != former[key]}
        changed |= {key: grp for key, grp in group.items() if former.get(key, key) != grp}
        update = "UPDATE features SET grp = new.grp FROM unnest(%s::int[], %s::int[]) AS new (key, grp)"
        if changed:
            self.server.query(f"{update} WHERE features.key = new.key", list(changed), list(changed.values()))


def _groups(links: Sequence[Sequence[str]], key_of: dict[str, int]) -> dict[int, int]:
    """The group of each stored report that has a link, by key."""
    names = list(dict.fromkeys(end for link in links for end in link))
    place_of = {name: place for place, name in enumerate(names)}
    ends = np.array([[place_of[end] for end in link] for link in links], dtype=np.int64).reshape(-1, 2)
    component = find_groups(ends.T, len(names))
    lowest: dict[int, int] = {}
    stored = [(key_of[name], int(component[place])) for place, name in enumerate(names) if name in key_of]
    for key, number in sorted(stored):
        lowest.setdefault(number, key)
    return {key: lowest[number] for key, number in stored}


def usable_or_none(dates: pd.Series) -> list[float | None]:
    """Days since 1970; None where there is no date."""
    return [None if np.isnan(day) else day for day in days_of(dates).tolist()]


def _values(report: Report) -> list[Any]:
    """The fields of a report in order, as they are stored."""
    values = {name: getattr(report, name) for name in FIELDS}
    return [written_date(value) if name in DATES else value for name, value in values.items()]


def set_aside(ids: Sequence[str], known: dict[str, int]) -> list[str]:
    """The ids that are not known, in order."""
    return [one for one in ids if one not in known]


def storable(report: Report) -> Report:
    """A report whose texts PostgreSQL can store."""
    values = {name: getattr(report, name) for name in FIELDS}
    changed = {name: text_of(value) for name, value in values.items() if isinstance(value, str) and "\0" in value}
    return Report(**(values | changed)) if changed else report


def text_of(text: str) -> str:
    """A text that PostgreSQL can store: without NUL characters and unpaired surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", NUL)


def columns_of(table: pd.DataFrame) -> dict[str, list[int]]:
    """The numbers of the values of fields of B reports, by field, each of length B; see ``category``."""
    columns = {name: product_names(table) if name == "product" else list(table[name]) for name in CATEGORIES}
    return {name: list(map(category, values)) for name, values in columns.items()}


def category(name: str) -> int:
    """The number of a value of a field; ``EMPTY`` for none. Upper and lower case are the same."""
    plain = name.strip().lower()
    return hashed(plain) if plain else EMPTY


def read_vectors(sent: Sequence[bytes]) -> np.ndarray:
    """Vectors as pgvector sends them, ``(R, D)`` float32."""
    dim = int(np.frombuffer(sent[0], dtype=VECTOR_HEAD, count=1)["dim"][0])
    rows = np.frombuffer(b"".join(sent), dtype=[("head", VECTOR_HEAD), ("vector", ">f4", (dim,))])
    return rows["vector"].astype(np.float32)


def _sum(vectors: np.ndarray) -> np.ndarray:
    parts = range(0, len(vectors), 1 << 14)
    return np.sum([whole_numbers(vectors[start : start + (1 << 14)]).sum(axis=0) for start in parts], axis=0)
