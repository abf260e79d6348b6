"""The features of a query's candidates, which rankers of reports read."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.reports.feature_store import TERM_KINDS, FeatureStore
from gedbd.retrieval.reports.first_stage import COMPONENT, MIN_COPY_SCORE, FirstStage
from gedbd.retrieval.reports.report_features import FIELDS, ReportFeatures

SCORES = ("dense", "text", "title", "identifiers")
RELATIVE = ("", " z", " rank", " behind")
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


def candidate_features(store: FeatureStore, query: ReportFeatures, found: FirstStage) -> np.ndarray:
    """The features of candidates, ``(C, F)`` float32 in the order of ``FEATURES``; NaN where there is no value."""
    columns: dict[str, np.ndarray] = {}
    count = len(found.scores["dense"])
    rows = found.row
    scores = {"dense": found.scores["dense"]}
    scores |= {name: np.sqrt(found.scores[name]) for name in SCORES[1:]}
    for name in SCORES:
        columns |= relative(name, scores[name][rows])
    columns |= _of_members(found, scores)
    terms = {kind: compare_terms(store, query, kind, rows, count) for kind in TERM_KINDS}
    for kind, compared in terms.items():
        columns |= shared_terms(kind, compared)
    columns |= _of_copies(store, query, found, count)
    columns |= _lengths(query, terms)
    columns |= _hubs(store, query, rows, count)
    columns |= _fields(store, query, rows)
    columns |= _times(store, query, found, count)
    columns["open"] = _open(store, query, rows, count)
    columns |= relative("sum", found.sums)
    return np.column_stack([np.broadcast_to(columns[name], len(rows)) for name in FEATURES]).astype(np.float32)


def relative(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """A score, its z-score and rank among the candidates, and how far it is behind the best one."""
    values = values.astype(np.float64)
    deviation = values.std() if len(values) else 0.0
    # Not 0: the mean of equal numbers may round to another number.
    smallest = 1e-6 * np.abs(values).max(initial=0)
    order = np.argsort(-values, kind="stable")
    rank = np.empty(len(values))
    rank[order] = np.arange(len(values))
    return {
        name: values,
        f"{name} z": (values - values.mean()) / deviation if deviation > smallest else np.zeros(len(values)),
        f"{name} rank": np.log1p(rank),
        f"{name} behind": values.max(initial=-np.inf) - values,
    }


def _of_members(found: FirstStage, scores: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Scores of all members of each group."""
    sizes = np.array([len(members) for members in found.members], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    flat = np.concatenate([found.row[:0], *found.members])
    dense, text = scores["dense"][flat], scores["text"][flat]
    if not len(flat):
        nothing = np.empty(0)
        return dict.fromkeys(("dense group mean", "text group best", "text group mean", "group size"), nothing)
    return {
        "dense group mean": np.add.reduceat(dense, starts) / sizes,
        "text group best": np.maximum.reduceat(text, starts),
        "text group mean": np.add.reduceat(text, starts) / sizes,
        "group size": np.log(sizes),
    }


class ComparedTerms(NamedTuple):
    """The distinct terms of one kind that query and candidates have.

    Attributes:
        own: How many the query has.
        own_idf: The sum of their idf.
        sizes: ``(C,)`` how many each candidate has.
        number: ``(C,)`` how many it shares with the query.
        shared: ``(C,)`` the sum of their idf.
        rarest: ``(C,)`` the highest idf among them, 0 where there is none.
    """

    own: int
    own_idf: float
    sizes: np.ndarray
    number: np.ndarray
    shared: np.ndarray
    rarest: np.ndarray


def compare_terms(
    store: FeatureStore, query: ReportFeatures, kind: str, rows: Sequence[int] | np.ndarray, count: int
) -> ComparedTerms:
    """The terms that query and candidates share."""
    own = np.unique(getattr(query.terms, kind)[0])
    frequency = getattr(store, kind).frequency(own, count)
    idf = np.log(1 + (count - frequency + 0.5) / (frequency + 0.5))
    lists = store.distinct(kind, rows)
    sizes = np.array([len(one) for one in lists], dtype=np.int64)
    flat = np.concatenate([np.empty(0, dtype=np.int32), *lists])
    of = np.repeat(np.arange(len(rows)), sizes)
    places = np.searchsorted(own, flat).clip(max=max(len(own) - 1, 0))
    hit = own[places] == flat if len(own) else np.zeros(len(flat), dtype=bool)
    weight = idf[places[hit]] if len(own) else np.empty(0)
    shared = np.bincount(of[hit], weight, len(rows))
    number = np.bincount(of[hit], minlength=len(rows))
    rarest = np.zeros(len(rows))
    np.maximum.at(rarest, of[hit], weight)
    return ComparedTerms(len(own), float(idf.sum()), sizes, number, shared, rarest)


def shared_terms(kind: str, terms: ComparedTerms) -> dict[str, np.ndarray]:
    """The sum of the idf of shared terms, the rarest one's idf, and shares of either side."""
    nothing = np.full(len(terms.sizes), np.nan)
    return {
        f"{kind} shared": terms.shared,
        f"{kind} rarest shared": terms.rarest,
        f"{kind} share of query": terms.shared / terms.own_idf if terms.own else nothing,
        f"{kind} share of report": np.divide(terms.number, terms.sizes, out=nothing.copy(), where=terms.sizes > 0),
    }


def _of_copies(store: FeatureStore, query: ReportFeatures, found: FirstStage, count: int) -> dict[str, np.ndarray]:
    """BM25 as a share of what a copy of the query would score."""
    columns: dict[str, np.ndarray] = {}
    for kind in ("text", "title"):
        copy = getattr(store, kind).self_score(getattr(query.terms, kind)[0], count)
        columns[f"{kind} of copy"] = np.log1p([copy])
        columns[f"{kind} share of copy"] = found.scores[kind][found.row] / max(copy, MIN_COPY_SCORE)
    return columns


def _lengths(query: ReportFeatures, terms: Mapping[str, ComparedTerms]) -> dict[str, np.ndarray]:
    columns: dict[str, np.ndarray] = {"query identifiers": np.log1p([len(query.terms.identifiers[0])])}
    for kind in ("text", "title"):
        columns[f"{kind} length"] = np.log1p([terms[kind].own])
        columns[f"report {kind} length"] = np.log1p(terms[kind].sizes)
    title = terms["title"]
    has_same = (title.own > 0) & (title.number == title.own) & (title.sizes == title.own)
    columns["same title"] = has_same.astype(float)
    return columns


def _hubs(store: FeatureStore, query: ReportFeatures, rows: np.ndarray, count: int) -> dict[str, np.ndarray]:
    """How much like the average report candidates and query are."""
    mean = store.mean_vector(count)
    return {"dense hub": store.vectors[rows] @ mean, "dense query hub": query.vectors @ mean}


def _fields(store: FeatureStore, query: ReportFeatures, rows: np.ndarray) -> dict[str, np.ndarray]:
    """1 where a field is equal, 0 where it differs, NaN where either report has none."""
    columns = {}
    for place, field in enumerate(FIELDS):
        own, others = query.codes[0, place], store.codes[rows, place]
        # An unknown value of the query is below -1: it has one, which no stored report has.
        missing = (others == -1) | (own == -1)
        columns[f"same {field}"] = np.where(missing, np.nan, others == own)
    return columns


def _open(store: FeatureStore, query: ReportFeatures, rows: np.ndarray, count: int) -> np.ndarray:
    """1 where a candidate was not resolved before the query came in, else 0, ``(C,)``.

    NaN without a date of the query, or where no stored report has a date of resolution: then all would look open.
    """
    day = query.day[0]
    if np.isnan(day) or not store.tells_resolution(count):
        return np.full(len(rows), np.nan)
    # A comparison with NaN is false: a report without a date of resolution is open.
    return np.where(store.resolved[rows] < day, 0.0, 1.0)


def _times(store: FeatureStore, query: ReportFeatures, found: FirstStage, count: int) -> dict[str, np.ndarray]:
    """Days and numbers of reports between query and candidates, as logarithms."""
    rows = found.row
    first = np.array([members[0] for members in found.members], dtype=np.int64)
    last = np.array([members[-1] for members in found.members], dtype=np.int64)
    day = store.day[:count]
    columns = {}
    for name, some in (("days", rows), ("days since first", first), ("days since last", last)):
        columns[name] = np.log1p(np.abs(query.day[0] - day[some]))
    columns["reports since"] = np.log1p(count - last)
    code = query.codes[0, COMPONENT]
    same = np.flatnonzero(store.codes[:count, COMPONENT] == code)
    between = np.log1p(len(same) - np.searchsorted(same, last))
    is_same = (store.codes[last, COMPONENT] == code) & (code >= 0)
    columns["reports of component since"] = np.where(is_same, between, np.nan)
    return columns
