"""Brings an index to the state of a corpus, in one change."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.data.corpus import Corpus
from gedbd.matching.columns import Vocabulary
from gedbd.matching.learn import terms_of
from gedbd.matching.report import Report, of_row
from gedbd.matching.store import Store, Stored

EXPORT = "export: "


class Model(NamedTuple):
    """What an index is made with.

    Attributes:
        about: What the index says of itself; ``model`` tells this model from others.
        weights: The encoder's weights as ``torch.save`` writes them, none for an untrained one.
    """

    about: dict[str, str]
    weights: bytes


class Changes(NamedTuple):
    """How many reports were added, updated, left as they were, and deleted."""

    added: int
    updated: int
    unchanged: int
    deleted: int


def synchronise(store: Store, corpus: Corpus, model: Model, read: Callable[[pd.DataFrame], np.ndarray]) -> Changes:
    """Adds, updates and deletes reports until the index holds those of the corpus; links that a triager made stay.

    All of it is one change: whoever opens the index meanwhile, or after this was killed, finds the old state.

    Args:
        store: The index file.
        corpus: All reports.
        model: What to read them with; if the index has another, it is built anew.
        read: Gives ``(B, D)`` unit rows of B reports.

    Raises:
        ValueError: If somebody else changed the index while reports were read.
    """
    anew = store.is_empty or store.about()["model"] != model.about["model"]
    stored, before = ({} if anew else store.contents()), store.changes
    reports = [of_row(row) for row in corpus.reports.itertuples(index=False)]
    fresh = [row for row, report in enumerate(reports) if stored.get(report.issue_id) != report.content_hash]
    gone = stored.keys() - set(corpus.reports["issue_id"])
    table = corpus.reports.iloc[fresh].reset_index(drop=True)
    vectors = read(table) if fresh else np.empty((0, 0), dtype=np.float32)
    urls = {} if anew else _changed_urls(store, [report for report in reports if report.issue_id in stored])
    with store.change():
        if store.changes != before:
            raise ValueError(f"{store.path} was changed by somebody else meanwhile: run this again")
        if anew:
            store.write_model(model.about | {"dim": str(vectors.shape[1])}, model.weights)
        store.delete(gone)
        _write_reports(store, [reports[row] for row in fresh], table, vectors)
        store.write_urls(urls)
        store.write_about({"url_template": corpus.url_template or ""})
        store.clear_links(EXPORT)
        store.write_links(_links(corpus))
    added = sum(reports[row].issue_id not in stored for row in fresh)
    updated = len({reports[row].issue_id for row in fresh} | urls.keys()) - added
    return Changes(added, updated, len(reports) - added - updated, len(gone))


def _changed_urls(store: Store, reports: list[Report]) -> dict[str, str]:
    """The addresses of stored reports that are other ones now; a text that stays the same is not read again."""
    stored = store.urls([report.issue_id for report in reports])
    return {report.issue_id: report.url for report in reports if stored.get(report.issue_id, "") != report.url}


def _write_reports(store: Store, reports: list[Report], table: pd.DataFrame, vectors: np.ndarray) -> None:
    vocabulary = Vocabulary(store.terms())
    known = len(vocabulary.terms)
    text, heading = terms_of(table, vocabulary, learn=True)
    store.add_terms(known, vocabulary.terms[known:])
    store.add(map(Stored, reports, vectors, text, heading))


def _links(corpus: Corpus) -> list[tuple[str, str, str]]:
    """The tracker's links with their sources; where it tells none, each report of a group beside its master."""
    rows = np.arange(len(corpus))
    masters = pd.DataFrame({"report": rows, "duplicate": corpus.group, "source": "group"})
    links = masters[corpus.group != rows] if corpus.links is None else corpus.links
    ids = corpus.reports["issue_id"].to_numpy()
    named = zip(ids[links["report"]], ids[links["duplicate"]], links["source"], strict=True)
    return [(str(first), str(second), f"{EXPORT}{source}") for first, second, source in named]
