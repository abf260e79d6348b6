"""Feedback of people on suggestions, in an SQLite file in the index folder."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback_labels import COLUMNS, FEEDBACK_FILE
from gedbd.io.sqlite_file import Database

SOURCES = ("web", "api", "webhook")
VERDICTS = ("accept", "reject", "withdraw")
EVENTS_REMAIN = (
    "CREATE TRIGGER IF NOT EXISTS events_remain BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events stay'); END"
)
# The triggers keep every event, unless its report is forgotten; the view shows what counts.
SCHEMA = f"""
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
{EVENTS_REMAIN};
CREATE VIEW IF NOT EXISTS latest AS SELECT * FROM events
    WHERE number IN (SELECT MAX(number) FROM events GROUP BY subject, candidate) AND verdict != 'withdraw';
SELECT number, moment, subject, issue_id, title, description, candidate, verdict, who, source FROM events LIMIT 0;
"""
# Uses the index events_of_pair; the view "latest" would read every event of the file.
LATEST_OF_PAIR = "SELECT verdict, source FROM events WHERE subject = ? AND candidate = ? ORDER BY number DESC LIMIT 1"


@dataclass(frozen=True)
class FeedbackEvent:
    """Feedback of one person on one suggestion.

    Attributes:
        report: The report that was compared; without ``issue_id`` it is identified by its title and description.
        candidate: Id of the stored report it was compared with.
        verdict: "accept" (they are duplicates), "reject" (they are not) or "withdraw" (takes earlier feedback back).
        source: Where the feedback was given: "web", "api" or "webhook".
        who: Who gave it; empty if unknown.
    """

    report: Report
    candidate: str
    verdict: str
    source: str
    who: str = ""

    @property
    def subject(self) -> str:
        """Identifies the report: its id, or a hash of its text."""
        if self.report.issue_id:
            return f"id:{self.report.issue_id}"
        text = Report(title=self.report.title, description=self.report.description)
        return f"text:{text.content_hash}"


class FeedbackStore:
    """A file of feedback events, which stay until a report that they name is forgotten; the latest of a pair counts.

    Threads and processes may share it. An event is on disk when ``record`` returns.

    Args:
        folder: The index folder; the file in it is created if there is none.

    Raises:
        ValueError: If the file is damaged or cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.file = Database(folder / FEEDBACK_FILE, SCHEMA, "the feedback on suggestions")

    def record(self, event: FeedbackEvent) -> bool:
        """Adds an event unless it repeats the latest one of its pair; returns whether it was added.

        Raises:
            ValueError: If verdict or source are unknown, or a report is compared with itself or has no text.
            StoreUnavailable: If the file cannot be written at the moment.
        """
        _check(event)
        with self.file.transaction():
            latest, _ = self._latest(event)
            is_new = latest != event.verdict
            if is_new:
                self._add(event)
        return is_new

    def withdraw(self, one: str, other: str, source: str, only_source: str | None = None) -> bool:
        """Withdraws the feedback on two reports, in both directions.

        Args:
            one: Id of a report.
            other: Id of the other report.
            source: Where the withdrawal comes from.
            only_source: Withdraws feedback from this source only; None from all.

        Returns:
            Whether there was any feedback to withdraw.
        """
        withdrawn = False
        with self.file.transaction():
            for issue_id, candidate in ((one, other), (other, one)):
                event = FeedbackEvent(Report(issue_id=issue_id), candidate, "withdraw", source)
                latest, latest_source = self._latest(event)
                if latest != "withdraw" and only_source in (None, latest_source):
                    self._add(event)
                    withdrawn = True
        return withdrawn

    def verdict(self, report: str, candidate: str) -> str:
        """The verdict that counts for two reports, by their ids, in either direction; "withdraw" if there is none."""
        for one, other in ((report, candidate), (candidate, report)):
            latest, _ = self._latest(FeedbackEvent(Report(issue_id=one), other, "withdraw", "api"))
            if latest != "withdraw":
                return latest
        return "withdraw"

    def forget(self, issue_id: str, report: Report | None) -> None:
        """Erases all events that name a report, and those on its text if it is given, with their history.

        Raises:
            StoreUnavailable: If the file cannot be written, or is being read, at the moment.
        """
        text = FeedbackEvent(replace(report, issue_id=""), "", "withdraw", "api").subject if report else None
        with self.file.transaction():
            self.file.query("DROP TRIGGER events_remain")
            query = "DELETE FROM events WHERE issue_id = ?1 OR candidate = ?1 OR subject IN (?2, ?3)"
            self.file.query(query, issue_id, f"id:{issue_id}", text)
            self.file.query(EVENTS_REMAIN)
        self.file.checkpoint()

    def _add(self, event: FeedbackEvent) -> None:
        report = event.report
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        described = (moment, event.subject, report.issue_id, report.title, report.description, event.candidate)
        marks = ", ".join("?" * len(COLUMNS))
        query = f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES ({marks})"
        self.file.query(query, *described, event.verdict, event.who, event.source)

    def _latest(self, event: FeedbackEvent) -> tuple[str, str]:
        """The verdict that counts for a pair of reports, and its source; "withdraw" if there is none."""
        found = self.file.query(LATEST_OF_PAIR, event.subject, event.candidate)
        return found[0] if found else ("withdraw", "")

    def close(self) -> None:
        """Closes the file."""
        self.file.close()


def _check(event: FeedbackEvent) -> None:
    for name, value, choices in (("verdict", event.verdict, VERDICTS), ("source", event.source, SOURCES)):
        if value not in choices:
            raise ValueError(f"{name} {value!r} is unknown: choose {', '.join(choices)}")
    report = event.report
    if not event.candidate:
        raise ValueError("the feedback names no candidate: give the id of the stored report")
    if report.issue_id == event.candidate:
        raise ValueError(f"report {report.issue_id} is compared with itself: give another candidate")
    if not (report.issue_id or report.title.strip() or report.description.strip()):
        raise ValueError("the feedback names no report: give its id, or its title and description")
