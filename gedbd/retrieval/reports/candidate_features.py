"""The features of a query's candidates, which rankers of reports read."""

import numpy as np

from gedbd.retrieval.reports.first_stage import MIN_COPY_SCORE, FirstStage
from gedbd.retrieval.reports.report_features import FIELDS, TERM_KINDS
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
    store, query, count = scores.store, scores.query.columns, scores.count

    def score(name: str, some: np.ndarray) -> np.ndarray:
        # Cosines as they are, of BM25 the root.
        return scores(name, some) if name == "dense" else np.sqrt(scores(name, some))

    for name in SCORES:
        columns |= relative(name, score(name, rows))
    # The members of all groups one after the other, and where those of each begin.
    members = np.concatenate([rows[:0], *found.members])
    sizes = np.array([len(own) for own in found.members], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    dense, text = score("dense", members), score("text", members)
    columns["dense group mean"] = np.add.reduceat(dense, starts) / sizes
    columns["text group best"] = np.maximum.reduceat(text, starts)
    columns["text group mean"] = np.add.reduceat(text, starts) / sizes
    columns["group size"] = np.log(sizes)
    shared = {kind: SharedTerms.of(store.terms[kind], scores.words[kind], rows) for kind in TERM_KINDS}
    for kind, terms in shared.items():
        columns |= terms.columns(kind)
    columns["query identifiers"] = np.log1p([len(scores.query.terms["identifiers"][0])])
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
    for field in FIELDS:
        own, others = query[field][0], store[field][rows]
        # An unknown value of the query is below -1: it has one, which no stored report has.
        missing = (others == -1) | (own == -1)
        columns[f"same {field}"] = np.where(missing, np.nan, others == own)
    # Days and numbers of reports between query and candidates.
    day, component = query["day"][0], query["component"][0]
    last = members[starts + sizes - 1]
    for name, some in (("days", rows), ("days since first", members[starts]), ("days since last", last)):
        columns[name] = np.log1p(np.abs(day - store["day"][some]))
    columns["reports since"] = np.log1p(count - last)
    same = np.flatnonzero(store["component"][:count] == component)
    is_same = (store["component"][last] == component) & (component >= 0)
    between = np.log1p(len(same) - np.searchsorted(same, last))
    columns["reports of component since"] = np.where(is_same, between, np.nan)
    # 1 where a candidate was not resolved before the query came in, also where it has no date of resolution: a
    # comparison with NaN is false. Where no stored report has such a date, all would look open.
    is_known = not np.isnan(day) and not np.isnan(store["resolved"][:count]).all()
    columns["open"] = np.where(store["resolved"][rows] < day, 0.0, 1.0) if is_known else np.array([np.nan])
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
