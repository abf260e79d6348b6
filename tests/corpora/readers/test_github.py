import gzip
import json
from pathlib import Path

import pytest
from tracker_records import github, read, tied

from gedbd.corpora.readers.github import read_github
from gedbd.corpora.statistics import describe_corpus
from gedbd.sampling.pairs import PairSampler
from gedbd.sampling.splits import TimeSplit

ISSUES = Path(__file__).parent / "issues.json"


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
    missing = [line for line in read("github", tmp_path, [command_line]).warnings if "without the field" in line]
    assert missing == [
        "issues without the field labels (components, and the label duplicate): 1 (first: 1)",
        "issues without the field comments (duplicates that people name): 1 (first: 1)",
    ]
    timeline = [{"event": "commented", "body": "Duplicate of #7", "created_at": "2024-01-02T00:00:00Z"}]
    rest = github(1, closed_at=None, state_reason=None, timeline=timeline)
    assert not any("without the field" in line for line in read("github", tmp_path, [rest]).warnings)


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
    corpus = read("github", tmp_path, json.dumps(nodes) + "\n" + json.dumps(edges))
    assert tied(corpus) == {("2", "1", "timeline event"), ("3", "2", "state reason")}
    assert corpus.reports["title"].tolist() == ["a", "old", "a"]


def test_a_mark_that_was_taken_back_is_none(tmp_path):
    marked = {"event": "marked_as_duplicate", "created_at": "2024-02-01T00:00:00Z"}
    ends = {"canonical": {"number": 1, "html_url": "https://github.com/owner/repo/issues/1"}}
    timeline = [marked | ends, marked | ends | {"event": "unmarked_as_duplicate"}]
    assert tied(read("github", tmp_path, [github(1), github(2, timeline=timeline)])) == set()


def test_a_mark_of_another_repository_is_dropped_and_counted(tmp_path):
    far = {"number": 1, "html_url": "https://github.com/owner/other/issues/1"}
    corpus = read("github", tmp_path, [github(1), github(2, duplicate_of=far), github(3, duplicate_of={"number": 1})])
    assert tied(corpus) == {("3", "1", "state reason")}
    assert any(warning.endswith("project, dropped: 1 (first: 2)") for warning in corpus.warnings)


def test_a_folder_of_pages_that_overlap(tmp_path):
    old, new = github(2, title="old"), github(2, title="new", updated_at="2024-03-01T00:00:00Z")
    with gzip.open(tmp_path / "page-1.json.gz", "wt") as page:
        json.dump([github(1), new], page)
    (tmp_path / "page-2.jsonl").write_text(f"{json.dumps(old)}\n{json.dumps(github(3))}\n")
    (tmp_path / "page-3.json").write_text(json.dumps([github(3, title="of the last page")]))
    (tmp_path / "page-4.json").write_text("[]")
    (tmp_path / "README.txt").write_text("pages")
    corpus = read_github("mine", str(tmp_path))
    assert corpus.reports["title"].tolist() == ["title 1", "new", "of the last page"]
    assert "issues that occur on several pages: 2, only the most recently updated record is used" in corpus.warnings
    assert f"other files in {tmp_path.name}: 1, ignored (first: README.txt)" in corpus.warnings
    assert corpus.image_dir == tmp_path


def test_concatenated_lists_utf16_and_halves_of_characters(tmp_path):
    path = tmp_path / "issues.json"
    path.write_bytes((json.dumps([github(1)]) + json.dumps([github(2, title="a \ud83d b")])).encode("utf-16"))
    corpus = read_github(None, str(path))
    assert corpus.reports["title"].tolist() == ["title 1", "a \ufffd b"]
    assert corpus.name == tmp_path.name
    assert len(corpus.fingerprint) == 32


def test_paths_that_lead_nowhere(tmp_path):
    with pytest.raises(ValueError, match=r"none.json: no such file or folder; set dataset.path="):
        read_github(None, str(tmp_path / "none.json"))
    with pytest.raises(ValueError, match=r"the folder holds no file ending in .json, .jsonl, .ndjson"):
        read_github(None, str(tmp_path))
    (tmp_path / "issues.csv").write_text("id,title\n")
    with pytest.raises(ValueError, match=r"issues.csv: this looks like a table, read by dataset=csv: set it$"):
        read_github(None, str(tmp_path / "issues.csv"))
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b"[" + b" " * 9_000)[:-20])
    with pytest.raises(ValueError, match=r"cut.json.gz: the archive is damaged"):
        read_github(None, str(tmp_path / "cut.json.gz"))
    (tmp_path / "odd.json").write_bytes(b'[{"number": 1, "title": "\xe9"}]')
    with pytest.raises(ValueError, match=r"odd.json: byte 25 is not valid UTF-8"):
        read_github(None, str(tmp_path / "odd.json"))
