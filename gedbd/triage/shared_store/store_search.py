"""The first stage of a search on a server: only what is compared in detail comes to the process that searches.

The server finds the nearest vectors, the latest reports of the component, and the reports that share rare words. Of
these few thousand reports the process reads vectors, words and fields, and goes on as with an index in memory: with the
same code, and with the statistics of all reports.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gedbd.retrieval.growing_arrays import TermLists
from gedbd.retrieval.inverted_index import idf_of, length_norm
from gedbd.retrieval.reports.feature_store import FeatureStore
from gedbd.retrieval.reports.first_stage import DEPTHS, WORDS, FirstStage, QueryScores, choose_groups
from gedbd.retrieval.reports.known_groups import KnownGroups
from gedbd.retrieval.reports.report_features import FIELDS, TERM_KINDS, ReportFeatures, days_of, terms_of
from gedbd.retrieval.reports.term_index import TermIndex, TermQuery
from gedbd.triage.bug_report import Filters, Report, as_table
from gedbd.triage.shared_store.postgres_store import PostgresStore, category, columns_of, read_vectors
from gedbd.triage.shared_store.stored_terms import BLOCK, LIST, POSTING, HashedVocabulary, of_kind
from gedbd.triage.storage.in_memory import MAX_COMMON_SHARE, MIN_COMMON_REPORTS
from gedbd.triage.storage.rows import TERM_COLUMNS

# Postings of a kind that a search reads, those of the rarest terms first: where a query has more, the reports that it
# finds by words are nearly those with the highest scores, and the time does not grow with the index.
MAX_POSTINGS = 300_000
SPARE = 3  # times as many reports get exact scores there
ROUNDING = 2e-4  # more than what rounding to single precision changes in a score, as a share
MAX_LISTED = 50_000  # reports that pass a filter and are compared one by one, without the index of vectors
FEATURES = ", ".join((*FIELDS, "day", "resolved", "lengths", *TERM_COLUMNS))


class Restriction(NamedTuple):
    """Which reports may be found, as a condition on the table of features.

    Attributes:
        condition: In SQL.
        values: Its values.
    """

    condition: str
    values: list[Any]

    @classmethod
    def of(cls, own_key: int | None, filters: Filters) -> "Restriction":
        """Those that pass the filters, without the report that is searched for."""
        parts: list[tuple[str, Any]] = []
        if own_key is not None:
            parts.append(("features.key <> %s", own_key))
        for moment, sign in ((filters.created_from, ">="), (filters.created_before, "<")):
            if moment is not None:
                parts.append((f"day {sign} %s", float(days_of(pd.Series(pd.to_datetime([moment], utc=True)))[0])))
        if filters.component is not None:
            parts.append(("component = %s", category(filters.component)))
        return cls(" AND ".join(text for text, _ in parts) or "true", [value for _, value in parts])


class FoundReports:
    """The reports that are compared in detail; it offers what a search reads of ``InMemoryIndex``.

    Args:
        server_store: The index, in a transaction that reads.
        store: Their features.
        ids: Their issue ids.
        vocabulary: Names the terms of the query.
        count: Number of all reports.
    """

    def __init__(
        self, server_store: PostgresStore, store: FeatureStore, ids: list[str], vocabulary: HashedVocabulary, count: int
    ) -> None:
        self.store = store
        self.ids = ids
        self.vocabulary = vocabulary
        self._server_store = server_store
        self._count = count

    def members(self, groups: KnownGroups, row: int) -> list[int]:
        """See ``InMemoryIndex``."""
        rows = groups.members.get(int(groups.group[row]), np.array([row]))
        days = self.store["day"][rows]
        return list((rows if np.isnan(days).any() else rows[np.argsort(days, kind="stable")]).tolist())

    def rarity(self, words: Sequence[str], count: int) -> np.ndarray:
        """See ``InMemoryIndex``; ``count`` is not used: all reports are there."""
        (plain,) = HashedVocabulary()([words], learn=False)
        numbers = of_kind(plain, "text")
        known = term_frequency(self._server_store, numbers)
        frequency = np.array([known.get(number, 0) for number in numbers.tolist()])
        is_rare = (frequency > 0) & (frequency <= max(MAX_COMMON_SHARE * self._count, MIN_COMMON_REPORTS))
        return np.where(is_rare, np.log((self._count + 1) / frequency.clip(1)), 0)


class StoreScores(QueryScores):
    """Scores of some reports, with the statistics of all of them.

    Args:
        server_store: The index, in a transaction that reads.
        store: The features of R reports.
        query: The new report.
        groups: The groups of the R reports.
        words: Its terms.
        keys: ``(R,)`` keys of the reports, ascending.
        totals: See ``PostgresStore.totals``.
    """

    def __init__(
        self,
        server_store: PostgresStore,
        store: FeatureStore,
        query: ReportFeatures,
        groups: KnownGroups,
        words: Mapping[str, TermQuery],
        keys: np.ndarray,
        totals: Sequence[Any],
    ) -> None:
        super().__init__(store, query, groups, words=words)
        self._server_store = server_store
        self._keys = keys
        self._totals = totals

    def reports_since(self, rows: np.ndarray) -> np.ndarray:
        """See ``QueryScores``."""
        count, next_key = self._totals[:2]
        since = next_key - self._keys[rows]
        return since if count == next_key else since - self._counted("holes", "true", [], rows)

    def reports_of_component_since(self, rows: np.ndarray) -> np.ndarray:
        """See ``QueryScores``."""
        return self._counted("features", "component = %s", [int(self.query.columns["component"][0])], rows)

    def any_is_resolved(self) -> bool:
        """See ``QueryScores``."""
        return bool(self._server_store.server.query("SELECT 1 FROM features WHERE resolved IS NOT NULL LIMIT 1"))

    def mean_vector(self) -> np.ndarray:
        """See ``QueryScores``."""
        return np.frombuffer(self._totals[5], dtype=np.float32)

    def _counted(self, table: str, condition: str, values: list[Any], rows: np.ndarray) -> np.ndarray:
        """How many rows of a table have the key of each of some reports or a higher one, ``(R,)``."""
        bounds = np.unique(self._keys[rows])
        bucket = "SELECT width_bucket(key, %s::int[]), count(*)"
        count = f"{bucket} FROM {table} WHERE {condition} AND key >= %s GROUP BY 1"
        known = self._server_store.server.query(count, bounds.tolist(), *values, int(bounds[0])) if len(rows) else []
        sizes = np.zeros(len(bounds) + 1, dtype=np.int64)
        for place, size in known:
            sizes[place] = size
        since = np.cumsum(sizes[::-1])[::-1]
        return since[np.searchsorted(bounds, self._keys[rows]) + 1]


def search_store(
    server_store: PostgresStore, report: Report, filters: Filters, vector: Callable[[], np.ndarray]
) -> tuple[FirstStage, FoundReports]:
    """Finds the candidates for a report, in a transaction that reads.

    Args:
        server_store: The index.
        report: The new report.
        filters: See ``StoredIndex.search``.
        vector: Waits for its vector ``(D,)``.
    """
    totals = server_store.totals()
    count = totals[0]
    query = server_store.server.query
    table = as_table([report])
    vocabulary = HashedVocabulary(remember=True)
    terms = {kind: [of_kind(own[0], kind)] for kind, own in terms_of(table, vocabulary, learn=False).items()}
    frequency = term_frequency(server_store, np.concatenate([own[0] for own in terms.values()]))
    own = query("SELECT key FROM reports WHERE issue_id = %s", report.issue_id) if report.issue_id else []
    restriction = Restriction.of(own[0][0] if own else None, filters)
    likely = {}
    for kind, number in zip(TERM_KINDS, totals[2], strict=True):
        if kind in WORDS:
            mean = max(number / max(count, 1), 1e-9)
            likely[kind] = _likely(server_store, terms[kind][0], frequency, (count, mean), DEPTHS[kind], restriction)
    codes = {name: np.array(value, dtype=np.int64) for name, value in columns_of(table).items()}
    recent = _latest(server_store, int(codes["component"][0]), restriction)
    nearest = _nearest(server_store, vector(), restriction)
    wanted = np.unique(np.concatenate([recent, nearest, *likely.values()]))
    condition, values = restriction
    rows = query(
        f"WITH found AS (SELECT DISTINCT grp FROM features WHERE key = ANY(%s))"
        f" SELECT key, grp, issue_id, vector, {condition}, {FEATURES} FROM found"
        " JOIN features USING (grp) JOIN vectors USING (key) ORDER BY key",
        wanted.tolist(),
        *values,
    )
    latest = query("SELECT greatest((SELECT max(day) FROM features), (SELECT max(resolved) FROM features))")[0][0]
    store = _read_features(rows, totals, np.nan if latest is None else latest)
    day = days_of(table["created_at"]) if report.created_at else np.nextafter([store.latest_day], np.inf)
    features = ReportFeatures(vector()[None], terms, codes | {"day": day})
    keys = np.array([row[0] for row in rows], dtype=np.int64)
    allowed = np.array([row[4] for row in rows], dtype=bool)
    _, first, which = np.unique([row[1] for row in rows], return_index=True, return_inverse=True)
    groups = KnownGroups.of(first[which])
    queries: dict[str, TermQuery] = {
        kind: store.terms[kind].query_with(terms[kind][0], frequency) for kind in TERM_KINDS
    }
    scores = StoreScores(server_store, store, features, groups, queries, keys, totals)
    places = {kind: np.searchsorted(keys, some) for kind, some in likely.items()}
    best = [_best(queries[kind], some, DEPTHS[kind]) for kind, some in places.items()]
    lists = [*best, np.searchsorted(keys, recent), np.searchsorted(keys, nearest)]
    found = choose_groups(scores, np.unique(np.concatenate(lists)), None if allowed.all() else allowed)
    return found, FoundReports(server_store, store, [row[2] for row in rows], vocabulary, count)


def term_frequency(server_store: PostgresStore, numbers: np.ndarray) -> dict[int, int]:
    """How many reports have each of some terms, by the terms' numbers; without those that none has."""
    count = "SELECT term, sum(n)::bigint FROM postings WHERE term = ANY(%s) GROUP BY term"
    return dict(server_store.server.query(count, np.unique(numbers).tolist()))


def _likely(
    server_store: PostgresStore,
    terms: np.ndarray,
    frequency: Mapping[int, int],
    statistics: tuple[int, float],
    depth: int,
    restriction: Restriction,
) -> np.ndarray:
    """The keys of the reports that may have the highest BM25, ascending.

    Args:
        server_store: The index.
        terms: ``(L,)`` the query's terms of a kind.
        frequency: See ``term_frequency``.
        statistics: Number of reports, and the mean length of their texts.
        depth: How many reports are looked for.
        restriction: Which may be found.
    """
    own, times = np.unique(terms, return_counts=True)
    sizes = np.array([frequency.get(term, 0) for term in own.tolist()], dtype=np.int64)
    rarest = [place for place in np.argsort(sizes, kind="stable").tolist() if sizes[place]]
    read = [place for place in rarest if sizes[rarest[: rarest.index(place) + 1]].sum() <= MAX_POSTINGS] or rarest[:1]
    # A single term that most reports have: the latest of them.
    limit = "ORDER BY first DESC LIMIT %s" if len(read) == 1 else "LIMIT %s"
    select = f"SELECT term, n, docs FROM postings WHERE term = ANY(%s) {limit}"
    most = MAX_POSTINGS // BLOCK if sizes[read].sum() > MAX_POSTINGS else None
    rows = server_store.server.query(select, own[read].tolist(), most) if read else []
    if not rows:
        return np.empty(0, dtype=np.int64)
    docs = np.frombuffer(b"".join(row[2] for row in rows), dtype=POSTING)
    place = np.repeat(np.searchsorted(own, [row[0] for row in rows]), [row[1] for row in rows])
    counts = docs["count"].astype(np.float64)
    saturation = counts / (length_norm(docs["length"], statistics[1]) + counts)
    weights = (idf_of(sizes, statistics[0]) * times)[place] * saturation
    keys, which = np.unique(docs["key"], return_inverse=True)
    scores = np.bincount(which, weights, len(keys))
    if restriction.values:
        keys, scores = _allowed(server_store, keys, scores, restriction)
    wanted = depth if len(read) == len(rarest) and most is None else SPARE * depth
    if len(keys) <= wanted:
        return keys.astype(np.int64)
    lowest = np.partition(scores, -wanted)[-wanted]
    return keys[scores >= lowest * (1 - ROUNDING)].astype(np.int64)


def _allowed(
    server_store: PostgresStore, keys: np.ndarray, scores: np.ndarray, restriction: Restriction
) -> tuple[np.ndarray, np.ndarray]:
    """The reports that may be found, of those with the highest scores, and their scores."""
    best = np.sort(np.argsort(-scores, kind="stable")[:MAX_LISTED])
    select = f"SELECT key FROM features WHERE key = ANY(%s) AND {restriction.condition}"
    found = server_store.server.query(select, keys[best].tolist(), *restriction.values)
    is_allowed = np.isin(keys, [key for (key,) in found])
    return keys[is_allowed], scores[is_allowed]


def _best(query: TermQuery, rows: np.ndarray, depth: int) -> np.ndarray:
    """The rows with the highest exact scores, see ``TermQuery.best``."""
    scores = query.scores(rows)
    return rows[np.argsort(-scores, kind="stable")][:depth]


def _latest(server_store: PostgresStore, component: int, restriction: Restriction) -> np.ndarray:
    """The keys of the latest reports of a component; of all where it has no name, or no report has it."""
    condition, values = restriction
    latest = f"SELECT key FROM features WHERE {condition} {{}} ORDER BY key DESC LIMIT {DEPTHS['recent']}"
    rows = []
    if component >= 0:
        rows = server_store.server.query(latest.format("AND component = %s"), *values, component)
    return _keys(rows or server_store.server.query(latest.format(""), *values))


def _nearest(server_store: PostgresStore, vector: np.ndarray, restriction: Restriction) -> np.ndarray:
    """The keys of the reports with the most similar vectors."""
    query = server_store.server.query
    condition, values = restriction
    dim = len(vector)
    distance = "vector <#> %s::vector"
    if server_store.has_nearest():
        listed = f"SELECT 1 FROM features WHERE {condition} LIMIT {MAX_LISTED + 1}"
        num_allowed = query(f"SELECT count(*) FROM ({listed}) AS listed", *values)[0][0] if values else None
        if num_allowed is None or num_allowed > MAX_LISTED:
            distance = f"vector::halfvec({dim}) <#> %s::halfvec({dim})"
    source = f"vectors JOIN features USING (key) WHERE {condition}" if values else "vectors"
    written = f"[{','.join(map(str, vector.tolist()))}]"
    return _keys(query(f"SELECT key FROM {source} ORDER BY {distance} LIMIT {DEPTHS['dense']}", *values, written))


def _keys(rows: Sequence[tuple[int, ...]]) -> np.ndarray:
    return np.array([row[0] for row in rows], dtype=np.int64)


def _read_features(rows: Sequence[tuple[Any, ...]], totals: Sequence[Any], latest_day: float) -> FeatureStore:
    """The features of some reports, from the rows of the statement in ``search_store``."""
    first = 5
    columns = {
        name: np.array([row[first + place] for row in rows], dtype=np.int64) for place, name in enumerate(FIELDS)
    }
    for place, name in enumerate(("day", "resolved"), start=first + len(FIELDS)):
        columns[name] = np.array([row[place] for row in rows], dtype=np.float64)
    last = first + len(FIELDS) + 2
    lengths = np.array([row[last] for row in rows], dtype=np.float32).reshape(-1, len(TERM_KINDS))
    terms = {}
    for place, kind in enumerate(TERM_KINDS):
        written = [row[last + 1 + place] for row in rows]
        joined = np.frombuffer(b"".join(written), dtype=LIST)
        starts = np.cumsum([0, *(len(one) // LIST.itemsize for one in written)])
        lists = TermLists(starts, np.ascontiguousarray(joined["term"]), joined["count"].astype(np.float32))
        terms[kind] = TermIndex.of_some(lists, lengths[:, place], totals[0], float(totals[2][place]))
    vectors = read_vectors([row[3] for row in rows]) if rows else np.empty((0, len(totals[4]) // 8), dtype=np.float32)
    return FeatureStore.of_some(vectors, terms, columns, latest_day)
