"""Ranking tasks of all protocols, with their names in reports, tables and files; rankings and their metrics."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.relevance import Relevance
from gedbd.retrieval.scorers.scorer_contract import BLOCK, Scorer

EARLIER = "earlier"
TEST_POOL = "test_pool"
PREFIX = {EARLIER: "", TEST_POOL: "pool_"}
SUFFIX = {EARLIER: ""}
TOP_K = (1, 5, 10, 20, 100)


@dataclass(frozen=True)
class ProtocolWords:
    """The description of a protocol."""

    heading: str  # heading of its results
    # a paragraph, with ``{count}`` for the number of queries and ``{reachable}`` for the share of queries with a
    # relevant candidate
    text: str
    unit: str = "documents"  # unit of ranks, in the plural
    lacks: str = "a relevant candidate"  # requirement of a query, for the message "no report of part val has ..."

    def paragraph(self, count: str, reachable: str) -> str:
        """The paragraph with its numbers."""
        # Not str.format, as the words of a run folder are not trusted.
        return self.text.replace("{count}", count).replace("{reachable}", reachable)


EARLIER_WORDS = ProtocolWords(
    "Ranking",
    "Each of {count} test reports with an earlier duplicate is a query against all reports created before it; ranks"
    " count duplicate groups. {reachable} of the queries have a duplicate that can be found.",
    "groups",
    "an earlier duplicate",
)
WITHIN_TRACKER_WORDS = replace(
    EARLIER_WORDS, text=EARLIER_WORDS.text.replace("before it;", "before it in its tracker;")
)
TEST_POOL_WORDS = ProtocolWords(
    "Ranking in the test pool",
    "Each of {count} test reports with a duplicate in the test split is a query against the other reports of that"
    " split, earlier and later ones; ranks count reports. There are fewer irrelevant and more relevant candidates"
    " than in practice.",
    "reports of the pool",
    "a duplicate in it for protocol=test_pool",
)


def metric_prefix(protocol: str) -> str:
    """Prefix of a protocol's metrics: ``test_pool -> pool_``, empty for ``earlier``."""
    return PREFIX.get(protocol, f"{protocol}_")


def file_suffix(protocol: str) -> str:
    """Suffix of a protocol's tables, figures and files: ``ranking_test_pool.csv``."""
    return SUFFIX.get(protocol, f"_{protocol}")


def generic_words(protocol: str) -> ProtocolWords:
    """The description of an unknown protocol."""
    text = "Each of {count} queries is ranked against its candidates; {reachable} of them have a relevant candidate."
    return ProtocolWords(f"Ranking by {protocol.replace('_', ' ')}", text)


def words_of(protocol: str, stored: Mapping[str, Mapping[str, str]]) -> ProtocolWords:
    """The description of a protocol of a finished run."""
    fields = asdict(generic_words(protocol)) | dict(stored.get(protocol, {}))
    return ProtocolWords(*(str(fields[name]) for name in ("heading", "text", "unit", "lacks")))


CANDIDATE_SETS_WORDS = generic_words("candidate_sets")
EARLIER_DOCUMENTS_WORDS = generic_words("earlier_documents")


class RankingTask(ABC):
    """Queries with their candidates and relevant documents. Queries and documents are rows of one table or of two."""

    queries: np.ndarray  # ``(Q,)`` rows of the query table
    top_k: tuple[int, ...]  # ranks K at which metrics are computed
    name: str  # id of the protocol, such as ``earlier``
    words: ProtocolWords  # description of the protocol
    warnings: tuple[str, ...]  # warnings for the user
    ranks_later: ClassVar[bool] = False  # whether documents that are created after the query are ranked too

    def __len__(self) -> int:
        """Number of queries Q."""
        return len(self.queries)

    @property
    @abstractmethod
    def against(self) -> str:
        """The candidates in words: "12 queries against all earlier reports"."""

    @property
    @abstractmethod
    def needed(self) -> np.ndarray:
        """Rows of the documents whose scores are read, ascending."""

    @abstractmethod
    def candidates(self, index: int) -> np.ndarray:
        """Rows of the candidates of query ``index``, ascending."""

    @abstractmethod
    def relevant(self, index: int) -> np.ndarray:
        """Rows of the relevant documents of query ``index``, ascending, candidates or not."""

    def unit(self, rows: np.ndarray) -> np.ndarray:
        """The unit of each document that a rank counts: its group, or here the document itself."""
        return rows


# Finds the queries of a split: (corpus, wanted, *, top_k) to a task; ``conf/protocol`` names one for each protocol.
TaskFinder = Callable[..., RankingTask]


@dataclass(frozen=True)
class EarlierReports(RankingTask):
    """Ranks the reports before each report with an earlier duplicate; ranks count groups.

    The protocol of "Duplicate Bug Report Detection: How Far Are We?" (TOSEM 2023).
    """

    # ``(Q,)`` rows of the queries. Candidates are the rows before: reports created earlier, or in the same second with
    # a lower id.
    queries: np.ndarray
    # ``(Q,)`` the first row created within the window; without a window, the first row of the query's tracker
    window_start: np.ndarray
    group: np.ndarray  # ``(N,)`` group of every report
    top_k: tuple[int, ...] = TOP_K  # ranks K at which metrics are computed
    name: str = EARLIER
    words: ProtocolWords = EARLIER_WORDS
    warnings: tuple[str, ...] = ()
    first: int = 0  # the first row of the first tracker with a query

    @classmethod
    def find(
        cls, corpus: Corpus, wanted: np.ndarray, window_days: float | None = None, top_k: tuple[int, ...] = TOP_K
    ) -> "EarlierReports":
        """Finds the queries of a split.

        Candidates are the groups with a report in the window before the query; None for all groups of its tracker.

        Raises:
            ValueError: If a window is given and there are no dates, or no query's group is within its window.
        """
        has_earlier = corpus.group < np.arange(len(corpus))  # a group has the number of its oldest row
        queries = np.flatnonzero(wanted & has_earlier)
        if window_days is None:
            start = corpus.documents.first_of_tracker[queries]
            first = int(start.min(initial=queries.max(initial=0)))
            words = WITHIN_TRACKER_WORDS if "tracker" in corpus.reports else EARLIER_WORDS
            return cls(queries, start, corpus.group, top_k, words=words, first=first)
        created_at = corpus.reports["created_at"]
        if created_at.isna().any():
            raise ValueError(f"ranking.window_days={window_days} needs creation dates, and {corpus.name} has none")
        # A group with a report since this time is a candidate with all its reports.
        window_dates = created_at[queries] - pd.Timedelta(days=window_days)
        task = cls(queries, np.asarray(created_at.searchsorted(window_dates, side="left")), corpus.group, top_k)
        in_window = zip(queries, task.window_start, strict=True)
        if len(task) and not any(corpus.group[row] in corpus.group[start:row] for row, start in in_window):
            raise ValueError(
                f"ranking.window_days={window_days} excludes the groups of all {len(task)} queries of {corpus.name}:"
                " widen it"
            )
        return task

    @property
    def against(self) -> str:
        """What queries are ranked against, in words."""
        return f"all earlier reports{'' if self.words is EARLIER_WORDS else ' of their tracker'}"

    @property
    def needed(self) -> np.ndarray:
        """All rows up to the last query, without those of trackers before the first one with a query."""
        return np.arange(self.first, self.queries.max(initial=-1) + 1)

    def candidates(self, index: int) -> np.ndarray:
        """All earlier reports of the groups that have a report in the window."""
        earlier = self.group[: self.queries[index]]
        if self.window_start[index] == 0:
            return np.arange(len(earlier))
        # Groups 0 1 0 3 with a window from row 2: groups 0 and 3 are in it, so that rows 0, 2 and 3 are candidates.
        is_in_window = np.zeros(len(self.group), dtype=bool)
        is_in_window[earlier[self.window_start[index] :]] = True
        return np.flatnonzero(is_in_window[earlier])

    def relevant(self, index: int) -> np.ndarray:
        """All earlier reports of the query's group, in the window or not."""
        row = self.queries[index]
        return np.flatnonzero(self.group[:row] == self.group[row])

    def unit(self, rows: np.ndarray) -> np.ndarray:
        """The group of each report."""
        return np.asarray(self.group[rows])


@dataclass(frozen=True)
class ReportPool(RankingTask):
    """The reports of a split as queries and candidates of each other, of any date; ranks count reports.

    The protocol of "SBERT with Contrastive Learning + VLM Augmentation".
    """

    queries: np.ndarray  # ``(Q,)`` rows of the reports that have a duplicate in the pool
    pool: np.ndarray  # ``(R,)`` rows of all reports of the split
    group: np.ndarray  # ``(N,)`` group of every report
    top_k: tuple[int, ...] = TOP_K  # ranks K at which metrics are computed
    name: str = TEST_POOL
    words: ProtocolWords = TEST_POOL_WORDS
    warnings: tuple[str, ...] = ()
    ranks_later: ClassVar[bool] = True

    @classmethod
    def find(cls, corpus: Corpus, wanted: np.ndarray, top_k: tuple[int, ...] = TOP_K) -> "ReportPool":
        """The pool of the reports ``wanted``, ``(N,)`` bool."""
        pool = np.flatnonzero(wanted)
        # Only duplicates in the pool count.
        group_size = np.bincount(corpus.group[pool], minlength=len(corpus))
        has_duplicate = group_size[corpus.group[pool]] > 1
        return cls(pool[has_duplicate], pool, corpus.group, top_k)

    @property
    def against(self) -> str:
        """What queries are ranked against, in words."""
        return f"the {len(self.pool):,} of this split"

    @property
    def needed(self) -> np.ndarray:
        """The pool."""
        return self.pool

    def candidates(self, index: int) -> np.ndarray:
        """The pool without the query."""
        return np.asarray(self.pool[self.pool != self.queries[index]])

    def relevant(self, index: int) -> np.ndarray:
        """The other reports of the query's group in the pool."""
        others = self.candidates(index)
        return np.asarray(others[self.group[others] == self.group[self.queries[index]]])


@dataclass(frozen=True)
class CandidateSets(RankingTask):
    """A set of candidates for each query; ranks count documents, or groups if there are any."""

    queries: np.ndarray  # ``(Q,)`` rows of the query table
    candidate_sets: Sequence[np.ndarray]  # for each query the rows of its candidates, ascending
    relevance: Relevance  # which documents are relevant
    top_k: tuple[int, ...] = TOP_K  # ranks K at which metrics are computed
    name: str = "candidate_sets"  # id of the protocol
    # ``(N,)`` group of each document, or None. With groups, queries and documents are rows of one table, only earlier
    # documents are relevant, and ranks count groups.
    group: np.ndarray | None = None
    words: ProtocolWords = CANDIDATE_SETS_WORDS
    warnings: tuple[str, ...] = ()

    @property
    def mean_candidates(self) -> float:
        """Mean size of the candidate sets; 0 without queries."""
        return float(np.mean([len(rows) for rows in self.candidate_sets])) if len(self) else 0.0

    @property
    def against(self) -> str:
        """What queries are ranked against, in words."""
        return f"the candidates of each, {self.mean_candidates:,.0f} on average"

    @property
    def needed(self) -> np.ndarray:
        """The candidates of all queries, and the queries if they are documents of the same table."""
        queries = np.empty(0, dtype=np.int64) if self.group is None else self.queries
        return np.unique(np.concatenate([queries, *self.candidate_sets]))

    def candidates(self, index: int) -> np.ndarray:
        """The candidate set of the query."""
        return self.candidate_sets[index]

    def relevant(self, index: int) -> np.ndarray:
        """All relevant documents, in the set or not; in one table only those before the query."""
        query = int(self.queries[index])
        rows = self.relevance.relevant(query)
        return rows if self.group is None else np.asarray(rows[rows < query])

    def unit(self, rows: np.ndarray) -> np.ndarray:
        """The group of each document, or without groups the document."""
        return rows if self.group is None else np.asarray(self.group[rows])


@dataclass(frozen=True)
class EarlierDocuments(RankingTask):
    """Queries ranked against the documents of another table that were created before them; ranks count documents."""

    queries: np.ndarray  # ``(Q,)`` rows of the query table
    # ``(Q,)`` number of documents created before each query: candidates are rows 0..num_earlier-1
    num_earlier: np.ndarray
    relevance: Relevance  # which documents are relevant
    top_k: tuple[int, ...] = TOP_K  # ranks K at which metrics are computed
    name: str = "earlier_documents"  # id of the protocol
    words: ProtocolWords = EARLIER_DOCUMENTS_WORDS
    warnings: tuple[str, ...] = ()

    @property
    def against(self) -> str:
        """What queries are ranked against, in words."""
        return "all earlier documents"

    @property
    def needed(self) -> np.ndarray:
        """All documents created before the last query."""
        return np.arange(self.num_earlier.max(initial=0))

    def candidates(self, index: int) -> np.ndarray:
        """The earlier documents."""
        return np.arange(self.num_earlier[index])

    def relevant(self, index: int) -> np.ndarray:
        """The relevant documents that were created before the query."""
        # Later documents are not candidates, and would lower the average precision of any ranking.
        rows = self.relevance.relevant(int(self.queries[index]))
        return np.asarray(rows[rows < self.num_earlier[index]])


def evenly_spaced(first: int, end: int, max_count: int) -> np.ndarray:
    """At most ``max_count`` evenly spaced integers of ``range(first, end)``: two of 3, 4, 5 are 3, 5."""
    count = min(end - first, max_count)
    return np.unique(np.linspace(first, end - 1, count).round().astype(np.int64))


PRECISION_AT = "average_precision@"
MAX_DEPTH = 100


@dataclass(frozen=True)
class Ranking:
    """The result of ranking."""

    # one row per query: ``query`` (row), ``reachable`` (a relevant document is a candidate), ``rank`` (distinct
    # units, such as groups, up to and including the first relevant one; 0 if there is none), ``average_precision`` over
    # single documents, ``found`` (row of the first relevant document, -1 if none), and for each K
    # ``average_precision@K``: of the first K documents, over the K or fewer that could be found there
    queries: pd.DataFrame
    # the best ``MAX_DEPTH`` units of each query: ``query``, ``place`` (1 is best), ``candidate`` (row of the unit's
    # best document), ``score``
    top: pd.DataFrame


def rank(task: RankingTask, scorer: Scorer) -> Ranking:
    """Ranks the units of every query by their best document; of equal scores the document of the lower row comes first.

    Raises:
        ValueError: If a score is not a number.
    """
    rows: list[tuple[float, ...]] = []
    top = [pd.DataFrame(np.empty((0, 4), dtype=np.int64), columns=["query", "place", "candidate", "score"])]
    for start in range(0, len(task), BLOCK):
        queries = task.queries[start : start + BLOCK]
        # In single precision, so that a scorer's precision does not break ties.
        block = np.asarray(scorer.scores(queries), dtype=np.float32)
        for index, scores in enumerate(block, start=start):
            candidates = task.candidates(index)
            if np.isnan(scores[candidates]).any():
                raise ValueError(f"the scores of the query in row {task.queries[index]} are not all numbers")
            order = candidates[np.argsort(-scores[candidates], kind="stable")]
            rows.append(_query_result(task, index, order))
            # Each unit once, by its best document: units [7, 7, 4, 7] are first at [0, 2].
            first = np.sort(np.unique(task.unit(order), return_index=True)[1])
            best = order[first][:MAX_DEPTH]
            places = np.arange(1, len(best) + 1)
            query = task.queries[index]
            top.append(pd.DataFrame({"query": query, "place": places, "candidate": best, "score": scores[best]}))
    columns = ["query", "reachable", "rank", "average_precision", "found"]
    columns += [f"{PRECISION_AT}{k}" for k in task.top_k]
    return Ranking(pd.DataFrame(rows, columns=columns), pd.concat(top[1:] or top, ignore_index=True))


def ranking_metrics(queries: pd.DataFrame) -> dict[str, float]:
    """Means over queries: RR@k, MRR, MAP and MAP@k.

    RR@k is the *recall rate* of the duplicate-detection papers: the share of queries with a relevant unit among the
    first k, which information retrieval calls success@k (its RR is the reciprocal rank). A rank of 0 is a miss.
    """
    return {str(name): float(values.mean()) for name, values in per_query(queries).items()}


def rank_all(tasks: Mapping[str, RankingTask], scorers: Mapping[str, Scorer]) -> dict[str, dict[str, Ranking]]:
    """Rankings by protocol and scorer."""
    rankings = {}
    for protocol, task in tasks.items():
        rankings[protocol] = {name: rank(task, scorer) for name, scorer in scorers.items()}
    return rankings


def protocol_metrics(rankings: Mapping[str, Mapping[str, Ranking]], name: str) -> dict[str, float]:
    """The metrics of one scorer by all protocols, named as in ``metric_names``."""
    metrics = {}
    for protocol, by_name in rankings.items():
        for metric, value in ranking_metrics(by_name[name].queries).items():
            metrics[metric_prefix(protocol) + metric] = value
    return metrics


def per_query(queries: pd.DataFrame) -> pd.DataFrame:
    """All metrics of each query, by name; ``ranking_metrics`` are their means."""
    position = queries["rank"].to_numpy(dtype=float)
    position[position == 0] = np.inf  # a miss: no RR@k counts it, and its reciprocal rank is 0
    top_k = [int(name.removeprefix(PRECISION_AT)) for name in map(str, queries) if name.startswith(PRECISION_AT)]
    values = {f"rr@{k}": (position <= k).astype(float) for k in top_k}
    values |= {"mrr": 1 / position, "map": queries["average_precision"].to_numpy()}
    return pd.DataFrame(values | {f"map@{k}": queries[f"{PRECISION_AT}{k}"].to_numpy() for k in top_k})


def metric_names(top_k: Sequence[int] = TOP_K, protocols: Sequence[str] = (EARLIER,)) -> tuple[str, ...]:
    """Names of the metrics that ``protocol_metrics`` returns, each with the prefix of its protocol."""
    names = (*(f"rr@{k}" for k in top_k), "mrr", "map", *(f"map@{k}" for k in top_k))
    return tuple(metric_prefix(protocol) + name for protocol in protocols for name in names)


def _query_result(task: RankingTask, index: int, order: np.ndarray) -> tuple[float, ...]:
    """A row of ``Ranking.queries``, from the candidates, best first."""
    query = task.queries[index]
    hits = np.flatnonzero(np.isin(order, task.relevant(index)))
    if not len(hits):
        return query, False, 0, 0.0, -1, *(0.0 for _ in task.top_k)
    # Units 7 7 4 9 with a first hit at index 3: units 7 and 4 come before, so that the rank is 3.
    position = len(np.unique(task.unit(order[: hits[0]]))) + 1
    precision = np.arange(1, len(hits) + 1) / (hits + 1)
    precision_at = [float(precision[hits < k].sum() / min(k, len(hits))) for k in task.top_k]
    return query, True, position, float(precision.mean()), int(order[hits[0]]), *precision_at
