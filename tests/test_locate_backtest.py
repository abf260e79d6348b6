"""The command that measures on a tracker's own history how often the inducing commit is found."""

import json
import re

import pandas as pd
import pytest
from run_commands import commands_in
from small_repository import make_repository, write_published, write_reports

from gedbd.retrieval.changes.change_ranker import ChangeRanker
from gedbd.triage.locating.backtesting.locating_tables import read_hit_rate


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a repository, ``repo``, and the reports of its tracker, ``issues.csv``."""
    folder = tmp_path_factory.mktemp("tracker")
    commits = make_repository(folder / "repo")
    write_reports(folder / "issues.csv")
    write_published(folder / "demo.xml", commits)
    return folder


@pytest.fixture
def run(place, tmp_path):
    """Runs the command in the folder, and gives the run folder and what it printed."""
    with commands_in(place) as command:
        yield lambda *options: (tmp_path, command("locate-backtest", *options, f"hydra.run.dir={tmp_path}"))


def test_a_backtest_leaves_a_ranker_its_figure_and_a_page(run):
    folder, told = run("repo=repo", "dataset=csv", "dataset.path=issues.csv")
    found = read_hit_rate(folder)
    # 24 bugs, of which the newer 12 are replayed; each report names a class that three commits concern
    assert (found.reports, found.hits, found.share, found.learnt) == (12, 12, 1.0, True)
    assert (found.first, found.last) == ("2021-12-30", "2022-11-25")
    assert found.status == "met"
    assert found.statement in told
    assert "3 of 27 reports have no such commit and cannot be tested" in told
    ChangeRanker.from_text((folder / "ranker.json").read_text())
    metrics = pd.read_csv(folder / "metrics.csv").set_index("system")
    assert metrics.index.tolist() == ["learnt ranker", "default ranker", "BM25 over diffs", "number of changed files"]
    # All commits change one file, and of equal scores the newer commit comes first: the inducing one is the newest.
    assert metrics.loc["number of changed files", "hit@1"] == 1.0
    counts = pd.read_csv(folder / "counts.csv").set_index("what")["number"]
    assert counts["reports"] == 27
    assert counts["fixed by a commit"] == counts["with an inducing commit before them"] == 24
    assert (counts["learnt from to measure"], counts["tested"]) == (12, 12)
    page = (folder / "report.html").read_text()
    assert "gedbd locate-backtest repo=repo dataset=csv" in page
    assert 'href="https://bugs.example.org/24"' in page
    assert json.loads((folder / "own_page.json").read_text())["summary"] == found.statement


def test_a_published_data_set_gives_the_same_figure(run, capsys):
    folder, _ = run("repo=repo", "dataset=bug_localization", "dataset.path=demo.xml")
    found = read_hit_rate(folder)
    assert (found.reports, found.hits, found.learnt) == (12, 12, True)
    assert "dropped" not in capsys.readouterr().err


def test_few_reports_teach_nothing(run, capsys, same_rows):
    folder, told = run("repo=repo", "dataset.path=issues.csv", "min_reports=25", "json=true")
    found = read_hit_rate(folder)
    assert (found.reports, found.learnt) == (24, False)
    assert "The 24 reports with an earlier inducing commit are too few to learn from" in capsys.readouterr().err
    document = json.loads(told)
    assert document["statement"] == found.statement
    for name in ("metrics", "differences", "years", "counts"):
        same_rows(document[name], folder / f"{name}.csv")
    assert pd.read_csv(folder / "metrics.csv")["system"][0] == "default ranker"


@pytest.mark.slow
def test_a_history_with_its_reports_needs_no_repo(run):
    reports = ("dataset@dataset.reports=csv", "dataset.reports.path=issues.csv")
    folder, _ = run("dataset=git", "dataset.path=repo", *reports, "min_reports=25", "max_replayed=3", "target=0.9")
    found = read_hit_rate(folder)
    assert (found.reports, found.target, found.status) == (3, 0.9, "inconclusive")


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("dataset=csv", "no reports given: set repo=. dataset=csv dataset.path=issues.csv"),
        ("dataset.path=issues.csv", "reports without a repository: add repo=. or repo=PATH"),
        ("repo=repo dataset.path=none.csv", "none.csv"),
        ("repo=issues.csv dataset.path=issues.csv", "issues.csv"),
        ("repo=repo dataset=git dataset.path=repo", "dataset= must be the reports of a tracker"),
        ("dataset=git dataset.path=repo", "there are no reports with inducing commits"),
        ("repo=repo dataset.path=issues.csv target=1.5", "target=1.5 must be above 0 and below 1"),
        ("dataset.path=issues.csv fixes=fixes.csv", "fixes= needs a repository: add repo=."),
        ("repo=repo dataset.path=issues.csv suffixes=[.c]", "none of the 27 reports has an inducing commit before it"),
        ("repo=repo dataset.path=issues.csv fix_patterns=[xyz]", "fix_patterns"),
        ("repo=repo dataset.path=issues.csv dataset.columns.created_at=null", "reports without a date cannot be"),
    ],
)
def test_a_mistake_gives_one_line(run, place, options, message):
    with pytest.raises(SystemExit, match=f"^error: .*{re.escape(message)}") as stopped:
        run(*options.split())
    assert "\n" not in str(stopped.value)
