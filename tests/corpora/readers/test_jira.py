from pathlib import Path

import pandas as pd
import pytest
from tracker_records import jira, read, tied

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.jira import read_jira


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
    comments = {"comments": [{"body": document}, {"body": card}]}
    corpus = read("jira", tmp_path, [jira(1, description=document, comment=comments), jira(2)])
    assert (
        corpus.reports["description"].iloc[0] == "Steps\n- Open it\nSee\n@ann\n```\nboom()\n```\n> Duplicate of ABC-2"
    )
    assert tied(corpus) == {("ABC-1", "ABC-2", "comment")}


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
<issuelink><issuekey id="9">ABC-3</issuekey></issuelink></inwardlinks></issuelinktype></issuelinks>
<labels><label>one</label><label>two</label></labels></item>
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
    fields = ["title", "description", "product", "component", "version", "resolution", "attachments", "labels"]
    told = ["Map breaks & burns", "Zoom in.\n\n- once", "Alphabet", "Map", "1.0", "Duplicate"]
    assert row[fields].tolist() == [*told, "ABC-1/shot.png", "one;two"]
    assert row["created_at"] == pd.Timestamp("2024-01-31 08:30", tz="UTC")
    assert corpus.reports["resolution"].iloc[1] == ""


BOMB = '<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>'
OUTSIDE = '<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/hostname">]>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            BOMB + RSS.replace("Second", "&b;"),
            r"search.xml, line 1: a document type declaration .*is not allowed",
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
