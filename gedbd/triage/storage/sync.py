"""Brings an index to the state of a corpus, in one change."""

from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.retrieval.feature_store import Vocabulary
from gedbd.triage.report import Report, as_table, of_row
from gedbd.triage.storage.rows import Stored
from gedbd.triage.storage.store import Store

EXPORT = "export: "
PLACEHOLDER = Report("any text")
ROUNDS = 3  # how often what others write is read before they are kept from writing

ReadReports = Callable[[pd.DataFrame], np.ndarray]


class Model(NamedTuple):
    """What an index is made with.

    Attributes:
        about: What the index says of itself; ``model`` tells this model from others.
        weights: The encoder's weights as ``torch.save`` writes them, none for an untrained one.
    """

    about: dict[str, str]
    weights: bytes


class Changes(NamedTuple):
    """What has become of reports.

    Attributes:
        added: They were not there, or were read with another model.
        updated: They were there with other contents.
        unchanged: They were there.
        deleted: They were there, and the corpus does not have them.
        kept: Others have added, changed or deleted them since this began; that is later than the corpus, and stays.
    """

    added: int
    updated: int
    unchanged: int
    deleted: int
    kept: int = 0


class Contents(NamedTuple):
    """What an index holds at one moment.

    Attributes:
        model: Of which model its vectors are; None if the file does not say, as when nothing was ever written.
        reports: Content hash and address of each report by id.
    """

    model: str | None
    reports: dict[str, tuple[str, str]]

    @classmethod
    def of(cls, store: Store) -> "Contents":
        """Those of a file."""
        with store.moment():
            if store.is_empty:
                return cls(None, {})
            return cls(store.about().get("model"), store.contents())


def synchronise(store: Store, corpus: Corpus, model: Model, read: ReadReports) -> Changes:
    """Adds, updates and deletes reports until the index holds those of the corpus; links that a triager made stay.

    All of it is one change: whoever opens the index meanwhile, or after this was killed, finds the old state. Others
    may write until everything is read; what they write is later than the corpus, and stays.

    Args:
        store: The index file.
        corpus: All reports.
        model: What to read them with; if the index has another, everything is read again.
        read: Gives ``(B, D)`` unit rows of B reports.

    Raises:
        ValueError: If somebody else has given the index another model meanwhile.
        StoreUnavailable: If the file cannot be used.
    """
    begun = Contents.of(store)
    is_new_model = begun.model != model.about["model"]
    reports = {report.issue_id: report for report in map(of_row, corpus.reports.itertuples(index=False))}
    known = {} if is_new_model else begun.reports
    fresh = [one for one, report in reports.items() if known.get(one, ("",))[0] != report.content_hash]
    vectors = Vectors(read)
    vectors.add([reports[one] for one in fresh], corpus.reports[corpus.reports["id"].isin(set(fresh))])
    if is_new_model:
        if not fresh:  # the size of vectors must be known, for reports that come later
            vectors.add([PLACEHOLDER], as_table([PLACEHOLDER]))
        _read_later(store, begun, vectors, ROUNDS)
    with store.change():
        now = Contents.of(store)
        if now.model != begun.model:
            raise ValueError(f"{store.path} was given another model by somebody else meanwhile: run this again")
        kept = _changed(begun, now)
        later = _read_later(store, begun, vectors, 1) if is_new_model else {}
        written = {one: later.get(one, reports[one]) for one in fresh if one not in kept or one in later} | later
        gone = begun.reports.keys() - reports.keys() - kept
        urls = {} if is_new_model else _changed_urls(reports, begun, written.keys() | kept)
        if is_new_model:
            store.write_model(model.about | {"dim": str(vectors.dim)}, model.weights)
        store.delete(gone)
        _write_reports(store, list(written.values()), vectors)
        store.write_urls(urls)
        store.write_about({"url_template": corpus.url_template or ""})
        store.clear_links(EXPORT)
        store.write_links(_links(corpus))
    added = sum(one not in known for one in written.keys() - later.keys())
    updated = len(written.keys() - later.keys()) - added + len(urls)
    unchanged = len(reports.keys() - kept) - added - updated
    return Changes(added, updated, unchanged, len(gone), len(kept))


class Vectors:
    """Vectors of reports by what is in them; each is read once.

    Args:
        read: See ``synchronise``.
    """

    def __init__(self, read: ReadReports) -> None:
        self._read = read
        self._vectors: dict[str, np.ndarray] = {}
        self.dim = 0

    def add(self, reports: Sequence[Report], table: pd.DataFrame) -> None:
        """Reads some reports, which are the rows of a table."""
        if not reports:
            return
        vectors = self._read(table.reset_index(drop=True))
        self.dim = vectors.shape[1]
        self._vectors |= {report.content_hash: vector for report, vector in zip(reports, vectors, strict=True)}

    def __contains__(self, report: Report) -> bool:
        return report.content_hash in self._vectors

    def __getitem__(self, report: Report) -> np.ndarray:
        return self._vectors[report.content_hash]


def _changed(begun: Contents, now: Contents) -> set[str]:
    """Ids of reports that others have added, changed or deleted."""
    either = begun.reports.keys() | now.reports.keys()
    return {one for one in either if begun.reports.get(one) != now.reports.get(one)}


def _read_later(store: Store, begun: Contents, vectors: Vectors, rounds: int) -> dict[str, Report]:
    """Reads what others have written since this began, and once more if they go on; gives it by id."""
    for _ in range(rounds):
        now = Contents.of(store)
        changed = _changed(begun, now)
        found = store.reports(list(changed))
        later = {one: found[one] for one in now.reports if one in changed}
        fresh = [report for report in later.values() if report not in vectors]
        vectors.add(fresh, as_table(fresh))
        if not fresh:
            break
    return later


def _changed_urls(reports: dict[str, Report], begun: Contents, others: Set[str]) -> dict[str, str]:
    """The addresses of stored reports that are other ones now; a text that stays the same is not read again."""
    stored = begun.reports.keys() & reports.keys() - others
    return {one: reports[one].url for one in stored if begun.reports[one][1] != reports[one].url}


def _write_reports(store: Store, reports: list[Report], vectors: Vectors) -> None:
    vocabulary = Vocabulary(store.terms())
    known = len(vocabulary.terms)
    texts = pd.DataFrame([[report.title, report.description] for report in reports], columns=["title", "description"])
    text, heading = terms_of(texts, vocabulary, learn=True)
    store.add_terms(known, vocabulary.terms[known:])
    store.add(map(Stored, reports, [vectors[report] for report in reports], text, heading))


def _links(corpus: Corpus) -> list[tuple[str, str, str]]:
    """The tracker's links with their sources; where it tells none, each report of a group beside its master."""
    rows = np.arange(len(corpus))
    masters = pd.DataFrame({"query": rows, "document": corpus.group, "source": "group"})
    links = masters[corpus.group != rows] if corpus.links is None else corpus.links.table
    ids = corpus.reports["id"].to_numpy()
    named = zip(ids[links["query"]], ids[links["document"]], links["source"], strict=True)
    return [(str(first), str(second), f"{EXPORT}{source}") for first, second, source in named]
