"""Brings an index to the state of a corpus, in one transaction."""

import json
from collections.abc import Sequence, Set
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.bug_report import Report, as_table, report_from_row
from gedbd.corpora.corpus import Corpus
from gedbd.io.console import stage
from gedbd.triage.storage.report_store import ReportStore
from gedbd.triage.storage.rows import Version
from gedbd.triage.storage.state import EncodeReports

EXPORT = "export: "  # source of the tracker's links begins so
PLACEHOLDER = Report("any text")
MAX_ROUNDS = 3  # how often new changes of other processes are encoded before the store is locked


class Model(NamedTuple):
    """The model of an index.

    Attributes:
        about: Facts about the index, see ``ReportStore.about``; ``model`` identifies the model.
        weights: The encoder's weights as ``torch.save`` writes them, empty for an untrained encoder.
    """

    about: dict[str, str]
    weights: bytes


class Changes(NamedTuple):
    """Numbers of reports.

    Attributes:
        added: New reports, and all that were encoded with another model before.
        updated: Reports of which anything has changed.
        unchanged: Reports of which all is the same.
        deleted: Reports that the corpus does not have.
        kept: Reports that other processes have added, changed or deleted meanwhile: those changes are later than the
            corpus, and stay.
    """

    added: int
    updated: int
    unchanged: int
    deleted: int
    kept: int = 0


class Contents(NamedTuple):
    """The contents of an index at one time.

    Attributes:
        model: Identifies the model of the vectors and the version of the terms, each None in an empty index.
        reports: The version of each report by id.
    """

    model: tuple[str | None, ...]
    reports: dict[str, Version]

    @classmethod
    def of(cls, store: ReportStore) -> "Contents":
        """The contents of a store."""
        if store.is_empty:
            return cls(_identity({}), {})
        with store.snapshot():
            return cls(_identity(store.about()), store.contents())


@stage("bring the index up to date")
def synchronise(store: ReportStore, corpus: Corpus, model: Model, encode: EncodeReports) -> Changes:
    """Adds, updates and deletes reports until the index equals the corpus; links that did not come from it stay.

    All changes are one transaction: a process that opens the index meanwhile, or after this one was killed, finds the
    old state. Changes that other processes make meanwhile are later than the corpus, and stay.

    Args:
        store: The index.
        corpus: All reports.
        model: The model; if the index has another one, or terms of another version, all reports are written again.
        encode: Gives ``(B, D)`` unit rows of B reports.

    Raises:
        ValueError: If another process has replaced the model meanwhile.
        StoreUnavailable: If the store cannot be used.
    """
    before = Contents.of(store)
    is_new_model = before.model != _identity(model.about)
    reports = {one.issue_id: one for one in map(report_from_row, corpus.reports.itertuples(index=False))}
    known = {} if is_new_model else before.reports
    hashes = {one: version.content for one, version in known.items()}
    fresh = [one for one, report in reports.items() if hashes.get(one) != report.content_hash]
    vectors = EncodedReports(encode)
    # Takes long: before the store is locked.
    vectors.add([reports[one] for one in fresh], corpus.reports[corpus.reports["id"].isin(set(fresh))])
    if is_new_model:
        _encode_later(store, before, vectors, MAX_ROUNDS)
    with store.transaction():
        now = Contents.of(store)
        if now.model != before.model:
            raise ValueError(
                f"another process replaced the model of {store.path} in the meantime: run this command again"
            )
        kept = _changed(before, now)
        later = _encode_later(store, before, vectors, 1) if is_new_model else {}
        own = [one for one in fresh if one not in kept or one in later]  # in the order of the corpus
        written = {one: later.get(one, reports[one]) for one in own} | later
        gone = before.reports.keys() - reports.keys() - kept
        rewritten = [] if is_new_model else _changed_besides(reports, before, written.keys() | kept)
        if is_new_model:
            store.write_model(model.about | {"dim": str(vectors.dim)}, model.weights)
        store.delete(gone)
        store.write_reports(list(written.values()), [vectors[report] for report in written.values()])
        store.write_not_encoded(rewritten)
        template = json.dumps(corpus.documents.template)
        store.write_about({"url_template": corpus.url_template or "", "template": template})
        store.clear_links(EXPORT)
        store.write_links(_links(corpus))
    own_ids = written.keys() - later.keys()
    added = len(own_ids - known.keys())
    updated = len(own_ids & known.keys()) + len(rewritten)
    return Changes(added, updated, len(reports.keys() - kept) - added - updated, len(gone), len(kept))


def _identity(about: dict[str, str]) -> tuple[str | None, ...]:
    return about.get("model"), about.get("terms")


class EncodedReports:
    """Vectors of reports by their content hash; each is computed once.

    Args:
        encode: See ``synchronise``.
    """

    def __init__(self, encode: EncodeReports) -> None:
        self._encode = encode
        self._vectors: dict[str, np.ndarray] = {}
        self._dim = 0

    @property
    def dim(self) -> int:
        """Size of the vectors, which reports that are added later need even if there is none yet."""
        if not self._dim:
            self.add([PLACEHOLDER], as_table([PLACEHOLDER]))
        return self._dim

    def add(self, reports: Sequence[Report], table: pd.DataFrame) -> None:
        """Encodes reports, which are also the rows of a table."""
        if not reports:
            return
        vectors = self._encode(table.reset_index(drop=True))
        self._dim = vectors.shape[1]
        self._vectors |= {report.content_hash: vector for report, vector in zip(reports, vectors, strict=True)}

    def __contains__(self, report: Report) -> bool:
        return report.content_hash in self._vectors

    def __getitem__(self, report: Report) -> np.ndarray:
        return self._vectors[report.content_hash]


def _changed(before: Contents, now: Contents) -> set[str]:
    """Ids of reports that other processes have added, changed or deleted."""
    either = before.reports.keys() | now.reports.keys()
    return {one for one in either if before.reports.get(one) != now.reports.get(one)}


def _encode_later(store: ReportStore, before: Contents, vectors: EncodedReports, max_rounds: int) -> dict[str, Report]:
    """Encodes reports that other processes have written meanwhile, until there are no more; returns them by id."""
    for _ in range(max_rounds):
        now = Contents.of(store)
        changed = _changed(before, now)
        found = store.reports(list(changed))
        later = {one: found[one] for one in now.reports if one in changed}
        fresh = [report for report in later.values() if report not in vectors]
        vectors.add(fresh, as_table(fresh))
        if not fresh:
            break
    return later


def _changed_besides(reports: dict[str, Report], before: Contents, others: Set[str]) -> list[Report]:
    """Stored reports that have another address or date of resolution now; these are not encoded, so vectors stay."""
    stored = before.reports.keys() & reports.keys() - others
    return [reports[one] for one in stored if not before.reports[one].has_rest_of(reports[one])]


def _links(corpus: Corpus) -> list[tuple[str, str, str]]:
    """The tracker's links with their sources; if it gives none, a link from each report of a group to its master."""
    rows = np.arange(len(corpus))
    masters = pd.DataFrame({"query": rows, "document": corpus.group, "source": "group"})
    links = masters[corpus.group != rows] if corpus.links is None else corpus.links.table
    ids = corpus.reports["id"].to_numpy()
    named = zip(ids[links["query"]], ids[links["document"]], links["source"], strict=True)
    return [(str(first), str(second), f"{EXPORT}{source}") for first, second, source in named]
