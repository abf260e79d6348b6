"""People without rights, and texts that only look like a member's word, link nothing; what was linked can be undone."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from small_hub import REPOSITORY, SECRET, Sender, counted, issue, note, until
from small_index import REPORTS, SmallIndex

from gedbd.sampling.feedback_labels import feedback_table
from gedbd.service.app import create_app
from gedbd.service.webhook.payloads import MARKDOWN, MAX_READ, named_duplicate
from gedbd.service.webhook.receiver import Webhook
from gedbd.triage.bug_report import Report

EARLY, LATE = "2024-06-01T10:00:00Z", "2024-06-01T10:00:05Z"
ENTERPRISE = "https://bugs.corp.example:8443/ann/mail/issues/20"


@pytest.fixture
def many(tmp_path: Path) -> SmallIndex:
    others = [Report(f"Report {number}", "Text.", str(number)) for number in range(100, 160)]
    return SmallIndex(tmp_path, [*REPORTS, *others])


@pytest.fixture
def send(many: SmallIndex) -> Iterator[Sender]:
    hook = Webhook(many, REPOSITORY, None, SECRET)
    with TestClient(create_app(many, webhook=hook), base_url="http://localhost") as client:
        yield Sender(client, hook)


def accepted(index: SmallIndex) -> list[tuple[str, str]]:
    table = feedback_table(index.folder)
    table = table[table["verdict"] == "accept"]
    return sorted(table[["issue_id", "candidate"]].itertuples(index=False, name=None))


@pytest.mark.parametrize("association", ["NONE", "CONTRIBUTOR", "FIRST_TIMER", "MANNEQUIN", "", "member", "OWNER "])
def test_an_author_cannot_merge_groups(many: SmallIndex, send: Sender, association: str) -> None:
    links = set(many.links)
    for number in range(100, 130):
        sent = note(f"Duplicate of #{number}", 20, by="bea", author_association=association)  # the issue is bea's own
        assert send(sent, "issue_comment").status_code < 300
    assert many.links == links
    assert accepted(many) == []


@pytest.mark.parametrize(
    "text",
    [
        "https://evil.example/ann/mail/issues/12",
        "https://github.com.evil.example/ann/mail/issues/12",
        "https://evil.example:443/ann/mail/issues/12",
        "https://github.com:8443/ann/mail/issues/12",
        "https://github.com@evil.example/ann/mail/issues/12",
        "https://bugs.corp.example/ann/mail/issues/12",
        "https://GITHUB.COM/eve/mail/issues/12",
    ],
)
def test_addresses_elsewhere_are_not_meant(many: SmallIndex, send: Sender, text: str) -> None:
    send(note(f"Duplicate of {text}"), "issue_comment")
    assert many.members("20") == ("20",)


def test_an_enterprise_server_means_its_own_addresses(many: SmallIndex, send: Sender) -> None:
    for host in ("github.com", "bugs.corp.example"):
        sent = note(f"Duplicate of https://{host}/ann/mail/issues/12")
        sent["issue"]["html_url"] = ENTERPRISE
        send(sent, "issue_comment")
        assert many.members("20") == ("20",)
    sent = note("Duplicate of https://Bugs.Corp.example:8443/ann/mail/issues/12")
    sent["issue"]["html_url"] = ENTERPRISE
    send(sent, "issue_comment")
    assert "20" in many.members("12")


@pytest.mark.parametrize(
    "text",
    [
        "```\nDuplicate of #12\n```",
        "~~~ text\nDuplicate of #12\n~~~",
        "````\n```\nDuplicate of #12\n````",
        "```\nDuplicate of #12",  # a fence that is not closed holds all that follows
        "Text:\n\n    Duplicate of #12",
        "\tDuplicate of #12",
        "> Duplicate of #12",
        "> Somebody wrote:\nDuplicate of #12",  # goes on with the quote, as Markdown reads it
        "   > > Duplicate of #12",
        "<!--\nDuplicate of #12\n-->",
        "<details>\nDuplicate of #12\n</details>",
        "`Duplicate of #12`",
        "~~Duplicate of #12~~",
        "~~Not so:\nDuplicate of #12\nafter all~~",
        "- Duplicate of #12",
        "# Duplicate of #12",
        "| a |\n|---|\n| Duplicate of #12 |",
        "Duplicate of #\u0661\u0662",
        "Duplicate of #0",
        "Duplicate of #12" + " " * 60_000 + "x",
        "~~a " * 15_000 + "\nDuplicate of #12~~",
    ],
)
@pytest.mark.usefixtures("hang_guard")
def test_what_is_not_said_links_nothing(text: str) -> None:
    assert named_duplicate(text, REPOSITORY, "github.com") is None


@pytest.mark.parametrize(
    "text",
    [
        "> Is this known?\n\nDuplicate of #12",
        "```\ncode\n```\nDuplicate of #12\r\n",
        "Thanks!\r\nDuplicate of #12\r\nBye",
        "Duplicate of #12\n-- \nAnn",
        "Duplicate of #12\n---\nSent from my phone",
        "Duplicate of https://github.com/ann/mail/issues/12",
        "Duplicate of #12" + "\n> quoted" * 3,
    ],
)
def test_what_is_said_among_other_things_counts(text: str) -> None:
    assert named_duplicate(text, REPOSITORY, "github.com") == "12"


@pytest.mark.parametrize("long", ["a\n=\n", "- - - a\n", "#\n", "> a\n\n", "x"])
def test_what_the_parser_reads_of_a_text_is_bounded(
    many: SmallIndex, send: Sender, long: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read: list[str] = []
    parse = MARKDOWN.parse
    monkeypatch.setattr(MARKDOWN, "parse", lambda text: read.append(text) or parse(text))
    text = f"Duplicate of #12\n\n{long * (60_000 // len(long))}"
    stranger = {"by": "bea", "author_association": "NONE"}
    send(note(text, **stranger), "issue_comment")  # type: ignore[arg-type]
    send(note(f"{text}\n\nDuplicate of #31"), "issue_comment")
    assert read == []
    assert (many.members("20"), counted(send, "unread")) == (("20",), 1)
    assert "is not read: " in caplog.text
    send(note(text, 31), "issue_comment")
    assert (many.members("12"), len(read)) == (("12", "15", "31"), 1)
    assert len(read[0]) <= MAX_READ


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_paragraph_that_is_read_in_part_does_not_count(newline: str) -> None:
    text = newline.join(["Duplicate of #31", "", "~~Duplicate of #12", "x" * 60_000, "~~"])
    assert named_duplicate(text, REPOSITORY, "github.com") == "31"


def comment(text: str, action: str = "created", moment: str = EARLY, number: int = 20, comment_id: int = 7) -> Any:
    return note(text, number, action=action, id=comment_id, updated_at=moment)


def test_a_comment_that_is_deleted_unlinks_what_it_linked(many: SmallIndex, send: Sender) -> None:
    send(comment("Duplicate of #31"), "issue_comment")
    assert many.members("20") == ("20", "31")
    assert accepted(many) == [("20", "31")]
    send(comment("Duplicate of #31", "deleted"), "issue_comment")
    assert many.members("20") == ("20",)
    assert accepted(many) == []
    send(comment("Duplicate of #31"), "issue_comment")  # told once more, too late
    assert many.members("20") == ("20",)
    assert many.members("12") == ("12", "15")


def test_a_comment_that_is_edited_links_what_it_says_now(many: SmallIndex, send: Sender) -> None:
    send(comment("Duplicate of #31"), "issue_comment")
    send(comment("Duplicate of #100", "edited", LATE), "issue_comment")
    assert (many.members("20"), accepted(many)) == (("20", "100"), [("20", "100")])
    send(comment("Duplicate of #31", "edited", EARLY), "issue_comment")
    assert many.members("20") == ("20", "100")
    send(comment("I was wrong", "edited", LATE), "issue_comment")
    assert (many.members("20"), accepted(many)) == (("20",), [])


def test_what_another_comment_or_a_person_says_stays(many: SmallIndex, send: Sender) -> None:
    send(comment("Duplicate of #31"), "issue_comment")
    send(comment("Duplicate of #20", number=31, comment_id=8), "issue_comment")
    send(comment("", "deleted"), "issue_comment")
    assert many.members("20") == ("20", "31")
    assert accepted(many) != []
    send(comment("", "deleted", number=31, comment_id=8), "issue_comment")
    assert (many.members("20"), accepted(many)) == (("20",), [])
    said = {"report": {"issue_id": "20", "title": "x"}, "candidate": "31", "verdict": "accept", "source": "web"}
    assert send.client.post("/api/feedback", json=said).status_code == 200
    send(comment("Duplicate of #31", comment_id=9), "issue_comment")
    send(comment("", "deleted", comment_id=9), "issue_comment")
    assert accepted(many) == [("20", "31")]


def test_links_and_verdicts_are_deleted_on_request(many: SmallIndex, send: Sender) -> None:
    client = send.client
    many.add([Report("A report of a project", "", "PROJ/41")])
    many.link("PROJ/41", "20", "webhook")
    send(comment("Duplicate of #31"), "issue_comment")
    asked = {"report": "20", "duplicate": "PROJ/41"}
    assert client.delete("/api/links", params=asked).json() == {"unlinked": ["20", "PROJ/41"]}
    assert client.delete("/api/links", params=asked).status_code == 404
    assert client.delete("/api/links", params={"report": "31", "duplicate": "20"}).status_code == 200
    assert many.members("20") == ("20",)
    assert many.members("12") == ("12", "15")
    pair = {"report": "31", "candidate": "20"}
    assert client.delete("/api/feedback", params=pair).json() == {"withdrawn": ["31", "20"]}
    assert accepted(many) == []
    again = client.delete("/api/feedback", params=pair)
    assert (again.status_code, again.json()) == (404, {"detail": "there is no feedback on 31 and 20"})
    for path in ("/api/links", "/api/feedback"):
        assert client.delete(path).status_code == 422
        assert client.delete(path, params={"report": "", "duplicate": "1", "candidate": "1"}).status_code == 422


def test_they_need_the_token(index: SmallIndex, client_of: Callable[..., TestClient]) -> None:
    client = client_of(token="a token of some length")
    for path in ("/api/links?report=12&duplicate=15", "/api/feedback?report=12&candidate=15"):
        assert client.delete(path).status_code == 401
    assert index.members("12") == ("12", "15")


def test_a_comment_on_an_issue_that_is_not_stored_links_it(many: SmallIndex, send: Sender) -> None:
    sent = comment("Duplicate of #31", number=999)
    send(sent, "issue_comment")
    assert many.members("31") == ("31", "999")
    send(issue(999, "deleted"), "issues")
    until(lambda: many.get("999") is None)
