"""A small real index in memory that ranks by shared words: what the service is tested over."""

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gedbd.corpora.bug_report import Explanation, Filters, Match, Report
from gedbd.evaluation.thresholds import TargetResult

EVERYTHING = Filters()
MET = TargetResult(0.5, 0.6, "met", 30, 22, 22 / 30, 0.56, 0.89, "2024-01-02", "2024-02-28")
MISSED = TargetResult(0.8, 0.7, "missed", 26, 13, 0.5, 0.31, 0.69, "2024-01-02", "2024-02-28")
INCONCLUSIVE = TargetResult(0.7, 0.65, "inconclusive", 30, 22, 22 / 30, 0.56, 0.89, "2024-01-02", "2024-02-28")
TARGETS = (MET, INCONCLUSIVE, MISSED, TargetResult(0.9, None, "no threshold"))
LIST_TARGETS = (replace(MET, threshold=0.9, list_length=3), TargetResult(0.7, None, "no threshold", list_length=3))
FIGURE = (
    "Of 30 such suggestions on this tracker's reports from 2024-01-02 to 2024-02-28,"
    " 22 (73%, 95% interval 56% to 89%) were right."
)
EVIL = '<img src=x onerror="window.bitten=1"> attachment preview breaks'
REPORTS = [
    Report(
        "Attachments over 10 MB are not sent",
        "Sending a mail with a large attachment fails. The progress bar stops at half. Server says message too large.",
        "12",
        datetime(2024, 3, 1, 9, 30, tzinfo=UTC),
        component="Compose",
        status="open",
        url="https://bugs.example.org/show_bug.cgi?id=12&a=b",
    ),
    Report(
        "Large attachment: sending stops at half",
        "The progress bar stops when I send a large attachment, and no error is shown.",
        "15",
        datetime(2024, 4, 2, tzinfo=UTC),
        component="Compose",
        status="closed",
        resolution="duplicate",
        url="https://bugs.example.org/15",
    ),
    Report("Calendar shows the wrong week", "In January the calendar starts with week 53.", "20", component="Calendar"),
    Report(
        EVIL,
        "<script>window.bitten=1</script> The attachment preview stops.",
        "31",
        url="javascript:bitten=1",
        component="Viewer",
    ),
]


class SmallIndex:
    """Probability is the share of the new report's words that a stored one has."""

    def __init__(self, folder: Path, reports: Sequence[Report] = REPORTS) -> None:
        self.folder, self.name = folder, "small"
        self.targets: tuple[TargetResult, ...] = TARGETS
        self.target = TARGETS[0]
        self.list_targets: tuple[TargetResult, ...] = LIST_TARGETS
        self.list_target = LIST_TARGETS[0]
        self.matching = self  # its targets are all that the service reads of a model
        self.lock = threading.RLock()
        self.reports = {report.issue_id: report for report in reports}
        self.links = {("12", "15")} if {"12", "15"} <= set(self.reports) else set()
        self.sources = {(*link, "export: group") for link in self.links}
        self.closed = False

    def __len__(self) -> int:
        return len(self.reports)

    def search(self, report: Report, top_k: int = 10, filters: Filters = EVERYTHING) -> list[Match]:
        if report.title == "wait for the file go":
            (self.folder / "searching").touch()
            while not (self.folder / "go").exists():
                time.sleep(0.005)
        with self.lock:
            found: dict[str, Match] = {}
            for stored in self.reports.values():
                if stored.issue_id == report.issue_id or filters.component not in (None, stored.component):
                    continue
                match = self._match(report, stored)
                former = found.get(match.master.issue_id)
                if match.probability and (former is None or former.probability < match.probability):
                    found[match.master.issue_id] = match
        return sorted(found.values(), key=lambda match: -match.probability)[:top_k]

    def _match(self, report: Report, stored: Report) -> Match:
        own, other = words(report), words(stored)
        share = len(own & other) / max(len(own), 1)
        members = self.members(stored.issue_id)
        agreeing = {"component": stored.component} if stored.component == report.component != "" else {}
        sentence = (report.description[:80], stored.description[:80], share)
        why = Explanation(tuple(sorted(own & other)), agreeing, (sentence,))
        urls = {one: self.reports[one].url for one in members if self.reports[one].url}
        return Match(self.reports[members[0]], stored, members, share, share, why, urls)

    def members(self, issue_id: str) -> tuple[str, ...]:
        group, more = {issue_id}, True
        while more:
            near = {end for link in self.links if set(link) & group for end in link}
            more = not near <= group
            group |= near
        return tuple(sorted((name for name in group if name in self.reports), key=int))

    def groups(self, ids: Sequence[str]) -> dict[str, list[str]]:
        return {one: list(self.members(one)) if one in self.reports else [] for one in ids}

    def get_many(self, ids: Sequence[str]) -> dict[str, Report]:
        return {one: self.reports[one] for one in ids if one in self.reports}

    def add(self, reports: Sequence[Report], fields: Sequence[str] | None = None) -> dict[str, str]:
        done = {}
        with self.lock:
            for report in reports:
                stored = self.reports.get(report.issue_id)
                if stored and fields is not None:
                    given = {name: getattr(report, name) for name in fields}
                    given |= {name: given[name] or getattr(stored, name) for name in ("created_at", "url")}
                    report = replace(stored, **given)
                done[report.issue_id] = "unchanged" if stored == report else "updated" if stored else "added"
                self.reports[report.issue_id] = report
        return done

    def link(self, report_id: str, duplicate_id: str, source: str) -> None:
        if report_id == duplicate_id:
            raise ValueError(f"report {report_id} cannot be a duplicate of itself")
        for issue_id in (report_id, duplicate_id):
            if issue_id not in self.reports:
                raise ValueError(f"report {issue_id} is not in the index")
        self.links.add((report_id, duplicate_id))
        self.sources.add((report_id, duplicate_id, source))

    def unlink(self, report_id: str, duplicate_id: str, source: str | None = None) -> bool:
        pairs = {(report_id, duplicate_id), (duplicate_id, report_id)}
        gone = {one for one in self.sources if one[:2] in pairs and source in (None, one[2])}
        self.sources -= gone
        self.links -= pairs - {one[:2] for one in self.sources}
        return bool(gone)

    def delete(self, issue_id: str) -> bool:
        with self.lock:
            return self.reports.pop(issue_id, None) is not None

    def forget(self, issue_id: str) -> bool:
        return self.delete(issue_id)

    def get(self, issue_id: str) -> Report | None:
        return self.reports.get(issue_id)

    def close(self) -> None:
        self.closed = True
        (self.folder / "closed").touch()


def words(report: Report) -> set[str]:
    return set(re.findall(r"\w{4,}", f"{report.title} {report.description}".lower()))


def open_small(folder: str, cache_dir: str, backend: None) -> SmallIndex:
    return SmallIndex(Path(folder))
