"""The features of a query's candidates, which rankers of reports read."""

from typing import NamedTuple

import numpy as np

from gedbd.retrieval.reports.feature_store import TERM_KINDS, FeatureStore
from gedbd.retrieval.reports.first_stage import COMPONENT, MIN_COPY_SCORE, FirstStage
from gedbd.retrieval.reports.report_features import FIELDS, ReportFeatures
from gedbd.retrieval.reports.term_index import SHARED, SharedTerms

SCORES = ("dense", "text", "title", "identifiers")
RELATIVE = ("", " z", " rank", " behind")
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


def candidate_features(found: FirstStage) -> np.ndarray:
    """The features of candidates, ``(C, F)`` float32 in the order of ``FEATURES``; NaN where there is no value."""
    columns: dict[str, np.ndarray] = {}
    scores, rows = found.scores, found.row
    store, query, count = scores.store, scores.query, scores.count
    members = _Members.of(found)
    for name in SCORES:
        columns |= relative(name, _score(found, name, rows))
    columns |= _of_members(found, members)
    shared = {kind: SharedTerms.of(store.terms(kind), scores.words[kind], rows) for kind in TERM_KINDS}
    for kind, terms in shared.items():
        columns |= terms.columns(kind)
    columns["query identifiers"] = np.log1p([len(query.terms.identifiers[0])])
    for kind in ("text", "title"):
        copy = scores.words[kind].copy_score
        columns[f"{kind} of copy"] = np.log1p([copy])
        columns[f"{kind} share of copy"] = scores(kind, rows) / max(copy, MIN_COPY_SCORE)
        columns[f"{kind} length"] = np.log1p([len(shared[kind].query.own)])
        columns[f"report {kind} length"] = np.log1p(shared[kind].sizes)
    title = shared["title"]
    num_own = len(title.query.own)
    columns["same title"] = (title.number == title.sizes) & (title.number == num_own) & (title.number > 0)
    # How much like the average report candidates and query are.
    mean = store.mean_vector(count)
    columns["dense hub"] = store.vectors.cosines(rows, mean)
    columns["dense query hub"] = scores.vector()[None] @ mean
    columns |= _fields(store, query, rows)
    columns |= _times(store, query, rows, members, count)
    # 1 where a candidate was not resolved before the query came in, also where it has no date of resolution: a
    # comparison with NaN is false. Where no stored report has such a date, all would look open.
    is_known = store.tells_resolution(count) and not np.isnan(query.day[0])
    columns["open"] = np.where(store.resolved[rows] < query.day[0], 0.0, 1.0) if is_known else np.array([np.nan])
    columns |= relative("sum", found.sums)
    table = np.empty((len(rows), len(FEATURES)), dtype=np.float32)
    for place, name in enumerate(FEATURES):
        table[:, place] = columns[name]
    return table


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


class _Members(NamedTuple):
    """The members of all candidates one after the other: where those of each begin, and how many they are."""

    rows: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, found: FirstStage) -> "_Members":
        sizes = np.fromiter(map(len, found.members), dtype=np.int64, count=len(found.members))
        rows = np.concatenate([found.row[:0], *found.members])
        return cls(rows, np.cumsum(sizes) - sizes, sizes)


def _score(found: FirstStage, name: str, rows: np.ndarray) -> np.ndarray:
    """A score of some reports: cosines as they are, of BM25 the root."""
    scores = found.scores(name, rows)
    return np.asarray(scores if name == "dense" else np.sqrt(scores))


def _of_members(found: FirstStage, members: _Members) -> dict[str, np.ndarray]:
    """Scores of all members of each group."""
    dense, text = (_score(found, name, members.rows) for name in ("dense", "text"))
    if not len(members.rows):
        nothing = np.empty(0)
        return dict.fromkeys(("dense group mean", "text group best", "text group mean", "group size"), nothing)
    return {
        "dense group mean": np.add.reduceat(dense, members.starts) / members.sizes,
        "text group best": np.maximum.reduceat(text, members.starts),
        "text group mean": np.add.reduceat(text, members.starts) / members.sizes,
        "group size": np.log(members.sizes),
    }


def _fields(store: FeatureStore, query: ReportFeatures, rows: np.ndarray) -> dict[str, np.ndarray]:
    """1 where a field is equal, 0 where it differs, NaN where either report has none."""
    columns = {}
    for place, field in enumerate(FIELDS):
        own, others = query.codes[0, place], store.code(place)[rows]
        # An unknown value of the query is below -1: it has one, which no stored report has.
        missing = (others == -1) | (own == -1)
        columns[f"same {field}"] = np.where(missing, np.nan, others == own)
    return columns


def _times(
    store: FeatureStore, query: ReportFeatures, rows: np.ndarray, members: _Members, count: int
) -> dict[str, np.ndarray]:
    """Days and numbers of reports between query and candidates, as logarithms."""
    first = members.rows[members.starts]
    last = members.rows[members.starts + members.sizes - 1]
    columns = {}
    for name, some in (("days", rows), ("days since first", first), ("days since last", last)):
        columns[name] = np.log1p(np.abs(query.day[0] - store.day[some]))
    columns["reports since"] = np.log1p(count - last)
    code = query.codes[0, COMPONENT]
    same = np.flatnonzero(store.code(COMPONENT)[:count] == code)
    between = np.log1p(len(same) - np.searchsorted(same, last))
    is_same = (store.code(COMPONENT)[last] == code) & (code >= 0)
    columns["reports of component since"] = np.where(is_same, between, np.nan)
    return columns
