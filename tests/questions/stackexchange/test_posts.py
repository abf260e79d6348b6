"""The text of posts against an HTML parser, and what is no list of rows, cut off or hostile."""

from pathlib import Path

import lxml.html
import pytest

from gedbd.io.unpacking import UnpackLimit
from gedbd.questions.stackexchange.posts import CHUNK_BYTES, body_text, read_rows

DUMPS = Path(__file__).parents[4] / "shared" / "data" / "stackexchange"  # beside the repository
BLOCKS = {"p", "br", "hr", "ul", "ol", "li", "blockquote", "pre", "table", "tr", "td", "th"}
BLOCKS |= {f"h{level}" for level in range(1, 7)}
LINK = '<a href="http://a.org/1">One &amp; two</a>'
MARK = f"<blockquote>\n  <p><strong>Possible Duplicate:</strong><br>\n  {LINK}  </p>\n</blockquote>"
HOSTILE = [
    *("<pre>", "&", "<blockquote>Possible Duplicate:", "<p>Possible Duplicate: <a "),
    *(f"<p>Possible Duplicate: {LINK}", LINK, "<pre", "</pre ", "<a ", "<", " ", "<pre><code>", "&lt;", "<a href='<"),
]


def by_parser(html: str) -> tuple[list[str], list[str]]:
    """The words of text and code by lxml's parser."""
    tree = lxml.html.fromstring(f"<div>{html}</div>")
    code = []
    for block in list(tree.iter("pre")):
        code += block.text_content().split()
        tail = block.tail
        block.clear()
        block.tail = tail
    for element in tree.iter():
        if element.tag in BLOCKS:
            element.text = f" {element.text or ''}"
            element.tail = f" {element.tail or ''}"
    return tree.text_content().split(), code


@pytest.mark.parametrize(
    ("html", "text", "code"),
    [
        ("", "", ""),
        ("<p>One <em>two</em> <code>x &lt; y</code>.</p>\n\n<p>Three</p>\n", "One two x < y.\nThree", ""),
        ("<p>a</p><pre><code>  if x:\n    y &amp;&amp; z\n</code></pre><p>b</p>", "a\nb", "  if x:\n    y && z"),
        ('<pre class="lang-py"><code>one</code></pre><PRE>two</PRE>', "", "one\ntwo"),
        ("a<pre><code>no end", "a", "no end"),
        ("<ul>\n<li>one</li>\n<li>two<br/>three</li></ul><hr>x", "one\ntwo\nthree\nx", ""),
        ("<p>a &lt;b&gt; c&nbsp;d &#39;e&#39; &amp;lt;</p>", "a <b> c d 'e' &lt;", ""),
        ('<p><a href="http://x.org/?a=1&amp;b=2" rel="nofollow">link</a><img src="i.png" alt="no"></p>', "link", ""),
        ("<p>1 < 2 and 3 > 2</p><!-- language: lang-js --><p>2</p>", "1 < 2 and 3 > 2\n2", ""),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "a\nb", ""),
        ("<p>pre<prefix>x</p>", "prex", ""),
        # words about duplicates that are no mark
        ("<p>Not a possible duplicate.</p>", "Not a possible duplicate.", ""),
        ("<blockquote><p>Possible Duplicate: they said</p></blockquote>", "Possible Duplicate: they said", ""),
        ('<p>Possible Duplicate: <a href="x">One</a>, but not</p>', "Possible Duplicate: One, but not", ""),
        ('<blockquote><p>Possible Duplicate: <a href="x">One', "Possible Duplicate: One", ""),
    ],
)
def test_blocks_code_entities_and_words_about_duplicates(html, text, code):
    assert body_text(html) == (text, code, False)


def test_code_blocks_stay_if_asked_for():
    html = "<p>a</p><pre><code>  if x:\n    y &amp;&amp; z\n</code></pre><p>b</p>"
    assert body_text(html, code_blocks=True) == ("a\nif x:     y && z\nb", "  if x:\n    y && z", False)


@pytest.mark.parametrize(
    "mark",
    [
        MARK,
        MARK.replace("Duplicate:", "Duplicates:").replace("</a>", '</a><br>\n  <a href="http://a.org/2">Two</a>'),
        "<blockquote>Possible Duplicate: <a href='http://a.org/1'>One</a></blockquote>",
        '<p><strong>Possible Duplicate:</strong><br><a href="http://a.org/1">A <code>b</code></a></p>',
        '<p>Possible duplicate of <a href="http://a.org/1">One</a>.</p>',
        '<p>Possible Duplicates: <a href="http://a.org/1">One</a>, <a href="http://a.org/2">Two</a></p>',
    ],
)
def test_marks_of_duplicates_are_removed(mark):
    assert body_text(f"{mark}\n\n<p>My question</p>") == ("My question", "", True)
    assert body_text(f"<p>My question</p>{mark}<p>More</p>") == ("My question\nMore", "", True)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_bodies_take_time_in_proportion_to_their_length(piece, hang_guard):
    body_text(f"possible {piece}" * 50_000)
    body_text("<p>Possible Duplicate:" + piece * 50_000)


@pytest.mark.slow
@pytest.mark.parametrize(("site", "count"), [("cs", 6118), ("solana", 2112)])
def test_real_bodies_give_the_words_that_a_parser_gives(site, count):
    if not DUMPS.is_dir():
        pytest.skip(f"{DUMPS} is not here")
    rows = read_rows(DUMPS / site / "Posts.xml.xz", "posts", UnpackLimit())
    bodies = [row["Body"] for row in rows if row["PostTypeId"] == "1"]
    found = [body_text(body) for body in bodies]
    assert len(found) == count
    different = [
        body
        for body, (text, code, had_mark) in zip(bodies, found, strict=True)
        if not had_mark and (text.split(), code.split()) != by_parser(body)
    ]
    assert different == []
    assert sum(body.had_mark for body in found) == {"cs": 31, "solana": 0}[site]


ROW = '<row Id="1" Title="a &amp; b"/>'


def rows_of(path: Path, content: str | bytes) -> list[dict[str, str]]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return [dict(row) for row in read_rows(path, "posts", UnpackLimit())]


DOCTYPE = '<!DOCTYPE posts SYSTEM "file:///etc/passwd">'  # which is not read
DECLARED = '\ufeff<?xml version="1.0" encoding="utf-8"?>\r\n'


@pytest.mark.parametrize("prefix", ["", "\ufeff", DECLARED, "<!-- a -->", DOCTYPE])
def test_rows_with_and_without_a_mark_and_a_declaration(tmp_path, prefix):
    content = f"{prefix}<posts>\n {ROW}\n <row Id='2' Body='&#xA;&lt;&#39;é😀' />\n</posts>"
    assert rows_of(tmp_path / "Posts.xml", content) == [{"Id": "1", "Title": "a & b"}, {"Id": "2", "Body": "\n<'é😀"}]


def test_rows_across_the_ends_of_chunks(tmp_path):
    bodies = ["x" * (CHUNK_BYTES // 3 + place) for place in range(10)]
    content = "<posts>" + "".join(f'<row Body="{body}"/>' for body in bodies) + "</posts>"
    assert [row["Body"] for row in rows_of(tmp_path / "Posts.xml", content)] == bodies


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"the file ends after 0 rows, without </posts>; fetch the dump again"),
        (f"<posts>{ROW}<row Id='2' Bo", r"the file ends after 1 rows, without </posts>"),
        ("Id,Title\n1,a\n", r"line 1, column 1: not readable as XML \(syntax error\)"),
        (b"<posts><row Title='\xff'/></posts>", r"line 1, column 20: not readable as XML \(not well-formed"),
        (f"<posts>{ROW}</posts><posts/>", r"not readable as XML \(junk after document element"),
        ("<postlinks></postlinks>", r"line 1: unexpected <postlinks>, expected <posts>; this is not the posts file"),
        ("<posts><row><row/></row></posts>", r"unexpected <row>, expected <row>"),
        ("<posts>" + "<row>" * 100_000, r"expected <row>"),
        ('<!DOCTYPE p [<!ENTITY a SYSTEM "file:///etc/passwd">]><posts><row Body="&a;"/></posts>', r"a document type"),
        (
            '<!DOCTYPE p [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>'
            '<posts><row Body="&c;"/></posts>',
            r"a document type",
        ),
        (
            f"<posts><row Body='{'x' * 18_000_000}'/></posts>",
            r"row 1: more than 16,777,216 bytes, the maximum of a post",
        ),
    ],
)
def test_anything_else_is_refused_in_one_line(tmp_path, content, message):
    with pytest.raises(ValueError, match=rf"Posts\.xml.*{message}") as raised:
        rows_of(tmp_path / "Posts.xml", content)
    assert "\n" not in str(raised.value)


def test_many_attributes_and_rows_without_any(tmp_path):
    names = " ".join(f'a{number}="{number}"' for number in range(20_000))
    found = rows_of(tmp_path / "Posts.xml", f"<posts><row {names}/><row/></posts>")
    assert [len(row) for row in found] == [20_000, 0]
