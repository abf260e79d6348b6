import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.github import read_github
from gedbd.corpora.splits import TimeSplit
from gedbd.corpora.statistics import describe_corpus
from gedbd.sampling.pairs import PairSampler

ISSUES = Path(__file__).parent / "issues.json"
PREFIXES = ["area:", "component/"]


def issue(number: int, **more: object) -> dict:
    """One issue as REST has it."""
    home = "https://github.com/owner/repo"
    told = {"number": number, "title": f"title {number}", "body": "text", "state": "open", "labels": []}
    when = f"2024-01-{number:02}T00:00:00Z"
    return told | {"created_at": when, "updated_at": when, "html_url": f"{home}/issues/{number}"} | more


def said(*bodies: str, login: str = "ann") -> list[dict]:
    return [{"user": {"login": login}, "body": body} for body in bodies]


def read(folder: Path, value: object, **options: object) -> Corpus:
    path = folder / "tracker.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return read_github(None, str(path), component_labels=PREFIXES, **options)


def tied(corpus: Corpus) -> set[tuple[str, str, str]]:
    ids = corpus.reports["id"]
    return {(ids[link.query], ids[link.document], link.source) for link in corpus.links.table.itertuples()}


def test_a_newcomers_export_goes_to_pairs_in_every_part():
    corpus = read_github(None, str(ISSUES), component_labels=["area:"])
    numbers = describe_corpus(corpus)
    assert (numbers["reports"], numbers["groups"], numbers["in a group"]) == (60, 16, 39)
    assert (numbers["links: state reason"], numbers["links: comment"]) == (21, 3)
    assert corpus.reports["id"].iloc[[0, -1]].tolist() == ["3", "136"]
    assert corpus.reports["component"].iloc[0] == "calendar"
    assert corpus.warnings == (
        "issues without the field closedAt (whether a candidate was still open when a report came in): 60 (first: 136)",
        "issues that name a duplicate in another repository or project, dropped: 1 (first: 98)",
        "the export has no history, so titles and fields are those at export time (gh cannot export it; gedbd fetch"
        " tracker=github fetches it)",
    )
    pairs = PairSampler().sample(corpus, TimeSplit()).table
    assert pairs[pairs["label"] == 1]["part"].value_counts().to_dict() == {"test": 11, "train": 10, "val": 10}


def test_fields_that_an_export_lacks_are_named_with_their_purpose(tmp_path):
    command_line = {"number": 1, "title": "a", "body": "", "createdAt": "2024-01-01T00:00:00Z", "closedAt": None}
    command_line |= {"updatedAt": "2024-01-01T00:00:00Z", "url": "https://github.com/owner/repo/issues/1"}
    command_line |= {"state": "OPEN", "stateReason": ""}
    missing = [line for line in read(tmp_path, [command_line]).warnings if "without the field" in line]
    assert missing == [
        "issues without the field labels (components, and the label duplicate): 1 (first: 1)",
        "issues without the field comments (duplicates that people name): 1 (first: 1)",
    ]
    timeline = [{"event": "commented", "body": "Duplicate of #7", "created_at": "2024-01-02T00:00:00Z"}]
    rest = issue(1, closed_at=None, state_reason=None, timeline=timeline)
    assert not any("without the field" in line for line in read(tmp_path, [rest]).warnings)


def test_rest_list_without_pull_requests(tmp_path):
    pages = [issue(1), issue(2, pull_request={"url": "x"}), issue(3, body=None, labels=["area: map", {"name": "bug"}])]
    corpus = read(tmp_path, pages)
    assert corpus.reports["id"].tolist() == ["1", "3"]
    assert corpus.reports["component"].tolist() == ["", "map"]
    assert corpus.reports["description"].tolist() == ["text", ""]
    assert corpus.reports["created_at"].iloc[0] == pd.Timestamp("2024-01-01", tz="UTC")
    assert "pull requests among the issues: 1, dropped" in corpus.warnings


def test_graphql_pages_of_nodes_and_of_edges(tmp_path):
    one = {
        "number": 1,
        "title": "a",
        "body": "",
        "createdAt": "2024-01-01T00:00:00Z",
        "url": "https://github.com/o/r/issues/1",
    }
    events = {
        "nodes": [
            {
                "__typename": "MarkedAsDuplicateEvent",
                "createdAt": "2024-01-03T00:00:00Z",
                "canonical": {"number": 1, "url": "https://github.com/o/r/issues/1"},
                "duplicate": {"number": 2, "url": "https://github.com/o/r/issues/2"},
            },
            {
                "__typename": "RenamedTitleEvent",
                "createdAt": "2024-01-04T00:00:00Z",
                "previousTitle": "old",
                "currentTitle": "new",
            },
        ]
    }
    two = one | {"number": 2, "title": "new", "url": "https://github.com/o/r/issues/2", "timelineItems": events}
    three = one | {"number": 3, "duplicateOf": {"number": 2, "url": "https://github.com/o/r/issues/2"}}
    three |= {"url": "https://github.com/o/r/issues/3", "stateReason": "DUPLICATE", "state": "CLOSED"}
    nodes = {"data": {"repository": {"issues": {"nodes": [one, two], "pageInfo": {"hasNextPage": True}}}}}
    edges = {"data": {"repository": {"issues": {"edges": [{"node": three}]}}}}
    corpus = read(tmp_path, json.dumps(nodes) + "\n" + json.dumps(edges))
    assert tied(corpus) == {("2", "1", "timeline event"), ("3", "2", "state reason")}
    assert corpus.reports["title"].tolist() == ["a", "old", "a"]


def test_every_link_keeps_its_source_and_groups_follow(tmp_path):
    closed = {"state": "closed", "state_reason": "duplicate"}
    corpus = read(
        tmp_path,
        [
            issue(1),
            issue(2, comments=said("Duplicate of #1")),
            issue(3, comments=said("Possible duplicate of #1")),
            issue(4, comments=said("Possible duplicate of #2"), **closed),
            issue(5, comments=said("Duplicate of #1", login="helper[bot]")),
            issue(6, comments=said("Duplicate of #1", "Sorry, it is not a duplicate of #1")),
            issue(7, **closed),
            issue(8, state="closed", labels=["status: duplicate"], comments=said("Looks like a dup of #7")),
            issue(9, state="closed", labels=["possible duplicate"], comments=said("Looks like a dup of #7")),
            issue(10, comments=said("Duplicate of #99")),
        ],
    )
    assert tied(corpus) == {("2", "1", "comment"), ("4", "2", "state reason"), ("8", "7", "comment")}
    assert corpus.group.tolist() == [0, 0, 2, 0, 4, 5, 6, 6, 8, 9]
    assert "issues closed as duplicates, the original not recognised: 1 (first: 7)" in corpus.warnings
    assert any("not in the file: 1, dropped" in warning for warning in corpus.warnings)


def test_a_mark_that_was_taken_back_is_none(tmp_path):
    marked = {"event": "marked_as_duplicate", "created_at": "2024-02-01T00:00:00Z"}
    ends = {"canonical": {"number": 1, "html_url": "https://github.com/owner/repo/issues/1"}}
    timeline = [marked | ends, marked | ends | {"event": "unmarked_as_duplicate"}]
    assert tied(read(tmp_path, [issue(1), issue(2, timeline=timeline)])) == set()


def test_a_mark_of_another_repository_is_dropped_and_counted(tmp_path):
    far = {"number": 1, "html_url": "https://github.com/owner/other/issues/1"}
    corpus = read(tmp_path, [issue(1), issue(2, duplicate_of=far), issue(3, duplicate_of={"number": 1})])
    assert tied(corpus) == {("3", "1", "state reason")}
    assert any(warning.endswith("project, dropped: 1 (first: 2)") for warning in corpus.warnings)


def test_titles_components_and_states_are_those_at_creation(tmp_path):
    def event(kind: str, when: str, **more: object) -> dict:
        return {"event": kind, "created_at": when, **more}

    timeline = [
        event("labeled", "2024-01-01T00:00:02Z", label={"name": "area: map"}),
        event("renamed", "2024-01-02T00:00:00Z", rename={"from": "it brakes", "to": "Map is slow"}),
        event("renamed", "2024-01-03T00:00:00Z", rename={"from": "Map is slow", "to": "Map is slow on zoom"}),
        event("unlabeled", "2024-01-04T00:00:00Z", label={"name": "area: map"}),
        event("labeled", "2024-01-04T00:00:01Z", label={"name": "area: zoom"}),
        event("closed", "2024-01-05T00:00:00Z"),
        event("commented", "2024-01-06T00:00:00Z", body="Duplicate of #2", user={"login": "ann"}),
    ]
    today = {"title": "Map is slow on zoom", "state": "closed", "state_reason": "completed", "labels": ["area: zoom"]}
    pages = [issue(1, timeline=timeline, **today), issue(2)]
    fields = ["title", "component", "status", "resolution"]
    created, present = read(tmp_path, pages), read(tmp_path, pages, as_created=False)
    assert created.reports[fields].iloc[0].tolist() == ["it brakes", "map", "open", ""]
    assert present.reports[fields].iloc[0].tolist() == ["Map is slow on zoom", "zoom", "closed", "completed"]
    assert tied(created) == {("1", "2", "comment")}
    assert "issues with title or fields reset to those at creation: 1" in created.warnings
    assert "issues without a history: 1, used as exported" in created.warnings
    assert not any("history" in warning for warning in present.warnings)


def test_a_folder_of_pages_that_overlap(tmp_path):
    old, new = issue(2, title="old"), issue(2, title="new", updated_at="2024-03-01T00:00:00Z")
    with gzip.open(tmp_path / "page-1.json.gz", "wt") as page:
        json.dump([issue(1), new], page)
    (tmp_path / "page-2.jsonl").write_text(f"{json.dumps(old)}\n{json.dumps(issue(3))}\n")
    (tmp_path / "page-3.json").write_text("[]")
    (tmp_path / "README.txt").write_text("pages")
    corpus = read_github("mine", str(tmp_path))
    assert corpus.reports["title"].tolist() == ["title 1", "new", "title 3"]
    assert "issues that occur on several pages: 1, only the most recently updated record is used" in corpus.warnings
    assert f"other files in {tmp_path.name}: 1, ignored (first: README.txt)" in corpus.warnings
    assert corpus.image_dir == tmp_path


def test_concatenated_lists_utf16_and_halves_of_characters(tmp_path):
    path = tmp_path / "issues.json"
    path.write_bytes((json.dumps([issue(1)]) + json.dumps([issue(2, title="a \ud83d b")])).encode("utf-16"))
    corpus = read_github(None, str(path))
    assert corpus.reports["title"].tolist() == ["title 1", "a \ufffd b"]
    assert corpus.name == tmp_path.name
    assert len(corpus.fingerprint) == 32


def test_comments_that_are_only_counted_are_remarked_on(tmp_path):
    warnings = read(tmp_path, [issue(1, comments=4), issue(2, comments=0)]).warnings
    assert any(warning.startswith("issues whose comments are counted but not exported") for warning in warnings)


def test_the_newest_keep_their_links(tmp_path):
    pages = [issue(1), issue(2, comments=said("Duplicate of #1")), issue(3), issue(4, comments=said("Duplicate of #3"))]
    corpus = read(tmp_path, pages, last_n=3)
    assert tied(corpus) == {("4", "3", "comment")}
    assert corpus.group.tolist() == [0, 1, 1]
    assert np.array_equal(corpus.links.pairs.T, [[2, 1]])


REFUSED = {
    "[": r"tracker.json, line 1, column 2: the file ends in the middle of a record",
    '[{"number": 1, "title": "a': r"line 1, column \d+: the file ends in the middle of a record",
    '[{"number": 1,\n "title": oops}]': r"tracker.json, line 2, column 11: not readable as JSON",
    "<html></html>": r"line 1, column 1: this is a web page or XML, not JSON",
    "": r"tracker.json: no issue in the export; at least one is needed",
    "[]": r"no issue in the export",
    "[" * 100_000: r"tracker.json: not readable as JSON",
    "7": r"tracker.json, record 1: '7' is not an issue; a JSON object is expected",
    '["a"]': r"record 1: 'a' is not an issue",
    '{"message": "Bad credentials", "status": "401"}': r"an error message of the server, 'Bad credentials'",
    '{"errors": [{"message": "rate limit"}], "data": null}': r"an error message of the server, 'rate limit'",
    '{"a": 1}': r"the object has no list of issues; its keys are a",
    '{"data": {"repository": null}}': r"the object has no list of issues; its keys are repository",
}


@pytest.mark.parametrize(("content", "message"), REFUSED.items(), ids=range(len(REFUSED)))
def test_what_is_no_export_is_refused(tmp_path, content, message):
    with pytest.raises(ValueError, match=message) as raised:
        read(tmp_path, content)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"number": None}, "the issue has no 'number'"),
        ({"number": "x"}, "'number' is 'x'; expected: a whole number"),
        ({"number": True}, "'number' is True; expected: a whole number"),
        ({"title": 5}, "'title' is 5; expected: text"),
        ({"body": ["a"]}, "'body' is a list; expected: text"),
        ({"labels": [5]}, "'name' is 5; expected: text"),
        ({"comments": "a"}, "'comments' is 'a'; expected: a list"),
        ({"comments": ["a"]}, "'comments' is 'a'; expected: a list of objects"),
        ({"created_at": "yesterday"}, "'created_at': unreadable date 'yesterday'"),
        ({"timeline": [{"event": "renamed", "created_at": "?"}]}, "'created_at': unreadable date"),
        (
            {"html_url": "https://github.com/owner/other/issues/2"},
            "the issue belongs to github.com/owner/other, the others to",
        ),
    ],
)
def test_a_bad_record_is_named(tmp_path, more, message):
    with pytest.raises(ValueError, match=message) as raised:
        read(tmp_path, [issue(1), issue(2) | more])
    assert str(raised.value).startswith(f"{tmp_path / 'tracker.json'}, record 2: ")


def test_a_record_nested_without_end_is_refused(tmp_path):
    nested = "[" * 100_000 + "]" * 100_000
    with pytest.raises(ValueError, match=r"(record 1: lists and objects are nested too deeply|not readable as JSON)"):
        read(tmp_path, f'[{{"number": 1, "title": "a", "more": {nested}}}]')


def test_a_record_without_a_title_says_how_to_ask_for_it(tmp_path):
    with pytest.raises(ValueError, match="record 1: the issue has no 'title'; gh issue list --json needs"):
        read(tmp_path, [{"number": 1}])


def test_exports_of_other_trackers_are_recognised(tmp_path):
    others = {
        "gitlab": [{"iid": 1, "title": "a"}],
        "jira": {"issues": [{"key": "A-1", "fields": {}}]},
        "bugzilla": {"bugs": [{"id": 1, "summary": "a"}]},
    }
    for tracker, value in others.items():
        with pytest.raises(ValueError, match=f"record 1: this looks like a {tracker} export: set dataset={tracker}"):
            read(tmp_path, value)


def test_only_pull_requests(tmp_path):
    with pytest.raises(ValueError, match="no issue in the export, only 1 pull requests"):
        read(tmp_path, [issue(1, pull_request={"url": "x"})])


def test_paths_that_lead_nowhere(tmp_path):
    with pytest.raises(ValueError, match=r"none.json: no such file or folder; set dataset.path="):
        read_github(None, str(tmp_path / "none.json"))
    with pytest.raises(ValueError, match=r"the folder holds no file ending in .json, .jsonl, .ndjson"):
        read_github(None, str(tmp_path))
    (tmp_path / "issues.csv").write_text("a")
    with pytest.raises(ValueError, match=r"issues.csv: its name must end in .json"):
        read_github(None, str(tmp_path / "issues.csv"))
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b"[" + b" " * 9_000)[:-20])
    with pytest.raises(ValueError, match=r"cut.json.gz: the archive is damaged"):
        read_github(None, str(tmp_path / "cut.json.gz"))
    (tmp_path / "odd.json").write_bytes(b'[{"number": 1, "title": "\xe9"}]')
    with pytest.raises(ValueError, match=r"odd.json: byte 25 is not valid UTF-8"):
        read_github(None, str(tmp_path / "odd.json"))


def test_the_page_of_an_issue_is_its_link(tmp_path):
    api, page = "https://api.github.com/repos/owner/repo/issues/{}", "https://github.com/owner/repo/issues/{}"
    issues = [
        issue(1, url=api.format(1)),
        issue(2, html_url=None, url=page.format(2)),
        issue(3, html_url=None, url=api.format(3)),
        issue(4, html_url="javascript:alert(1)"),
        issue(5, html_url=None, url="https://ghe.example.org/api/v3/repos/owner/repo/issues/5"),
    ]
    corpus = read(tmp_path, issues)
    assert corpus.reports["url"].tolist() == [page.format(1), page.format(2), "", "", ""]
    assert any(warning.startswith("addresses of reports that are not http or https: 1,") for warning in corpus.warnings)
    filled = read(tmp_path, issues, url_template="https://mirror.example.org/{issue_id}")
    assert filled.reports["url"].iloc[[0, 2]].tolist() == [page.format(1), "https://mirror.example.org/3"]


def test_dates_of_resolution(tmp_path):
    closed = {"state": "closed"}
    issues = [
        issue(1, closed_at="2024-02-01T12:00:00Z", **closed),
        issue(2, closed_at=None),
        issue(3),
        issue(4, closed_at="0001-01-01T00:00:00Z", **closed),
        issue(5, closed_at="2024-01-04T23:00:00Z", **closed),
    ]
    corpus = read(tmp_path, issues)
    first, early = pd.Timestamp("2024-02-01 12:00", tz="UTC"), pd.Timestamp("2024-01-04 23:00", tz="UTC")
    assert corpus.reports["resolved_at"].tolist() == [first, pd.NaT, pd.NaT, pd.NaT, early]
    outside = "dates outside the years 1970 to 2200: 1, treated as missing (first: "
    assert f"{outside}{tmp_path / 'tracker.json'}, record 4, 'closed_at')" in corpus.warnings
    assert "reports resolved before they were created: 1, kept (first: row 5)" in corpus.warnings
    command_line = {"number": 6, "title": "a", "createdAt": "2024-01-06T00:00:00Z", "closedAt": "2024-01-07T00:00:00Z"}
    corpus = read(tmp_path, [command_line])
    assert corpus.reports["resolved_at"].tolist() == [pd.Timestamp("2024-01-07", tz="UTC")]
    assert "resolved_at" not in read(tmp_path, [issue(1, **closed)]).reports
    with pytest.raises(ValueError, match="record 1: 'closed_at': unreadable date 'soon'"):
        read(tmp_path, [issue(1, closed_at="soon")])
