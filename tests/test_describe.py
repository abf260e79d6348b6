import shutil
from pathlib import Path

import numpy as np
import pytest
from git_repository import git
from hydra.utils import instantiate
from run_commands import composed

from gedbd.configuration.options import run_dir
from gedbd.io.files import corpus_name
from gedbd.triage.backtesting.measured_suggestions import enough_duplicates

pytestmark = pytest.mark.integration

PUBLISHED = ("eclipse", "thunderbird", "firefox", "jdt", "mozilla_core")
ISSUES = Path(__file__).parent / "corpora" / "readers" / "issues.json"


def lines_of(text: str) -> list[list[str]]:
    return [line.strip("│ ").replace("│", " ").split() for line in text.splitlines()]


def test_demo_is_described_from_any_folder_and_nothing_is_written(tmp_path, run_command):
    printed = lines_of(run_command("describe", "dataset=demo"))
    assert ["reports", "425"] in printed
    assert ["pairs", "269"] in printed
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SystemExit, match=r"^error: none.csv: no such file.*dataset.path="):
        run_command("describe", "dataset=csv", "dataset.path=none.csv")


@pytest.mark.parametrize(
    ("count", "repeated", "line"),
    [
        (10, [], "0 of 10 reports repeat an earlier one (0.0%). Nothing can be measured"),
        (10, [7, 9], "2 of 10 reports repeat an earlier one (20.0%). The newest fifth of the reports holds 1"),
        (100, range(60, 100), "holds 20 of them, the fifth before it 20: enough for gedbd backtest"),
        (100, range(60, 69), "holds 0 of them, the fifth before it 9: too few"),
    ],
)
def test_the_last_line_says_what_can_be_measured(make_corpus, count, repeated, line):
    group = np.arange(count)
    group[list(repeated)] = 0
    assert line in enough_duplicates(make_corpus(group))


def test_labels_alone_are_described_and_said_to_be_alone(tmp_path, run_command):
    (tmp_path / "EclipsePlatform").mkdir()
    (tmp_path / "EclipsePlatform" / "train.csv").write_text("Issue_id,Duplicate\n1,2;3\n2,1;3\n3,1;2\n4,NULL\n")
    printed = run_command("describe", "dataset=eclipse", f"data_dir={tmp_path}")
    assert ["in", "a", "group", "3"] in lines_of(printed)
    assert ["pairs", "3"] in lines_of(printed)
    assert "eclipse train: eclipse_platform.zip is not in" in printed
    assert f"gedbd download dataset=eclipse data_dir={tmp_path}" in printed


def test_a_relative_path_gives_a_tracker_the_name_that_an_absolute_one_gives(tmp_path, run_command, monkeypatch):
    inside = tmp_path / "hedgerow" / "inside"
    inside.mkdir(parents=True)
    shutil.copy(ISSUES, inside.parent)
    (inside / "link.json").symlink_to(ISSUES)
    monkeypatch.chdir(inside)
    assert "\nhedgerow: " in run_command("describe", "dataset=github", "dataset.path=../issues.json")
    for path in ("../issues.json", "../inside/../issues.json", tmp_path / "hedgerow" / "issues.json", "..", "../.git"):
        assert corpus_name(Path(path)) == "hedgerow"
    assert [corpus_name(Path(path)) for path in (".", "bugs.csv", "link.json")] == ["inside", "inside", "link"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert corpus_name(Path("~/hedgerow/bugs.csv")) == "hedgerow"
    run = Path(run_dir(None, None, "../issues.json", "backtest"))
    assert run.parent == Path("outputs", "hedgerow", "backtest")


def test_an_export_of_a_tracker_shows_where_links_come_from_and_what_rows_count(run_command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    printed = run_command("describe", "dataset=github", f"dataset.path={ISSUES}", "dataset.name=hedgerow")
    assert ["links:", "state", "reason", "21"] in lines_of(printed)
    assert ["links:", "comment", "3"] in lines_of(printed)
    # With COLUMNS, lines break between words in a pipe too.
    assert max(map(len, printed.splitlines())) <= 60
    text = " ".join(printed.split())
    assert "hedgerow: the export has no history, so titles and fields are those at export time (gh cannot" in text
    missing = "issues without the field closedAt (whether a candidate was still open when a report came in): 60"
    assert f"hedgerow: {missing} (first: 136)" in text
    assert "A group of three has 3 pairs, even if only 2 of them are linked." in text
    assert "labels: distinct names" in text


def test_a_history_of_changes_is_described_with_its_reports(tmp_path, run_command):
    git("init", "-q", tmp_path)
    name = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    git("-C", tmp_path, *name, "commit", "-q", "--allow-empty", "-m", "Fix bug 7")
    (tmp_path / "bugs.csv").write_text("Issue_id,Title\n7,It fails\n")
    reports = ["dataset@dataset.reports=csv", f"dataset.reports.path={tmp_path}/bugs.csv"]
    reports.append("dataset.reports.columns.duplicate=null")
    history = ["dataset=git", f"dataset.path={tmp_path}", "dataset.name='mine[/b]'", "dataset.cache_dir=null"]
    printed = run_command("describe", *history, *reports)
    assert ["commits", "1"] in lines_of(printed)
    assert ["reports", "with", "a", "fix", "1"] in lines_of(printed)
    assert "mine[/b]: fixes without inducing commits, no parent: 1" in printed


def test_notices_are_printed_as_they_stand(tmp_path, run_command):
    (tmp_path / "bugs.csv").write_text("Issue_id,Title,Duplicated_issue\n1,[b]ugs,[x]\n")
    printed = run_command("describe", "dataset=csv", "dataset.path=bugs.csv", "dataset.name=mine")
    assert (
        "mine: column 'Duplicated_issue' holds texts, not ids of reports, and is left out (first: row 2, '[x]')"
        in printed
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_datasets_ask_for_their_files(tmp_path, name):
    dataset = composed("describe", f"dataset={name}", f"data_dir={tmp_path}").dataset
    with pytest.raises(Exception, match=f"gedbd download dataset={name} data_dir={tmp_path}"):
        instantiate(dataset)
    assert dataset.rows.train + dataset.rows.test == dataset.rows.reports
