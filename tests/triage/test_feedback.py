import os
import re
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import COLUMNS, FEEDBACK_FILE, FeedbackEvent, FeedbackStore, feedback_table

STORED = Report(issue_id="7", title="Mail is lost")
PASTED = Report(title="Mail is lost", description="Since today.", component="Inbox")
WRITER = """
import sys
from pathlib import Path
from gedbd.corpora.feedback import FeedbackEvent, FeedbackStore
from gedbd.corpora.bug_report import Report
feedback = FeedbackStore(Path(sys.argv[1]))
for number in range(10_000):
    feedback.record(FeedbackEvent(Report(issue_id=f"{sys.argv[2]}-{number}"), "1", "accept", "api"))
    print(number, flush=True)
"""


@pytest.fixture
def feedback(tmp_path):
    kept = FeedbackStore(tmp_path)
    yield kept
    kept.close()


def said(folder: Path) -> list[tuple[str, str, str]]:
    table = feedback_table(folder)
    return list(table[["subject", "candidate", "verdict"]].itertuples(index=False, name=None))


def test_the_same_again_is_kept_once_and_a_changed_mind_replaces(feedback, tmp_path):
    accept, reject = (FeedbackEvent(STORED, "3", verdict, "web", "ann") for verdict in ("accept", "reject"))
    assert [feedback.record(verdict) for verdict in (accept, accept, reject, reject, accept)] == [
        *(True, False),
        *(True, False),
        True,
    ]
    assert said(tmp_path) == [("id:7", "3", "accept")]
    with sqlite3.connect(tmp_path / FEEDBACK_FILE) as store:
        history = [row[0] for row in store.execute("SELECT verdict FROM events ORDER BY number")]
    assert history == ["accept", "reject", "accept"]


def test_what_is_taken_back_counts_no_more(feedback, tmp_path):
    assert not feedback.record(FeedbackEvent(STORED, "3", "withdraw", "web"))
    feedback.record(FeedbackEvent(STORED, "3", "accept", "web"))
    assert feedback.record(FeedbackEvent(STORED, "3", "withdraw", "web"))
    assert said(tmp_path) == []


def test_a_pasted_text_is_known_by_its_title_and_description_alone(feedback, tmp_path):
    assert feedback.record(FeedbackEvent(PASTED, "3", "accept", "web"))
    same = Report(title=PASTED.title, description=PASTED.description, component="Other")
    assert not feedback.record(FeedbackEvent(same, "3", "accept", "api"))
    assert feedback.record(FeedbackEvent(Report(title=PASTED.title), "3", "accept", "web"))
    table = feedback_table(tmp_path / FEEDBACK_FILE)
    assert list(table.columns) == list(COLUMNS)
    assert list(table["description"]) == ["Since today.", ""]
    assert set(table["issue_id"]) == {""}
    assert table["moment"].str.fullmatch(r"20\d\d-\d\d-\d\dT\S+\+00:00").all()


def test_events_are_neither_changed_nor_removed(feedback, tmp_path):
    feedback.record(FeedbackEvent(STORED, "3", "accept", "web"))
    for change in ("DELETE FROM events", "UPDATE events SET verdict = 'reject'"):
        with sqlite3.connect(tmp_path / FEEDBACK_FILE) as store, pytest.raises(sqlite3.IntegrityError, match="stay"):
            store.execute(change)


@pytest.mark.parametrize(
    ("verdict", "message"),
    [
        (FeedbackEvent(STORED, "3", "maybe", "web"), "verdict 'maybe' is unknown: choose accept"),
        (FeedbackEvent(STORED, "3", "accept", "fax"), "source 'fax' is unknown: choose web"),
        (FeedbackEvent(STORED, "7", "accept", "web"), "report 7 is compared with itself"),
        (FeedbackEvent(STORED, "", "accept", "web"), "names no candidate"),
        (FeedbackEvent(Report(title=" "), "3", "accept", "web"), "names no report"),
    ],
)
def test_what_makes_no_sense_is_refused(feedback, tmp_path, verdict, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        feedback.record(verdict)
    assert said(tmp_path) == []


def test_many_threads_and_two_connections_lose_nothing(feedback, tmp_path):
    other = FeedbackStore(tmp_path)
    verdicts = [FeedbackEvent(Report(issue_id=str(100 + number % 20)), "1", "accept", "api") for number in range(40)]
    with ThreadPoolExecutor(4) as threads:
        new = list(
            threads.map(lambda pair: pair[0].record(pair[1]), zip([feedback, other] * 20, verdicts, strict=True))
        )
    assert sum(new) == 20
    assert len(said(tmp_path)) == 20


def test_what_was_acknowledged_outlives_a_kill(tmp_path):
    expected = set()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    for round_number in range(3):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(round_number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
            for _ in range(5):
                number = int(writer.stdout.readline())
                expected.add(f"id:{round_number}-{number}")
            writer.send_signal(signal.SIGKILL)
    assert expected <= {subject for subject, _, _ in said(tmp_path)}
    with sqlite3.connect(tmp_path / FEEDBACK_FILE) as store:
        assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_what_is_no_feedback_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"feedback.sqlite: no such file"):
        feedback_table(tmp_path)
    (tmp_path / "other.csv").write_text("a,b\n" * 300)
    with pytest.raises(ValueError, match=r"other.csv: this is not a feedback file"):
        feedback_table(tmp_path / "other.csv")
