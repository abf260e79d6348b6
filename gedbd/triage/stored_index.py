"""An open index: searches reports, adds and deletes them, links duplicates."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from omegaconf import DictConfig

from gedbd.corpora.bug_report import (
    MAX_QUOTED_LENGTH,
    Explanation,
    Filters,
    Match,
    Report,
    as_table,
    check_report,
    check_top_k,
    has_component,
    without_surrogates,
)
from gedbd.corpora.urls import fill_template
from gedbd.encoders.given_encoder import GivenEncoder
from gedbd.io.console import printable_line, stage
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.retrieval.inverted_index import Vocabulary
from gedbd.retrieval.report_ranking.candidate_features import FEATURES, candidate_features
from gedbd.retrieval.report_ranking.feature_store import ERROR_MARK, IDENTIFIER_MARK, days_of
from gedbd.retrieval.report_ranking.first_stage import QueryScores, find_candidates
from gedbd.retrieval.report_ranking.term_index import SharedTerms
from gedbd.text.cleaning import without_template
from gedbd.triage.explanation import SharedLine, explain, reasons
from gedbd.triage.storage.folder_store import FolderStore
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.index_folder import check_index
from gedbd.triage.storage.report_store import ReportStore
from gedbd.triage.storage.stored_model import load_model
from gedbd.triage.triage_model import TriageModel

if TYPE_CHECKING:
    from threadpoolctl import threadpool_limits

    from gedbd.triage.storage.folder_store import FolderState
    from gedbd.triage.storage.postgres_search import SharedState, SharedStore

    IndexState = FolderState | SharedState

SIMILARITY = FEATURES.index("dense")
NO_FILTERS = Filters()


@dataclass(eq=False)
class StoredIndex:
    """The reports of one tracker, ready to be searched.

    All methods are thread-safe. Searches run in parallel without waiting; changes run one at a time, and are stored
    before the method returns. The next call sees the changes of other processes, including a new model. Results equal
    those of a newly opened index.

    All methods raise ``StoreUnavailable`` if the store cannot be used.

    """

    store: "FolderStore | SharedStore"  # closed by this object
    folder: Path  # the folder of the index, or of a service's feedback and deliveries

    def __post_init__(self) -> None:
        self._limits: threadpool_limits | None = None

    def __len__(self) -> int:
        """Number of reports that searches see."""
        return len(self.store)

    @property
    def name(self) -> str:
        """The tracker's name."""
        return self.store.model.name

    @property
    def matching(self) -> TriageModel:
        """Ranker, probabilities and the results of the backtest, learned from the tracker's history."""
        return self.store.model.matching

    def close(self) -> None:
        """Closes the store."""
        self.store.close()
        if self._limits is not None:
            self._limits.restore_original_limits()

    def get(self, issue_id: str) -> Report | None:
        """A stored report, or None."""
        return next(iter(self.get_many([issue_id]).values()), None)

    def get_many(self, ids: Sequence[str]) -> dict[str, Report]:
        """Stored reports by id, without unknown ids."""
        with self.store.read() as state:
            return state.reports.reports([without_surrogates(issue_id) for issue_id in ids])

    def components_like(self, name: str, limit: int) -> list[str]:
        """Components of stored reports: those that contain ``name``, then the others, most common first."""
        with self.store.read() as state:
            return state.reports.components_like(name, limit)

    def groups(self, ids: Sequence[str]) -> dict[str, list[str]]:
        """Ids of each report and its known duplicates, oldest first, by its id; empty if it is not stored."""
        with self.store.read() as state:
            return state.groups(ids)

    def vectors(self, ids: Sequence[str] | None = None) -> tuple[list[str], np.ndarray]:
        """Ids and vectors, ``(N, D)`` unit rows, of all stored reports, or of those among ``ids``."""
        with self.store.read() as state:
            return state.vectors(ids)

    def newest_day(self) -> float:
        """Date of the newest report in days since 1970; NaN without dates."""
        with self.store.read() as state:
            return state.newest_day()

    def explain(self, query: Report, candidate: Report) -> Explanation:
        """Explains the similarity of two reports, regardless of their rank in a search."""
        with self.store.read() as state:
            candidates = state.candidates(query, NO_FILTERS, lambda: state.model.encode_one(as_table([query])).result())
            count = len(candidates.store.terms["text"])
            (explanation,) = explain(query, [candidate], lambda words: candidates.rarity(words, count))
        return explanation

    def search(self, report: Report, top_k: int = 10, filters: Filters = NO_FILTERS) -> list[Match]:
        """Finds the duplicate groups that a report may belong to, best first.

        The stored report of the same id is not a candidate. Scores are standardised over the candidates that pass the
        filters. A report without a date gets that of the newest stored report, so that an outdated index does not make
        all reports look old. Raises ValueError if the text is empty or too long, or ``top_k`` is not between 1 and 50.
        """
        check_report(report)
        check_top_k(top_k)
        with self.store.read() as state:
            query = state.reports.storable(as_stored(report, state.template))
            return find_matches(state, query, top_k, state.reports.storable(filters))

    def add(self, reports: Sequence[Report], fields: Sequence[str] | None = None) -> dict[str, str]:
        """Adds or updates reports, all of them or none.

        A report without a date keeps its stored date, or gets the current time. A report without an address keeps its
        stored address, or gets that of the tracker's template, if there is one.

        Args:
            reports: The reports; of several with the same id, the last one counts.
            fields: Names of the fields to update; other fields of stored reports stay. None for all.

        Returns:
            ``added``, ``updated`` or ``unchanged`` for each id.

        Raises:
            ValueError: If a report has no id, or its text is empty or too long.
        """
        for report in reports:
            check_report(report)
            if not report.issue_id.strip():
                raise ValueError("a report without an id cannot be stored: give issue_id")
        now = datetime.now(UTC)
        with self.store.read() as state:
            changed = changed_reports(state, reports, fields, now)
            model = state.model
        if changed.reports:
            # Before the transaction, which blocks other processes: encoding may take seconds.
            vectors = model.vectors(list(changed.reports.values()))
            with self.store.change() as latest:
                later = changed_reports(latest, reports, fields, now)
                if later.reports and (latest.model is not model or later.reports != changed.reports):
                    vectors = latest.model.vectors(list(later.reports.values()))
                changed = later
                if changed.reports:
                    latest.reports.write_reports(list(changed.reports.values()), list(vectors))
        statuses = {report.issue_id: "unchanged" for report in reports}
        return statuses | {id_: "updated" if id_ in changed.stored else "added" for id_ in changed.reports}

    def link(self, report_id: str, duplicate_id: str, source: str) -> None:
        """Marks two stored reports as duplicates, which merges their groups.

        Raises:
            ValueError: If the ids are equal, or one is not stored.
        """
        if report_id == duplicate_id:
            raise ValueError(f"report {report_id} cannot be a duplicate of itself")
        with self.store.change() as state:
            stored = state.reports.reports([report_id, duplicate_id])
            for issue_id in (report_id, duplicate_id):
                if issue_id not in stored:
                    raise ValueError(f"report {issue_id} is not in the index: add it first")
            state.reports.write_links([(report_id, duplicate_id, source)])

    def unlink(self, report_id: str, duplicate_id: str, source: str | None = None) -> bool:
        """Deletes the links between two reports, stored or deleted, in both directions, of one source or all (None).

        Their group splits if no other link connects them. Returns whether there was a link.
        """
        with self.store.change() as state:
            return state.reports.delete_links(report_id, duplicate_id, source)

    def delete(self, issue_id: str) -> bool:
        """Deletes a report; returns whether it was stored."""
        with self.store.change() as state:
            is_stored = bool(state.reports.reports([issue_id]))
            if is_stored:
                state.reports.delete([issue_id])
        return is_stored

    def forget(self, issue_id: str) -> bool:
        """Deletes a report and erases everything derived from it; returns whether it was stored.

        Text, vector, words and links are overwritten in the index file, its write-ahead log and the files beside it; a
        server keeps bytes until they are overwritten, and in its log and backups. Its duplicates stay duplicates of
        each other.

        Raises:
            OSError: If a file cannot be deleted.
        """
        return self.store.forget(issue_id)


@stage("open the index")
def open_index(
    folder: str | Path,
    cache_dir: str,
    backend: DictConfig | None = None,
    given: GivenEncoder | None = None,
    read_only: bool = False,
    url: str | None = None,
) -> StoredIndex:
    """Opens an index. While an index in a folder is open, NumPy's linear algebra runs on one thread.

    Args:
        folder: The folder of the index, or of a service's feedback and deliveries.
        cache_dir: Folder of 8-bit models, and of query encoders for an index on a server.
        backend: Backend of queries; None for that of the stored reports.
        given: The encoder of an index that was built with a Python object.
        read_only: Whether nothing is written to the folder.
        url: Address of an index on a server, ``postgresql://user@host:port/database``; None for an index in the folder.

    Raises:
        ValueError: If there is no index, it is damaged or of another version, or the server cannot be used.
    """
    folder = Path(folder)

    def load(store: ReportStore) -> tuple[Callable[[pd.DataFrame], np.ndarray], TriageModel]:
        source = str(folder if url is None else store.path)
        return load_model(store, source, cache_dir, backend, given, read_only)

    if url is not None:
        from gedbd.triage.storage.postgres_search import SharedStore

        return StoredIndex(SharedStore(url, load), folder)
    check_index(folder)
    from threadpoolctl import threadpool_limits

    # BLAS threads would compete with those of encoders for the same cores.
    limits = threadpool_limits(1, user_api="blas")
    try:
        index = StoredIndex(FolderStore(folder, load, read_only), folder)
    except BaseException as error:
        limits.restore_original_limits()
        if isinstance(error, StoreUnavailable):
            raise ValueError(str(error)) from error
        raise
    index._limits = limits
    return index


class Changed(NamedTuple):
    """The stored versions of added reports by id, and the reports that differ from these, by id."""

    stored: dict[str, Report]
    reports: dict[str, Report]


def stored_report(index: StoredIndex, issue_id: str) -> Report:
    """A stored report; raises ValueError if there is none."""
    report = index.get(issue_id.strip())
    if report is None:
        quoted = printable_line(issue_id)[:MAX_QUOTED_LENGTH]
        raise ValueError(f"report {quoted!r} is not in the index: check the id, or search by a text")
    return report


def changed_reports(
    state: "IndexState", reports: Sequence[Report], fields: Sequence[str] | None, now: datetime
) -> Changed:
    """Compares reports with the stored ones; see ``StoredIndex.add``."""
    new = [state.reports.storable(as_stored(report, state.template)) for report in reports]
    stored = state.reports.reports([report.issue_id for report in new])
    template = state.reports.fact("url_template")
    # Of several reports with equal id the last one counts, changed or not.
    filled = {report.issue_id: _fill_in(report, stored.get(report.issue_id), template, fields, now) for report in new}
    return Changed(stored, {id_: report for id_, report in filled.items() if stored.get(id_) != report})


def as_stored(report: Report, template: Set[str]) -> Report:
    """A report without the lines of the tracker's template, as it is stored."""
    return replace(report, description=without_template(report.description, template)) if template else report


def _fill_in(
    report: Report, stored: Report | None, template: str, fields: Sequence[str] | None, now: datetime
) -> Report:
    """Fills in a missing date and address, from the stored version, or with the current time and the template."""
    if stored is not None and fields is not None:
        report = replace(stored, **{name: getattr(report, name) for name in fields})
    created_at = report.created_at
    url = report.url
    if created_at is None:
        created_at = stored.created_at if stored else now
    if not url and stored:
        url = stored.url
    if not url and template:
        url = fill_template(template, report.issue_id)
    return replace(report, created_at=created_at, url=url)


def find_matches(state: "IndexState", report: Report, top_k: int, filters: Filters) -> list[Match]:
    """Implements ``StoredIndex.search`` on one state.

    Raises:
        StoreUnavailable: If the texts of the matches cannot be read.
    """
    table = as_table([report])
    vector = state.model.encode_one(table)  # in another thread, while this one compares words
    index = state.candidates(report, filters, vector.result)
    query = index.encoder.encode(table, np.empty((1, 0), dtype=np.float32), learn=False)
    if not report.created_at:  # later than all stored dates, also those of resolutions
        query = replace(query, columns=query.columns | {"day": np.nextafter([index.store.latest_day], np.inf)})
    scores = QueryScores(index.store, query, index.groups, index.cosines, vector.result)
    candidates = find_candidates(scores, _allowed(index, report, filters))
    (features,) = candidate_features([candidates])
    best = state.model.matching.best(features, top_k)
    rows = candidates.row[best.position][:top_k]
    features = features[best.position][:top_k]
    contributions = state.model.matching.ranker.contributions(features)
    why = _reasons(index, candidates.scores, rows, features, contributions, bool(report.created_at))
    members = [tuple(index.ids[row] for row in index.members(row)) for row in rows.tolist()]
    best_ids = [index.ids[row] for row in rows.tolist()]
    stored = state.reports.reports(sorted({*best_ids, *(ids[0] for ids in members)}))
    urls = state.reports.urls([issue_id for ids in members for issue_id in ids])
    # A report may have been deleted during the search.
    positions = [position for position, ids in enumerate(members) if best_ids[position] in stored and ids[0] in stored]
    num_reports = len(index.store.terms["text"])
    found = [stored[best_ids[position]] for position in positions]
    explanations = explain(report, found, lambda words: index.rarity(words, num_reports))
    matches = []
    for position, explanation in zip(positions, explanations, strict=True):
        ids = members[position]
        match = Match(
            stored[ids[0]],
            stored[best_ids[position]],
            ids,
            float(best.score[position]),
            float(best.probability[position]),
            replace(explanation, reasons=why[position]),
            {issue_id: urls[issue_id] for issue_id in ids if issue_id in urls},
            round(float(features[position, SIMILARITY]), 4),
        )
        matches.append(match)
    return matches


def _reasons(
    index: InMemoryIndex,
    scores: QueryScores,
    rows: np.ndarray,
    features: np.ndarray,
    contributions: Sequence[Mapping[str, float]],
    is_dated: bool,
) -> list[tuple[str, ...]]:
    """The reasons for the candidates in ``rows``; ``is_dated`` says whether the report has a date."""
    identifiers, errors = (scores.words[kind].compare(rows) for kind in ("identifiers", "errors"))
    why = []
    for values, feature_contributions, names, lines in zip(
        features.tolist(),
        contributions,
        _shared_names(identifiers, index.encoder.vocabulary, IDENTIFIER_MARK),
        _shared_names(errors, index.encoder.vocabulary, ERROR_MARK),
        strict=True,
    ):
        facts = dict(zip(FEATURES, values, strict=True)) | ({} if is_dated else {"days": np.nan})
        error = SharedLine(lines[0][1], lines[0][0], scores.count) if lines else None
        why.append(reasons(feature_contributions, facts, [name for _, name in names], error))
    return why


def _shared_names(shared: SharedTerms, vocabulary: Vocabulary, mark: str) -> Iterator[list[tuple[int, str]]]:
    """The terms that each report shares with the query, rarest first, as (number of reports with it, name)."""
    terms = shared.query.own
    frequency = shared.query.frequency
    for positions in shared.by_report():
        names = [vocabulary[number].removeprefix(mark) for number in terms[positions].tolist()]
        yield sorted(zip(frequency[positions].tolist(), names, strict=True))


def _allowed(index: InMemoryIndex, report: Report, filters: Filters) -> np.ndarray | None:
    """The reports that may be candidates, ``(N,)`` bool; None for all."""
    own_row = index.row_of.get(report.issue_id)
    if own_row is None and filters == Filters():
        return None
    allowed = np.ones(len(index), dtype=bool)
    if own_row is not None:
        allowed[own_row] = False
    day = index.store["day"]
    for moment, keep in ((filters.created_from, np.greater_equal), (filters.created_before, np.less)):
        if moment is not None:
            allowed &= keep(day, days_of(pd.Series(pd.to_datetime([moment], utc=True)))[0])
    if filters.component is not None:
        encode = index.encoder.categories["component"]
        components = [component for component in encode.values if has_component(component, filters.component)]
        # Includes the filter: an empty one matches reports without a component.
        allowed &= np.isin(index.store["component"], encode([filters.component, *components], learn=False))
    return None if allowed.all() else allowed
