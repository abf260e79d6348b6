"""What people said about suggestions, kept for good in one SQLite file in the index folder."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gedbd.sampling.feedback_labels import COLUMNS, FEEDBACK_FILE
from gedbd.triage.report import Report
from gedbd.triage.storage.database import Database

SOURCES = ("web", "api", "webhook")
VERDICTS = ("accept", "reject", "withdraw")
SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    moment TEXT NOT NULL,
    subject TEXT NOT NULL,
    issue_id TEXT NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    candidate TEXT NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('accept', 'reject', 'withdraw')),
    who TEXT NOT NULL,
    source TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_of_pair ON events (subject, candidate, number);
CREATE TRIGGER IF NOT EXISTS events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events stay'); END;
CREATE TRIGGER IF NOT EXISTS events_remain BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events stay'); END;
CREATE VIEW IF NOT EXISTS latest AS SELECT * FROM events
    WHERE number IN (SELECT MAX(number) FROM events GROUP BY subject, candidate) AND verdict != 'withdraw';
SELECT number, moment, subject, issue_id, title, description, candidate, verdict, who, source FROM events LIMIT 0;
"""
# By the index events_of_pair: the view "latest" would look at every event of the file.
LATEST_OF_PAIR = "SELECT verdict, source FROM events WHERE subject = ? AND candidate = ? ORDER BY number DESC LIMIT 1"


@dataclass(frozen=True)
class Verdict:
    """What somebody said about one suggestion.

    Attributes:
        report: The report that was compared; without ``issue_id`` it is known by its title and description.
        candidate: Id of the stored report that it was compared with.
        verdict: "accept" (they are duplicates), "reject" (they are not) or "withdraw" (nothing was said).
        source: Where it came from: "web", "api" or "webhook".
        who: Who said it; empty if that is not told.
    """

    report: Report
    candidate: str
    verdict: str
    source: str
    who: str = ""

    @property
    def subject(self) -> str:
        """By what the report is known again: its id, or a hash of its text."""
        if self.report.issue_id:
            return f"id:{self.report.issue_id}"
        return f"text:{Report(title=self.report.title, description=self.report.description).content_hash}"


class Feedback:
    """A file of verdicts to which events are only ever added; the latest of a pair of reports counts.

    Threads and processes may share it. What ``record`` has acknowledged is on the disk.

    Args:
        folder: The index folder; the file in it is made if there is none.

    Raises:
        ValueError: If the file is damaged or may not be written.
    """

    def __init__(self, folder: Path) -> None:
        self.file = Database(folder / FEEDBACK_FILE, SCHEMA, "the verdicts on suggestions")

    def record(self, verdict: Verdict) -> bool:
        """Adds an event unless it says what was said already; gives whether it did.

        Raises:
            ValueError: If the verdict or its source is unknown, or a report is compared with itself or without text.
            StoreUnavailable: If the file cannot be written at the moment.
        """
        _check(verdict)
        with self.file.change():
            is_new = self._latest(verdict)[0] != verdict.verdict
            if is_new:
                self._add(verdict)
        return is_new

    def withdraw(self, one: str, other: str, source: str, said_by: str | None = None) -> bool:
        """Takes back what counts for two reports, whichever of them was compared with the other.

        Args:
            one: Id of a report.
            other: Id of the other one.
            source: Where the withdrawal comes from.
            said_by: Only what came from this source is taken back; None for all.

        Returns:
            Whether something counted.
        """
        withdrawn = False
        with self.file.change():
            for issue_id, candidate in ((one, other), (other, one)):
                verdict = Verdict(Report(issue_id=issue_id), candidate, "withdraw", source)
                latest, origin = self._latest(verdict)
                if latest != "withdraw" and said_by in (None, origin):
                    self._add(verdict)
                    withdrawn = True
        return withdrawn

    def _add(self, verdict: Verdict) -> None:
        report = verdict.report
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        described = moment, verdict.subject, report.issue_id, report.title, report.description, verdict.candidate
        names = ", ".join(COLUMNS)
        marks = ", ".join("?" * len(COLUMNS))
        query = f"INSERT INTO events ({names}) VALUES ({marks})"
        self.file.ask(query, *described, verdict.verdict, verdict.who, verdict.source)

    def _latest(self, verdict: Verdict) -> tuple[str, str]:
        """What counts now for a pair of reports, and its source; "withdraw" where nothing does."""
        found = self.file.ask(LATEST_OF_PAIR, verdict.subject, verdict.candidate)
        return found[0] if found else ("withdraw", "")

    def close(self) -> None:
        """Closes the file."""
        self.file.close()


def _check(verdict: Verdict) -> None:
    for name, value, choices in (
        ("verdict", verdict.verdict, VERDICTS),
        ("source", verdict.source, SOURCES),
    ):
        if value not in choices:
            raise ValueError(f"{name} {value!r} is unknown: choose {', '.join(choices)}")
    report = verdict.report
    if not verdict.candidate:
        raise ValueError("the verdict names no candidate: give the id of the stored report")
    if report.issue_id == verdict.candidate:
        raise ValueError(f"report {report.issue_id} is compared with itself: give another candidate")
    if not (report.issue_id or report.title.strip() or report.description.strip()):
        raise ValueError("the verdict names no report: give its id, or its title and description")
