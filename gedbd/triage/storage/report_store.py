"""What a store of reports offers, a file or a server, and what it forgets of a report besides the report."""

import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gedbd.corpora.bug_report import Report
from gedbd.retrieval.vocabulary import words
from gedbd.triage.storage.rows import Version


class ReportStore(Protocol):
    """The reports of one index, its links, and the model that encoded the reports.

    Every method raises ``StoreUnavailable`` if the store cannot be used.
    """

    @property
    def path(self) -> Path | str:
        """What messages call it."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written yet."""

    def snapshot(self) -> AbstractContextManager[Any]:
        """Several statements that see one state."""

    def transaction(self) -> AbstractContextManager[Any]:
        """Several statements, of which all take effect or none."""

    def about(self) -> dict[str, str]:
        """Name of the tracker, settings, model and other facts about the index, by name."""

    def fact(self, name: str) -> str:
        """One of these facts; empty if the index does not have it."""

    def weights(self) -> bytes:
        """The encoder's weights, as ``torch.save`` wrote them; empty for an untrained encoder."""

    def contents(self) -> dict[str, Version]:
        """The version of each report by id, in order."""

    def reports(self, ids: Sequence[str]) -> dict[str, Report]:
        """Stored reports by id; unknown ids are left out."""

    def urls(self, ids: Sequence[str]) -> dict[str, str]:
        """Addresses of the reports that have one, by id."""

    def write_about(self, values: dict[str, str]) -> None:
        """Adds or replaces facts about the index."""

    def write_model(self, values: dict[str, str], weights: bytes) -> None:
        """Replaces the model, and deletes everything that the former model encoded. Links stay."""

    def write_reports(self, reports: Sequence[Report], vectors: Sequence[np.ndarray]) -> None:
        """Adds reports with their vectors, each ``(D,)``, at the end; one with a stored id replaces it in its place."""

    def write_not_encoded(self, reports: Iterable[Report]) -> None:
        """Replaces what is not encoded of stored reports: their addresses and dates of resolution."""

    def delete(self, ids: Iterable[str]) -> None:
        """Deletes reports. Their links stay: two duplicates of a deleted report are still duplicates of each other."""

    def forget(self, ids: Sequence[str]) -> None:
        """Deletes all that came from some reports, stored or not.

        Their links go too; instead, the reports that one was linked to are linked to the first of them, and stay
        duplicates of each other.
        """

    def take_links(self, issue_id: str) -> list[tuple[str, str, str]]:
        """Deletes the links of a report, and returns them."""

    def write_links(self, links: Iterable[tuple[str, str, str]]) -> None:
        """Adds links, each of a report, its duplicate and a source."""

    def clear_links(self, source: str) -> None:
        """Deletes all links whose source begins with ``source``."""

    def delete_links(self, report: str, duplicate: str, source: str | None) -> bool:
        """Deletes the links between two reports in both directions, of one source or all; returns if there were any."""


def forget_in(store: ReportStore, ids: Sequence[str]) -> None:
    """See ``ReportStore.forget``."""
    for report in store.reports(ids).values():
        written = store.about().get("calibration")
        if written is not None:
            store.write_about({"calibration": _calibration_without(report, written)})
    store.delete(ids)
    for one in ids:
        source_of: dict[str, str] = {}
        for report_id, duplicate, source in sorted(store.take_links(one)):
            source_of.setdefault(duplicate if report_id == one else report_id, source)
        first, *others = sorted(source_of) or [""]
        store.write_links((other, first, source_of[other]) for other in others)


def _calibration_without(report: Report, written: str) -> str:
    """The texts that an 8-bit backend was fitted to, as JSON, without those that come from a report."""
    texts = json.loads(written)
    title, own, *others = map(set, words([report.title, f"{report.title} {report.description}", *texts]))
    # A template cleans and cuts the text of a report, and may add fields to it.
    is_own = [(bool(title) and title <= found) or 2 * len(own & found) > len(found) for found in others]
    return json.dumps([text for text, its_own in zip(texts, is_own, strict=True) if not its_own])
