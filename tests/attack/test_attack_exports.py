"""Exports that are made to be slow, large or misleading are read, or refused in one line that names the file."""

import bz2
import gzip
import io
import json
import lzma
import os
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from local_server import FixedServer
from refusals import refuses

import gedbd
from gedbd.corpora.file_download import fetch_tables
from gedbd.corpora.readers import bugzilla, github, gitlab, jira
from gedbd.corpora.readers.csv_export import read_csv
from gedbd.corpora.readers.rich_text import html_text, tidy
from gedbd.corpora.urls import web_url
from gedbd.io import unpacking
from gedbd.io.http import shown_url
from gedbd.io.unpacking import MAX_GB_VARIABLE
from gedbd.text.cleaning import Cleaning

pytestmark = pytest.mark.slow

ISSUE = {"number": 1, "title": "a", "createdAt": "2024-01-01T00:00:00Z"}
ITEM = "<rss><channel><item>{}</item></channel></rss>"
DOCUMENT_TYPE = (
    '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/hostname">]>'
    + ITEM.format("<key>A-1</key><summary>&a;</summary>")
)
INCLUSION = b'<rss xmlns:x="http://www.w3.org/2001/XInclude"><x:include href="/etc/hostname" parse="text"/></rss>'

LEVELS = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 10))
ENTITIES = f'<!DOCTYPE r [<!ENTITY e0 "0">{LEVELS}]><bugrepository name="&e9;"/>'.encode()
INSTANCE = {"instance_id": "a-1", "base_commit": "f" * 40, "problem_statement": "a", "patch": "@@ " * 1_000_000}


def zipped(*names: str, content: bytes = b"[1]" * 1000, method: int = zipfile.ZIP_STORED) -> bytes:
    """An archive whose files all hold one list."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name in names:
            archive.writestr(name, content)
    return stream.getvalue()


def overwritten(content: bytes, *places: int, by: int = 0xFF) -> bytes:
    damaged = bytearray(content)
    for place in places:
        damaged[place] |= by
    return bytes(damaged)


WHOLE_ZIP = zipped("a.json")
ENCRYPTED = overwritten(WHOLE_ZIP, WHOLE_ZIP.index(b"PK\x03\x04") + 6, WHOLE_ZIP.index(b"PK\x01\x02") + 8, by=1)
HOSTILE = [
    ("jira", "a document type.xml", DOCUMENT_TYPE.encode("utf-16"), "document type"),
    (
        "jira",
        "hidden brackets.xml",
        b'<?xml version="1.0" encoding="UTF-7"?>+ADw-rss+AD4-',
        "not readable as XML|truncated",
    ),
    ("jira", "elements.xml", ITEM.format("<a>" * 100_000 + "</a>" * 100_000).encode(), "no 'key'"),
    ("jira", "elements without an end.xml", b"<rss>" + b"<a>" * 100_000, "truncated"),
    ("jira", "an attribute.xml", ITEM.format(f'<key id="{"x" * 10_000_000}">A-1</key>').encode(), "no 'summary'"),
    ("jira", "an inclusion.xml", INCLUSION, "without <channel>"),
    ("bug_localization", "entities.xml", ENTITIES, "document type"),
    ("bug_localization", "bugs.xml", b"<bugrepository>" + b"<bug>" * 100_000, "truncated"),
    ("bug_localization", "tables.xml", b"<a>" * 100_000 + b"</a>" * 100_000, "neither <bugrepository> nor <table>"),
    ("bug_localization", "lists.jsonl", b"[" * 100_000 + b"]" * 100_000, "not readable as JSON"),
    ("bug_localization", "a patch.jsonl", json.dumps(INSTANCE).encode(), "has no line that begins with"),
    ("github", "objects.json", b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "not readable as JSON"),
    ("github", "digits.json", b'[{"number": ' + b"9" * 100_000 + b"}]", "not readable as JSON"),
    ("github", "no number.json", b'[{"number": NaN}]', "the issue has no 'number'"),
    ("github", "infinity.json", b'[{"number": 1e999}]', "'number' is inf"),
    ("github", "labels.json", json.dumps([ISSUE | {"labels": [[[["x"]]]]}]).encode(), "'name' is a list"),
    ("github", "empty.json.zip", zipped(), "exactly one"),
    ("github", "damaged.json.zip", overwritten(WHOLE_ZIP, *range(20, 36)), "damaged"),
    ("github", "encrypted.json.zip", ENCRYPTED, "the archive cannot be unpacked .*password"),
    ("github", "behind the end.json.gz", gzip.compress(b"[]") + b"more", "damaged"),
    ("github", "damaged.json.xz", b"\xfd7zXZ\0" + b"\xff" * 60, "damaged"),
]


@pytest.mark.parametrize(("format", "name", "content", "message"), [pytest.param(*row, id=row[1]) for row in HOSTILE])
def test_it_is_refused_in_one_line(tmp_path: Path, format: str, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with refuses(f"{name}.*{message}") as refused:
        gedbd.load_corpus(tmp_path / name, format)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("name", ["../../export.json", "/etc/export.json"])
def test_a_path_in_an_archive_is_no_path_of_a_file(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    (folder / "export.json.zip").write_bytes(zipped(name, content=json.dumps([ISSUE]).encode()))
    assert len(gedbd.load_corpus(folder / "export.json.zip", "github")) == 1
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["export.json.zip"]


HEADER = b"id,title\n"
ROW = b"1," + b"x" * 500 + b"\n"
ROWS_AND_BLANKS = b"\n" * 99 + b"a" * 99_999
PACKERS: dict[str, Callable[[bytes], bytes]] = {".xz": lzma.compress, ".gz": gzip.compress}
LIMIT_BYTES = 1 << 20
PIECE_BYTES = LIMIT_BYTES // 2
TOO_MUCH = rf"unpacks to more than 100 times its size .* set {MAX_GB_VARIABLE} to a number of gigabytes"
READERS: dict[str, Callable[[str], object]] = {
    "csv": partial(read_csv, None, columns={"id": "id", "title": "title", "duplicate": None}),
    "json": partial(github.read_github, None),
    "xml": partial(jira.read_jira, None),
}


@pytest.fixture
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any file may unpack to 1 MiB instead of 32."""
    monkeypatch.setattr(unpacking, "ALWAYS_BYTES", LIMIT_BYTES)


def bomb(suffix: str, head: bytes, filling: bytes, tail: bytes = b"") -> bytes:
    """A file of a few KB that unpacks to some MB: streams of one kind may follow each other."""
    piece = filling * (PIECE_BYTES // len(filling))
    if suffix == ".zip":
        return zipped("inside.csv", content=head + 6 * piece + tail, method=zipfile.ZIP_DEFLATED)
    pack = PACKERS[suffix]
    return pack(head) + 6 * pack(piece) + pack(tail)


@pytest.mark.usefixtures("_small_limit")
@pytest.mark.parametrize(
    ("kind", "suffix", "head", "filling", "tail"),
    [
        *(("csv", suffix, HEADER, ROW, b"") for suffix in (".xz", ".gz", ".zip")),
        *(("csv", ".gz", HEADER, filling, b"") for filling in (b'"', ROWS_AND_BLANKS, b"a", b",", b'""""', b"\x00")),
        *(("json", ".gz", b"[", filling, b"]") for filling in (b"[", b" ", b"{}", b'"', b'{"a":0},')),
        ("xml", ".xz", b"<rss><channel>", b"<a/>", b"</channel></rss>"),
    ],
)
def test_an_export_that_unpacks_without_end_is_refused(tmp_path, kind, suffix, head, filling, tail):
    path = tmp_path / f"export.{kind}{suffix}"
    path.write_bytes(bomb(suffix, head, filling, tail))
    others = r"|row \d+|zero bytes" if kind == "csv" and filling != ROW else ""
    with refuses(rf"export\.{kind}\{suffix}.*({TOO_MUCH}{others})"):
        READERS[kind](str(path))


@pytest.mark.usefixtures("_small_limit")
def test_many_pages_count_together(tmp_path):
    page = gzip.compress(b" " * PIECE_BYTES + b'[{"number": 1, "title": "a"}]')
    for number in range(12):
        (tmp_path / f"{number}.json.gz").write_bytes(page)
    with refuses(TOO_MUCH):
        READERS["json"](str(tmp_path))


@pytest.mark.usefixtures("_small_limit")
def test_a_person_may_set_the_limit(tmp_path, monkeypatch):
    path = tmp_path / "reports.csv.gz"
    path.write_bytes(gzip.compress(HEADER + b"".join(b"%d,%s\n" % (number, b"x" * 5_000) for number in range(900))))
    for value, message in (
        (None, TOO_MUCH),
        ("0.003", rf"unpacks to more than 0\.003 GB; .* set {MAX_GB_VARIABLE} to a number of gigabytes"),
        *(
            (value, rf"{MAX_GB_VARIABLE}={value} must be a number of gigabytes above 0")
            for value in ("", "much", "nan", "inf", "0", "-1")
        ),
    ):
        if value is not None:
            monkeypatch.setenv(MAX_GB_VARIABLE, value)
        with refuses(message):
            READERS["csv"](str(path))
    monkeypatch.setenv(MAX_GB_VARIABLE, "1")
    assert len(READERS["csv"](str(path))) == 900


@pytest.mark.usefixtures("_small_limit")
@pytest.mark.parametrize("kind", ["parquet", "xlsx"])
def test_a_table_of_many_equal_rows_is_refused(tmp_path, kind):
    path = tmp_path / f"reports.{kind}"
    if kind == "xlsx":
        path.write_bytes(zipped("xl/worksheets/sheet1.xml", content=b"0" * (1 << 22), method=zipfile.ZIP_DEFLATED))
    else:
        pd.DataFrame({"id": np.zeros(1 << 20, dtype=np.int64), "title": "x"}).to_parquet(path)
    with refuses(rf"reports\.{kind}: the table cannot be read \(it {TOO_MUCH}\); save it as CSV"):
        READERS["csv"](str(path))


@pytest.mark.parametrize("suffix", [".bz2", ".zst", ".7z", ".tar", ".tgz", ".br", ".Z"])
def test_a_packing_that_is_not_read_is_named(tmp_path, suffix):
    path = tmp_path / f"reports.csv{suffix}"
    path.write_bytes(bz2.compress(HEADER + ROW))
    with refuses(rf"\{suffix} files are not supported: pack it as \.gz, \.xz or \.zip"):
        READERS["csv"](str(path))


def check_leaves_nothing(server: FixedServer, folder: Path, message: str, file: str, error=ValueError) -> None:
    with refuses(message, error):
        fetch_tables(f"http://{server.host}", folder, {file: 2})
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("_small_limit")
@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zip"])
def test_a_download_that_unpacks_without_end_leaves_nothing(server, tmp_path, suffix):
    server.body = bomb(suffix, HEADER, ROW)
    check_leaves_nothing(server, tmp_path, TOO_MUCH, f"bugs.csv{suffix}")


def test_a_download_without_end_or_announced_as_larger_is_broken_off(server, tmp_path, monkeypatch):
    server.body = b"x" * (1 << 20)
    for server.endless, gigabytes in ((True, "0.02"), (False, "0.001")):
        monkeypatch.setenv(MAX_GB_VARIABLE, gigabytes)
        message = rf"/bugs.csv: more than {gigabytes} GB; .*set {MAX_GB_VARIABLE} to a number of gigabytes"
        check_leaves_nothing(server, tmp_path, message, "bugs.csv")


def test_a_disk_that_would_be_full_stops_the_download(server, tmp_path, monkeypatch):
    server.body = HEADER + ROW
    monkeypatch.setattr(unpacking, "RESERVE_BYTES", 1 << 60)
    check_leaves_nothing(server, tmp_path, r"bytes are free, .* are needed; free some space", "bugs.csv")


def test_a_disk_that_fills_up_while_unpacking_leaves_nothing(server, tmp_path):
    """The limit on a file's size makes the system refuse to write on, as a full disk does."""
    server.body = gzip.compress(b"".join(b"%d,title %d\n" % (number, number) for number in range(60_000)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
    try:
        check_leaves_nothing(server, tmp_path, "too large", "bugs.csv.gz", OSError)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


SIZE = 300_000
HTML = ["<a b='", '<a b="', "<!", "<!--", "<?", "</", "<", "&#", "&lt", "<div>", "</p>", "<b>", "<pre>", "<li>"]
HTML += ["<table>", "<td>", "<font size=1>", "<blockquote>", "<script>", "<textarea>", "<svg>", "<p>", "&", "\x00", " "]
REPEATED = ["<a ", "<![", "{code}", "{code:", "{quote:", "{noformat:", " ", "\n", "\n>", "((((", "at a.b(", "a.", "\t"]
REPEATED += ["```\n", "~~", "<!--", "*", "[", "dup ", "dupe of ", "duplicate of ", "#1 ", "#1, ", "ABC-1 ", "bug "]
REPEATED += ["http://", "a/", "A-", "not ", "? ", "12:00:00 ", "[ERROR]", 'x="', "0x", "Caused by: ", "--", "> "]
REPEATED += ["\r\n", "`", "    x\n", "a@", "{", "\\"]
TEXT_READERS: dict[str, Callable[[str], object]] = {
    "bugzilla": partial(bugzilla.REFERENCES.find, here=""),
    "github": partial(github.REFERENCES.find, here=""),
    "gitlab": partial(gitlab.REFERENCES.find, here=""),
    "jira": partial(jira.REFERENCES.find, here=""),
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


@pytest.mark.usefixtures("hang_guard")
@pytest.mark.parametrize("repeated", HTML)
def test_hostile_html(repeated):
    text = repeated * (SIZE // len(repeated))
    for hostile in (text, f"x{text}>", "<div>" * 20_000 + text, "<b id=1><i id=2>" * 9_000 + text):
        html_text(hostile)


@pytest.mark.usefixtures("hang_guard")
@pytest.mark.parametrize("repeated", REPEATED)
@pytest.mark.parametrize("reader", TEXT_READERS)
def test_hostile_texts(reader, repeated):
    text = repeated * (SIZE // len(repeated))
    for hostile in (text, f"duplicate of {text}", f"dup #1 {text}x"):
        TEXT_READERS[reader](hostile)


@pytest.mark.parametrize("suffix", [".xz", ".zip"])
def test_the_memory_that_a_bomb_takes_is_bounded(tmp_path: Path, suffix: str):
    path = tmp_path / f"reports.csv{suffix}"
    if suffix == ".xz":
        path.write_bytes(lzma.compress(HEADER) + 100 * lzma.compress(b"1,x\n" * (1 << 22)))
    else:  # a chunk of 1 KB, which the module zipfile would unpack as a whole
        path.write_bytes(zipped("reports.csv", content=HEADER + b"1" * 400_000_000, method=zipfile.ZIP_BZIP2))
    command = [sys.executable, "-c", MEMORY, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert int(done.stdout) < 150_000  # KB


@pytest.mark.usefixtures("hang_guard")
@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zip"])
@pytest.mark.parametrize("kind", READERS)
def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path, kind: str, suffix: str):
    os.mkfifo(tmp_path / f"pipe.{kind}{suffix}")
    (tmp_path / f"device.{kind}{suffix}").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with refuses(rf"{name}\.{kind}{suffix} is not a regular file: copy its content to one"):
            READERS[kind](str(tmp_path / f"{name}.{kind}{suffix}"))
