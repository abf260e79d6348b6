"""The text of a forgotten report is in no byte of the index folder, whether a command or the service forgets it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from refusals import call
from small_github import REPOSITORY
from small_tracker import as_corpus, fill, open_folder, some_report, stored_terms
from webhook_events import SECRET, Sender, issue

import gedbd
import gedbd.commands.index
from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import FeedbackEvent, FeedbackStore, feedback_table
from gedbd.service.app import create_app
from gedbd.service.github_comments import OutboxComment
from gedbd.service.webhook import Webhook
from gedbd.triage.storage import folder_store
from gedbd.triage.storage.index_folder import CACHE, FILE
from gedbd.triage.storage.index_store import IndexStore

pytestmark = pytest.mark.slow

COUNT = 40
ID = "7712399"
OLD = some_report(90, issue_id=ID, title="formerquake in the hall", description="The formerglimmer came first.")
SECRET_REPORT = some_report(
    90, issue_id=ID, title="Zanzibarquake in openGlimmerFrost", description="error: oxyphenbuta is missing."
)
WORDS = ("formerquake", "formerglimmer", "zanzibarquake", "glimmerfrost", "oxyphenbuta")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """A cache of an index of any size, however much of it has changed."""
    monkeypatch.setattr(folder_store, "MIN_REPORTS", 1)
    monkeypatch.setattr(folder_store, "MAX_CHANGED", 1e9)


@pytest.fixture
def folder(tmp_path, reader):
    """An index with a report that was edited and linked, and feedback on it."""
    folder = tmp_path / "index"
    folder.mkdir()
    fill(folder, as_corpus([*(some_report(number) for number in range(COUNT)), OLD]), reader)
    with closing(sqlite3.connect(folder / FILE)) as file, file:
        texts = [f"{SECRET_REPORT.title}\n{SECRET_REPORT.description}", "something else in the window"]
        file.execute("INSERT OR REPLACE INTO about VALUES ('calibration', ?)", (json.dumps(texts),))
    index = open_folder(folder, reader)
    index.add([SECRET_REPORT])
    for other in ("3", "15"):
        index.link(other, ID, "export: group")
    index.close()
    open_folder(folder, reader).close()
    feedback = FeedbackStore(folder)
    pasted = Report(SECRET_REPORT.title, SECRET_REPORT.description)
    for report, candidate in ((SECRET_REPORT, "3"), (pasted, "4"), (Report("oxyphenbuta"), ID), (some_report(5), "6")):
        feedback.record(FeedbackEvent(report, candidate, "accept", "api", "ann"))
    feedback.record(FeedbackEvent(SECRET_REPORT, "3", "withdraw", "api"))
    feedback.close()
    return folder


def found_in(folder: Path, *wanted: str) -> dict[str, list[str]]:
    """Which of some words the bytes of each file hold, in any case of letters."""
    content = {path.name: path.read_bytes().lower() for path in folder.rglob("*") if path.is_file()}
    held = {name: [word for word in wanted if word.encode() in text] for name, text in content.items()}
    return {name: words for name, words in held.items() if words}


def answers(index):
    return [repr(index.search(some_report(number, issue_id=""), 50)) for number in (3, 14, 75)]


def groups(index):
    matches = index.search(some_report(3, issue_id=""), 50)
    return [match.members for match in matches if "3" in match.members]


def test_the_command_leaves_no_byte(folder, reader, capsys):
    before = found_in(folder, *WORDS, ID)
    assert set(before[FILE]) >= {*WORDS[2:], ID}
    (cache,) = folder.glob(f"{CACHE}*")
    assert cache.name in before
    (folder / f".0123.host.99.part{cache.suffix}").write_text(WORDS[0])  # of a process that was killed
    (folder / f"{CACHE}7").mkdir()  # of an earlier version
    (folder / f"{CACHE}7" / "terms bytes.bin").write_text(WORDS[0])
    call(gedbd.commands.index, f"out={folder}", f"forget={ID}")
    assert "1 forgotten" in capsys.readouterr().out
    assert found_in(folder, *WORDS, ID) == {}
    assert list(feedback_table(folder)["candidate"]) == ["6"]
    with closing(sqlite3.connect(folder / FILE)) as file:
        ((kept,),) = file.execute("SELECT value FROM about WHERE name = 'calibration'")
        assert json.loads(kept) == ["something else in the window"]
    index = open_folder(folder, reader)
    assert groups(index) == [("3", "15")]
    rebuilt = folder.parent / "rebuilt"
    rebuilt.mkdir()
    fill(
        rebuilt, as_corpus([some_report(number) for number in range(COUNT)], [*range(15), 3, *range(16, COUNT)]), reader
    )
    other = open_folder(rebuilt, reader)
    assert answers(index) == answers(other)
    index.close()
    other.close()


def test_ids_that_are_not_stored_are_told_and_erased_elsewhere(folder):
    feedback = FeedbackStore(folder)
    feedback.record(FeedbackEvent(Report("mislaidword", issue_id="999"), "3", "accept", "api"))
    feedback.close()
    with pytest.raises(SystemExit, match=r"^error: forget=999: not in .*index; other data that named it was erased$"):
        call(gedbd.commands.index, f"out={folder}", f"forget=[999,{ID}]")
    assert found_in(folder, *WORDS, ID, "mislaidword") == {}
    for words, message in (
        ((f"out={folder.parent}", "forget=3"), "no index.sqlite there"),
        ((f"out={folder}", "forget=3", "encoder=tiny"), "encoder=tiny: forget= only erases"),
    ):
        with pytest.raises(SystemExit, match=message):
            call(gedbd.commands.index, *words)


def test_the_service_leaves_no_byte_while_it_runs(folder, reader):
    index = open_folder(folder, reader)
    hook = Webhook(index, REPOSITORY, None, SECRET)
    early, late = "2024-06-01T10:00:00Z", "2090-01-01T00:00:00Z"
    told = issue(int(ID), "edited", SECRET_REPORT.title, body="oxyphenbuta", updated_at=early)
    with TestClient(create_app(index, webhook=hook), base_url="http://localhost") as client:
        send = Sender(client, hook)
        with hook.turn:  # the events wait
            hook.table.put("first", json.dumps(told))
            hook.table.put("second", json.dumps(issue(70, updated_at=early)))
            hook.table.put("third", "{")
        for number, body in ((ID, "of #3"), ("20", f"This may be a duplicate of #{ID} (90%)"), ("21", f"of #{ID}0")):
            hook.outbox.put(OutboxComment(REPOSITORY, number, body))
        hook.table.remember_link("comment 5", "3", ID)
        assert found_in(folder, *WORDS)["webhook.sqlite-wal"]
        assert client.delete(f"/api/reports/{ID}", params={"forget": "true"}).json() == {"deleted": ID}
        assert found_in(folder, *WORDS) == {}
        assert set(found_in(folder, ID)) <= {"webhook.sqlite"}  # that it was forgotten, and that it had a comment
        assert [(one.issue_id, hook.outbox.state(REPOSITORY, one.issue_id)) for one in hook.outbox.waiting()] == [
            ("21", "pending")
        ]
        assert groups(index) == [("3", "15")]
        again = client.delete(f"/api/reports/{ID}", params={"forget": "true"})
        assert (again.status_code, "erased" in again.json()["detail"]) == (404, True)
        send(told | {"action": "opened"})
        assert index.get(ID) is None
        assert index.get("70")  # its delivery waited, too
        before = answers(index)
        send(issue(int(ID), "edited", SECRET_REPORT.title, updated_at=late))
        assert index.get(ID).title == SECRET_REPORT.title
        assert index.delete(ID)
        assert answers(index) == before
    reopened = open_folder(folder, reader)
    assert answers(reopened) == before
    reopened.close()


def test_words_of_deleted_reports_go_when_the_files_are_made_again(folder, reader):
    index = open_folder(folder, reader)
    others = stored_terms(index.store.file)
    index.delete(ID)
    assert WORDS[2] in stored_terms(index.store.file)
    folder_store.compact(folder / FILE)
    terms = stored_terms(index.store.file)
    assert not set(WORDS) & set(terms)
    assert all(new in (old, "") for old, new in zip(others, terms, strict=True))
    expected = answers(index)
    assert found_in(folder, *WORDS[2:]).keys() <= {f"{FILE}-wal", "feedback.sqlite", FILE}
    index.forget("nothing")  # empties the log
    assert found_in(folder, *WORDS[2:]).keys() == {"feedback.sqlite", FILE}  # in FILE, texts of the calibration
    # Memory knows the numbers of the words, the file has none.
    for _ in range(2):
        index.add([SECRET_REPORT])
        found = repr(index.search(SECRET_REPORT, 5)), repr(index.search(Report("zanzibarquake glimmerFrost"), 1))
        assert repr(reopen(folder, reader, SECRET_REPORT, 5)) == found[0]
        assert repr(reopen(folder, reader, Report("zanzibarquake glimmerFrost"), 1)) == found[1]
        index.forget(ID)
    assert answers(index) == expected
    index.close()


def reopen(folder, reader, report, top_k):
    index = open_folder(folder, reader)
    found = index.search(report, top_k)
    index.close()
    return found


def test_a_report_that_is_being_read_is_told(folder, reader, monkeypatch):
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM reports").fetchone()
        store = IndexStore(folder / FILE, timeout_s=0.1)
        for _ in range(2):
            with pytest.raises(Exception, match=r"-wal still holds what was deleted, as it is being read: try again"):
                store.forget([ID])
        other.execute("ROLLBACK")
        store.forget([ID])
        assert FILE not in found_in(folder, *WORDS[2:])
        store.close()


def test_every_database_is_opened_where_deleted_content_is_overwritten(folder):
    for file in Path(gedbd.__file__).parent.rglob("*.py"):
        for line in file.read_text().splitlines():
            is_reading = "?mode=ro" in line
            assert "sqlite3.connect(" not in line or is_reading or file.name == "sqlite_file.py", f"{file}: {line}"
    with closing(IndexStore(folder / FILE)) as store:
        assert store.query("PRAGMA secure_delete") == [(1,)]
