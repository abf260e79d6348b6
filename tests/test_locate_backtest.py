"""The command that measures on a tracker's own history how often fixed files and inducing commits are found."""

import json
import re
from types import SimpleNamespace

import pandas as pd
import pytest
from refusals import mistakes
from run_commands import commands_in
from small_repository import NAMES, make_repository, write_reports

from gedbd.localization.change_ranking.change_ranker import ChangeRanker, default_ranker
from gedbd.localization.locating.tracker_ranker import TrackerRanker

pytestmark = pytest.mark.integration


def read_hit_rates(folder):
    """The hit rates of commits and of files, and their statements."""
    found = json.loads((folder / "hit_rate.json").read_text())
    files = found.pop("files")
    return SimpleNamespace(**found), SimpleNamespace(**files), f"{files['statement']} {found['statement']}"


WANTED = ("a file that the fix changed", "an inducing commit")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a repository, ``repo``, and the reports of its tracker, ``issues.csv``."""
    folder = tmp_path_factory.mktemp("tracker")
    make_repository(folder / "repo")
    write_reports(folder / "issues.csv")
    return folder


@pytest.fixture
def run(place, tmp_path):
    """Runs the command in the folder, and gives the run folder and what it printed."""
    with commands_in(place) as command:
        yield lambda *options: (tmp_path, command("locate-backtest", *options, f"hydra.run.dir={tmp_path}"))


def test_a_backtest_leaves_a_ranker_its_figure_and_a_page(run):
    folder, told = run("repo=repo", "dataset=csv", "dataset.path=issues.csv")
    found, files, statements = read_hit_rates(folder)
    # 24 bugs, of which the newer 12 are replayed; each report names a class that three commits concern
    assert (found.reports, found.hits, found.share, found.learnt) == (12, 12, 1.0, True)
    assert (found.first, found.last) == ("2021-12-30", "2022-11-25")
    assert found.status == "met"
    assert (files.reports, files.hits, files.learnt) == (12, 12, True)
    assert f"{files.statement} {found.statement}" in told
    tables = ("a file that the fix changed among the first k, 12 reports", "name a file", "an inducing commit among")
    assert sorted(tables, key=told.index) == list(tables)
    assert "3 of 27 reports have no such commit and cannot be tested" in told
    ChangeRanker.from_text((folder / "ranker.json").read_text())
    metrics = pd.read_csv(folder / "metrics.csv").set_index("system")
    assert metrics.index.tolist() == ["learnt ranker", "default ranker", "BM25 over diffs", "number of changed files"]
    # All commits change one file, and of equal scores the newer commit comes first: the inducing one is the newest.
    assert metrics.loc["number of changed files", "hit@1"] == 1.0
    of_files = pd.read_csv(folder / "files_metrics.csv").set_index("system")
    others = ["BM25 over changes", "last changed", "another report's text"]
    assert of_files.index.tolist() == ["learnt ranker", "default ranker", *others]
    # Module n was changed last when report n was created, and its report names it.
    assert of_files.loc["learnt ranker", "map"] == of_files.loc["last changed", "mrr"] == 1.0
    named = pd.read_csv(folder / "files_named.csv")
    assert named["reports that"].tolist() == ["name a file"] * 5
    assert len(pd.read_parquet(folder / "files_replayed.parquet")) == 5 * 12
    counts = pd.read_csv(folder / "counts.csv").set_index("what")["number"]
    assert counts["reports"] == 27
    assert counts["fixed by a commit"] == counts["with an inducing commit before them"] == 24
    assert (counts["older, used for training"], counts["tested"]) == (12, 12)
    page = (folder / "report.html").read_text()
    assert "gedbd locate-backtest repo=repo dataset=csv" in page
    assert 'href="https://bugs.example.org/24"' in page
    assert json.loads((folder / "own_page.json").read_text())["summary"] == statements
    headings = [line for line in (folder / "report.md").read_text().splitlines() if line.startswith("## ")]
    assert [headings.index(f"## How often is {what} among the first?") for what in WANTED] == [0, 5]


def test_few_reports_teach_nothing(run, capsys, same_rows):
    folder, told = run("repo=repo", "dataset.path=issues.csv", "min_reports=25", "json=true")
    found, _, statements = read_hit_rates(folder)
    assert (found.reports, found.learnt) == (24, False)
    assert "The 24 reports with an earlier inducing commit are too few to learn from" in capsys.readouterr().err
    document = json.loads(told)
    assert document["statement"] == statements
    names = ("metrics", "differences", "years", "counts", "curve")
    for name in (*names, *(f"files_{name}" for name in names), "files_named"):
        same_rows(document[name], folder / f"{name}.csv")
    assert pd.read_csv(folder / "metrics.csv")["system"][0] == "default ranker"


def test_data_that_names_files_only_is_measured_on_files(run, place):
    fixes = [f"{number},src/{name}Reader.java" for number, name in enumerate(NAMES, start=1)]
    (place / "files.csv").write_text("\n".join(["bug_id,path", *fixes, ""]))
    folder, told = run("repo=repo", "dataset.path=issues.csv", "fixes=files.csv")
    found, files, statements = read_hit_rates(folder)
    assert (found.share, files.reports, files.hits, files.learnt) == (None, 12, 12, True)
    assert "there was no report with an earlier inducing commit to test" in told
    ranker = TrackerRanker.read(folder)
    assert ranker.statement == statements
    assert ranker.ranker.commits.as_dict() == default_ranker().commits.as_dict()
    assert ranker.ranker.files.as_dict() != default_ranker().files.as_dict()
    assert not (folder / "metrics.csv").exists()
    assert "How often is an inducing commit" not in (folder / "report.md").read_text()


@pytest.mark.slow
def test_a_history_with_its_reports_needs_no_repo(run):
    reports = ("dataset@dataset.reports=csv", "dataset.reports.path=issues.csv")
    folder, _ = run("dataset=git", "dataset.path=repo", *reports, "min_reports=25", "max_replayed=3", "target=0.9")
    found, _, _ = read_hit_rates(folder)
    assert (found.reports, found.target, found.status) == (3, 0.9, "inconclusive")


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(("options", "message"), mistakes("locate-backtest"))
def test_a_mistake_gives_one_line(run, place, options, message):
    (place / "new.csv").write_text(f"bug_id,path\n1,src/{NAMES[5]}Reader.java\n")  # which is added later
    with pytest.raises(SystemExit, match=f"^error: .*{re.escape(message)}") as stopped:
        run(*options.split())
    assert "\n" not in str(stopped.value)
