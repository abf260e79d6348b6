"""``gedbd sync``: fetch and index in one command, again and again."""

import json
import shutil
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock
from small_repository import NAMES, make_repository

from gedbd.configuration.command import IN_USE_STATUS
from gedbd.configuration.errors import CommandError
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.service.forgetting import forget_reports
from gedbd.service.webhook import Webhook
from gedbd.triage import index_building
from gedbd.triage.storage.index_folder import FILE, LOCATED, SYNC_LOCK, TRACKER
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.stored_index import open_index

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
    with (
        FileLock(Path("mine") / SYNC_LOCK),
        pytest.raises(CommandError, match=r"^error: index=mine is brought .* by another process") as held,
    ):
        call("index=mine", "project=a/b")
    assert held.value.status == IN_USE_STATUS


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


class KilledError(Exception):
    """Ends a sync as a kill would."""


class Story:
    """A webhook and syncs, while the tracker changes at one moment; each change is delivered to the webhook at once."""

    titles = {"1": "Window 1 flickers", "2": "Window 2 flickers", "3": "Edited", "6": "Opened again"} | {
        "7": "Window 7 flickers",
        "8": "Opened",
    }  # of the reports afterwards

    def __init__(self, github, sync, monkeypatch):
        self.github, self.sync, self.patch = github, sync, monkeypatch

    def deliver(self, *events):
        with closing(open_index("mine", "cache")) as index, closing(Webhook(index, "owner/repo")) as hook:
            for action, issue, *comment in events:
                event = {"action": action, "issue": issue, "repository": {"full_name": "owner/repo"}}
                kind = "issue_comment" if comment else "issues"
                assert hook.receive(kind, event | dict(zip(["comment"], comment, strict=False))).status in (200, 202)

    def change(self):
        """2 loses its comment, 3 is edited, 4 deleted, 5 transferred, 6 deleted and opened again, 8 opened."""
        late = {"updated_at": "2099-01-01T00:00:00Z"}
        of = {issue["number"]: issue for issue in self.github.issues}
        edited = of[3] | late | {"title": "Edited"}
        again = of[6] | late | {"title": "Opened again"}
        opened = of[7] | late | {"number": 8, "title": "Opened"}
        renamed = self.github.event(41, 3, "renamed", late["updated_at"])
        self.github.events.append(renamed | {"rename": {"from": of[3]["title"], "to": "Edited"}})
        comment = self.github.comments.pop()
        self.github.issues = [of[1], of[2], edited, of[7], again, opened]
        self.deliver(
            ("deleted", of[2], comment),
            ("edited", edited),
            ("deleted", of[4]),
            ("transferred", of[5]),
            ("deleted", of[6]),
            ("reopened", again),
            ("opened", opened),
        )

    def before(self):
        self.change()
        self.sync()

    def not_listed_yet(self):
        """The tracker lists its former state for a while."""
        former = self.github.issues
        self.change()
        current, self.github.issues = self.github.issues, former
        self.sync()
        self.github.issues = current

    def while_it_fetches(self):
        """After the tracker has listed all issues."""

        def then(path, query):
            reply = self.github.answer(path, query)
            if path.endswith("/issues") and "next" not in reply.headers.get("Link", ""):
                self.github.server.answer = self.github.answer
                self.change()
            return reply

        shutil.rmtree(Path("mine") / TRACKER)  # all of them
        self.github.server.answer = then
        self.sync()

    def after_a_fetch_that_was_interrupted(self):
        """After the first page; the next call fetches the others."""
        answer = self.github.answer
        self.github.server.answer = lambda path, query: answer("" if query.get("page") == ["2"] else path, query)
        shutil.rmtree(Path("mine") / TRACKER)
        with pytest.raises(CommandError, match="404"):
            self.sync()
        self.github.server.answer = answer
        self.change()
        self.sync()

    def after_the_fetch(self):
        """Before the pages are read."""
        read = index_building.read_corpus
        with self.patch.context() as patch:
            patch.setattr(index_building, "read_corpus", lambda dataset: (self.change(), read(dataset))[1])
            self.sync()

    def after_a_sync_that_was_killed(self):
        """Between its fetch and its index."""

        def killed(*_):
            raise KilledError

        with self.patch.context() as patch:
            patch.setattr(index_building, "read_corpus", killed)
            with pytest.raises(KilledError):
                self.sync()
        self.change()
        asked = len(self.github.server.asked)
        self.sync()
        assert all("since=" in address or "events" in address for address in self.github.server.asked[asked:])


MOMENTS = [name for name in vars(Story) if name.startswith(("before", "not", "while", "after"))]


@pytest.mark.parametrize("moment", MOMENTS)
def test_what_the_webhook_has_acknowledged_stays(call, first, github, monkeypatch, moment):
    day = github.issues[0]["updated_at"]
    said = {"body": "Duplicate of #1", "author_association": "MEMBER", "user": {"login": "ann"}}
    github.comments.append(github.comment(31, 2, day) | said)
    call(*first, "quiet=true")
    story = Story(github, partial(call, *first, "quiet=true"), monkeypatch)
    story.deliver(("created", github.issues[1], *github.comments), ("edited", *github.issues[6:]))
    getattr(story, moment)()
    for _ in range(2):
        with closing(IndexStore(Path("mine") / FILE, create=False)) as store:
            reports = store.reports(list(store.contents()))
            links = store.links()
        assert {name: report.title for name, report in reports.items()} == Story.titles
        counts = json.loads(call(*first, "json=true"))
    assert links == []
    pages = "".join(page.read_text() for page in (Path("mine") / TRACKER / "pages").iterdir())
    assert ("Window 3" in pages, "Window 4" in pages, "Window 5" in pages) == (True, False, False)
    assert counts == {"index": "mine", "new": 0, "changed": 0, "removed": 0, "marked_as_duplicates": 0, "reports": 6}
    if moment == "before":  # an event that arrives late changes nothing
        github.issues[1] |= {"title": "Fetched", "updated_at": "2099-01-02T00:00:00Z"}
        assert " 1 changed" in story.sync()
        story.deliver(("edited", github.issues[1] | {"title": "Late", "updated_at": "2099-01-01T00:00:00Z"}))
        assert " 0 changed" in story.sync()
        # What was deleted without an event is found by fetching everything again.
        github.issues = [issue for issue in github.issues if issue["number"] != 7]
        assert " 0 removed" in story.sync()
        shutil.rmtree(Path("mine") / TRACKER)
        assert " 1 removed" in story.sync()
