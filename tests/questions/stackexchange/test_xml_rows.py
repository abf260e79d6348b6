"""What is no list of rows, cut off or hostile is refused in one line that says where."""

from pathlib import Path

import pytest

from gedbd.io.unpacking import UnpackLimit
from gedbd.questions.stackexchange.posts import CHUNK_BYTES, read_rows

ROW = '<row Id="1" Title="a &amp; b"/>'


def rows_of(path: Path, content: str | bytes) -> list[dict[str, str]]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return [dict(row) for row in read_rows(path, "posts", UnpackLimit())]


@pytest.mark.parametrize("prefix", ["", "\ufeff", '\ufeff<?xml version="1.0" encoding="utf-8"?>\r\n', "<!-- a -->"])
def test_rows_with_and_without_a_mark_and_a_declaration(tmp_path, prefix):
    content = f"{prefix}<posts>\n {ROW}\n <row Id='2' Body='&#xA;&lt;&#39;é😀' />\n</posts>"
    assert rows_of(tmp_path / "Posts.xml", content) == [
        {"Id": "1", "Title": "a & b"},
        {"Id": "2", "Body": "\n<'é😀"},
    ]


def test_rows_across_the_ends_of_chunks(tmp_path):
    bodies = ["x" * (CHUNK_BYTES // 3 + place) for place in range(10)]
    content = "<posts>" + "".join(f'<row Body="{body}"/>' for body in bodies) + "</posts>"
    assert [row["Body"] for row in rows_of(tmp_path / "Posts.xml", content)] == bodies


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"the file ends after 0 rows, without </posts>; fetch the dump again"),
        (f"<posts>{ROW}{ROW}", r"the file ends after 2 rows, without </posts>"),
        (f"<posts>{ROW}<row Id='2' Bo", r"the file ends after 1 rows, without </posts>"),
        ("Id,Title\n1,a\n", r"line 1, column 1: not readable as XML \(syntax error\)"),
        ("PK\x03\x04\x00", r"line 1, column 3: not readable as XML"),
        (b"<posts><row Title='\xff'/></posts>", r"line 1, column 20: not readable as XML \(not well-formed"),
        ("<posts><row Title='&#0;'/></posts>", r"not readable as XML \(reference to invalid character number"),
        ("<posts><row Title='&nope;'/></posts>", r"not readable as XML \(undefined entity"),
        (f"<posts>{ROW}</posts><posts/>", r"not readable as XML \(junk after document element"),
        ("<postlinks></postlinks>", r"line 1: unexpected <postlinks>, expected <posts>; this is not the posts file"),
        ("<html><body/></html>", r"unexpected <html>, expected <posts>"),
        ("<posts>\n<post/></posts>", r"line 2: unexpected <post>, expected <row>"),
        ("<posts><row><row/></row></posts>", r"unexpected <row>, expected <row>"),
        ("<posts>" + "<row>" * 100_000, r"expected <row>"),
        ("<!DOCTYPE posts><posts/>", r"line 1: a document type declaration \(<!DOCTYPE>\) is not allowed"),
        ('<!DOCTYPE posts SYSTEM "file:///etc/passwd"><posts/>', r"a document type"),
        ('<!DOCTYPE p [<!ENTITY a SYSTEM "file:///etc/passwd">]><posts><row Body="&a;"/></posts>', r"a document type"),
        (
            '<!DOCTYPE p [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>'
            '<posts><row Body="&c;"/></posts>',
            r"a document type",
        ),
        (f"<posts><row Body='{'x' * 18_000_000}'/></posts>", r"row 1: more than 16,777,216 bytes, which no post has"),
    ],
)
def test_anything_else_is_refused_in_one_line(tmp_path, content, message):
    with pytest.raises(ValueError, match=rf"Posts\.xml.*{message}") as raised:
        rows_of(tmp_path / "Posts.xml", content)
    assert "\n" not in str(raised.value)


def test_damaged_packed_file(tmp_path):
    with pytest.raises(ValueError, match=r"Posts\.xml\.xz: the archive is damaged"):
        rows_of(tmp_path / "Posts.xml.xz", "<posts></posts>")


def test_many_attributes_and_rows_without_any(tmp_path):
    names = " ".join(f'a{number}="{number}"' for number in range(20_000))
    found = rows_of(tmp_path / "Posts.xml", f"<posts><row {names}/><row/></posts>")
    assert [len(row) for row in found] == [20_000, 0]
