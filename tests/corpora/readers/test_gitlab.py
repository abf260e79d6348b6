import json
from pathlib import Path

import pandas as pd
import pytest

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.gitlab import read_gitlab


def issue(number: int, *notes: dict, **more: object) -> dict:
    home = {"project_id": 4, "web_url": f"https://gitlab.example.org/group/sub/project/-/issues/{number}"}
    when = {"created_at": f"2024-01-{number:02}T00:00:00.000Z", "updated_at": f"2024-01-{number:02}T00:00:00.000Z"}
    told = {"id": 100 + number, "iid": number, "title": f"title {number}", "description": "text", "state": "opened"}
    return told | home | when | ({"notes": list(notes)} if notes else {}) | more


def note(body: str, system: bool = True, username: str = "ann") -> dict:
    return {"body": body, "system": system, "created_at": "2024-02-01T00:00:00.000Z", "author": {"username": username}}


def read(folder: Path, issues: object, **options: object) -> Corpus:
    (folder / "tracker.json").write_text(json.dumps(issues))
    return read_gitlab(None, str(folder / "tracker.json"), component_labels=["component:"], **options)


def tied(corpus: Corpus) -> set[tuple[str, str, str]]:
    ids = corpus.reports["id"]
    return {(ids[link.query], ids[link.document], link.source) for link in corpus.links.table.itertuples()}


def test_links_notes_and_comments(tmp_path):
    mark = note("marked this issue as a duplicate of #1")
    api = "https://gitlab.example.org/api/v4/projects/{}/issues/1"
    corpus = read(
        tmp_path,
        [
            issue(1, labels=["bug", "component::map"]),
            issue(2, mark, state="closed"),
            issue(3, state="closed", _links={"closed_as_duplicate_of": api.format(4)}),
            issue(4, state="closed", _links={"closed_as_duplicate_of": api.format(5)}),
            issue(5, note("Duplicate of group/sub/project#1", system=False)),
            issue(6, note("Duplicate of project#1", system=False)),
            issue(7, note("Duplicate of group/other#1", system=False)),
            issue(8, note("Duplicate of #1", system=False, username="project_4_bot")),
            issue(9, mark, note("reopened")),
            issue(10, note("Possible duplicate of #1", system=False), mark, state="closed"),
        ],
    )
    assert tied(corpus) == {
        ("2", "1", "system note"),
        ("3", "1", "closed as duplicate"),
        ("5", "1", "comment"),
        ("6", "1", "comment"),
        ("10", "1", "system note"),
    }
    assert corpus.reports["component"].iloc[0] == "map"
    assert any("another repository or project, dropped: 2 (first: 4)" in warning for warning in corpus.warnings)


def test_titles_and_states_at_creation(tmp_path):
    renamed = note("changed title from **Map {-brok-} en** to **Map {+is slow wh+} en**")
    pages = [issue(1, renamed, note("closed"), title="Map is slow wh en", state="closed"), issue(2)]
    assert read(tmp_path, pages).reports[["title", "status"]].iloc[0].tolist() == ["Map brok en", "opened"]
    kept = read(tmp_path, pages, as_created=False)
    assert kept.reports[["title", "status"]].iloc[0].tolist() == ["Map is slow wh en", "closed"]


@pytest.mark.parametrize(
    ("issues", "message"),
    [
        ([issue(1), issue(2, iid=None)], "record 2: the issue has no 'iid'"),
        (
            [issue(1), issue(2, web_url="https://gitlab.example.org/a/b/-/issues/2")],
            "record 2: the issue belongs to .*a/b, the others",
        ),
        ([issue(1, notes={"a": 1})], "record 1: 'notes' is an object; expected: a list"),
        ({"message": "401 Unauthorized"}, "an error message of the server, '401 Unauthorized'"),
        ([{"number": 1, "title": "a"}], "record 1: this looks like a github export: set dataset=github"),
    ],
)
def test_bad_input(tmp_path, issues, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, issues)


def test_the_page_of_an_issue_is_its_link(tmp_path):
    page, template = "https://gitlab.example.org/group/sub/project/-/issues/1", "https://m.example.org/{issue_id}"
    assert read(tmp_path, [issue(1)], url_template=template).reports["url"].tolist() == [page]
    without = read(tmp_path, [issue(1, web_url=None)], url_template=template)
    assert without.reports["url"].tolist() == ["https://m.example.org/1"]


def test_dates_of_resolution(tmp_path):
    issues = [
        issue(1, state="closed", closed_at="2024-02-01T12:00:00.000Z"),
        issue(2, closed_at=None),
        issue(3, state="closed", closed_at="9999-12-31T00:00:00.000Z"),
        issue(4, state="closed", closed_at="2024-01-03T23:00:00.000Z"),
    ]
    corpus = read(tmp_path, issues)
    first, early = pd.Timestamp("2024-02-01 12:00", tz="UTC"), pd.Timestamp("2024-01-03 23:00", tz="UTC")
    assert corpus.reports["resolved_at"].tolist() == [first, pd.NaT, pd.NaT, early]
    outside = "dates outside the years 1970 to 2200: 1, treated as missing (first: "
    assert f"{outside}{tmp_path / 'tracker.json'}, record 3, 'closed_at')" in corpus.warnings
    assert "reports resolved before they were created: 1, kept (first: row 4)" in corpus.warnings
