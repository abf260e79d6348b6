"""Texts of 300 KB that repeat what a parser looks for: reading them takes time in proportion, not to its square."""

from collections.abc import Callable

import pytest

from gedbd.corpora.readers import bugzilla, github, gitlab, jira
from gedbd.corpora.readers.rich_text import html_text, tidy
from gedbd.corpora.urls import shown_url, web_url
from gedbd.text.cleaning import Cleaning

SIZE = 300_000

pytestmark = pytest.mark.usefixtures("hang_guard")
QUICK_HTML = ["<a ", "<![", "<p>", "&"]
HTML = [
    "<a b='",
    '<a b="',
    "<!",
    "<!--",
    "<?",
    "</",
    "<",
    "&#",
    "&lt",
    "<div>",
    "</p>",
    "<b>",
    "<pre>",
    "<li>",
    "<table>",
]
HTML += ["<td>", "<font size=1>", "<blockquote>", "<script>", "<textarea>", "<svg>", "\x00", " "]
REPEATED = ["<a ", "<![", "{code}", "{code:", "{quote}", " ", "\n", "\n>", "((((", "at a.b(", "aaaa.aaaa.", "\t", "`"]
REPEATED += ["```\n", "~~", "<!--", "*", "[", "dup ", "dupe of ", "duplicate of ", "#1 ", "#1, ", "ABC-1 ", "bug "]
REPEATED += ["http://", "a/", "A-", "not ", "? ", "12:00:00 ", "[ERROR]", 'x="', "0x", "Caused by: ", "--", "> "]
REPEATED += ["\r\n", "    x\n", "a@", "{", "\\"]
READERS: dict[str, Callable[[str], object]] = {
    "bugzilla": bugzilla.REFERENCES.find,
    "github": github.REFERENCES.find,
    "gitlab": gitlab.REFERENCES.find,
    "jira": jira.REFERENCES.find,
    "cleaning": lambda text: Cleaning(*["mark"] * 5).clean(text, set()),
    "tidy": tidy,
    "web_url": web_url,
    "shown_url": shown_url,
}


@pytest.mark.parametrize("repeated", [*QUICK_HTML, *(pytest.param(text, marks=pytest.mark.slow) for text in HTML)])
def test_hostile_html(repeated):
    text = repeated * (SIZE // len(repeated))
    for hostile in (text, f"x{text}>", "<div>" * 20_000 + text, "<b id=1><i id=2>" * 9_000 + text):
        html_text(hostile)


@pytest.mark.slow
@pytest.mark.parametrize("repeated", REPEATED)
@pytest.mark.parametrize("reader", READERS)
def test_hostile_texts(reader, repeated):
    text = repeated * (SIZE // len(repeated))
    for hostile in (text, f"duplicate of {text}", f"dup #1 {text}x"):
        READERS[reader](hostile)


@pytest.mark.parametrize("repeated", ["{code:", "{quote:", "{noformat:"])
@pytest.mark.parametrize("reader", ["bugzilla", "github", "gitlab", "jira"])
def test_opened_and_never_closed_code(reader, repeated):
    READERS[reader]("duplicate of " + repeated * (SIZE // len(repeated)))


def test_blanks_without_end():
    tidy(" " * SIZE)


def test_what_no_parser_expects_is_text_or_nothing():
    assert html_text("<![endif]>a<![CDATA[b]]>c") == "ac"
    assert html_text("a<!DOCTYPE x [<!ENTITY e 'f'>]>&e;") == "a]>&e;"
    assert html_text("<?xml version='1.0' encoding='utf-16'?>\u00e9") == "\u00e9"
    assert html_text("<meta charset=utf-16>caf\u00e9 \U0001f600") == "caf\u00e9 \U0001f600"
    assert html_text("<body></body><p>behind") == "behind"


def test_the_text_of_what_lies_too_deep_is_kept():
    text = html_text("<div>" * 5_000 + "<p>deep &amp; <b>kept</b></p>" + "</div>" * 5_000 + "<p>behind</p>")
    assert text.split() == ["deep", "&", "kept", "behind"]


@pytest.mark.parametrize("blanks", [" \n \n  x", "a \t\n\t \n\n  x", "a\n\n\n", "\n \n", "a  \n  b"])
def test_tidy_leaves_one_empty_line_and_the_indentation(blanks):
    expected = {" \n \n  x": "x", "a \t\n\t \n\n  x": "a\n\n  x", "a\n\n\n": "a", "\n \n": "", "a  \n  b": "a  \n  b"}
    assert tidy(blanks) == expected[blanks]
