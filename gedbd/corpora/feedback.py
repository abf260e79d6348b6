"""Feedback on suggestions, in the SQLite file that stores it."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from gedbd.corpora.bug_report import Report
from gedbd.io.sqlite_file import Database, check_schema, connect_database

FEEDBACK_FILE = "feedback.sqlite"
COLUMNS = ("moment", "subject", "issue_id", "title", "description", "candidate", "verdict", "who", "source")
SOURCES = ("web", "api", "webhook")
ACCEPT = "accept"
REJECT = "reject"
WITHDRAW = "withdraw"
VERDICTS = (ACCEPT, REJECT, WITHDRAW)
EVENTS_REMAIN = (
    "CREATE TRIGGER IF NOT EXISTS events_remain BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events stay'); END"
)
# The triggers keep every event, unless its report is forgotten; the view selects the latest event of a pair.
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
"""
# Uses the index events_of_pair; the view "latest" would read every event of the file.
LATEST_OF_PAIR = "SELECT verdict, source FROM events WHERE subject = ? AND candidate = ? ORDER BY number DESC LIMIT 1"


@dataclass(frozen=True)
class FeedbackEvent:
    """Feedback of one person on one suggestion."""

    report: Report  # the query report; without ``issue_id`` it is identified by its title and description
    candidate: str  # id of the stored report that was suggested
    verdict: str  # ``accept`` (duplicates), ``reject`` (not duplicates) or ``withdraw`` (cancels earlier feedback)
    source: str  # where the feedback comes from: ``web``, ``api`` or ``webhook``
    who: str = ""  # name of the person; empty if unknown

    @property
    def subject(self) -> str:
        """Identifies the report: its id, or a hash of its text."""
        if self.report.issue_id:
            return f"id:{self.report.issue_id}"
        return f"text:{Report(title=self.report.title, description=self.report.description).content_hash}"


class FeedbackStore(Database):
    """A file of feedback events; the latest of each pair counts. Forgetting a report deletes its events.

    Threads and processes may share it. An event is on disk when ``record`` returns.

    Args:
        folder: The index folder, in which the file is created if absent.

    Raises:
        ValueError: If the file is damaged or cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / FEEDBACK_FILE, SCHEMA, "the feedback on suggestions")

    def record(self, event: FeedbackEvent) -> bool:
        """Adds an event unless it repeats the latest one of its pair; returns whether it was added.

        Raises:
            ValueError: If the verdict or the source is unknown, or a report is compared with itself or has no text.
            StoreUnavailable: If the file cannot be written at the moment.
        """
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
        with self.transaction():
            latest, _ = self._latest(event.subject, event.candidate)
            is_new = latest != event.verdict
            if is_new:
                self._add(event)
        return is_new

    def withdraw(self, first: str, second: str, source: str, only_source: str | None = None) -> bool:
        """Withdraws the feedback on two reports, in both directions; returns whether there was any.

        Args:
            first: Id of a report.
            second: Id of the other report.
            source: Where the withdrawal comes from.
            only_source: Withdraws feedback from this source only; None from all.
        """
        withdrawn = False
        with self.transaction():
            for issue_id, candidate in ((first, second), (second, first)):
                event = FeedbackEvent(Report(issue_id=issue_id), candidate, WITHDRAW, source)
                latest, latest_source = self._latest(event.subject, candidate)
                if latest != WITHDRAW and only_source in (None, latest_source):
                    self._add(event)
                    withdrawn = True
        return withdrawn

    def verdict(self, first: str, second: str) -> str:
        """The verdict on two reports, by their ids, in either direction; ``withdraw`` if there is none."""
        for issue_id, candidate in ((first, second), (second, first)):
            latest, _ = self._latest(f"id:{issue_id}", candidate)
            if latest != WITHDRAW:
                return latest
        return WITHDRAW

    def forget(self, issue_id: str, report: Report | None) -> None:
        """Deletes all events that name a report or, if ``report`` is given, hold its text.

        Raises:
            StoreUnavailable: If the file cannot be written, or is being read, at the moment.
        """
        text = FeedbackEvent(replace(report, issue_id=""), "", WITHDRAW, "api").subject if report else None
        with self.transaction():
            self.query("DROP TRIGGER events_remain")
            query = "DELETE FROM events WHERE issue_id = ?1 OR candidate = ?1 OR subject IN (?2, ?3)"
            self.query(query, issue_id, f"id:{issue_id}", text)
            self.query(EVENTS_REMAIN)
        self.checkpoint()

    def _add(self, event: FeedbackEvent) -> None:
        report = event.report
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        values = (moment, event.subject, report.issue_id, report.title, report.description, event.candidate)
        placeholders = ", ".join("?" * len(COLUMNS))
        query = f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES ({placeholders})"
        self.query(query, *values, event.verdict, event.who, event.source)

    def _latest(self, subject: str, candidate: str) -> tuple[str, str]:
        """The latest verdict on a pair of reports, and its source; ``withdraw`` if there is none."""
        rows = self.query(LATEST_OF_PAIR, subject, candidate)
        return rows[0] if rows else (WITHDRAW, "")


def feedback_table(path: Path) -> pd.DataFrame:
    """Reads the latest verdict of each pair of reports, the oldest first.

    Args:
        path: A ``feedback.sqlite``, or the index folder that holds one.

    Returns:
        Text columns moment (ISO 8601, UTC), subject, issue_id (empty for a pasted text), title, description, candidate,
        verdict (accept, reject), who and source.

    Raises:
        ValueError: If there is no such file, or it is not a feedback file.
    """
    file = path / FEEDBACK_FILE if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{file}: no such file: give a {FEEDBACK_FILE} or the index folder that holds one")
    query = f"SELECT {', '.join(COLUMNS)} FROM latest ORDER BY number"
    try:
        with closing(connect_database(file.resolve(), "mode=ro")) as store:
            check_schema(store, SCHEMA)
            rows = store.execute(query).fetchall()
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{file}: this is not a feedback file ({error})") from error
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=str)
