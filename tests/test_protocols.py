"""Runs that rank by both protocols, and the report over them."""

import re
from pathlib import Path

import pandas as pd
import pytest
from run_commands import commands_in

from gedbd.io.files import locate

pytestmark = pytest.mark.slow  # four runs; the ranking itself is tested in tests/retrieval/test_ranking.py

OPTIONS = ["encoder=tiny", "encoder.max_tokens=128", "text=fields", "protocol=test_pool", "ranking.top_k=[3,10]"]
TRAINED = [*OPTIONS, "trainer=smoke", "pairs=pk", "batch_size=8", "loss=supervised_contrastive"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """The demo corpus with captions of two attached images: frozen, trained, and trained with a graph."""
    folder = tmp_path_factory.mktemp("runs")
    reports = pd.read_csv(locate("pkg://gedbd.corpora/demo.csv"), dtype=str, keep_default_na=False)
    reports["Attachments"] = ["one.png", "two.png; trace.txt", *[""] * (len(reports) - 2)]
    reports.to_csv(folder / "reports.csv", index=False)
    table = pd.DataFrame({"image": ["one.png", "two.png"], "caption": ["a dialog", "an empty list"]})
    table.to_csv(folder / "captions.csv", index=False)
    data = ["dataset=csv", "dataset.path=reports.csv", "dataset.name=demo"]
    shots = "text.captions=null,captions.csv"
    with commands_in(folder) as run:
        run("baseline", "-m", "name=frozen", *OPTIONS, *data, shots, "hydra.sweep.dir=all/frozen")
        run("train", *TRAINED, *data, "graph=none", "monitor=val/pool_map@3", "hydra.run.dir=all/text")
        run("train", *TRAINED, *data, "text.captions=captions.csv", "hydra.run.dir=all/graph")
    return folder


@pytest.fixture
def call(runs):
    with commands_in(runs) as run:
        yield run


def test_both_rankings_are_left_with_the_ranks_that_were_asked_for(runs):
    for folder in ("all/text", "all/graph", "all/frozen/0"):
        for name in ("ranking", "ranking_test_pool"):
            table = pd.read_csv(runs / folder / f"{name}.csv")
            found = [column for column in table if "@" in column]
            assert found == ["rr@3", "rr@10", "map@3", "map@10", "rr@10_low", "rr@10_high"]
            assert (runs / folder / "figures" / f"{name.replace('ranking', 'rank_curves')}.png").is_file()
        assert len(list((runs / folder / "trec").glob("*.qrels"))) == 2


def test_queries_of_a_pool_are_the_test_reports_with_a_duplicate_among_them(runs):
    queries = pd.read_parquet(runs / "all/text/queries.parquet")
    own = queries[queries["method"] == "text"]
    earlier, pool = (own[own["protocol"] == name] for name in ("earlier", "test_pool"))
    assert pool.groupby("group").size().min() > 1
    assert pool["reachable"].all()
    assert set(earlier["id"]) != set(pool["id"])
    assert pool["rank"].max() < 85 <= earlier["rank"].max()  # 85 reports are the newest fifth


def test_metrics_of_the_pool_are_logged_by_epoch_and_can_choose_the_checkpoint(runs):
    epochs = pd.read_csv(runs / "all/text/metrics.csv")
    assert {"val/rr@3", "val/map@10", "val/pool_rr@3", "val/pool_mrr", "val/pool_map@3"} <= set(epochs)
    assert "val/rr@1" not in epochs


def test_the_report_shows_the_configurations_and_both_rankings(runs, call):
    call("report", "all", "out=page")
    page = (runs / "page" / "report.html").read_text()
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert headings[1:3] == ["Ranking: demo", "Ranking in the test pool: demo"]
    assert "Text, screenshots, training: demo" in headings
    text = (runs / "page" / "report.md").read_text().partition("## Text, screenshots, training: demo")[2]
    rows = [line.split("|")[1:4] for line in text.split("\n## ")[0].splitlines() if line.startswith(("| no", "| yes"))]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["no", "frozen", "1"],
        ["no", "fine-tuned", "1"],
        ["yes", "frozen", "1"],
        ["yes", "fine-tuned, graph", "1"],
    ]
    assert "frozen, text.captions=captions.csv" in page
