"""A verdict takes the same work however many were recorded before."""

import sqlite3
from pathlib import Path

from gedbd.sampling.feedback_labels import FEEDBACK_FILE
from gedbd.triage.bug_report import Report
from gedbd.triage.feedback import FeedbackEvent, FeedbackStore


def verdict(word: str, issue_id: str = "7") -> FeedbackEvent:
    return FeedbackEvent(Report(issue_id=issue_id, title="Mail is lost"), "3", word, "web")


def plans(feedback: FeedbackStore, folder: Path, *verdicts: FeedbackEvent) -> list[str]:
    """How SQLite finds the rows of every query that recording asks."""
    asked: list[str] = []
    feedback.file._sqlite.set_trace_callback(asked.append)
    for one in verdicts:
        feedback.record(one)
    feedback.withdraw("7", "3", "api")
    feedback.file._sqlite.set_trace_callback(None)
    with sqlite3.connect(folder / FEEDBACK_FILE) as other:
        explained = [
            other.execute(f"EXPLAIN QUERY PLAN {one}").fetchall()
            for one in asked
            if one.startswith(("SELECT", "UPDATE", "DELETE", "INSERT"))
        ]
    other.close()
    return [str(row[3]) for rows in explained for row in rows]


def test_no_query_looks_at_all_events(tmp_path: Path) -> None:
    feedback = FeedbackStore(tmp_path)
    found = plans(feedback, tmp_path, verdict("accept"), verdict("reject"), verdict("accept", "8"))
    feedback.close()
    assert found
    assert not [plan for plan in found if "SCAN" in plan or "TEMP" in plan]
    assert all("events_of_pair" in plan for plan in found)
