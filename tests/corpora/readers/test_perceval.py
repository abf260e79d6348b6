"""Documents of Perceval's backends.

Those in perceval_documents/ were written by Perceval 1.6.1 (its own ``fetch``, Python 3.11), run in an environment of
its own against a small server that answered each backend's requests with the same two made-up issues. The server's
address was then replaced by https://bugs.example.org.
"""

import json
from pathlib import Path

import pandas as pd
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.perceval import read_perceval
from gedbd.io.files import CONF_DIR

DOCUMENTS = Path(__file__).parent / "perceval_documents"
BACKENDS = sorted(file.stem for file in DOCUMENTS.glob("*.jsonl"))


def read(path: Path, *options: str) -> Corpus:
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        cfg = compose("index", ["out=index", "dataset=perceval", f"dataset.path={path}", *options])
    return instantiate(cfg.dataset)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_two_issues_of_each_backend(backend):
    corpus = read(DOCUMENTS / f"{backend}.jsonl")
    reports = corpus.reports
    assert reports["id"].tolist() == ["1", "2"]
    assert reports["title"].tolist() == ["Clock is one hour late", "Time is wrong in summer"]
    assert reports["description"].tolist() == ["In summer the clock is late.", "One hour off."]
    assert reports["created_at"].tolist() == [pd.Timestamp(f"2024-0{month}-01T10:00:00Z") for month in (1, 2)]
    assert corpus.group.tolist() == [0, 0]


def test_fields_of_redmine():
    first = read(DOCUMENTS / "redmine.jsonl").reports.iloc[1]
    assert (first["product"], first["component"], first["priority"], first["status"]) == (
        "Clock",
        "Display",
        "Normal",
        "Closed",
    )
    assert first["url"] == "https://bugs.example.org/redmine/issues/2"
    assert first["resolved_at"] == pd.Timestamp("2024-02-02T10:00:00Z")


def document(folder: Path, backend: str = "redmine", **data: object) -> Path:
    path = folder / "issues.jsonl"
    path.write_text(json.dumps({"backend_name": backend, "origin": "https://b.org", "data": data}))
    return path


@pytest.mark.parametrize(
    ("backend", "data", "message"),
    [
        ("trac", {"id": 1}, "record 1: Perceval's backend 'trac' is not supported: choose from bugzilla, "),
        ("redmine", {"subject": "a"}, "record 1: the document has no id"),
        ("redmine", {"id": 1}, "record 1: the document has no title"),
        ("redmine", {"id": 1, "subject": "a", "created_on": "soon"}, "record 1: created_at: unreadable date 'soon'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, backend, data, message):
    with pytest.raises(Exception, match=message):
        read(document(tmp_path, backend, **data))


def test_another_backend_needs_no_code(tmp_path):
    path = document(tmp_path, "trac", ticket=7, summary="Crash", time=1704103200)
    fields = {"id": "ticket", "title": "summary", "created_at": "time", "page": "{origin}/ticket/{id}"}
    report = read_perceval(None, str(path), {"trac": fields}).reports.iloc[0]
    assert (report["id"], report["title"], report["url"]) == ("7", "Crash", "https://b.org/ticket/7")
    assert report["created_at"] == pd.Timestamp("2024-01-01T10:00:00Z")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": "id"}, r"dataset\.backends\.trac\.title= is required"),
        ({"id": "id", "title": "a", "titel": "a"}, r"dataset\.backends\.trac\.titel is unknown: choose from title"),
        ({"id": "id[", "title": "a"}, r"dataset\.backends\.trac\.id=id\[ is not a JMESPath expression"),
    ],
)
def test_a_wrong_map_is_refused(tmp_path, fields, message):
    with pytest.raises(ValueError, match=message):
        read_perceval(None, str(document(tmp_path, "trac", id=1)), {"trac": fields})
