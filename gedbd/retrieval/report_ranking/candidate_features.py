"""The features of the candidates of queries, which rankers of reports read."""

from collections.abc import Iterable, Sequence

import numpy as np

from gedbd.retrieval.report_ranking.feature_store import FIELDS, TERM_KINDS
from gedbd.retrieval.report_ranking.first_stage import MIN_COPY_SCORE, SUMMED_WORDS, WORDS, FirstStage

RELATIVE = ("", " z", " rank", " behind")
SCORES = ("dense", *WORDS)
SHARED = ("shared", "rarest shared", "share of query", "share of report")
FEATURES = (
    *(f"{name}{kind}" for name in SCORES for kind in RELATIVE),
    *("dense group mean", "text group best", "text group mean", "dense hub", "dense query hub"),
    *(f"{kind} {what}" for kind in TERM_KINDS for what in SHARED),
    *("text of copy", "title of copy", "text share of copy", "title share of copy", "same title"),
    *("text length", "title length", "report text length", "report title length", "query identifiers"),
    *(f"same {field}" for field in FIELDS),
    *("days", "days since first", "days since last", "reports since", "reports of component since", "group size"),
    "open",
    *("sum", "sum z", "sum rank", "sum behind"),
)


def candidate_features(queries: Sequence[FirstStage]) -> list[np.ndarray]:
    """The features of the candidates of some queries of one store.

    Returns:
        For each query ``(C, F)`` float32 in the order of ``FEATURES``; NaN where there is no value.
    """
    candidates = _Candidates(queries)
    if not len(candidates.rows):
        return [np.empty((0, len(FEATURES)), dtype=np.float32) for _ in queries]
    columns = _of_scores(candidates) | _of_terms(candidates) | _of_fields(candidates) | _of_times(candidates)
    table = np.empty((len(candidates.rows), len(FEATURES)), dtype=np.float32)
    for place, name in enumerate(FEATURES):
        table[:, place] = columns[name]
    return np.split(table, np.cumsum(candidates.number)[:-1])


class _Candidates:
    """The P candidates of Q queries, those of the first query, those of the second, and so on.

    Attributes:
        queries: The queries.
        store: The store that they search.
        number: ``(Q,)`` number of candidates of each.
        rows: ``(P,)`` the report of each candidate.
        members: ``(M,)`` the reports of the first candidate's group, those of the second's, and so on.
        sizes: ``(P,)`` number of reports of each candidate's group.
        starts: ``(P,)`` where they begin in ``members``.
        place: ``(P,)`` position of each candidate among all reports that were compared with the queries.
        member_place: ``(M,)`` position of each member, likewise.
    """

    def __init__(self, queries: Sequence[FirstStage]) -> None:
        self.queries = queries
        self.store = queries[0].scores.store
        self.number = np.array([len(query.row) for query in queries])
        self.rows = np.concatenate([query.row for query in queries])
        self.members = np.concatenate([query.member for query in queries])
        self.sizes = np.concatenate([query.sizes for query in queries])
        self.starts = np.cumsum(self.sizes) - self.sizes
        places, member_places, first = [], [], 0
        for query in queries:
            compared = query.compared.rows
            places.append(first + compared.searchsorted(query.row))
            member_places.append(first + compared.searchsorted(query.member))
            first += len(compared)
        self.place = np.concatenate(places)
        self.member_place = np.concatenate(member_places)

    def of_queries(self, values: Iterable[float]) -> np.ndarray:
        """A value of each query for each of its candidates, ``(P,)``."""
        return np.repeat(np.array(list(values)), self.number)

    def column(self, name: str) -> np.ndarray:
        """The values of one of the arrays of ``Compared`` for all reports that were compared."""
        return np.concatenate([getattr(query.compared, name) for query in self.queries])

    def terms(self, kind: str, name: str) -> np.ndarray:
        """The values of one of the arrays of ``SharedTerms`` for all reports that were compared."""
        return np.concatenate([getattr(query.compared.terms[kind], name) for query in self.queries])


def _of_scores(candidates: _Candidates) -> dict[str, np.ndarray]:
    """Scores of candidates and their groups, and cosines of candidates and query with the average report."""
    place, starts, sizes = candidates.place, candidates.starts, candidates.sizes
    dense = candidates.column("dense")
    # Cosines unchanged, the square root of BM25.
    bm25 = {kind: np.sqrt(candidates.terms(kind, "scores")) for kind in WORDS}
    scores = np.stack([dense[place], *(bm25[kind][place] for kind in WORDS)])
    sums = np.concatenate([query.sums for query in candidates.queries])
    columns: dict[str, np.ndarray] = {}
    for names, values in ((SCORES, scores), (("sum",), sums[None])):
        for name, relatives in zip(names, relative(values, candidates.number), strict=True):
            columns |= {f"{name}{kind}": column for kind, column in zip(RELATIVE, relatives, strict=True)}
    text = bm25["text"][candidates.member_place]
    columns["dense group mean"] = np.add.reduceat(dense[candidates.member_place], starts) / sizes
    columns["text group best"] = np.maximum.reduceat(text, starts)
    columns["text group mean"] = np.add.reduceat(text, starts) / sizes
    columns["group size"] = np.log(sizes)
    columns["dense hub"] = candidates.column("hub")[place]
    columns["dense query hub"] = candidates.of_queries(query.scores.hub for query in candidates.queries)
    return columns


def _of_terms(candidates: _Candidates) -> dict[str, np.ndarray]:
    """What the texts of query and candidates share, and how long they are."""
    place = candidates.place
    columns = {}
    for kind in TERM_KINDS:
        words = [query.scores.words[kind] for query in candidates.queries]
        shared = candidates.terms(kind, "weight")[place]
        number = candidates.terms(kind, "number")[place]
        size = candidates.terms(kind, "sizes")[place]
        columns[f"{kind} shared"] = shared
        columns[f"{kind} rarest shared"] = candidates.terms(kind, "rarest")[place]
        # NaN for a query without terms.
        columns[f"{kind} share of query"] = shared / candidates.of_queries(
            terms.idf.sum() if len(terms.own) else np.nan for terms in words
        )
        columns[f"{kind} share of report"] = number / np.where(size > 0, size, np.nan)
        if kind in SUMMED_WORDS:
            query_size = candidates.of_queries(len(terms.own) for terms in words)
            copy = candidates.of_queries(terms.copy_score for terms in words)
            divisor = np.maximum(copy, MIN_COPY_SCORE).astype(np.float32)
            columns[f"{kind} of copy"] = np.log1p(copy)
            columns[f"{kind} share of copy"] = candidates.terms(kind, "scores")[place] / divisor
            columns[f"{kind} length"] = np.log1p(query_size)
            columns[f"report {kind} length"] = np.log1p(size)
            columns[f"same {kind}"] = (number == size) & (number == query_size) & (number > 0)
    identifiers = (len(query.scores.query.terms["identifiers"][0]) for query in candidates.queries)
    columns["query identifiers"] = np.log1p(candidates.of_queries(identifiers))
    return columns


def _of_fields(candidates: _Candidates) -> dict[str, np.ndarray]:
    """Whether query and candidates have the same values."""
    columns = {}
    for field in FIELDS:
        query_value = candidates.of_queries(query.scores.query.columns[field][0] for query in candidates.queries)
        values = candidates.store[field][candidates.rows]
        # Below -1: the query has a value that no stored report has, so it is not missing.
        missing = (values == -1) | (query_value == -1)
        columns[f"same {field}"] = np.where(missing, np.nan, values == query_value)
    return columns


def _of_times(candidates: _Candidates) -> dict[str, np.ndarray]:
    """Days and numbers of reports between query and candidates, and whether candidates were open."""
    store, rows, number = candidates.store, candidates.rows, candidates.number
    scores = [query.scores for query in candidates.queries]
    first = candidates.members[candidates.starts]
    last = candidates.members[candidates.starts + candidates.sizes - 1]
    day = candidates.of_queries(score.query.columns["day"][0] for score in scores)
    columns = {}
    for name, other_rows in (("days", rows), ("days since first", first), ("days since last", last)):
        columns[name] = np.log1p(np.abs(day - store["day"][other_rows]))
    lasts = list(zip(scores, np.split(last, np.cumsum(number)[:-1]), strict=True))
    columns["reports since"] = np.log1p(np.concatenate([store.num_since(rows, score.count) for score, rows in lasts]))
    component = candidates.of_queries(score.query.columns["component"][0] for score in scores)
    is_same = (store["component"][last] == component) & (component >= 0)
    since = [store.num_of_component_since(rows, score.of_component) for score, rows in lasts]
    columns["reports of component since"] = np.where(is_same, np.log1p(np.concatenate(since)), np.nan)
    # 1 where a candidate was not resolved before the query came in, also where it has no date of resolution: a
    # comparison with NaN is false. Where no stored report has such a date, all would look open.
    is_known = ~np.isnan(day) & candidates.of_queries(store.first_resolved < score.count for score in scores)
    columns["open"] = np.where(is_known, np.where(store["resolved"][rows] < day, 0.0, 1.0), np.nan)
    return columns


def relative(values: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Scores, their z-scores and ranks among the candidates of each query, and their distance to the best score.

    Args:
        values: ``(S, P)`` S scores of the candidates of the first query, those of the second, and so on.
        number: ``(Q,)`` how many candidates each query has.

    Returns:
        ``(S, 4, P)`` float64, in the order of ``RELATIVE``.
    """
    table = np.empty((len(values), len(RELATIVE), values.shape[1]))
    table[:, 0] = values
    starts = np.cumsum(number) - number
    for size in np.unique(number[number > 0]).tolist():
        # The scores of queries with the same number of candidates form a table.
        places = (starts[number == size][:, None] + np.arange(size)).ravel()
        block = values[:, places].reshape(-1, size)
        # The rank of each score in its row: 0 for the highest; of equal ones the first comes first.
        order = np.argsort(-block, axis=1, kind="stable")
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.broadcast_to(np.arange(size), block.shape), axis=1)
        scores = block.astype(np.float64)
        deviation = scores.std(axis=1)
        # Not 0: the mean of equal numbers may round to another number.
        differs = deviation > 1e-6 * np.abs(scores).max(axis=1)
        centred = (scores - scores.mean(axis=1)[:, None]) / np.where(differs, deviation, 1.0)[:, None]
        z = np.where(differs[:, None], centred, 0.0)
        columns = (z, np.log1p(np.arange(size))[rank], scores.max(axis=1)[:, None] - scores)
        for kind, column in enumerate(columns, start=1):
            table[:, kind, places] = column.reshape(len(values), -1)
    return table
