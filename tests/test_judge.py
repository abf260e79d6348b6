"""The command that measures a backtest again with the verdicts of people."""

import json
import re
import shutil
from functools import partial

import numpy as np
import pandas as pd
import pytest
from small_tracker import CONFIDENCE, RANKER

from gedbd.corpora.corpus import Corpus
from gedbd.triage.backtesting.backtest_run import PageFacts, write_backtest, write_to_judge
from gedbd.triage.backtesting.measured_suggestions import (
    Backtest,
    Suggestions,
    tables_of,
    target_results,
    targets_table,
)
from gedbd.triage.triage_model import TriageModel

pytestmark = pytest.mark.integration

FACTS = PageFacts("small", "gedbd backtest dataset=small", "2026-11-23T09:30:00+00:00", 50)
GROUP = np.concatenate([np.arange(25), np.arange(20), np.arange(45, 50)])
HEAD = "report,suggested,verdict,date\n"


def corpus():
    """50 reports; 45 and 20 have one title."""
    titles = [f"title {row % 25 if row < 46 else row}" for row in range(50)]
    reports = pd.DataFrame({"id": [str(1000 + row) for row in range(50)], "title": titles, "url": ""})
    return Corpus.of_table("small", reports, GROUP)


def backtest():
    """25 best matches of probability 0.9, the first 20 of them right."""
    rows = {"query": np.arange(25, 50), "candidate": np.arange(25), "right": np.arange(25) < 20}
    rows |= {"rank": 1, "unknown": np.where(np.arange(25) == 20, "same title", ""), "probability": 0.9}
    found = Suggestions(pd.DataFrame(rows), GROUP)
    targets = targets_table(found, found, (0.5, 0.95), 0.9)
    matching = TriageModel(RANKER, CONFIDENCE, target_results(targets, pd.Series([], dtype=object)), 0.5)
    tables = {"targets": targets, "lists": targets} | tables_of(found, corpus(), 0.9, 50)
    return Backtest(matching, found.best, found, found, tables)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a finished backtest."""
    folder = tmp_path_factory.mktemp("finished")
    write_backtest(folder, corpus(), backtest(), FACTS)
    return folder


@pytest.fixture
def run(finished, tmp_path, run_command):
    """A copy of it in the folder ``out``, and a way to run the command on it."""
    shutil.copytree(finished, tmp_path / "out")
    return partial(run_command, "judge")


def test_the_tables_and_the_page_are_written_again_with_the_verdicts(run, tmp_path, same_rows):
    out = tmp_path / "out"
    before = pd.read_csv(out / "targets.csv")
    assert before["unknown"].tolist() == [1, 0]
    assert before["precision"][0] == 20 / 24
    assert before["precision_as_marked"][0] == 20 / 25
    assert "<h2>With verdicts</h2>" not in (out / "report.html").read_text()
    rows = "1045,1020,accept,\n1046,1021,reject,\n1025,1000,reject,\n99,98,accept,\n"
    (out / "judgements.csv").write_text(HEAD + rows)
    for _ in range(2):  # the second time changes nothing
        told = " ".join(run("run=out").split())
        after = pd.read_csv(out / "targets.csv")
        pd.testing.assert_frame_equal(after[before.columns], before)
        assert after.loc[0, ["precision", "precision_with_judgements"]].tolist() == [20 / 24, 20 / 25]
        assert after.loc[0, ["judgements", "judgements_marked"]].tolist() == [3, 1]
    assert "Not marked as duplicates: 1 accepted, 1 rejected. Marked as duplicates: 0 accepted, 1 rejected." in told
    assert "not suggestions of this backtest: 1, left out (first: row 5, 99 and 98)" in told
    page = (out / "report.html").read_text()
    assert "<h2>With verdicts</h2>" in page
    assert "<code>gedbd judge run=out</code>" in page
    assert FACTS.command in page
    given = re.search("data-given='(.*?)'", page)
    assert given
    assert [one["verdict"] for one in json.loads(given[1])] == ["accept", "reject", "reject", "accept"]
    assert len(re.findall('<span class="state">(?:not a )?duplicate</span>', page)) == 3
    assert pd.read_csv(out / "verdicts.csv")["judgements"].max() == 3
    document = json.loads(run("run=out", "json=true"))
    assert {"folder", "corpus", "page", "targets", "verdicts", "wrong", "right"} <= set(document)
    for name in ("targets", "verdicts"):
        same_rows(document[name], out / f"{name}.csv")


def test_the_list_to_fill_by_hand_is_read_and_a_new_backtest_leaves_it(run, tmp_path):
    out = tmp_path / "out"
    listed = pd.read_csv(out / "to_judge.csv", dtype=str)
    assert listed["marked"].value_counts().to_dict() == {"yes": 20, "no": 5}
    assert listed["verdict"].isna().all()
    listed.loc[listed["report"] == "1046", "verdict"] = "accept"
    listed.to_csv(out / "to_judge.csv", index=False)
    run("run=out")
    assert pd.read_csv(out / "targets.csv")["precision_with_judgements"][0] == 21 / 24
    warning = write_to_judge(out, backtest(), 50)
    assert warning == f"{out / 'to_judge.csv'} holds verdicts and is kept: move it elsewhere to get a new list"
    assert pd.read_csv(out / "to_judge.csv", dtype=str).equals(listed)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ("", ("run=out",), "^error: out/to_judge.csv holds no verdict"),
        ("", ("run=nowhere",), "^error: nowhere: no such folder; give a folder written by"),
        ("page.json", ("run=out",), r"^error: out has no page.json because it was written by an older version"),
        ("matching.json", ("run=out",), r"^error: out is not a finished backtest: it has no matching.json"),
        ("", ("run=out", "file=nowhere.csv"), "^error: file=nowhere.csv: no such file"),
        ("", (), "^error: .*run"),
    ],
)
def test_mistakes_are_told_in_one_line(run, tmp_path, change, options, message):
    if change:
        (tmp_path / "out" / change).unlink()
    with pytest.raises(SystemExit, match=message):
        run(*options)
