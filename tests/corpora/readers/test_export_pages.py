import json
import lzma
import zipfile
from pathlib import Path

import pytest

from gedbd.corpora.readers.export_pages import JSON_KINDS, kind_of, read_pages, read_records, recognise

RECORDS = [{"number": 1, "title": "a"}, {"number": 2, "title": "b"}]


def numbers(path: Path) -> list[int]:
    return [found.record["number"] for page in read_pages(path, JSON_KINDS)[0] for found in read_records(page)]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(RECORDS),
        "\n".join(map(json.dumps, RECORDS)),
        json.dumps([RECORDS[:1], RECORDS[1:]]),
        json.dumps(RECORDS[:1]) + json.dumps(RECORDS[1:]),
        json.dumps({"items": RECORDS, "total_count": 2}),
        json.dumps({"data": {"search": {"edges": [{"node": record} for record in RECORDS]}}}),
        "\ufeff  " + json.dumps(RECORDS) + " \n",
    ],
)
def test_pages_of_many_shapes(tmp_path, text):
    (tmp_path / "page.json").write_text(text)
    assert numbers(tmp_path / "page.json") == [1, 2]


def test_packed_pages(tmp_path):
    with lzma.open(tmp_path / "page.jsonl.xz", "wt") as page:
        page.write(json.dumps(RECORDS))
    with zipfile.ZipFile(tmp_path / "issues.zip", "w") as archive:
        archive.writestr("__MACOSX/page.json", "")
        archive.writestr("page.json", json.dumps(RECORDS))
    assert numbers(tmp_path / "page.jsonl.xz") == numbers(tmp_path / "issues.zip") == [1, 2]
    with zipfile.ZipFile(tmp_path / "issues.zip", "a") as archive:
        archive.writestr("more.json", "[]")
    with pytest.raises(
        ValueError, match=r"issues.zip: the archive holds 2 JSON or JSONL or NDJSON files; it must hold exactly"
    ):
        numbers(tmp_path / "issues.zip")


def test_the_kind_of_a_file():
    names = ("a.JSON", "a.json.gz", "a.ndjson.xz", "a.zip", "a.xml.zip", "a")
    assert [kind_of(Path(name)) for name in names] == ["json", "json", "ndjson", "json", "xml", ""]


def test_trackers_are_told_apart():
    assert recognise({"iid": 1, "title": "a", "description": ""}) == "gitlab"
    assert recognise({"key": "A-1", "fields": {}}) == "jira"
    assert recognise({"number": 1, "title": "a", "body": ""}) == "github"
    assert recognise({"id": 1, "summary": "a", "creation_time": ""}) == "bugzilla"
    assert recognise({"id": 1, "summary": "a"}) == recognise({"issues": []}) == ""
