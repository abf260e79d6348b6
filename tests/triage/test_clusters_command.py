"""The command that groups the open reports of an index: table, page, JSON and verdicts."""

import json
import re
from contextlib import closing
from dataclasses import replace

import pandas as pd
import pytest
from small_tracker import as_corpus, fill, some_report

from gedbd.corpora.feedback import feedback_table
from gedbd.service.forgetting import forget_reports
from gedbd.triage.storage.index_folder import CLUSTERS, FILE
from gedbd.triage.storage.index_store import IndexStore

pytestmark = pytest.mark.integration

HEAD = "report,suggested,verdict,date\n"
HOSTILE = "<script>alert(1)</script> \x1b[31m[bold]"


@pytest.fixture
def run(tmp_path, reader, run_command):
    """Runs the command on an index of reports, of which 80 and 81 repeat the words of 0 and 1."""
    reports = [some_report(number, status="new", url=f"https://bugs.example.org/{number}") for number in range(30)]
    reports += [some_report(80, status="new"), some_report(81, status="new", title=HOSTILE)]
    reports[2] = replace(reports[2], status="closed")
    (tmp_path / "my-index").mkdir()
    fill(tmp_path / "my-index", as_corpus(reports), reader)
    return lambda *options: run_command("clusters", "index=my-index", *options)


def document(run, *options):
    return json.loads(run("json=true", *options))


def test_table_page_and_document_agree(run, tmp_path):
    told = run("threshold=0.3", "top_k=2")
    found = document(run, "threshold=0.3")
    assert found["measured"] == "this tracker"
    assert (found["reports"], found["open_reports"]) == (32, 31)
    sizes = [one["open_reports"] for one in found["clusters"]]
    assert sizes == sorted(sizes, reverse=True)
    assert all(one["lowest_probability"] >= 0.3 for one in found["clusters"])
    ids = [report["id"] for one in found["clusters"] for report in one["reports"]]
    assert len(ids) == len(set(ids))
    assert "2" not in ids
    for cluster in found["clusters"]:
        reports = cluster["reports"]
        assert pd.Series([report["created_at"] for report in reports]).is_monotonic_increasing
        assert [report["probability_with_first"] is None for report in reports] == [True] + [False] * (len(reports) - 1)
    assert f"{sum(sizes)} of them are in {len(sizes)} groups" in " ".join(told.split())
    assert "listed: the first 2 groups" in told
    assert "pairs with a closed report, left out" in told
    page = (tmp_path / "my-index" / CLUSTERS / "report.html").read_text()
    assert page.count('<td class="verdict"') == sum(len(one["reports"]) - 1 for one in found["clusters"])
    assert "https://bugs.example.org/" in page
    assert "<script>alert" not in page
    assert "\x1b" not in page + told


def test_verdicts_of_the_page_become_feedback_and_change_the_groups(run, tmp_path):
    first, other = (one["id"] for one in document(run, "threshold=0.3")["clusters"][-1]["reports"][:2])
    rows = [(other, first, "reject"), ("99", "98", "accept"), ("97", first, "unclear")]
    (tmp_path / "judgements.csv").write_text(HEAD + "".join(f"{','.join(row)},\n" for row in rows))
    told = " ".join(run("threshold=0.3", "file=judgements.csv").split())
    assert "verdicts: 1 recorded, 0 known already" in told
    assert "not in the index: 1, left out" in told
    assert "unclear: 1, not recorded" in told
    assert "pairs that people have rejected, left out: 1" in told
    table = feedback_table(tmp_path / "my-index")
    assert table[["issue_id", "candidate", "verdict", "source"]].to_numpy().tolist() == [
        [other, first, "reject", "web"]
    ]
    groups = [{report["id"] for report in one["reports"]} for one in document(run, "threshold=0.3")["clusters"]]
    assert not any({first, other} <= one for one in groups)
    assert "0 recorded, 1 known already" in " ".join(run("threshold=0.3", "file=judgements.csv").split())


def test_without_a_group_the_most_probable_pairs_are_named_with_the_threshold_that_finds_them(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    told = run("threshold=1")
    assert "no two of them belong together" in " ".join(told.split())
    closest = document(run, "threshold=1")["closest_pairs"]
    assert len(closest) == 3
    for one in closest:
        for report in one["reports"]:
            assert report["id"] in told
            assert " ".join(report["title"].split()[:3]) in told
        assert f"{one['lowest_probability']:.3f}" in told
    assert "two large trackers" not in told  # the probabilities are those of this one
    (option,) = re.findall(r"(threshold=\S+) includes the most probable pairs", told)
    assert (
        0.9 * closest[-1]["lowest_probability"] < float(option.partition("=")[2]) <= closest[-1]["lowest_probability"]
    )
    found = document(run, option)
    assert not found["closest_pairs"]
    pairs = [{report["id"] for report in one["reports"]} for one in found["clusters"]]
    assert any({report["id"] for report in closest[0]["reports"]} <= pair for pair in pairs)


def test_the_page_goes_when_a_report_is_forgotten(run, tmp_path):
    run("threshold=0.3")
    forget_reports(tmp_path / "my-index", ["3"])
    assert not (tmp_path / "my-index" / CLUSTERS).exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["index=nowhere"], "error: nowhere: no index.sqlite there; build an index with gedbd index"),
        (["threshold=0"], "error: threshold=0 must be above 0 and at most 1"),
        (["threshold=high"], "error: threshold"),
        (["top_k=0"], "error: top_k=0 must be 1 or more"),
        (["file=absent.csv"], "error: file=absent.csv: no such file"),
        (["file=empty.csv"], "error: file=empty.csv: it has no verdict on two reports of my-index"),
        (["file=maybe.csv"], "row 2: the verdict is 'maybe': write accept, reject, unclear or nothing"),
        (["file=same.csv"], "report 1 is compared with itself"),
    ],
)
def test_bad_input(run, tmp_path, options, said):
    (tmp_path / "empty.csv").write_text(HEAD)
    (tmp_path / "maybe.csv").write_text(f"{HEAD}1,0,maybe,\n")
    (tmp_path / "same.csv").write_text(f"{HEAD}1,1,accept,\n")
    with pytest.raises(SystemExit) as refused:
        run(*options)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_index_of_one_report(tmp_path, reader, run_command):
    (tmp_path / "small").mkdir()
    fill(tmp_path / "small", as_corpus([some_report(1)]), reader)
    assert "no two of them belong together" in " ".join(run_command("clusters", "index=small").split())
    with closing(IndexStore(tmp_path / "small" / FILE)) as store, store.transaction():
        store.delete(["1"])
    assert "0 of 0 reports are open" in " ".join(run_command("clusters", "index=small").split())
