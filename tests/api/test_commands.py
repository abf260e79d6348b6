"""The API gives the numbers of the commands."""

import json
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

import gedbd
from gedbd.triage.answer import as_json

pytestmark = pytest.mark.integration

TINY = ["dataset=demo", "encoder=tiny"]
TEXT = "Crash when I paste a picture"


def as_printed(text, index, **options):
    """The line that ``gedbd search json=true`` would print for the answer of the API."""
    from gedbd.triage.report_text import report_from_text

    matches = index.search(text, **options)
    model = index._stored.matching
    return json.loads(as_json(report_from_text(text), matches, model.target, model.list_target))


@pytest.mark.slow
def test_ranks_and_differences_are_those_of_baseline_and_compare(command, demo, cache):
    command("baseline", *TINY, "name=bm25", "hydra.run.dir=bm25")
    command("baseline", *TINY, "name=fusion", "hydra.run.dir=fusion")
    command("compare", "run=fusion", "against=bm25", "out=difference.csv")
    results = {name: gedbd.rank(demo, name, encoder="tiny") for name in ("bm25", "fusion")}
    for name, result in results.items():
        stored = pd.read_parquet(f"{name}/queries.parquet")
        assert list(stored["id"]) == list(result.queries["id"])
        assert list(stored["rank"]) == list(result.queries["rank"])
        ranking = pd.read_csv(f"{name}/ranking.csv").iloc[0]
        for metric, mean in result.metrics.items():
            assert mean.value == pytest.approx(ranking[metric], abs=1e-12), metric
        assert result.metrics["mrr"][1:] == pytest.approx((ranking["mrr_low"], ranking["mrr_high"]), abs=1e-12)
        run, qrels = result.save_trec("api")
        assert run.read_text() == Path(f"{name}/trec/test.{name}.run").read_text()
        assert qrels.read_text() == Path(f"{name}/trec/test.qrels").read_text()
    own = gedbd.compare(results["fusion"], results["bm25"])
    printed = pd.read_csv("difference.csv").query("metric != 'f1'").reset_index(drop=True)
    pd.testing.assert_frame_equal(own, printed[list(own)], check_exact=False, rtol=1e-12)


@pytest.mark.slow
def test_a_backtest_is_that_of_the_command(command, demo):
    command("backtest", *TINY, "max_replayed=60", "hydra.run.dir=command")
    result = gedbd.backtest(demo, "tiny", options=["max_replayed=60"])
    page = result.save("api")
    assert page == Path("api/report.html")
    for name in ("targets.csv", "thresholds.csv", "wrong.csv", "matching.json"):
        assert Path("api", name).read_text() == Path("command", name).read_text(), name
    command("index", "run=api", "out=stored")
    with gedbd.Index.open("stored") as index:
        before = as_printed(TEXT, index)
    with gedbd.Index.build(demo, "stored", backtest=result) as index:
        assert index.changes.unchanged == len(demo)  # the same model: nothing is encoded again
        assert as_printed(TEXT, index) == before
    with pytest.raises(ValueError, match=r"^the backtest sets the encoder: leave out encoder= or backtest=$"):
        gedbd.Index.build(demo, "stored", "tiny", backtest="api")


def test_a_search_is_that_of_the_command(command, demo):
    command("index", *TINY, "out=stored")
    printed = json.loads(command("search", "index=stored", "json=true", "top_k=7", TEXT))
    with gedbd.Index.open("stored") as index:
        assert as_printed(TEXT, index, top_k=7) == printed
    with gedbd.Index.build(demo, "built", "tiny") as index:
        assert as_printed(TEXT, index, top_k=7) == printed
        assert index.suggest_from is None
        first = index.search({"title": TEXT, "created_at": datetime(2023, 1, 1)}, 1, created_before="2022-06-01")
        assert asdict(first[0])["master"]["created_at"] < datetime.fromisoformat("2022-06-01T00:00:00+00:00")
    printed = command("index", *TINY, "out=built")
    assert "built: 0 added, 0 updated, 425 unchanged, 0 deleted" in " ".join(printed.split())
    other = gedbd.load_corpus(demo.reports.assign(id="x" + demo.reports["id"])[["id", "title"]], columns={})
    line = r"425 of its 425 reports are not in table and would be deleted; .* use another index; .* set replace=true"
    with pytest.raises(ValueError, match=line):
        gedbd.Index.build(other, "built", "tiny")
    numbered = demo.reports.assign(title="other " + demo.reports["title"])[["id", "title", "created_at"]]
    later = gedbd.load_corpus(numbered.assign(created_at=numbered["created_at"] + timedelta(days=1)), columns={})
    with pytest.raises(ValueError, match=r"142 of 142 reports that were compared have another title and date"):
        gedbd.Index.build(later, "built", "tiny")
    with gedbd.Index.build(gedbd.load_corpus(numbered, columns={}), "built", "tiny") as index:
        assert index.changes.updated == len(demo)  # titles of the same reports were mended
