"""``gedbd sync``: fetch and index in one command, again and again."""

import json
import os
import signal
from contextlib import closing
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from threading import Event

import pytest
from filelock import FileLock
from small_repository import NAMES, make_repository

from gedbd.configuration.command import IN_USE_STATUS
from gedbd.configuration.errors import CommandError
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.service.forgetting import forget_reports
from gedbd.triage import index_building
from gedbd.triage.storage.index_folder import FILE, LOCATED, SYNC_LOCK, TRACKER
from gedbd.triage.storage.index_store import IndexStore

pytestmark = pytest.mark.integration


@pytest.fixture
def call(run_command):
    """Runs the command in a folder; gives its standard output."""
    return partial(run_command, "sync")


@pytest.fixture
def first(github):
    """The options of the first call; the records of the tracker are complete enough to be read."""
    for issue in github.issues:
        issue |= {"title": f"Window {issue['number']} flickers", "body": "It does.", "state": "open"}
    github.events.clear()
    github.comments.clear()
    tracker = ["tracker=github", f"tracker.base_url={github.server.url}", "tracker.page_size=2"]
    return ["index=mine", "project=owner/repo", *tracker, "encoder=tiny"]


def stored():
    """The ids of the reports in the index."""
    with closing(IndexStore(Path("mine") / FILE, create=False)) as store:
        return set(store.contents())


def test_new_changed_and_duplicate_reports_are_counted(call, first, github):
    printed = call(*first, "quiet=true", "replace=true")
    assert printed == "mine: 7 new, 0 changed, 0 removed, 0 marked as duplicates; 7 reports\n"
    assert call(*first, "-q") == "mine: 0 new, 0 changed, 0 removed, 0 marked as duplicates; 7 reports\n"
    late = "2099-01-01T00:00:00Z"
    github.issues[1] |= {"body": "It flickers when resized.", "updated_at": late}
    github.issues[2] |= {"state": "closed", "state_reason": "duplicate", "closed_at": late, "updated_at": late}
    github.comments.append(github.comment(31, 3, late) | {"body": "Duplicate of #1"})
    github.issues.append(github.issues[0] | {"number": 8, "title": "Sound stops", "updated_at": late})
    counts = {"new": 1, "changed": 2, "removed": 0, "marked_as_duplicates": 1, "reports": 8}
    assert json.loads(call("--index=mine", *first[1:], "--json")) == {"index": "mine"} | counts
    assert stored() == {str(number) for number in range(1, 9)}


def test_new_reports_are_located(call, first, github, tmp_path):
    commits = make_repository(tmp_path / "repo", 2)
    for issue in github.issues[:2]:
        issue |= {"state": "closed", "state_reason": "completed", "closed_at": issue["updated_at"]}
    printed = call(*first, "repo=repo", "max_located=3")
    assert "mine/located.jsonl: 3 located, 0 kept, 4 older ones left out by max_located=3\n" in printed
    name = f"{NAMES[1]}Reader"
    late = {"created_at": "2099-01-01T00:00:00Z", "updated_at": "2099-01-01T00:00:00Z"}
    github.issues.append(github.issues[6] | late | {"number": 8, "title": f"{name} loses a line"})
    found = json.loads(call(*first, "repo=repo", "max_located=3", "json=true"))
    assert (found["located"], found["new"]) == (1, 1)
    lines = [json.loads(line) for line in (tmp_path / "mine" / LOCATED).read_text().splitlines()]
    assert [line["query"]["issue_id"] for line in lines] == ["8", "7", "6"]
    assert lines[0]["files"][0]["path"] == f"src/{name}.java"
    assert lines[0]["commit"] == commits[-1]


def test_a_process_that_is_killed_between_fetch_and_index_goes_on(call, first, github, monkeypatch):
    reached = get_context("fork").Event()

    def hold(*_):
        reached.set()
        Event().wait(60)

    with monkeypatch.context() as patch:
        patch.setattr(index_building, "update_index", hold)
        process = get_context("fork").Process(target=call, args=first)
        process.start()
        assert reached.wait(20)
        with pytest.raises(
            CommandError, match=rf"^error: index=mine is brought .* by process {process.pid} on "
        ) as held:
            call(*first)
        assert held.value.status == IN_USE_STATUS
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    asked = len(github.server.asked)
    assert call(*first, "-q").startswith("mine: 7 new, ")
    assert all("since=" in address or "events" in address for address in github.server.asked[asked:])
    assert stored() == {str(number) for number in range(1, 8)}


def test_a_call_after_those_that_failed_fetches_everything(call, first):
    for option, message in {
        "tracker.base_url=nowhere": r"tracker\.base_url=nowhere must be an address",
        "tracker.base_url=https://me:word@example.org": "holds a name or password",
        "project=other/repo": "the server returned 404",
        "run=tested": "encoder=tiny: run= already sets the encoder",
    }.items():
        with pytest.raises(CommandError, match=message) as raised:
            call(*first, option)
        assert raised.value.status == 1
    assert call(*first, "-q").startswith("mine: 7 new, ")


def test_a_call_needs_a_project_and_no_other_call_beside_it(call):
    with pytest.raises(CommandError, match=r"^error: project= is required, for example: gedbd sync index=my-index tra"):
        call("index=mine")
    assert not Path("mine").exists()
    Path("mine").mkdir()
    with FileLock(Path("mine") / SYNC_LOCK), pytest.raises(CommandError, match="by another process"):
        call("index=mine", "project=a/b")


def test_forgetting_deletes_the_fetched_pages_unless_a_sync_runs(call, first):
    call(*first, "quiet=true")
    folder = Path("mine")
    with FileLock(folder / SYNC_LOCK), pytest.raises(StoreUnavailable, match="brought up to date"):
        forget_reports(folder, ["3"])
    assert "3" in stored()
    assert forget_reports(folder, ["3"]) == []
    assert "3" not in stored()
    assert not (folder / TRACKER).exists()
    assert "1 new" in call(*first, "quiet=true")  # the tracker still has it
