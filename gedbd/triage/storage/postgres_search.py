"""The few thousand reports on a server that a search compares, as an ``InMemoryIndex`` with statistics of all reports.

The server finds the nearest vectors, the latest reports of the component, and the reports that share rare words. The
process that searches reads fields and cosines of these and of their groups, drops the groups that cannot be among the
candidates, reads vectors and words of the others, and ranks them in memory.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from gedbd.corpora.bug_report import Filters, Report, as_table, plain_component
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.retrieval.growing_arrays import GrowingArray, RowMap, TermLists
from gedbd.retrieval.inverted_index import idf_of, length_norm
from gedbd.retrieval.report_ranking.feature_store import FIELDS, TERM_KINDS, FeatureEncoder, FeatureStore, days_of
from gedbd.retrieval.report_ranking.first_stage import DEPTHS, WORDS, KnownGroups
from gedbd.retrieval.report_ranking.term_index import TermIndex, TermQuery
from gedbd.retrieval.report_ranking.vector_table import ROUNDING as COSINE_ROUNDING
from gedbd.retrieval.report_ranking.vector_table import RoughScores
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.postgres_store import (
    BLOCK,
    COMPONENTS,
    LIST,
    LISTS,
    POSTING,
    HashedVocabulary,
    PostgresStore,
    Totals,
    of_kind,
    read_vectors,
)
from gedbd.triage.storage.stored_model import LoadedModel, LoadModel, template_of

# Postings of a kind that a search reads, those of the rarest terms first: where a query has more, the reports that it
# finds by words are nearly those with the highest scores, and the time does not grow with the index.
MAX_POSTINGS = 300_000
SPARE = 2  # times as many reports get exact scores if an index of vectors is asked, or some postings are not read
ROUNDING = 2e-4  # bound on the relative change of a score by rounding to single precision
MAX_FILTERED = 10_000  # reports with the highest scores of which the server keeps those that pass the filters
STATISTICS = """
SELECT count, next_key, lengths, mean_vector, to_regclass('nearest') IS NOT NULL,
    (SELECT max(day) FROM reports), (SELECT max(resolved) FROM reports)
FROM totals"""
FOUND = f"""
SELECT key, day, resolved, grp, -(vector <#> %s::vector), issue_id, {", ".join(FIELDS)}
FROM reports JOIN vectors USING (key) WHERE grp IN (SELECT grp FROM reports WHERE key = ANY(%s::int[])) ORDER BY key"""
COMPARED = f"""
SELECT lengths, vector, {LISTS} FROM reports JOIN vectors USING (key) WHERE key = ANY(%s::int[]) ORDER BY key"""
log = logging.getLogger("gedbd")


class ServerSearch:
    """The queries of one search to the server, in a read-only transaction."""

    def __init__(self, store: PostgresStore, filters: Filters) -> None:
        self.query = store.server.query  # returns the rows of a statement
        # ``days`` are the latest date of a report and of a resolution; None where there is none.
        ((count, next_key, lengths, mean, self._has_nearest, *self.days),) = self.query(STATISTICS)
        # Statistics of all reports, without the sum of vectors.
        self.totals = Totals(count, next_key, lengths, mean_vector=np.frombuffer(mean, np.float32))
        self._frequency: dict[int, int] = {}
        # Nearly exact BM25 of all reports by key, of each kind that ``likely`` was asked for; None if not all postings
        # were read.
        self.scores: dict[str, np.ndarray | None] = {}
        parts: list[tuple[str, Any]] = []
        for moment, sign in ((filters.created_from, ">="), (filters.created_before, "<")):
            if moment is not None:
                parts.append((f"day {sign} %s", float(days_of(pd.Series(pd.to_datetime([moment], utc=True)))[0])))
        if filters.component is not None:
            named = self.query(COMPONENTS, f", {plain_component(filters.component)}, ")
            parts.append(("plain_component = ANY(%s)", [name for (name,) in named]))
        self._condition = " AND ".join(text for text, _ in parts) or "true"
        self._values = [value for _, value in parts]

    def frequency(self, numbers: np.ndarray) -> np.ndarray:
        """Number of reports with each term, numbered by ``of_kind``, ``(T,) -> (T,)``; results are cached."""
        wanted = numbers.tolist()
        missing = [term for term in wanted if term not in self._frequency]
        if missing:
            count = f"SELECT term, sum(octet_length(docs)) / {POSTING.itemsize} FROM postings WHERE term = ANY(%s)"
            counted = dict(self.query(f"{count} GROUP BY term", missing))
            self._frequency |= {term: int(counted.get(term, 0)) for term in missing}
        return np.array([self._frequency[term] for term in wanted], dtype=np.int64)

    def likely(self, kind: str, terms: np.ndarray) -> np.ndarray:
        """The keys of the reports that may have the highest BM25; ``terms``, ``(L,)``, are those of the query."""
        distinct, times = np.unique(terms, return_counts=True)
        sizes = self.frequency(distinct)
        rarest = np.argsort(sizes, kind="stable")
        rarest = rarest[sizes[rarest] > 0]
        read = rarest[np.cumsum(sizes[rarest]) <= MAX_POSTINGS]
        # If every term is in more reports than that, only the latest reports with the rarest term are read.
        select = "SELECT term, docs FROM postings WHERE term = ANY(%s) ORDER BY block DESC LIMIT %s"
        limit = None if len(read) else MAX_POSTINGS // BLOCK
        rows = self.query(select, distinct[read if len(read) else rarest[:1]].tolist(), limit)
        docs = np.frombuffer(b"".join(row[1] for row in rows), dtype=POSTING)
        num_docs = [len(row[1]) // POSTING.itemsize for row in rows]
        position = np.repeat(np.searchsorted(distinct, [row[0] for row in rows]), num_docs)
        counts = docs["count"].astype(np.float64)
        mean = self.totals.lengths[TERM_KINDS.index(kind)] / max(self.totals.count, 1)
        saturation = counts / (length_norm(docs["length"], max(mean, 1e-9)) + counts)
        weights = (idf_of(sizes, self.totals.count) * times)[position]
        all_scores = np.bincount(docs["key"], weights * saturation, self.totals.next_key)
        self.scores[kind] = all_scores if len(read) == len(rarest) else None
        keys = np.flatnonzero(all_scores)
        scores = all_scores[keys]
        if self._values:
            best = np.argsort(-scores, kind="stable")[:MAX_FILTERED]
            allowed = f"SELECT key FROM reports WHERE key = ANY(%s::int[]) AND {self._condition}"
            is_allowed = np.isin(keys, self._keys(allowed, as_array(keys[best]), *self._values))
            keys = keys[is_allowed]
            scores = scores[is_allowed]
        wanted = _depth(kind) * (1 if len(read) == len(rarest) else SPARE)
        if len(keys) > wanted:
            keys = keys[scores >= np.partition(scores, -wanted)[-wanted] * (1 - ROUNDING)]
        return keys

    def latest(self, component: str) -> np.ndarray:
        """The keys of the latest reports of a component, or of all reports if it is empty or no report has it."""
        select = f"SELECT key FROM reports WHERE {self._condition} {{}} ORDER BY key DESC LIMIT {_depth('recent')}"
        if component:
            keys = self._keys(select.format("AND plain_component = %s"), *self._values, component)
            if len(keys):
                return keys
        return self._keys(select.format(""), *self._values)

    def nearest(self, vector: np.ndarray) -> np.ndarray:
        """The keys of the reports with the most similar vectors."""
        source = f"vectors JOIN reports USING (key) WHERE {self._condition}" if self._values else "vectors"
        depth, written = _depth("dense"), str(vector.tolist())
        order = f"ORDER BY vector <#> %s::vector LIMIT {depth}"
        if not self._has_nearest:
            return self._keys(f"SELECT key FROM {source} {order}", *self._values, written)
        # The index finds more of the nearest vectors if it is asked for more.
        half = f"halfvec({len(vector)})"
        likely = f"SELECT key, vector FROM {source} ORDER BY vector::{half} <#> %s::{half} LIMIT {SPARE * depth}"
        return self._keys(f"SELECT key FROM ({likely}) AS likely {order}", *self._values, written, written)

    def _keys(self, statement: str, *values: Any) -> np.ndarray:
        return np.array([key for (key,) in self.query(statement, *values)], dtype=np.int64)


def _depth(name: str) -> int:
    """How many reports one kind of retrieval finds: one more than wanted, because the report itself may be stored."""
    return DEPTHS[name] + 1


def as_array(keys: np.ndarray) -> str:
    """Keys as PostgreSQL reads an array; psycopg takes longer to convert a list of numbers."""
    return f"{{{','.join(map(str, keys.tolist()))}}}"


class FoundTerms(TermIndex):
    """The terms of one of ``TERM_KINDS`` in the found reports, ``keys (R,)``, with statistics of all reports."""

    def __init__(self, search: ServerSearch, kind: str, keys: np.ndarray, rows: "FoundRows") -> None:
        super().__init__()
        self._search = search
        self._kind = kind
        self._keys = keys
        self.rows = rows
        self.lists = TermLists(np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
        num_texts = search.totals.count
        num_terms = float(search.totals.lengths[TERM_KINDS.index(kind)])
        lengths = np.zeros(len(keys), dtype=np.float32)
        self._state = self._state._replace(lengths=lengths, num_texts=num_texts, num_terms=num_terms)

    def append(self, written: Sequence[bytes], lengths: Sequence[int]) -> None:
        """Adds the terms of reports, as they are stored, at the next places."""
        lists = np.frombuffer(b"".join(written), dtype=LIST)
        ends = len(self.lists.terms) + np.cumsum([len(terms) // LIST.itemsize for terms in written])
        first = len(self.lists.ends)
        # In place: queries that exist already see the new lengths too.
        self._state.lengths[first : first + len(lengths)] = lengths
        self.lists.terms.extend(np.ascontiguousarray(lists["term"]))
        self.lists.counts.extend(lists["count"].astype(np.float32))
        self.lists.ends.extend(ends)

    def frequency(self, terms: np.ndarray, before: int | None = None) -> np.ndarray:
        """Number of all reports with each of the distinct terms, ``(T,) -> (T,)``."""
        return self._search.frequency(of_kind(terms, self._kind))

    def query(self, terms: np.ndarray, before: int | None = None) -> TermQuery:
        """A query with ``terms``, ``(L,)``, for the first ``before`` texts; None for all."""
        own, order, times = np.unique(terms, return_inverse=True, return_counts=True)
        query = TermQuery(self, self._state, None, (own, order, times), self.frequency(own))
        scores = self._search.scores.get(self._kind)
        if scores is not None:
            query.rough = RoughScores(scores[self._keys].astype(np.float32), 1 - ROUNDING, 1 + ROUNDING)
        elif self._kind in WORDS:
            query.rough = RoughScores(query.scores(np.arange(len(self._keys))))
        return query


class FoundRows(RowMap):
    """Places of found reports whose vectors and terms were read; ``read`` reads those of others, at the next places."""

    def __init__(self, num_rows: int, read: Callable[[np.ndarray], None]) -> None:
        super().__init__()
        self._read = read
        self._place_of = np.full(num_rows, -1)

    def places(self, rows: np.ndarray) -> np.ndarray:
        """The places of some reports, after reading those that are missing."""
        missing = np.unique(rows[self._place_of[rows] < 0])
        if len(missing):
            self._read(missing)
            self._place_of[missing] = self._place_of.max() + 1 + np.arange(len(missing))
        return np.asarray(self._place_of[rows])


class FoundReports(FeatureStore):
    """The features of the reports that were found, in the order of keys, with the statistics of all reports.

    ``component`` is that of the query, ``table (R, 3)`` has key, date and date of resolution of each report, and
    ``codes`` are those of each of ``FIELDS``, ``(R,)``.
    """

    def __init__(self, search: ServerSearch, component: str, table: np.ndarray, codes: dict[str, np.ndarray]) -> None:
        super().__init__(len(search.totals.mean_vector))
        self._search = search
        self._component = component
        keys, day, resolved = table.T
        self._keys = keys.astype(np.int64)
        self._rows = FoundRows(len(table), self._read)
        self.vectors.rows = self._rows
        self._terms = {kind: FoundTerms(search, kind, self._keys, self._rows) for kind in TERM_KINDS}
        self.terms.update(self._terms)
        self._columns = {name: GrowingArray(values) for name, values in codes.items()}
        self._columns |= {"day": GrowingArray(day), "resolved": GrowingArray(resolved)}
        self._latest_day = max((day for day in search.days if day is not None), default=np.nan)
        self._first_resolved = len(table) if search.days[1] is None else 0  # only whether there is any matters

    def _read(self, rows: np.ndarray) -> None:
        """Reads vectors and terms of some reports, ascending."""
        found = self._search.query(COMPARED, as_array(self._keys[rows]))
        lengths, vectors, *lists = zip(*found, strict=True)
        self.vectors.add(read_vectors(vectors))
        for kind, written, of_kind_lengths in zip(TERM_KINDS, lists, zip(*lengths, strict=True), strict=True):
            self._terms[kind].append(written, of_kind_lengths)

    def mean_vector(self, count: int) -> np.ndarray:
        """The mean vector of all reports, ``(D,)``, see ``FeatureStore``."""
        return self._search.totals.mean_vector

    def num_since(self, rows: np.ndarray, count: int) -> np.ndarray:
        """The number of all reports from each of ``rows`` on, ``(R,)``."""
        totals = self._search.totals
        since = totals.next_key - self._keys[rows]
        return np.asarray(since - self._num_since("holes", rows) if totals.count < totals.next_key else since)

    def num_of_component_since(self, rows: np.ndarray, of_component: np.ndarray) -> np.ndarray:
        """The number of reports of the query's component from each of ``rows`` on, ``(R,)``."""
        return self._num_since("reports", rows, "plain_component = %s AND", self._component)

    def _num_since(self, table: str, rows: np.ndarray, condition: str = "", *values: str) -> np.ndarray:
        """For each report in ``rows``, the number of rows of a table with its key or a higher one, ``(R,)``."""
        bounds, position = np.unique(self._keys[rows], return_inverse=True)
        if not len(bounds):
            return np.empty(0, dtype=np.int64)
        count = f"SELECT width_bucket(key, %s::int[]), count(*) FROM {table} WHERE {condition} key >= %s GROUP BY 1"
        sizes = np.zeros(len(bounds), dtype=np.int64)
        for bucket, size in self._search.query(count, as_array(bounds), *values, int(bounds[0])):
            sizes[bucket - 1] = size
        return np.asarray(np.cumsum(sizes[::-1])[::-1][position])


@dataclass(frozen=True)
class SharedState:
    """The state of an index on a server in a transaction, with the interface of ``FolderState``."""

    reports: PostgresStore
    model: LoadedModel
    template: frozenset[str]

    def candidates(self, report: Report, filters: Filters, vector: Callable[[], np.ndarray]) -> InMemoryIndex:
        """The reports that may be candidates for duplicates of a report, and their groups.

        ``vector`` waits for the vector of the report, ``(D,)``.
        """
        search = ServerSearch(self.reports, filters)
        encoder = FeatureEncoder(HashedVocabulary())
        own = encoder.encode(as_table([report]), np.empty((1, 0), dtype=np.float32), learn=False).terms
        terms = {kind: of_kind(own[kind][0], kind) for kind in TERM_KINDS}
        search.frequency(np.unique(np.concatenate(list(terms.values()))))  # caches those of all kinds with one query
        component = plain_component(report.component)
        keys = [search.likely(kind, terms[kind]) for kind in WORDS]
        keys += [search.latest(component), search.nearest(vector())]
        rows = search.query(FOUND, str(vector().tolist()), as_array(np.unique(np.concatenate(keys))))
        named = pd.DataFrame([row[5:] for row in rows], columns=["id", *FIELDS], dtype=object)
        table = np.array([row[:5] for row in rows], dtype=np.float64).reshape(-1, 5)
        cosines = RoughScores(table[:, 4].astype(np.float32), error=COSINE_ROUNDING)
        reports = FoundReports(search, component, table[:, :3], encoder.encode_categories(named, learn=True))
        _, first, which = np.unique(table[:, 3], return_index=True, return_inverse=True)
        return InMemoryIndex(reports, encoder, [row[5] for row in rows], KnownGroups.of(first[which]), cosines=cosines)

    def groups(self, ids: Sequence[str]) -> dict[str, list[str]]:
        """Ids of each report and its known duplicates, oldest first, by its id; empty if it is not stored."""
        members: dict[str, list[tuple[float, int, str]]] = {issue_id: [] for issue_id in ids}
        select = (
            "SELECT own.issue_id, other.day, other.key, other.issue_id"
            " FROM reports AS own JOIN reports AS other USING (grp) WHERE own.issue_id = ANY(%s) ORDER BY other.key"
        )
        for issue_id, day, key, member in self.reports.query(select, list(ids)):
            members[issue_id].append((np.nan if day is None else day, key, member))
        for rows in members.values():
            if not any(np.isnan(day) for day, _, _ in rows):
                rows.sort()
        return {issue_id: [member for _, _, member in rows] for issue_id, rows in members.items()}

    def vectors(self, ids: Sequence[str] | None = None) -> tuple[list[str], np.ndarray]:
        """Ids and vectors, ``(N, D)``, of the stored reports, or of those among ``ids``."""
        select = "SELECT issue_id, vector FROM reports JOIN vectors USING (key)"
        if ids is None:
            rows = self.reports.query(f"{select} ORDER BY key")
        else:
            rows = self.reports.query(
                f"{select} WHERE issue_id = ANY(%s) ORDER BY array_position(%s, issue_id)", ids, ids
            )
        return [issue_id for issue_id, _ in rows], read_vectors([vector for _, vector in rows])

    def newest_day(self) -> float:
        """Date of the newest report in days since 1970; NaN without dates."""
        ((day,),) = self.reports.query("SELECT max(day) FROM reports")
        return np.nan if day is None else float(day)


class SharedStore:
    """An open index on a server, with the interface of ``FolderStore``, without a copy of the reports in this process.

    Raises:
        ValueError: If the address is invalid, the server cannot be used, there is no index, or its model is damaged.
    """

    def __init__(self, url: str, load_model: LoadModel) -> None:
        self.server = PostgresStore(url, create=False)
        self._load_model = load_model
        self._loading = threading.Lock()
        try:
            with self.server.snapshot():
                self.model = LoadedModel.of(self.server, load_model)
                self._count = self.server.count()
        except BaseException:
            self.server.close()
            raise

    def __len__(self) -> int:
        try:
            self._count = self.server.count()
        except StoreUnavailable as error:
            log.warning("%s", error)
        return self._count

    @contextmanager
    def read(self) -> Iterator[SharedState]:
        """The latest state."""
        with self.server.snapshot():
            yield self._state()

    @contextmanager
    def change(self) -> Iterator[SharedState]:
        """The latest state in a transaction that changes it."""
        with self.server.transaction():
            yield self._state()

    def forget(self, issue_id: str) -> bool:
        """Erases a report and everything derived from it; returns whether it was stored."""
        return not self.server.forget([issue_id])

    def close(self) -> None:
        """Closes the connections."""
        self.server.close()

    def _state(self) -> SharedState:
        """The state in this transaction; the model is loaded again if another process has replaced it."""
        with self._loading:
            if self.server.fact("model") != self.model.key:
                self.model = LoadedModel.of(self.server, self._load_model)
            return SharedState(self.server, self.model, template_of(self.server))
