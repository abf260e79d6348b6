"""Texts of 300 KB that repeat what a parser looks for: reading them takes time in proportion, not to its square."""

import lzma
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gedbd.corpora.readers import bugzilla, github, gitlab, jira
from gedbd.corpora.readers.rich_text import html_text, tidy
from gedbd.corpora.urls import web_url
from gedbd.io.addresses import shown_url
from gedbd.text.cleaning import Cleaning

SIZE = 300_000
HTML = ["<a b='", '<a b="', "<!", "<!--", "<?", "</", "<", "&#", "&lt", "<div>", "</p>", "<b>", "<pre>", "<li>"]
HTML += ["<table>", "<td>", "<font size=1>", "<blockquote>", "<script>", "<textarea>", "<svg>", "\x00", " "]
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
MEMORY = """
import resource, sys
from gedbd.corpora.readers.csv_export import read_csv
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_csv(None, sys.argv[1], {"id": "id", "title": "title", "duplicate": None})
except ValueError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("hang_guard")]


@pytest.mark.parametrize("repeated", HTML)
def test_hostile_html(repeated):
    text = repeated * (SIZE // len(repeated))
    for hostile in (text, f"x{text}>", "<div>" * 20_000 + text, "<b id=1><i id=2>" * 9_000 + text):
        html_text(hostile)


@pytest.mark.parametrize("repeated", REPEATED)
@pytest.mark.parametrize("reader", READERS)
def test_hostile_texts(reader, repeated):
    text = repeated * (SIZE // len(repeated))
    for hostile in (text, f"duplicate of {text}", f"dup #1 {text}x"):
        READERS[reader](hostile)


def test_the_memory_that_a_bomb_takes_is_bounded(tmp_path: Path):
    path = tmp_path / "reports.csv.xz"
    piece = lzma.compress(b"1,x\n" * (1 << 22))
    path.write_bytes(lzma.compress(b"id,title\n") + 100 * piece)
    command = [sys.executable, "-c", MEMORY, str(path)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert int(told.stdout) < 1_000_000  # KB
