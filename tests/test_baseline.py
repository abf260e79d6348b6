"""Baselines through their command, as a user runs them."""

import json
from functools import cache

import pandas as pd
import pytest
from refusals import mistakes
from run_commands import commands_in, composed

from gedbd.evaluation.pairwise import GRID

pytestmark = pytest.mark.integration

NAMES = list(composed("baseline", "name=bm25").baselines)
EACH = [name if name == "bm25" else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
SMALL = ["encoder=tiny"]


@pytest.fixture
def run(tmp_path, run_command):
    """Runs a command in a folder of its own; gives the run folder, and keeps what it prints in printed.txt."""

    def through(command, *options):
        (tmp_path / "printed.txt").write_text(run_command(command, *options, "hydra.run.dir=run"))
        return tmp_path / "run"

    return through


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Runs a command once; gives a run folder that several tests only read."""
    folder = tmp_path_factory.mktemp("kept")

    @cache
    def once(command, *options):
        place = folder / str(len(list(folder.iterdir())))
        with commands_in(folder) as run:
            run(command, *options, f"hydra.run.dir={place}")
        return place

    return once


@pytest.fixture
def trained(kept):
    return kept("train", "encoder=tiny", "trainer=smoke", "optimizer.lr=1e-2")


@pytest.mark.parametrize("name", EACH)
def test_every_baseline_leaves_the_tables_of_a_run(kept, name):
    folder = kept("baseline", f"name={name}", *SMALL)
    results, ranking = pd.read_csv(folder / "results.csv"), pd.read_csv(folder / "ranking.csv")
    assert results["method"].tolist() == [name, "always_duplicate"]
    assert ranking["method"].tolist() == [name]
    assert ranking["queries"][0] == 39
    assert ranking["rr@1"][0] <= ranking["rr@10"][0] <= ranking["rr@100"][0] <= ranking["reachable"][0] == 1
    queries = pd.read_parquet(folder / "queries.parquet")
    assert ranking["mrr"][0] == pytest.approx((1 / queries["rank"]).mean())
    assert (folder / "trec" / f"test.{name}.run").is_file()
    # What trec/README.txt says of the figures that a run file does not give.
    assert "../queries.parquet" in (folder / "trec" / "README.txt").read_text()
    assert ranking["map"][0] == pytest.approx(queries["average_precision"].mean())
    assert ranking["map@10"][0] == pytest.approx(queries["average_precision@10"].mean())
    assert json.loads((folder / "leak.json").read_text())["closure_found"] == 0


def test_only_thresholds_of_the_encoder_are_those_of_training(kept):
    thresholds = {}
    for name in ("frozen", "bm25"):
        results = pd.read_csv(kept("baseline", f"name={name}", *SMALL) / "results.csv")
        thresholds[name] = float(results["threshold"][0])
    assert thresholds["frozen"] in GRID
    assert thresholds["bm25"] > 1


@pytest.mark.slow  # a training
def test_a_trained_encoder_takes_the_place_of_the_untrained_one(kept, run, trained, tmp_path):
    plain = kept("baseline", "name=frozen", *SMALL)
    through = run("baseline", "name=frozen", f"run={trained}")
    text = pd.read_parquet(trained / "predictions.parquet")
    mine = pd.read_parquet(through / "predictions.parquet")
    told = (tmp_path / "printed.txt").read_text()
    assert "frozen (trained encoder)" in told
    assert "frozen encoder" not in told
    both = mine.merge(text, on=["id_1", "id_2", "label", "part"])
    assert len(both) == len(mine)
    columns = ["threshold", "f1"]
    rows = [pd.read_csv(folder / "results.csv").set_index("method") for folder in (through, trained)]
    assert rows[0].loc["frozen", columns].tolist() == pytest.approx(rows[1].loc["text", columns].tolist())
    assert both["score_x"].to_numpy() == pytest.approx(both["score_text"].to_numpy(), abs=1e-5)
    assert not mine["score"].equals(pd.read_parquet(plain / "predictions.parquet")["score"])


def test_closure_sees_the_leak_of_shuffled_pairs(run, tmp_path):
    folder = run("baseline", "name=closure", "split=pair")
    audit = json.loads((folder / "leak.json").read_text())
    assert audit["closure_found"] > 0
    assert pd.read_csv(folder / "results.csv")["f1"][0] == pytest.approx(audit["closure_f1"])
    told = (tmp_path / "printed.txt").read_text()
    assert "warning: this split leaks" in told
    assert "no report of part test has an earlier duplicate, so nothing is ranked" in told


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(("options", "message"), mistakes("baseline"))
def test_mistakes_are_told_in_one_line(run, options, message):
    with pytest.raises(SystemExit, match=message):
        run("baseline", *options.split())


@pytest.mark.slow
def test_a_run_on_other_parts_is_refused(run, trained):
    with pytest.raises(SystemExit, match=f"{trained} was trained with split="):
        run("baseline", "name=frozen", f"run={trained}", "split.test_from=0.9")
    with pytest.raises(SystemExit, match=f"{trained} was trained with labels="):
        run("baseline", "name=frozen", f"run={trained}", "labels.fraction=0.5")
