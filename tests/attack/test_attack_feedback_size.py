"""A verdict takes the same work however many were recorded before."""

import sqlite3
from pathlib import Path

import pytest

from gedbd.sampling.feedback_labels import FEEDBACK_FILE, feedback_table
from gedbd.triage.feedback import FeedbackEvent, FeedbackStore
from gedbd.triage.report import Report

# As files of earlier versions may be: without the index of pairs.
OLD_FILE = """
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, moment TEXT NOT NULL, subject TEXT NOT NULL, issue_id TEXT NOT NULL,
    title TEXT NOT NULL, description TEXT NOT NULL, candidate TEXT NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('accept', 'reject', 'withdraw')), who TEXT NOT NULL, source TEXT NOT NULL
);
CREATE VIEW latest AS SELECT * FROM events
    WHERE number IN (SELECT MAX(number) FROM events GROUP BY subject, candidate) AND verdict != 'withdraw';
INSERT INTO events VALUES (1, '2024-06-01T10:00:00.000+00:00', 'id:7', '7', 'x', '', '3', 'accept', '', 'web');
"""


def verdict(word: str, issue_id: str = "7") -> FeedbackEvent:
    return FeedbackEvent(Report(issue_id=issue_id, title="Mail is lost"), "3", word, "web")


def plans(feedback: FeedbackStore, folder: Path, *verdicts: FeedbackEvent) -> list[str]:
    """How SQLite finds the rows of every query that recording asks."""
    asked: list[str] = []
    feedback.file._connection.set_trace_callback(asked.append)
    for one in verdicts:
        feedback.record(one)
    feedback.withdraw("7", "3", "api")
    feedback.file._connection.set_trace_callback(None)
    with sqlite3.connect(folder / FEEDBACK_FILE) as other:
        explained = [
            other.execute(f"EXPLAIN QUERY PLAN {one}").fetchall()
            for one in asked
            if one.startswith(("SELECT", "UPDATE", "DELETE", "INSERT"))
        ]
    other.close()
    return [str(row[3]) for rows in explained for row in rows]


@pytest.mark.parametrize("old", [False, True], ids=["new file", "old file"])
def test_no_query_looks_at_all_events(tmp_path: Path, old: bool) -> None:
    if old:
        with sqlite3.connect(tmp_path / FEEDBACK_FILE) as file:
            file.executescript(OLD_FILE)
        file.close()
    feedback = FeedbackStore(tmp_path)
    found = plans(feedback, tmp_path, verdict("accept"), verdict("reject"), verdict("accept", "8"))
    feedback.close()
    assert found
    assert not [plan for plan in found if "SCAN" in plan or "TEMP" in plan]
    assert all("events_of_pair" in plan for plan in found)


def test_an_old_file_keeps_what_was_said(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FEEDBACK_FILE) as file:
        file.executescript(OLD_FILE)
    file.close()
    feedback = FeedbackStore(tmp_path)
    assert not feedback.record(verdict("accept"))
    assert feedback.record(verdict("reject"))
    assert list(feedback_table(tmp_path)["verdict"]) == ["reject"]
    feedback.close()
