import json
from pathlib import Path

import pandas as pd
import pytest

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.jira import read_jira

DUPLICATE = {"name": "Duplicate", "inward": "is duplicated by", "outward": "duplicates"}
CLONERS = {"name": "Cloners", "inward": "is cloned by", "outward": "clones"}


def issue(number: int, changelog: dict | None = None, **more: object) -> dict:
    fields = {
        "summary": f"title {number}",
        "description": "text",
        "created": f"2024-01-{number:02}T10:00:00.000+0100",
        "project": {"key": "ABC", "name": "Alphabet"},
        "components": [{"name": "Map"}, {"name": "Print"}],
        "versions": [{"name": "1.0"}],
        "environment": "Linux",
        "priority": {"name": "Major"},
        "status": {"name": "Open"},
        "resolution": None,
    }
    return {"id": "9", "key": f"ABC-{number}", "fields": fields | more} | (
        {"changelog": changelog} if changelog else {}
    )


def read(folder: Path, *issues: dict, **options: object) -> Corpus:
    (folder / "page.json").write_text(json.dumps({"startAt": 0, "total": len(issues), "issues": list(issues)}))
    return read_jira(None, str(folder / "page.json"), **options)


def tied(corpus: Corpus) -> set[tuple[str, str, str]]:
    ids = corpus.reports["id"]
    return {(ids[link.query], ids[link.document], link.source) for link in corpus.links.table.itertuples()}


def test_fields_and_links_in_both_directions(tmp_path):
    comments = {"comments": [{"body": "This is a duplicate of ABC-1"}], "total": 3}
    corpus = read(
        tmp_path,
        issue(1, issuelinks=[{"type": DUPLICATE, "inwardIssue": {"key": "ABC-2"}}]),
        issue(2, issuelinks=[{"type": CLONERS, "outwardIssue": {"key": "ABC-3"}}]),
        issue(3, issuelinks=[{"type": DUPLICATE, "outwardIssue": {"key": "ABC-4"}}], resolution={"name": "Duplicate"}),
        issue(4, attachment=[{"filename": "a.png"}, {"filename": "log.txt"}, {"filename": "b;c.png"}]),
        issue(5, resolution={"name": "Duplicate"}, comment=comments),
        issue(6, resolution={"name": "Duplicate"}),
    )
    assert tied(corpus) == {
        ("ABC-1", "ABC-2", "issue link"),
        ("ABC-3", "ABC-4", "issue link"),
        ("ABC-5", "ABC-1", "comment"),
    }
    fields = ["product", "component", "version", "os", "priority", "status", "resolution"]
    assert corpus.reports[fields].iloc[0].tolist() == ["Alphabet", "Map, Print", "1.0", "Linux", "Major", "Open", ""]
    assert corpus.reports["created_at"].iloc[0] == pd.Timestamp("2024-01-01 09:00", tz="UTC")
    assert corpus.reports["attachments"].iloc[3] == "ABC-4/a.png"
    remarks = ("closed as duplicates, the original not recognised", "comments are truncated", "name holds a semicolon")
    assert all(any(remark in warning for warning in corpus.warnings) for remark in remarks)


def test_documents_become_text(tmp_path):
    def node(kind: str, *content: dict, **attrs: object) -> dict:
        return {"type": kind, "content": list(content), "attrs": attrs}

    def text(said: str) -> dict:
        return {"type": "text", "text": said}

    document = node(
        "doc",
        node("heading", text("Steps"), level=2),
        node("orderedList", node("listItem", node("paragraph", text("Open "), text("it")))),
        node("paragraph", text("See"), {"type": "hardBreak"}, {"type": "mention", "attrs": {"text": "@ann"}}),
        node("codeBlock", text("boom()")),
        node("blockquote", node("paragraph", text("Duplicate of ABC-2"))),
        {"type": "mediaSingle", "content": [{"type": "media", "attrs": {"id": "1"}}]},
    )
    card = node(
        "doc",
        node("paragraph", text("Duplicate of "), {"type": "inlineCard", "attrs": {"url": "https://x.y/browse/ABC-2"}}),
    )
    corpus = read(
        tmp_path, issue(1, description=document, comment={"comments": [{"body": document}, {"body": card}]}), issue(2)
    )
    assert (
        corpus.reports["description"].iloc[0] == "Steps\n- Open it\nSee\n@ann\n```\nboom()\n```\n> Duplicate of ABC-2"
    )
    assert tied(corpus) == {("ABC-1", "ABC-2", "comment")}


def test_fields_at_creation(tmp_path):
    def changed(day: int, field: str, before: str | None, after: str | None) -> dict:
        item = {"field": field, "fromString": before, "toString": after}
        return {"created": f"2024-03-{day:02}T00:00:00.000+0000", "items": [item]}

    log = [
        changed(4, "resolution", None, "Fixed"),
        changed(3, "Component", None, "Print"),
        changed(2, "Component", "General", None),
        changed(2, "summary", "it brakes", "title 1"),
        changed(1, "Version", "0.9", None),
        changed(1, "Sprint", "1", "2"),
    ]
    page = issue(1, {"histories": log, "total": 6}, resolution={"name": "Fixed"})
    fields = ["title", "component", "version", "resolution"]
    assert read(tmp_path, page).reports[fields].iloc[0].tolist() == ["it brakes", "Map, General", "1.0, 0.9", ""]
    present = read(tmp_path, page, as_created=False).reports[fields].iloc[0].tolist()
    assert present == ["title 1", "Map, Print", "1.0", "Fixed"]


RSS = """<!-- made by Jira -->
<rss version="0.92"><channel><title>Search</title>
<item><title>[ABC-1] Map breaks</title><key id="7">ABC-1</key><summary>Map breaks &amp; burns</summary>
<project id="1" key="ABC">Alphabet</project>
<description>&lt;p&gt;Zoom &lt;b&gt;in&lt;/b&gt;.&lt;/p&gt;
&lt;ul&gt;&lt;li&gt;once&lt;/li&gt;&lt;/ul&gt;&lt;script&gt;x&lt;/script&gt;</description>
<environment></environment><priority>Major</priority><status>Closed</status><resolution>Duplicate</resolution>
<created>Wed, 31 Jan 2024 09:30:00 +0100</created><version>1.0</version><component>Map</component>
<comments><comment author="ann">&lt;p&gt;Closed.&lt;/p&gt;</comment></comments>
<attachments><attachment id="1" name="shot.png" size="1"/></attachments>
<issuelinks><issuelinktype id="2"><name>Duplicate</name><outwardlinks description="duplicates">
<issuelink><issuekey id="8">ABC-2</issuekey></issuelink></outwardlinks></issuelinktype>
<issuelinktype id="3"><name>Cloners</name><inwardlinks description="is cloned by">
<issuelink><issuekey id="9">ABC-3</issuekey></issuelink></inwardlinks></issuelinktype></issuelinks></item>
<item><key>ABC-2</key><summary>Second</summary><created>Thu, 1 Feb 2024 00:00:00 +0000</created>
<resolution>Unresolved</resolution></item>
<item><key>ABC-3</key><summary>Third</summary></item>
</channel></rss>"""


def read_xml(folder: Path, text: str) -> Corpus:
    (folder / "search.xml").write_text(text)
    return read_jira(None, str(folder / "search.xml"))


def test_xml_export(tmp_path):
    corpus = read_xml(tmp_path, '<?xml version="1.0" encoding="ISO-8859-1"?>\n' + RSS)
    assert tied(corpus) == {("ABC-1", "ABC-2", "issue link")}
    row = corpus.reports.iloc[0]
    fields = ["title", "description", "product", "component", "version", "resolution", "attachments"]
    told = ["Map breaks & burns", "Zoom in.\n\n- once", "Alphabet", "Map", "1.0", "Duplicate", "ABC-1/shot.png"]
    assert row[fields].tolist() == told
    assert row["created_at"] == pd.Timestamp("2024-01-31 08:30", tz="UTC")
    assert corpus.reports["resolution"].iloc[1] == ""


BOMB = '<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>'
OUTSIDE = '<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/hostname">]>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            BOMB + RSS.replace("Second", "&b;"),
            r"search.xml, line 1: a document type declaration \(<!DOCTYPE>\) is not allowed",
        ),
        (OUTSIDE + RSS.replace("Second", "&a;"), "is not allowed"),
        (RSS.replace("Second", "&a;"), "line 1\\d, column .*not readable as XML"),
        (RSS[:900], "the file ends in the middle of a record, so it was truncated"),
        (RSS[: RSS.index("</item>") + 7], "the file ends in the middle of a record, so it was truncated"),
        ("<html></html>", "search.xml: this is a web page, maybe a login page"),
        ("<!DOCTYPE html><html><br></html>", "this is a web page"),
        ("<feed></feed>", "<feed> instead of <rss>"),
        (RSS.replace("Thu, 1 Feb", "jeudi 1 f\u00e9vrier"), "record 2: 'created': unreadable date 'jeudi"),
        (RSS.replace("<key>ABC-2</key>", ""), "record 2: the issue has no 'key'"),
        (RSS.replace("<summary>Third</summary>", ""), "record 3: the issue has no 'summary'"),
        ("<rss><channel></channel></rss>", "no issue in the export"),
    ],
)
def test_bad_xml(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_xml(tmp_path, text)


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ({"key": "12", "fields": {"summary": "a"}}, "record 1: the issue key must be like ABC-12, not '12'"),
        (issue(1, summary=7), "record 1: 'summary' is 7; expected: text"),
        (issue(1, created="soon"), "record 1: 'created': unreadable date 'soon'"),
        (issue(1, issuelinks={"a": 1}), "record 1: 'issuelinks' is an object; expected: a list"),
        (issue(1, description=3), "record 1: 'description' is 3; expected: text"),
        ({"iid": 1, "title": "a"}, "record 1: this looks like a gitlab export: set dataset=gitlab"),
    ],
)
def test_bad_json(tmp_path, page, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, page)


def test_an_error_of_the_server(tmp_path):
    (tmp_path / "page.json").write_text('{"errorMessages": ["The value X does not exist"], "errors": {}}')
    with pytest.raises(ValueError, match=r"an error message of the server, 'The value X does not exist'"):
        read_jira(None, str(tmp_path / "page.json"))


def test_the_page_of_an_issue_is_found_from_the_address_of_its_record(tmp_path):
    host = "https://issues.example.org/jira"
    gateway = "https://api.atlassian.com/ex/jira/11/rest/api/3/issue/9"
    records = [
        issue(1) | {"self": f"{host}/rest/api/2/issue/9"},
        issue(2) | {"self": gateway},
        issue(3),
        issue(4) | {"self": "javascript:alert(1)/rest/api/2"},
    ]
    corpus = read(tmp_path, *records)
    assert corpus.reports["url"].tolist() == [f"{host}/browse/ABC-1", "", "", ""]
    assert any(warning.startswith("addresses of reports that are not http or https: 1,") for warning in corpus.warnings)
    filled = read(tmp_path, *records, url_template="https://b.org/{issue_id}").reports["url"]
    assert filled.tolist()[:2] == [f"{host}/browse/ABC-1", "https://b.org/ABC-2"]


def test_the_link_of_an_xml_export(tmp_path):
    page = "https://issues.example.org/browse/ABC-1"
    corpus = read_xml(tmp_path, RSS.replace("<item>", f"<item><link>{page}</link>", 1))
    assert corpus.reports["url"].tolist()[0] == page
    assert set(corpus.reports["url"].tolist()[1:]) <= {""}


def test_dates_of_resolution(tmp_path):
    done = {"resolution": {"name": "Fixed"}}
    corpus = read(
        tmp_path,
        issue(1, resolutiondate="2024-02-01T12:00:00.000+0100", **done),
        issue(2, resolutiondate=None),
        issue(3),
        issue(4, resolutiondate="0001-01-01T00:00:00.000+0000", **done),
        issue(5, resolutiondate="2024-01-04T10:00:00.000+0100", **done),
    )
    first, early = pd.Timestamp("2024-02-01 11:00", tz="UTC"), pd.Timestamp("2024-01-04 09:00", tz="UTC")
    assert corpus.reports["resolved_at"].tolist() == [first, pd.NaT, pd.NaT, pd.NaT, early]
    outside = "dates outside the years 1970 to 2200: 1, treated as missing (first: "
    assert f"{outside}{tmp_path / 'page.json'}, record 4, 'resolutiondate')" in corpus.warnings
    assert "reports resolved before they were created: 1, kept (first: row 5)" in corpus.warnings


def test_dates_of_resolution_in_xml(tmp_path):
    created = "<created>Wed, 31 Jan 2024 09:30:00 +0100</created>"
    assert "resolved_at" not in read_xml(tmp_path, RSS).reports
    corpus = read_xml(tmp_path, RSS.replace(created, f"{created}<resolved>Thu, 1 Feb 2024 10:00:00 +0100</resolved>"))
    first = pd.Timestamp("2024-02-01 09:00", tz="UTC")
    assert corpus.reports.set_index("id")["resolved_at"].dropna().to_dict() == {"ABC-1": first}
    corpus = read_xml(tmp_path, RSS.replace(created, f"{created}<resolved>Mon, 01 Jan 0001 00:00:00 +0000</resolved>"))
    assert "resolved_at" not in corpus.reports
    assert any("record 1, 'resolutiondate'" in warning for warning in corpus.warnings)
    with pytest.raises(ValueError, match="record 1: 'resolved': unreadable date 'today'"):
        read_xml(tmp_path, RSS.replace(created, f"{created}<resolved>today</resolved>"))
