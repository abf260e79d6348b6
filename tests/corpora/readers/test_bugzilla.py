import json
from pathlib import Path

import pandas as pd
import pytest

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.bugzilla import read_bugzilla


def bug(number: int, *comments: str, **more: object) -> dict:
    told = {"id": number, "summary": f"title {number}", "creation_time": f"2024-01-{number:02}T00:00:00Z"}
    fields = {"product": "Mail", "component": "Inbox", "version": "1", "op_sys": "Linux", "priority": "P3"}
    spoken = {"comments": [{"text": text, "count": place} for place, text in enumerate(comments)]} if comments else {}
    return told | fields | {"status": "NEW", "resolution": "", "dupe_of": None} | spoken | more


def read(folder: Path, *bugs: dict, **options: object) -> Corpus:
    (folder / "bugs.json").write_text(json.dumps({"bugs": list(bugs)}))
    return read_bugzilla("mine", str(folder / "bugs.json"), **options)


def tied(corpus: Corpus) -> set[tuple[str, str, str]]:
    ids = corpus.reports["id"]
    return {(ids[link.query], ids[link.document], link.source) for link in corpus.links.table.itertuples()}


def test_fields_descriptions_and_links(tmp_path):
    mark = "*** This bug has been marked as a duplicate of bug {} ***"
    closed = {"status": "RESOLVED", "resolution": "DUPLICATE"}
    corpus = read(
        tmp_path,
        bug(1, "It fails.", "*** Bug 2 has been marked as a duplicate of this bug. ***"),
        bug(2, "Fails.", mark.format(3), mark.format(1), dupe_of=1, **closed),
        bug(3, "Other.", mark.format(1)),
        bug(4, "More.", mark.format(1), mark.format(3), **closed),
        bug(5, "Also.", "dup of bug 4"),
        bug(6, "Duplicate of bug 1"),
        bug(7, "x", "Duplicate of https://bugs.example.org/show_bug.cgi?id=1"),
        bug(8, **closed),
    )
    assert tied(corpus) == {("2", "1", "dupe_of"), ("4", "3", "comment"), ("5", "4", "comment")}
    row = corpus.reports.iloc[0]
    fields = ["description", "product", "component", "version", "os", "priority", "status"]
    assert row[fields].tolist() == ["It fails.", "Mail", "Inbox", "1", "Linux", "P3", "NEW"]
    assert "issues closed as duplicates, the original not recognised: 1 (first: 8)" in corpus.warnings
    assert any("dropped: 1 (first: 7)" in warning for warning in corpus.warnings)


def test_fields_at_creation(tmp_path):
    def changed(when: str, field: str, removed: str, added: str) -> dict:
        return {"when": when, "who": "ann", "changes": [{"field_name": field, "removed": removed, "added": added}]}

    history = [
        changed("2024-02-01T00:00:00Z", "summary", "it brakes", "Inbox breaks"),
        changed("2024-02-02T00:00:00Z", "component", "General", "Inbox"),
        changed("2024-02-03T00:00:00Z", "cc", "", "bob"),
        changed("2024-02-03T00:00:00Z", "status", "UNCONFIRMED", "NEW"),
        changed("2024-02-04T00:00:00Z", "status", "NEW", "RESOLVED"),
        changed("2024-02-04T00:00:00Z", "resolution", "", "FIXED"),
    ]
    today = bug(1, "x", summary="Inbox breaks", status="RESOLVED", resolution="FIXED", history=history)
    fields = ["title", "component", "status", "resolution"]
    created = read(tmp_path, today)
    assert created.reports[fields].iloc[0].tolist() == ["it brakes", "General", "UNCONFIRMED", ""]
    present = read(tmp_path, today, as_created=False)
    assert present.reports[fields].iloc[0].tolist() == ["Inbox breaks", "Inbox", "RESOLVED", "FIXED"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"id": None}, "record 1: the issue has no 'id'"),
        ({"creation_time": "soon"}, "record 1: 'creation_time': unreadable date 'soon'"),
        ({"dupe_of": "x"}, "record 1: 'dupe_of' is 'x'; expected: a whole number"),
        ({"history": {"a": 1}}, "record 1: 'history' is an object"),
    ],
)
def test_a_bad_record_is_named(tmp_path, more, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, bug(1, **more))


def test_an_error_and_an_answer_about_something_else(tmp_path):
    path = tmp_path / "bugs.json"
    path.write_text('{"error": true, "message": "The API key you specified is invalid", "code": 306}')
    with pytest.raises(ValueError, match=r"an error message of the server, 'The API key you specified is invalid'"):
        read_bugzilla(None, str(path))
    path.write_text('{"bugs": {"1": {"comments": []}}}')
    with pytest.raises(ValueError, match=r"'bugs' is an object; a list of issues is expected"):
        read_bugzilla(None, str(path))


def test_the_page_of_a_bug_comes_from_the_fetched_pages_or_from_the_address_of_the_server(tmp_path):
    bugs = [bug(1, url="https://reporters.example.org/broken"), bug(2, web_url="https://a.org/show_bug.cgi?id=2")]
    assert read(tmp_path, *bugs).reports["url"].tolist() == ["", "https://a.org/show_bug.cgi?id=2"]
    from_server = read(tmp_path, *bugs, base_url="https://b.org/bugzilla/").reports["url"]
    assert from_server.tolist()[0] == "https://b.org/bugzilla/show_bug.cgi?id=1"
    from_template = read(tmp_path, *bugs, base_url="https://b.org", url_template="https://c.org/{issue_id}")
    assert from_template.reports["url"].tolist()[0] == "https://c.org/1"
    with pytest.raises(ValueError, match=r"^base_url=bugs must be an http or https address"):
        read(tmp_path, *bugs, base_url="bugs")


def test_dates_of_resolution(tmp_path):
    done = {"status": "RESOLVED", "resolution": "FIXED"}
    corpus = read(
        tmp_path,
        bug(1, cf_last_resolved="2024-02-01T12:00:00Z", **done),
        bug(2, cf_last_resolved=None),
        bug(3, cf_last_resolved="2024-02-02T00:00:00Z"),  # reopened since
        bug(4, cf_last_resolved="0001-01-01T00:00:00Z", **done),
        bug(5, cf_last_resolved="2024-01-04T23:00:00Z", **done),
    )
    first, early = pd.Timestamp("2024-02-01 12:00", tz="UTC"), pd.Timestamp("2024-01-04 23:00", tz="UTC")
    assert corpus.reports["resolved_at"].tolist() == [first, pd.NaT, pd.NaT, pd.NaT, early]
    outside = "dates outside the years 1970 to 2200: 1, treated as missing (first: "
    assert f"{outside}{tmp_path / 'bugs.json'}, record 4, 'cf_last_resolved')" in corpus.warnings
    assert "reports resolved before they were created: 1, kept (first: row 5)" in corpus.warnings
    with pytest.raises(ValueError, match="record 1: 'cf_last_resolved': unreadable date 'soon'"):
        read(tmp_path, bug(1, cf_last_resolved="soon", **done))


def test_the_history_does_not_reset_the_date_of_resolution(tmp_path):
    change = {"field_name": "resolution", "removed": "", "added": "FIXED"}
    history = [{"when": "2024-02-01T00:00:00Z", "who": "ann", "changes": [change]}]
    when = {"cf_last_resolved": "2024-02-01T00:00:00Z"}
    corpus = read(tmp_path, bug(1, resolution="FIXED", history=history, **when))
    row = corpus.reports.iloc[0]
    assert (row["resolution"], row["resolved_at"]) == ("", pd.Timestamp("2024-02-01", tz="UTC"))
