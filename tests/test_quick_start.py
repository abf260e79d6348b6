"""The main paths from end to end, small: a training, an index with a search, and an answer of the service."""

import json

import pandas as pd
import pytest
from fastapi.testclient import TestClient
from run_commands import commands_in

from gedbd.service.app import create_app
from gedbd.service.middleware import Settings
from gedbd.triage.stored_index import open_index

TINY = ["encoder=tiny", "trainer=smoke", "trainer.accelerator=cpu"]
TITLE = "New mail sound is played once per message"  # of report 1006


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs commands in a folder with an index of the demo corpus."""
    with commands_in(tmp_path_factory.mktemp("quick_start")) as command:
        command("index", "dataset=demo", "encoder=tiny", "out=index")
        yield command


@pytest.fixture(scope="module")
def printed(run):
    """What a training prints that leaves the run folder ``trained``."""
    return run("train", *TINY, "dataset=demo", "hydra.run.dir=trained")


def test_a_training_leaves_its_results(printed):
    results, predictions = pd.read_csv("trained/results.csv"), pd.read_parquet("trained/predictions.parquet")
    test = predictions[predictions["part"] == "test"]
    hits = ((test["predicted"] == 1) & (test["label"] == 1)).sum()
    f1 = 2 * hits / ((test["predicted"] == 1).sum() + (test["label"] == 1).sum())
    assert results["method"][0] == "text_graph"
    assert results["f1"][0] == pytest.approx(f1, abs=1e-6)
    assert f"test F1 {f1:.3f}" in " ".join(printed.split())


def test_a_report_like_a_stored_one_is_found(run):
    (answer,) = map(json.loads, run("search", "index=index", TITLE, "json=true", "top_k=1").splitlines())
    (match,) = answer["matches"]
    assert match["best"]["issue_id"] == "1006"


def test_the_service_answers_a_search(run):
    index = open_index("index", cache_dir="cache")
    with TestClient(create_app(index, Settings(), None), base_url="http://localhost") as client:
        answer = client.post("/api/search", json={"title": TITLE, "top_k": 1})
    index.close()
    (match,) = answer.json()["matches"]
    assert match["best"]["issue_id"] == "1006"
