"""The files of a tracker's newest open reports, which ``gedbd index repo=`` keeps beside an index."""

import json
from pathlib import Path

import pandas as pd
import pytest
from filelock import FileLock
from run_commands import commands_in
from small_repository import NAMES, make_repository, write_reports

from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.service.forgetting import forget_reports
from gedbd.triage.storage.index_folder import LOCATED, LOCK

pytestmark = pytest.mark.integration

NUM_BUGS = 6


@pytest.fixture
def update(tmp_path, monkeypatch):
    """Brings an index of six bugs and three wishes up to date, some cells changed; gives the lines that it prints."""
    make_repository(tmp_path / "repo", NUM_BUGS)
    write_reports(tmp_path / "issues.csv", NUM_BUGS)
    reports = pd.read_csv(tmp_path / "issues.csv", dtype=str, keep_default_na=False).assign(Status="NEW")
    reports = reports.set_index("Issue_id", drop=False)

    with commands_in(tmp_path) as command:

        def through(*options, **cells):
            for one, (column, value) in cells.items():
                reports.loc[one.removeprefix("of_"), column] = value
            reports.to_csv("issues.csv", index=False)
            told = command("index", "dataset.path=issues.csv", "out=mine", "encoder=tiny", "repo=repo", *options)
            lines = told.splitlines()
            return lines[[line.startswith("mine/") for line in lines].index(True) : -1]

        yield through


def stored(folder):
    return [json.loads(line) for line in (folder / "mine" / LOCATED).read_text().splitlines()]


def ids(folder):
    return [line["query"]["issue_id"] for line in stored(folder)]


def test_the_newest_open_reports_have_their_files(update, tmp_path):
    told = update("max_located=3", of_5=("Status", "CLOSED"))
    assert told[0] == "mine/located.jsonl: 3 located, 0 kept, 5 older ones left out by max_located=3"
    assert told[1].startswith(f"  6 {NAMES[5]}: the last line is lost: src/{NAMES[5]}Reader.java, src/")
    assert ids(tmp_path) == ["6", "4", "902"]  # a bug every 30 days, and a wish a day after each of the first three
    of_bug = stored(tmp_path)[0]
    assert of_bug["files"][0]["path"] == f"src/{NAMES[5]}Reader.java"
    assert of_bug["num_ranked"] == 3 * 5 + 2  # those before the report
    assert {place["path"] for place in of_bug["files"][0]["places"]} == {f"src/{NAMES[5]}Reader.java"}


def test_a_report_is_located_once_unless_its_text_or_the_ranker_changes(update, tmp_path, monkeypatch):
    assert update()[0] == "mine/located.jsonl: 9 located, 0 kept"
    first = stored(tmp_path)
    assert update() == ["mine/located.jsonl: 0 located, 9 kept"]
    assert update(of_6=("Priority", "high"), of_4=("Status", "CLOSED")) == ["mine/located.jsonl: 0 located, 8 kept"]
    assert stored(tmp_path) == [line for line in first if line["query"]["issue_id"] != "4"]
    told = update(of_6=("Title", f"{NAMES[0]}Reader is slow"))
    assert told[0] == "mine/located.jsonl: 1 located, 7 kept"
    assert told[1].startswith(f"  6 {NAMES[0]}Reader is slow: src/")
    assert update("revision='main~1'")[0] == "mine/located.jsonl: 8 located, 0 kept"


def test_a_damaged_line_is_located_again_and_a_report_is_forgotten(update, tmp_path):
    update()
    file = tmp_path / "mine" / LOCATED
    whole = file.read_text()
    lines = whole.splitlines()
    file.write_text("\n".join([lines[0], lines[1][:40], "[1]", '{"made_from": 1}', *lines[2:]]))
    assert update()[0] == "mine/located.jsonl: 1 located, 8 kept"
    assert file.read_text() == whole
    folder = tmp_path / "mine"
    with FileLock(folder / LOCK), pytest.raises(StoreUnavailable, match="the index is updated"):
        forget_reports(folder, ["6"])
    assert forget_reports(folder, ["6"]) == []
    assert "6" not in ids(tmp_path)
    assert len(ids(tmp_path)) == 8


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["repo=issues.csv"], "issues.csv: this is a file; give the folder of a repository"),
        (["repo=nowhere"], "nowhere"),
        (["revision=nowhere"], "revision nowhere is not a commit"),
        (["repo=null", "locate_run=repo"], "locate_run=repo needs a repository: add repo=PATH"),
        (["locate_run=repo"], "repo has no ranker.json"),
        (["max_located=0"], "max_located=0 must be a whole number of at least 1"),
        (["out=null", "store=postgresql://a@b/c"], "give out= instead of store="),
    ],
)
def test_a_mistake_gives_one_line_before_reports_are_stored(update, options, message):
    with pytest.raises(SystemExit, match=message) as stopped:
        update(*options)
    assert "\n" not in str(stopped.value)
    assert not Path("mine").exists()
