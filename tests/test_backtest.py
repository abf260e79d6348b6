"""The command that measures suggestions on a tracker's history."""

import json

import pandas as pd
import pytest
from refusals import mistakes
from run_commands import commands_in

from gedbd.io.command_output import json_output
from gedbd.triage.backtesting.backtest_run import record_backtest
from gedbd.triage.backtesting.measured_suggestions import Backtest, read_suggestions, tables_of
from gedbd.triage.triage_model import TriageModel

pytestmark = pytest.mark.integration

TEMPLATE = "dataset.url_template='https://bugs.example.org/show_bug.cgi?id={issue_id}'"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a backtest with addresses that fills a table into a file, and what it printed; only read."""
    home = tmp_path_factory.mktemp("finished")
    (home / "numbers.md").write_text("Before.\n<!-- backtest: demo -->\nold\n<!-- end -->\nAfter.\n")
    options = ["dataset=demo", "encoder=tiny", "target_precision=0.3", "fill=numbers.md", TEMPLATE]
    with commands_in(home) as command:
        return home / "out", command("backtest", *options, "hydra.run.dir=out")


def test_the_tables_as_json(finished, capsys, same_rows):
    folder, _ = finished
    val, test, corpus = read_suggestions(folder, "demo")
    matching = TriageModel.from_json((folder / "matching.json").read_text(), "here")
    threshold = matching.target.threshold
    kept = {name: pd.read_csv(folder / f"{name}.csv") for name in ("targets", "lists")}
    tables = kept | tables_of(test, corpus, threshold, 50)
    with json_output(True):
        record_backtest(folder, "demo", folder / "report.html", Backtest(matching, pd.DataFrame(), val, test, tables))
    document = json.loads(capsys.readouterr().out)
    assert {"folder", "corpus", "page", "target", "calibration_error", "targets", "wrong", "right"} <= set(document)
    assert document["target"]["statement"] == matching.target.statement
    for name in ("targets", "thresholds", "reliability"):
        same_rows(document[name], folder / f"{name}.csv")


def test_a_backtest_leaves_tables_and_a_page(finished):
    folder, told = finished
    matching = TriageModel.from_json((folder / "matching.json").read_text(), "here")
    assert (matching.target_precision, len(matching.targets)) == (0.3, 6)
    lists = pd.read_csv(folder / "lists.csv")
    assert [(one.list_length, one.suggestions) for one in matching.list_targets] == [
        (3, n) for n in lists["suggestions"]
    ]
    assert (matching.target.first, matching.target.last) == ("2024-05-27", "2024-12-11")
    replayed = pd.read_parquet(folder / "matches.parquet")
    assert (replayed["candidate"] < replayed["query"]).all()
    assert replayed.groupby("part")["query"].nunique().to_dict() == {"train": 254, "val": 85, "test": 85}
    targets, thresholds = (pd.read_csv(folder / f"{name}.csv") for name in ("targets", "thresholds"))
    assert targets["target"].tolist() == [0.3, 0.5, 0.6, 0.7, 0.8, 0.9]
    best = replayed[(replayed["part"] == "test") & (replayed["place"] == 1)]
    assert thresholds["suggestions"].max() <= len(best) == 85
    assert thresholds["suggestions"].is_monotonic_decreasing
    assert thresholds["right"].max() <= best["right"].sum()
    assert (folder / "targets.md").read_text().startswith("| demo: newest 85 reports, 39 duplicates; target |")
    page = (folder / "report.html").read_text()
    assert all(title in page for title in ("Which precision targets are met?", "Right and wrong suggestions"))
    assert "85 reports were replayed in chronological order, 39 of them" in " ".join(told.split())
    assert "probabilities on test, without unknown matches: calibration error 0." in told
    assert "\n  gedbd index run=out out=my-index\n" in told
    made = "gedbd backtest dataset=demo encoder=tiny target_precision=0.3"
    assert f'<pre class="command">{made} fill=numbers.md ' in page
    assert page.count("gedbd index run=out out=my-index") == page.count(made) == 1
    assert (folder / "config.yaml").is_file()


def test_tables_and_page_link_the_reports_and_a_file_gets_the_table_of_targets(finished):
    folder, _ = finished
    wrong = pd.read_csv(folder / "wrong.csv", dtype=str)
    page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    for name in ("report", "suggested"):
        assert wrong[f"url of {name}"].tolist() == [
            f"https://bugs.example.org/show_bug.cgi?id={one}" for one in wrong[name]
        ]
        link = f'<a href="{wrong[f"url of {name}"][0]}" target="_blank" rel="noopener noreferrer">{wrong[name][0]}</a>'
        assert link in page
        assert f"[{wrong[name][0]}]({wrong[f'url of {name}'][0]})" in text
    assert "url of" not in page
    table = (folder / "targets.md").read_text()
    filled = (folder.parent / "numbers.md").read_text()
    assert filled == f"Before.\n<!-- backtest: demo -->\n{table}<!-- end -->\nAfter.\n"


def test_a_backtest_learns_from_the_verdicts_on_an_earlier_one(run_command, tmp_path):
    rows = ["report,suggested,verdict", "1012,1001,accept", "2688,1001,accept", "1019,1006,reject"]
    (tmp_path / "mine.csv").write_text("\n".join(rows))
    told = run_command("backtest", "dataset=demo", "encoder=tiny", "max_replayed=40", "verdicts=mine.csv")
    counted = "2 of them accepted; 1 accepted pairs are used for training, 1 are left out as they are in the test"
    assert counted in " ".join(told.split())
    reports = pd.read_parquet(next(tmp_path.rglob("reports.parquet"))).set_index("id")
    assert reports.loc["1012", "group"] == reports.loc["1001", "group"] != reports.loc["2688", "group"]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(("options", "message"), mistakes("backtest"))
def test_mistakes_are_told_in_one_line(run_command, tmp_path, options, message):
    (tmp_path / "numbers.md").write_text("no place")
    with pytest.raises(SystemExit, match=message):
        run_command("backtest", *options.split(), "encoder=tiny")
