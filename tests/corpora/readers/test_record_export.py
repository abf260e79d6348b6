"""Records of JSON and XML and tables of any tracker, read by the descriptions of their formats.

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
from gedbd.io.files import CONF_DIR

DOCUMENTS = Path(__file__).parent / "perceval_documents"
BACKENDS = sorted(file.stem for file in DOCUMENTS.glob("*.jsonl"))


def read(path: Path, *options: str) -> Corpus:
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        cfg = compose("index", ["out=index", f"dataset.path={path}", *options])
    return instantiate(cfg.dataset)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_two_issues_of_each_backend_of_perceval(backend):
    corpus = read(DOCUMENTS / f"{backend}.jsonl")
    reports = corpus.reports
    assert reports["id"].tolist() == ["1", "2"]
    assert reports["title"].tolist() == ["Clock is one hour late", "Time is wrong in summer"]
    assert reports["description"].tolist() == ["In summer the clock is late.", "One hour off."]
    assert reports["created_at"].tolist() == [pd.Timestamp(f"2024-0{month}-01T10:00:00Z") for month in (1, 2)]
    assert corpus.group.tolist() == [0, 0]


def test_fields_of_redmine():
    first = read(DOCUMENTS / "redmine.jsonl").reports.iloc[1]
    fields = (first["product"], first["component"], first["priority"], first["status"], first["url"])
    assert fields == ("Clock", "Display", "Normal", "Closed", "https://bugs.example.org/redmine/issues/2")
    assert first["resolved_at"] == pd.Timestamp("2024-02-02T10:00:00Z")


def written(folder: Path, *records: object) -> Path:
    path = folder / "issues.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


ISSUES = {  # the second one duplicates the first
    "azure": [
        {"id": 1, "rev": 2, "fields": {"System.Title": "Slow", "System.CreatedDate": "2024-01-02T03:04:05Z"}},
        {
            **{"id": 2, "rev": 1, "fields": {"System.Title": "Lags", "System.CreatedDate": "2024-01-03T03:04:05Z"}},
            "relations": [
                {"rel": "System.LinkTypes.Related", "url": "https://dev.example.org/_apis/wit/workItems/3"},
                {"rel": "System.LinkTypes.Duplicate-Reverse", "url": "https://dev.example.org/_apis/wit/workItems/1"},
            ],
        },
    ],
    "issuetracker": [
        {"issueId": 1, "createdTime": "2024-01-02T03:04:05Z", "issueState": {"title": "Slow", "status": "NEW"}},
        {
            **{"issueId": 2, "createdTime": "2024-01-03T03:04:05Z"},
            "issueState": {"title": "Lags", "status": "DUPLICATE", "canonicalIssueId": 1},
        },
    ],
    "linear": [
        {"identifier": "APP-1", "title": "Slow", "createdAt": "2024-01-02T03:04:05Z", "relations": {"nodes": []}},
        {
            **{"identifier": "APP-2", "title": "Lags", "createdAt": "2024-01-03T03:04:05Z"},
            "relations": {"nodes": [{"type": "duplicate", "relatedIssue": {"identifier": "APP-1"}}]},
        },
    ],
    "mantis": [
        {"id": 1, "summary": "Slow", "view_state": {"name": "public"}, "created_at": "2024-01-02T03:04:05Z"},
        {
            **{"id": 2, "summary": "Lags", "view_state": {"name": "public"}, "created_at": "2024-01-03T03:04:05Z"},
            "relationships": [
                {"type": {"name": "related-to"}, "issue": {"id": 3}},
                {"type": {"name": "duplicate-of"}, "issue": {"id": 1}},
            ],
        },
    ],
    "redmine": [
        {"id": 1, "subject": "Slow", "tracker": {"name": "Bug"}, "created_on": "2024-01-02T03:04:05Z"},
        {
            **{"id": 2, "subject": "Lags", "tracker": {"name": "Bug"}, "created_on": "2024-01-03T03:04:05Z"},
            "relations": [{"relation_type": "duplicates", "issue_id": 2, "issue_to_id": 1}],
        },
    ],
}


@pytest.mark.parametrize("tracker", ISSUES)
def test_issues_of_rest_interfaces_are_recognised(tmp_path, tracker):
    path = tmp_path / "issues.json"
    path.write_text(json.dumps({{"azure": "value"}.get(tracker, "issues"): ISSUES[tracker]}))
    corpus = read(path)
    assert corpus.warnings[0] == f"issues.json is read as dataset={tracker}"
    assert corpus.reports["title"].tolist() == ["Slow", "Lags"]
    assert corpus.reports["created_at"].tolist() == [pd.Timestamp(f"2024-01-0{day}T03:04:05Z") for day in (2, 3)]
    assert corpus.group.tolist() == [0, 0]


TICKETS = [
    {"ticket": 7, "text": {"head": "Crash", "tail": ["a", "b"]}, "at": "2024-01-01T10:00:00Z", "same": []},
    {"ticket": 8, "text": {"head": "Fails", "tail": []}, "at": "2024-01-02T10:00:00Z", "same": ["7"]},
    {"ticket": 8, "text": {"head": "Stops", "tail": []}, "at": "2024-01-02T10:00:00Z", "same": [7], "seen": "2024"},
]
FIELDS = {"id": "ticket", "title": "text.head", "description": "text.tail", "created_at": "at", "duplicate": "same"}


def options(**fields: str) -> list[str]:
    return ["dataset=records", *(f"dataset.fields.{field}='{written}'" for field, written in fields.items())]


def test_another_tracker_needs_no_code(tmp_path):
    path = written(tmp_path, *TICKETS)
    with pytest.raises(
        Exception, match=r"not recognised; its first keys are ticket, text, at, same: set dataset=recor"
    ):
        read(path)
    corpus = read(path, *options(**FIELDS, updated_at="seen"))
    assert corpus.reports["title"].tolist() == ["Crash", "Stops"]  # of two records, the one that was updated last
    assert corpus.reports["description"].tolist() == ["a\nb", ""]
    assert corpus.group.tolist() == [0, 0]
    flat = read(path, "dataset.columns.id=ticket", "dataset.columns.title=at")
    assert flat.reports["title"].tolist() == ["2024-01-01T10:00:00Z", "2024-01-02T10:00:00Z"]
    table = tmp_path / "bugs.csv"
    table.write_text("Nr,Was,Siehe\n7,Crash,\n8,Stops,7\n")
    assert read(table, *options(id="Nr", title="Was", duplicate="Siehe")).group.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("record", "fields", "message"),
    [
        (TICKETS[0], {"id": "ticket"}, r"dataset\.fields\.title= is required"),
        (TICKETS[0], {"id": "ticket", "title": "a["}, r"dataset\.fields\.title=a\[ is not a JMESPath expression"),
        (TICKETS[0], {"id": "ticket", "title": "name"}, r"record 1: the record has no title, read from 'name'"),
        (TICKETS[0], {"id": "ticket", "title": "abs(at)"}, r"record 1: dataset\.fields\.title=abs\(at\): "),
        ({}, {"id": "ticket", "title": "name"}, r"record 1: the record has no id, read from 'ticket'"),
        ({"i": 1, "t": "a", "d": "soon"}, {"id": "i", "title": "t", "created_at": "d"}, "unreadable date 'soon'"),
    ],
)
def test_a_wrong_description_of_records_is_refused(tmp_path, record, fields, message):
    with pytest.raises(Exception, match=message):
        read(written(tmp_path, record), *options(**fields))


def test_records_of_several_servers_are_told_apart(tmp_path):
    data = {"id": 1, "subject": "a", "tracker": {}, "created_on": "2024-01-01"}
    documents = [{"backend_name": "Redmine", "origin": f"https://{name}.org", "data": data} for name in "ab"]
    path = written(tmp_path, *documents)
    assert read(path, "dataset=redmine", "dataset.repositories=[https://a.org]").reports["id"].tolist() == ["1"]
    data["id"] = 2
    with pytest.raises(Exception, match=r"dataset\.repositories= to one of https://a\.org, https://b\.org"):
        read(written(tmp_path, documents[0], documents[1] | {"data": data | {"id": 3}}))
