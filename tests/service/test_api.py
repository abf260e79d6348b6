import sqlite3
from datetime import UTC, datetime

import pytest
from fastapi.testclient import TestClient
from small_index import FIGURE, TARGETS

from gedbd.corpora.feedback import FEEDBACK_FILE, feedback_table
from gedbd.service.app import create_app
from gedbd.service.schemas import MAX_REPORTS

TITLE = "large attachment sending stops"


def detail(answer) -> str:
    assert set(answer.json()) == {"detail"}
    return answer.json()["detail"]


def test_search_gives_groups_with_probability_and_reasons(client_of):
    answer = client_of().post("/api/search", json={"title": TITLE, "component": "Compose", "top_k": 1})
    assert answer.status_code == 200
    found = answer.json()
    assert (found["tracker"], found["reports"], found["threshold"]) == ("small", 4, 0.6)
    assert found["target"] == {
        **{"target_precision": 0.5, "threshold": 0.6, "status": "met", "suggestions": 30, "right": 22},
        **{"precision": 22 / 30, "precision_low": 0.56, "precision_high": 0.89},
        **{"first": "2024-01-02", "last": "2024-02-28", "statement": FIGURE},
    }
    assert found["list_statement"] == ""  # one match is no list of three
    (match,) = found["matches"]
    assert (match["master"]["issue_id"], match["members"], match["suggested"]) == ("12", ["12", "15"], True)
    assert match["master"]["excerpt"].startswith("Sending a mail")
    assert match["probability"] == 1.0
    assert match["explanation"]["terms"] == ["attachment", "large", "sending", "stops"]
    assert match["explanation"]["fields"] == {"component": "Compose"}
    assert set(match["explanation"]["sentences"][0]) == {"new", "stored", "shared"}


def test_filters_and_the_own_id_narrow_the_search(client_of):
    client = client_of()
    asked = {"title": "attachment preview", "filters": {"component": "Viewer", "created_from": "2024-01-01"}}
    assert [each["master"]["issue_id"] for each in client.post("/api/search", json=asked).json()["matches"]] == ["31"]
    own = client.post("/api/search", json={"title": "attachment preview", "issue_id": "31"}).json()
    assert [each["best"]["issue_id"] for each in own["matches"]] == ["12"]


def test_an_id_alone_searches_for_the_stored_report(client_of, index):
    client, stored = client_of(), index.get("15")
    by_id = client.post("/api/search", json={"issue_id": "15", "top_k": 3}).json()
    by_text = {"issue_id": "15", "title": stored.title, "description": stored.description}
    assert by_id.get("matches"), by_id
    assert by_id == client.post("/api/search", json=by_text | {"component": stored.component, "top_k": 3}).json()
    assert "15" not in [each["best"]["issue_id"] for each in by_id["matches"]]
    for asked, said in {"99": "report '99' is not in the index", "15": "neither a title nor a description"}.items():
        answer = client.post("/api/search", json={"issue_id": asked} | ({"os": "all"} if asked == "15" else {}))
        assert answer.status_code == 422
        assert said in answer.json()["detail"]


@pytest.mark.parametrize("target", TARGETS[1:])
def test_unless_the_target_was_met_nothing_is_suggested(client_of, index, target):
    index.target = target
    found = client_of().post("/api/search", json={"title": TITLE}).json()
    assert found["threshold"] is None
    assert found["matches"][0]["probability"] == 1
    assert found["target"]["statement"].startswith("Nothing is suggested automatically: the backtest ")
    assert {match["suggested"] for match in found["matches"]} == {False}


def test_reports_are_added_updated_read_and_deleted(client_of, index):
    client = client_of()
    one = {"issue_id": "40", "title": "New", "created_at": "2024-05-01T10:00:00+02:00"}
    assert client.post("/api/reports", json=one).json() == {"reports": {"40": "added"}}
    many = [one, {**one, "title": "Newer"}, {"issue_id": "PROJ/41", "title": "Other", "created_at": "2024-05-01"}]
    assert client.post("/api/reports", json=many).json() == {"reports": {"40": "updated", "PROJ/41": "added"}}
    assert index.get("40").created_at == datetime(2024, 5, 1, 8, tzinfo=UTC)
    assert index.get("PROJ/41").created_at == datetime(2024, 5, 1, tzinfo=UTC)
    assert client.get("/api/reports/PROJ/41").json()["title"] == "Other"
    assert client.delete("/api/reports/PROJ/41").json() == {"deleted": "PROJ/41"}
    for gone in (client.get("/api/reports/PROJ/41"), client.delete("/api/reports/PROJ/41")):
        assert gone.status_code == 404
        assert detail(gone) == "report PROJ/41 is not in the index"


def test_a_report_has_an_address_and_is_resolved_and_reopened(client_of, index):
    client, url = client_of(), "https://bugs.example.org/show_bug.cgi?id=40"
    newer = {"issue_id": "40", "title": "Newer", "created_at": "2024-05-01", "url": url}
    closed = newer | {"resolved_at": "2024-05-03T10:00:00+02:00"}
    assert client.post("/api/reports", json=closed).json() == {"reports": {"40": "added"}}
    assert client.post("/api/reports", json=closed).json() == {"reports": {"40": "unchanged"}}
    assert index.get("40").resolved_at == datetime(2024, 5, 3, 8, tzinfo=UTC)
    read = client.get("/api/reports/40").json()
    assert (read["resolved_at"], read["url"]) == ("2024-05-03T08:00:00Z", url)
    (match,) = client.post("/api/search", json={"title": "Newer", "top_k": 1}).json()["matches"]
    assert match["best"]["resolved_at"] == "2024-05-03T08:00:00Z"
    assert match["master"]["url"] == match["best"]["url"] == url
    assert match["urls"] == {"40": url}
    assert client.post("/api/reports", json=newer).json() == {"reports": {"40": "updated"}}  # reopened
    assert client.get("/api/reports/40").json()["resolved_at"] is None
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert all("url" in schemas[name]["properties"] for name in ("ReportCreate", "ReportSummary"))


def test_nul_characters_and_lone_surrogates_are_replaced(client_of, index):
    body = b'{"issue_id": "50", "title": "a\\u0000b \\ud800 \\ud83d\\ude00"}'
    answer = client_of().post("/api/reports", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200
    assert index.get("50").title == "a\ufffdb \ufffd \U0001f600"


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("search", b"{", 400, "not JSON"),
        ("search", b"\xff\xfe", 400, "not JSON"),
        ("search", b"[]", 422, "the request: it must be a JSON object"),
        ("search", b"{}", 422, "neither a title nor a description"),
        ("search", b'{"title": "x", "colour": 1}', 422, "colour: there is no such field"),
        ("search", b'{"title": "x", "top_k": 0}', 422, "top_k"),
        ("search", b'{"title": "x", "top_k": 51}', 422, "top_k"),
        ("search", b'{"title": 5}', 422, "title: Input should be a valid string"),
        ("search", b'{"title": "' + b"x" * 1001 + b'"}', 422, "title: String should have at most 1000"),
        ("search", b'{"description": "' + b"x" * 200_001 + b'"}', 422, "at most 200000"),
        ("search", b'{"title": "x", "created_at": "yesterday"}', 422, "created_at"),
        ("search", b'{"title": "x", "created_at": "0001-01-01T00:00:00+14:00"}', 422, "1970 and 2200"),
        ("reports", b'{"issue_id": "1", "title": "x", "resolved_at": "soon"}', 422, "resolved_at"),
        ("search", b'{"title": "x", "issue_id": "\\ud800"}', 422, "issue_id"),
        ("search", b'{"title": "x", "\\ud800": 1}', 422, "valid string"),
        ("reports", b'{"title": "x"}', 422, "issue_id: this field is required"),
        ("reports", b'[{"issue_id": "1", "titel": "x"}]', 422, "0.titel: there is no such field"),
        ("reports", b'"x"', 422, "the request: it must be a JSON object"),
        ("reports", b"[]", 422, "at least 1"),
        *(
            ("reports", b'{"issue_id": "40", "title": "New", "url": "%s"}' % url, 422, "url")
            for url in (b"javascript:alert(1)", b"ftp://b.org/1", b"b.org/1", b"https://a:b@b.org/1", b"https://")
        ),
        ("feedback", b'{"report": {"title": "x"}, "candidate": "12", "verdict": "maybe"}', 422, "verdict"),
        ("feedback", b'{"report": {"title": "x"}, "candidate": "99", "verdict": "accept"}', 422, "99 is not in the"),
        ("feedback", b'{"report": {}, "candidate": "12", "verdict": "accept"}', 422, "names no report"),
        ("feedback", b'{"report": {"issue_id": "12"}, "candidate": "12", "verdict": "accept"}', 422, "with itself"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(client_of, index, path, body, status, words):
    answer = client_of().post(f"/api/{path}", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, len(index)) == (status, 4)
    assert words in detail(answer)


def test_too_many_reports_at_once_are_refused(client_of, index):
    many = [{"issue_id": str(number), "title": "x"} for number in range(100, 101 + MAX_REPORTS)]
    client = client_of()
    assert client.post("/api/reports", json=many).status_code == 422
    assert client.post("/api/reports", json=many[1:]).status_code == 200
    assert len(index) == 4 + MAX_REPORTS


def test_feedback_is_stored_once_and_a_changed_mind_replaces_it(client_of, index):
    client = client_of()
    said = {"report": {"title": "Mail is lost"}, "candidate": "12", "verdict": "accept", "who": "ann"}
    assert [client.post("/api/feedback", json=said).json()["recorded"] for _ in range(2)] == [True, False]
    assert client.post("/api/feedback", json={**said, "verdict": "reject"}).json() == {"recorded": True}
    (row,) = feedback_table(index.folder).itertuples()
    found = row.title, row.candidate, row.verdict, row.who, row.source
    assert found == ("Mail is lost", "12", "reject", "ann", "api")
    with sqlite3.connect(index.folder / FEEDBACK_FILE) as store:
        assert store.execute("SELECT count(*) FROM events").fetchone() == (2,)


def test_a_value_error_of_the_index_is_the_users(client_of, index, monkeypatch):
    def refuse(reports):
        raise ValueError("the index is read only: rebuild it")

    monkeypatch.setattr(index, "add", refuse)
    answer = client_of().post("/api/reports", json={"issue_id": "1", "title": "x"})
    assert (answer.status_code, detail(answer)) == (422, "the index is read only: rebuild it")


def test_health_metrics_and_description(client_of):
    client = client_of()
    assert client.get("/api/health").json() == {"ready": True, "reports": 4, "locates": False, "suggests": False}
    client.post("/api/search", json={"title": TITLE})
    client.post("/api/feedback", json={"report": {"title": "x"}, "candidate": "12", "verdict": "accept"})
    client.get("/nowhere/at/all")
    text = client.get("/metrics").text
    for line in (
        'gedbd_requests_total{path="/api/search",status="200"} 1.0',
        'gedbd_requests_total{path="other",status="404"} 1.0',
        'gedbd_request_seconds_count{path="/api/search"} 1.0',
        "gedbd_search_seconds_count 1.0",
        "gedbd_reports 4.0",
        'gedbd_feedback_total{verdict="accept"} 1.0',
    ):
        assert line in text.splitlines()
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/api/search", "/api/reports", "/api/reports/{issue_id}", "/api/feedback", "/metrics"} <= set(paths)
    docs = client.get("/docs").text
    assert "POST /api/search" in docs
    assert 'Request body: <a href="#SearchRequest"><code>SearchRequest</code></a>' in docs
    assert '<h2 id="SearchRequest">' in docs
    assert "<script" not in docs


def test_the_index_is_closed_at_the_end(index):
    with TestClient(create_app(index), base_url="http://localhost") as client:
        assert client.get("/api/health").status_code == 200
        assert not index.closed
    assert index.closed
