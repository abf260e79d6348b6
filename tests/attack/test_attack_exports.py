"""Exports that are made to be slow, large or misleading are read, or refused in one line that names the file."""

import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest

import gedbd

DOCUMENT_TYPE = (
    '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/hostname">]>'
    "<rss><channel><item><key>A-1</key><summary>&a;</summary></item></channel></rss>"
)
ITEM = "<rss><channel><item>{}</item></channel></rss>"
ISSUE = {"number": 1, "title": "a", "createdAt": "2024-01-01T00:00:00Z"}
XML = {
    "a document type": (DOCUMENT_TYPE.encode("utf-16"), "document type"),
    "a document type without a byte order mark": (DOCUMENT_TYPE.encode("utf-16-be"), "document type"),
    "an encoding that hides brackets": (b'<?xml version="1.0" encoding="UTF-7"?>+ADw-rss+AD4-', "not readable as XML"),
    "100,000 elements in each other": (ITEM.format("<a>" * 100_000 + "</a>" * 100_000).encode(), "no 'key'"),
    "100,000 elements without an end": (b"<rss>" + b"<a>" * 100_000, "truncated"),
    "a long attribute": (ITEM.format(f'<key id="{"x" * 10_000_000}">A-1</key>').encode(), "no 'summary'"),
    "many attributes": (
        ITEM.format("<key " + " ".join(f'a{number}="1"' for number in range(50_000)) + ">A-1</key>").encode(),
        "no 'summary'",
    ),
    "an inclusion": (
        b'<rss xmlns:x="http://www.w3.org/2001/XInclude"><x:include href="/etc/hostname" parse="text"/></rss>',
        "without <channel>",
    ),
}
JSON = {
    "lists in each other": (b"[" * 100_000 + b"]" * 100_000, "not readable as JSON"),
    "objects in each other": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "not readable as JSON"),
    "a number of 100,000 digits": (b'[{"number": ' + b"9" * 100_000 + b"}]", "not readable as JSON"),
    "no number": (b'[{"number": NaN}]', "'number' is nan"),
    "infinity": (b'[{"number": 1e999}]', "'number' is inf"),
    "values of other types": (b'[{"number": true, "title": {"a": 1}}]', "'number' is True"),
    "labels in each other": (json.dumps([ISSUE | {"labels": [[[["x"]]]]}]).encode(), "'name' is a list"),
    "half a file": (b'[{"number": 1, "title": "a', "truncated"),
}


def zipped(*names: str) -> bytes:
    """An archive whose files all hold one list."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, b"[1]" * 1000)
    return stream.getvalue()


DAMAGED = bytearray(zipped("a.json"))
DAMAGED[20:36] = b"\xff" * 16
PACKED = {
    "zip": [
        (zipped("a.json", "b.json"), "exactly one"),
        (zipped(), "exactly one"),
        (bytes(DAMAGED), "damaged"),
    ],
    "gz": [
        (gzip.compress(b"[]" * 10_000)[:-20], "damaged"),
        (gzip.compress(b"[]") + b"more", "damaged"),
        (b"\x1f\x8b" + b"\0" * 50, "damaged"),
    ],
    "xz": [(b"\xfd7zXZ\0" + b"\xff" * 60, "damaged")],
}
CASES = [
    *(pytest.param("jira", "export.xml", *case, id=name) for name, case in XML.items()),
    *(pytest.param("github", "export.json", *case, id=name) for name, case in JSON.items()),
    *(pytest.param("github", f"export.json.{ending}", *case) for ending, cases in PACKED.items() for case in cases),
]


@pytest.mark.parametrize(("format", "name", "content", "told"), CASES)
def test_it_is_refused_in_one_line(tmp_path: Path, format: str, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=told) as raised:
        gedbd.load_corpus(tmp_path / name, format)
    message = str(raised.value)
    assert name in message
    assert len(message.splitlines()) == 1
    assert len(message) < 500


@pytest.mark.parametrize("name", ["../../export.json", "/etc/export.json"])
def test_a_path_in_an_archive_is_no_path_of_a_file(tmp_path: Path, name: str) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, json.dumps([ISSUE]))
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    (folder / "export.json.zip").write_bytes(stream.getvalue())
    assert len(gedbd.load_corpus(folder / "export.json.zip", "github")) == 1
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["export.json.zip"]
