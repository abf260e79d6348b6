"""Labels, and the time at which a duplicate was confirmed, as the readers of all trackers give them."""

import json
from pathlib import Path

import pandas as pd
import pytest

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.bugzilla import read_bugzilla
from gedbd.corpora.readers.csv_export import read_csv
from gedbd.corpora.readers.github import read_github
from gedbd.corpora.readers.gitlab import read_gitlab
from gedbd.corpora.readers.jira import read_jira

DAY = "2024-01-{:02}T00:00:00Z"
COLUMNS = {"id": "Key", "title": "Summary", "duplicate": "Dup", "labels": "Words", "resolved_at": "Done"}


def written(folder: Path, records: object) -> str:
    path = folder / "export.json"
    path.write_text(json.dumps(records))
    return str(path)


def made_at(corpus: Corpus) -> list[pd.Timestamp]:
    return corpus.links.table["made_at"].tolist()


def day(number: int) -> pd.Timestamp:
    return pd.Timestamp(DAY.format(number))


def github(number: int, *timeline: dict, **more: object) -> dict:
    return {"number": number, "title": "a", "created_at": DAY.format(1), "timeline": list(timeline)} | more


@pytest.mark.parametrize(("as_created", "labels"), [(True, "crash"), (False, "crash;area: map;a,b")])
def test_github_labels_without_those_that_say_duplicate(tmp_path, as_created, labels):
    timeline = [
        {"event": "labeled", "created_at": DAY.format(2), "label": {"name": "area: map"}},
        {"event": "labeled", "created_at": DAY.format(2), "label": {"name": "a;b"}},
    ]
    issues = [github(1, *timeline, labels=["crash", "duplicate", "area: map", "a;b"]), github(2)]
    corpus = read_github(None, written(tmp_path, issues), ["area:"], as_created=as_created)
    assert corpus.reports["labels"].tolist() == [labels, ""]
    assert corpus.reports["component"].tolist() == ["" if as_created else "map", ""]


def test_github_comments_take_the_time_of_closing(tmp_path):
    timeline = [
        {"event": "closed", "created_at": DAY.format(3), "state_reason": "duplicate"},
        {"event": "reopened", "created_at": DAY.format(4)},
        {"event": "closed", "created_at": DAY.format(5), "state_reason": "duplicate"},
        {"event": "commented", "created_at": DAY.format(2), "body": "Duplicate of #1"},
    ]
    closed = {"state": "closed", "state_reason": "duplicate"}
    corpus = read_github(None, written(tmp_path, [github(1), github(2, *timeline, **closed)]))
    assert made_at(corpus) == [day(5)]


def test_gitlab_labels_and_marks(tmp_path):
    notes = [
        {"system": True, "body": f"{body}", "created_at": DAY.format(3)}
        for body in ("marked this issue as a duplicate of #1", "closed")
    ]
    issues = [
        {"iid": 1, "title": "a", "created_at": DAY.format(1), "labels": ["bug", "map"]},
        {"iid": 2, "title": "b", "created_at": DAY.format(2), "notes": notes, "state": "closed"},
    ]
    corpus = read_gitlab(None, written(tmp_path, issues))
    assert corpus.reports["labels"].tolist() == ["bug;map", ""]
    assert made_at(corpus) == [day(3)]


def jira(number: int, *items: dict, **more: object) -> dict:
    fields = {"summary": "a", "created": DAY.format(1), "project": {"name": "Alphabet"}} | more
    histories = [{"created": DAY.format(2 + place), "items": [item]} for place, item in enumerate(items)]
    return {"key": f"ABC-{number}", "fields": fields, "changelog": {"histories": histories}}


def test_jira_labels_at_creation_and_the_time_of_resolution(tmp_path):
    to_first = [{"type": {"name": "Duplicate"}, "outwardIssue": {"key": "ABC-1"}}]
    changes = [
        {"field": "labels", "fromString": "old both", "toString": "both new"},
        {"field": "resolution", "fromString": "", "toString": "Duplicate"},
    ]
    closed = {"resolution": {"name": "Duplicate"}, "issuelinks": to_first, "labels": ["both", "new"]}
    issues = [jira(1, labels=["one"]), jira(2, *changes, **closed), jira(3, issuelinks=to_first)]
    corpus = read_jira(None, written(tmp_path, {"issues": issues}))
    assert corpus.reports["labels"].tolist() == ["one", "both;old", ""]
    assert made_at(corpus)[0] == day(3)
    assert pd.isna(made_at(corpus)[1])


def test_labels_of_a_jira_xml_export(tmp_path):
    item = "<item><key>ABC-1</key><summary>a</summary><labels><label>one</label><label>two</label></labels></item>"
    (tmp_path / "a.xml").write_text(f"<rss><channel>{item}</channel></rss>")
    assert read_jira(None, str(tmp_path / "a.xml")).reports["labels"].tolist() == ["one;two"]


def test_bugzilla_keywords_at_creation_and_the_time_of_resolution(tmp_path):
    history = [
        {
            "when": DAY.format(2),
            "changes": [{"field_name": "keywords", "removed": "crash", "added": "perf, regression"}],
        },
        {"when": DAY.format(4), "changes": [{"field_name": "resolution", "removed": "", "added": "DUPLICATE"}]},
    ]
    bugs = [
        {"id": 1, "summary": "a", "creation_time": DAY.format(1), "keywords": ["crash"]},
        {"id": 2, "summary": "b", "creation_time": DAY.format(1), "keywords": ["perf", "regression", "ui"]}
        | {"dupe_of": 1, "resolution": "DUPLICATE", "history": history},
    ]
    corpus = read_bugzilla(None, written(tmp_path, {"bugs": bugs}))
    assert corpus.reports["labels"].tolist() == ["crash", "ui;crash"]
    assert made_at(corpus) == [day(4)]


def test_columns_of_labels_and_resolution_of_a_table(tmp_path):
    rows = ["1,a,,x;Y,", "2,b,1,,2024-01-03 10:00:00", "3,c,1;2,z,2024-01-04", "4,d,,,"]
    (tmp_path / "a.csv").write_text("\n".join(["Key,Summary,Dup,Words,Done", *rows]))
    corpus = read_csv(None, str(tmp_path / "a.csv"), COLUMNS)
    assert corpus.reports["labels"].tolist() == ["x;Y", "", "z", ""]
    fourth = pd.Timestamp("2024-01-04", tz="UTC")
    third = pd.Timestamp("2024-01-03 10:00", tz="UTC")
    assert made_at(corpus) == [third, fourth, fourth]
    assert corpus.reports["resolved_at"].tolist() == [pd.NaT, third, fourth, pd.NaT]


def test_a_table_without_them_says_nothing_and_an_unreadable_date_is_counted(tmp_path):
    (tmp_path / "a.csv").write_text("Key,Summary,Dup\n1,a,\n2,b,1\n")
    corpus = read_csv(None, str(tmp_path / "a.csv"), COLUMNS)
    assert corpus.reports["labels"].tolist() == ["", ""]
    assert made_at(corpus)[0] is pd.NaT
    assert "resolved_at" not in corpus.reports
    assert not any("labels" in warning or "resol" in warning for warning in corpus.warnings)
    (tmp_path / "a.csv").write_text("Key,Summary,Dup,Done\n1,a,,\n2,b,1,soon\n")
    corpus = read_csv(None, str(tmp_path / "a.csv"), COLUMNS)
    assert "unreadable resolution dates: 1, treated as missing (first: row 3)" in corpus.warnings


def test_a_resolution_before_the_creation_is_counted_and_kept(tmp_path):
    columns = COLUMNS | {"created_at": "Made"}
    rows = ["1,a,2024-01-05 09:00,2024-01-04 23:59", "2,b,2024-01-06 09:00,2024-01-06", "3,c,2024-01-07,"]
    (tmp_path / "a.csv").write_text("\n".join(["Key,Summary,Made,Done", *rows]))
    corpus = read_csv(None, str(tmp_path / "a.csv"), columns | {"duplicate": None})
    early = pd.Timestamp("2024-01-04 23:59", tz="UTC")
    assert corpus.reports["resolved_at"].tolist() == [early, pd.Timestamp("2024-01-06", tz="UTC"), pd.NaT]
    # The second report has a date without a time, of the day on which it was created.
    assert "reports resolved before they were created: 1, kept (first: row 2)" in corpus.warnings
