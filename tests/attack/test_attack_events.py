"""Events of strangers, texts that only look like a member's word, and events that come late link nothing."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from small_github import REPOSITORY
from small_index import REPORTS, SmallIndex
from webhook_events import SECRET, Sender, issue, note

from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import feedback_table
from gedbd.service.app import create_app
from gedbd.service.issue_events import MARKDOWN, MAX_READ, named_duplicate
from gedbd.service.webhook import Webhook

EARLY, LATE, LATER = "2024-06-01T10:00:00Z", "2024-06-01T10:00:05Z", "2024-06-01T10:00:09Z"
ENTERPRISE = "https://bugs.corp.example:8443/ann/mail/issues/20"
ASSOCIATIONS = ("NONE", "CONTRIBUTOR", "FIRST_TIMER", "MANNEQUIN", "", "member", "OWNER ")


@pytest.fixture
def index(tmp_path: Path) -> SmallIndex:
    others = [Report(f"Report {number}", "Text.", str(number)) for number in range(100, 103)]
    return SmallIndex(tmp_path, [*REPORTS, *others])


@pytest.fixture
def send(index: SmallIndex) -> Iterator[Sender]:
    hook = Webhook(index, REPOSITORY, None, SECRET)
    with TestClient(create_app(index, webhook=hook), base_url="http://localhost") as client:
        yield Sender(client, hook)


@pytest.fixture
def comment(send: Sender) -> Callable[..., Any]:
    """Sends a member's comment on an issue."""

    def sent(text: str, action: str = "created", moment: str = EARLY, number: int = 20, **more: Any) -> Any:
        return send(note(text, number, action=action, **({"id": 7, "updated_at": moment} | more)), "issue_comment")

    return sent


def accepted(index: SmallIndex) -> list[tuple[str, str]]:
    table = feedback_table(index.folder)
    table = table[table["verdict"] == "accept"]
    return sorted(table[["issue_id", "candidate"]].itertuples(index=False, name=None))


def title_of(index: SmallIndex, issue_id: str) -> str:
    report = index.get(issue_id)
    assert report is not None
    return report.title


def test_an_author_cannot_merge_groups(index, comment):
    links = set(index.links)
    for association in ASSOCIATIONS:
        for number in range(100, 103):  # the issue is bea's own
            answer = comment(f"Duplicate of #{number}", by="bea", author_association=association)
            assert answer.status_code < 300
    assert (index.links, accepted(index)) == (links, [])


def test_an_enterprise_server_means_its_own_addresses(index, send):
    for host, members in (
        ("github.com", ("20",)),
        ("bugs.corp.example", ("20",)),
        ("Bugs.Corp.example:8443", ("12", "15", "20")),
    ):
        sent = note(f"Duplicate of https://{host}/ann/mail/issues/12")
        sent["issue"]["html_url"] = ENTERPRISE
        send(sent, "issue_comment")
        assert index.members("20") == members


NOT_SAID = [
    "Duplicate of https://evil.example/ann/mail/issues/12",
    "Duplicate of https://github.com:8443/ann/mail/issues/12",
    "Duplicate of https://github.com@evil.example/ann/mail/issues/12",
    "Duplicate of https://GITHUB.COM/eve/mail/issues/12",
    "```\nDuplicate of #12\n```",
    "````\n```\nDuplicate of #12\n````",
    "```\nDuplicate of #12",  # a fence that is not closed holds all that follows
    "Text:\n\n    Duplicate of #12",
    "> Duplicate of #12",
    "> Somebody wrote:\nDuplicate of #12",  # goes on with the quote, as Markdown reads it
    "<!--\nDuplicate of #12\n-->",
    "<details>\nDuplicate of #12\n</details>",
    "`Duplicate of #12`",
    "~~Not so:\nDuplicate of #12\nafter all~~",
    "- Duplicate of #12",
    "| a |\n|---|\n| Duplicate of #12 |",
    "Duplicate of #\u0661\u0662",
    "Not a duplicate of #12",
    "Duplicate of eve/mail#12",
    "Duplicate of #12, I think",
    "Duplicate of #" + "9" * 5000,
    "Duplicate of #12" + " " * 60_000 + "x",
    "~~a " * 15_000 + "\nDuplicate of #12~~",
]
SAID = [
    "  duplicate of: #0012 ",
    "Seen before.\nDuplicate of #3\nDuplicate of #12",
    "> Is this known?\n\nDuplicate of #12",
    "```\ncode\n```\nDuplicate of #12\r\n",
    "Duplicate of #12\n-- \nAnn",
    "Duplicate of https://github.com/ann/mail/issues/12",
    # A paragraph that is read in part does not count.
    *(
        newline.join(["Duplicate of #12", "", "~~Duplicate of #13", "x" * 60_000, "~~"])
        for newline in ("\n", "\r\n", "\r")
    ),
]


@pytest.mark.parametrize(("text", "number"), [*((text, None) for text in NOT_SAID), *((text, "12") for text in SAID)])
@pytest.mark.usefixtures("hang_guard")
def test_only_what_is_said_among_other_things_counts(text, number):
    assert named_duplicate(text, REPOSITORY, "github.com") == number


@pytest.mark.parametrize("long", ["a\n=\n", "- - - a\n", "#\n", "> a\n\n", "x"])
def test_what_the_parser_reads_of_a_text_is_bounded(index, send, comment, long, monkeypatch, caplog):
    read: list[str] = []
    parse = MARKDOWN.parse
    monkeypatch.setattr(MARKDOWN, "parse", lambda text: read.append(text) or parse(text))
    text = f"Duplicate of #12\n\n{long * (60_000 // len(long))}"
    comment(text, by="bea", author_association="NONE")
    comment(f"{text}\n\nDuplicate of #31")
    assert read == []
    assert (index.members("20"), send.counted("unread")) == (("20",), 1)
    assert "is not read: " in caplog.text
    comment(text, number=31)
    assert (index.members("12"), len(read)) == (("12", "15", "31"), 1)
    assert len(read[0]) <= MAX_READ


def test_a_comment_that_is_deleted_unlinks_what_it_linked(index, comment):
    comment("Duplicate of #31")
    assert (index.members("20"), accepted(index)) == (("20", "31"), [("20", "31")])
    comment("Duplicate of #31", "deleted")
    assert (index.members("20"), accepted(index)) == (("20",), [])
    comment("Duplicate of #31")  # told once more, too late
    assert (index.members("20"), index.members("12")) == (("20",), ("12", "15"))


def test_a_comment_that_is_edited_links_what_it_says_now(index, comment):
    comment("Duplicate of #31")
    comment("Duplicate of #100", "edited", LATE)
    assert (index.members("20"), accepted(index)) == (("20", "100"), [("20", "100")])
    comment("Duplicate of #31", "edited", EARLY)
    assert index.members("20") == ("20", "100")
    comment("I was wrong", "edited", LATE)
    assert (index.members("20"), accepted(index)) == (("20",), [])


def test_what_another_comment_or_a_person_says_stays(index, send, comment):
    on_31 = partial(comment, number=31, id=8)
    comment("Duplicate of #31")
    on_31("Duplicate of #20")
    comment("", "deleted")
    assert index.members("20") == ("20", "31")
    assert accepted(index) != []
    on_31("", "deleted")
    assert (index.members("20"), accepted(index)) == (("20",), [])
    verdict = {"report": {"issue_id": "20", "title": "x"}, "candidate": "31", "verdict": "accept", "source": "web"}
    assert send.client.post("/api/feedback", json=verdict).status_code == 200
    comment("Duplicate of #31", id=9)
    comment("", "deleted", id=9)
    assert accepted(index) == [("20", "31")]


def test_links_and_verdicts_are_deleted_on_request(index, send, comment):
    client = send.client
    index.add([Report("A report of a project", "", "PROJ/41")])
    index.link("PROJ/41", "20", "webhook")
    comment("Duplicate of #31")
    pair = {"report": "20", "duplicate": "PROJ/41"}
    assert client.delete("/api/links", params=pair).json() == {"unlinked": ["20", "PROJ/41"]}
    assert client.delete("/api/links", params=pair).status_code == 404
    assert client.delete("/api/links", params={"report": "31", "duplicate": "20"}).status_code == 200
    assert (index.members("20"), index.members("12")) == (("20",), ("12", "15"))
    pair = {"report": "31", "candidate": "20"}
    assert client.delete("/api/feedback", params=pair).json() == {"withdrawn": ["31", "20"]}
    assert accepted(index) == []
    again = client.delete("/api/feedback", params=pair)
    assert (again.status_code, again.json()) == (404, {"detail": "there is no feedback on 31 and 20"})
    for path in ("/api/links", "/api/feedback"):
        assert client.delete(path).status_code == 422
        assert client.delete(path, params={"report": "", "duplicate": "1", "candidate": "1"}).status_code == 422


def test_an_older_edit_does_not_overwrite_a_newer_one(index, send):
    send(issue(80, "edited", "second", updated_at=LATE))
    send(issue(80, "edited", "first", updated_at=EARLY))
    assert title_of(index, "80") == "second"
    assert send.counted("outdated") == 1
    send(issue(80, "edited", "third", updated_at=LATE))  # GitHub tells whole seconds
    assert title_of(index, "80") == "third"
    for late in ("opened", "closed", "reopened", "transferred"):
        send(issue(80, late, "first", updated_at=EARLY))
        assert title_of(index, "80") == "third"


@pytest.mark.parametrize("gone", ["deleted", "transferred"])
def test_an_edit_after_a_deletion_does_not_bring_an_issue_back(index, send, gone):
    send(issue(80, updated_at=EARLY))
    send(issue(80, gone, updated_at=LATE))
    for moment in ({"updated_at": EARLY}, {"updated_at": LATE}, {}):  # a deletion leaves the time of the last change
        for action in ("opened", "edited", "closed", "reopened"):
            send(issue(80, action, **moment))
            assert index.get("80") is None
        send(note("Duplicate of #12", 80) | {"issue": issue(80, **moment)["issue"]}, "issue_comment")
        assert index.get("80") is None
    send(issue(80, "reopened", "back", updated_at=LATER))  # as after a transfer there and back
    assert title_of(index, "80") == "back"


def test_a_deletion_counts_however_late_it_is_told_and_before_the_first_event(index, send):
    send(issue(80, "edited", updated_at=LATER))
    send(issue(80, "deleted", updated_at=EARLY))
    assert index.get("80") is None
    send(issue(80, "edited", updated_at=LATER))
    assert index.get("80") is None
    send(issue(12, "deleted", updated_at=LATE))  # the export brought this report
    send(issue(12, "edited", updated_at=EARLY))
    assert index.get("12") is None


def test_an_issue_that_is_opened_late_is_compared_all_the_same(index, send, caplog):
    with caplog.at_level(logging.INFO, "gedbd"):
        send(issue(80, "edited", updated_at=LATE))
        send(issue(80, "opened", "an older title", updated_at=EARLY))
    assert title_of(index, "80") != "an older title"
    assert "no comment on issue 80: shadow mode: #12 would be suggested" in caplog.text
