"""The task from the command line on tiny encoders: a run folder, its tables, and refusals."""

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest

import gedbd.train
from gedbd.corpora.readers.java_sources import read_java_sources
from gedbd.encoders.code.inputs import InputParts

SMALL = (
    *("task=code_probe", "task.sizes.train_variables=200", "task.sizes.test_variables=100", "trainer.precision=32"),
    *("task.sizes.train_pairs=200", "task.sizes.test_pairs=100", "task.sizes.queries=20"),
    *("task.fine_tuning.steps=2", "task.fine_tuning.batch_size=4"),
)
NO_GRAPH = InputParts(nodes=False, types=False, roles=False)


@pytest.fixture(scope="module")
def call(make_run, methods_file, tmp_path_factory):
    """Runs the task in a folder with two methods of two seeds each."""
    folder = tmp_path_factory.mktemp("code_probe")
    for seed in (0, 1):
        make_run(folder / "graph" / f"seed_{seed}", seed=seed, split_seed=seed)
        make_run(folder / "mlm" / f"seed_{seed}", NO_GRAPH, seed=seed + 5, split_seed=seed)

    def run(*options):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("GEDBD_CACHE", str(folder / "cache"))
            patch.setattr(sys, "argv", ["gedbd", *SMALL, f"dataset.path={methods_file}", *options])
            gedbd.train.main()
        return folder

    return run


@pytest.fixture(scope="module")
def run(call):
    return call("task.runs.graph=[graph]", "task.runs.mlm=[mlm]", "hydra.run.dir=run") / "run"


def test_a_run_leaves_tables_figures_and_a_page(run):
    table = pd.read_csv(run / "results.csv").set_index(["method", "measure"])
    methods = {"majority", "identifier", "name_and_distance", "bm25", "graph", "graph_with_graph", "mlm"}
    methods |= {"untrained", "untrained_with_graph"}
    assert set(table.index.get_level_values("method")) == methods
    assert table.loc[("graph", "role_accuracy"), "seeds"] == 2
    assert table["value"].between(0, 1).all()
    assert (table["value_low"] <= table["value"] + 1e-9).all()
    # The noun is a word of the method's name, the number is none: of five equal methods the right one has rank 3.
    assert table.loc[("bm25", "search_mrr"), "value"] == pytest.approx(1 / 3)
    assert ("graph_with_graph", "type_accuracy") not in table.index
    assert "Flow of data" in (run / "report.html").read_text()
    assert (run / "own_page.json").is_file()
    assert {"types_and_roles.png", "search.png", "differences.png"} <= {
        path.name for path in (run / "figures").iterdir()
    }
    assert (run / "results.md").read_text().startswith("methods: ")


def test_differences_are_those_of_the_runs(run):
    differences = pd.read_csv(run / "differences.csv").set_index(["method", "against", "measure"])
    values = pd.read_csv(run / "runs.csv")
    chosen = values[values["measure"] == "role_accuracy"].groupby("method")["value"].agg(list)
    row = differences.loc[("graph", "mlm", "role_accuracy")]
    each = np.array(chosen["graph"]) - np.array(chosen["mlm"])
    assert row["difference"] == pytest.approx(each.mean())
    # Student's t with one degree of freedom: 12.706 standard errors.
    half = 12.706 * each.std(ddof=1) / np.sqrt(2)
    assert row["seeds_high"] - row["difference"] == pytest.approx(half, rel=1e-3, abs=1e-9)
    assert ("graph_with_graph", "graph", "zero_shot_mrr") in differences.index
    assert ("mlm", "mlm", "role_accuracy") not in differences.index


@pytest.mark.slow  # two more runs
def test_one_seed_is_reproducible_to_the_bit(call):
    options = ("task.runs.graph=[graph/seed_0]", "task.untrained=false", "task.sizes.queries=8")
    tables = [
        pd.read_csv(call(*options, f"hydra.run.dir=again_{number}") / f"again_{number}" / "runs.csv")
        for number in (0, 1)
    ]
    pd.testing.assert_frame_equal(*tables, check_exact=True)


@pytest.mark.slow  # another run
def test_without_queries_there_is_no_search(call):
    options = ("task.runs.graph=[graph/seed_0]", "task.untrained=false", "task.sizes.queries=0")
    run = call(*options, "hydra.run.dir=no_search") / "no_search"
    found = pd.read_csv(run / "results.csv")
    assert set(found["method"]) == {"majority", "identifier", "name_and_distance", "graph"}
    assert not found["measure"].str.contains("mrr").any()
    assert not (run / "figures" / "search.png").exists()


def test_mistakes_are_told_in_one_line(call, make_run, tmp_path):
    other = make_run(tmp_path / "other")
    (other / "versions.json").write_text('{"schema": 2, "corpus": "0"}')
    for options, line in (
        (("task.runs.graph=[nowhere]",), "nowhere in task.runs: there is no such folder"),
        ((f"task.runs.graph=[{other}]",), "was trained on another corpus"),
        (("task.runs.graph=[graph/seed_0]", "split.test_from=0.5"), "does not use the section split"),
    ):
        with pytest.raises(SystemExit, match=re.escape(line)):
            call(*options)


@pytest.mark.slow
def test_a_text_without_a_method_is_left_out_and_counted(call, make_run, methods_file, tmp_path, capsys):
    lines = methods_file.read_text().splitlines()
    odd = {"path": "src/window.java", "name": "odd", "line": 90, "comment": "No method at all is here.", "code": "}"}
    file = tmp_path / "methods.jsonl"
    file.write_text("\n".join([*lines, json.dumps(odd)]))
    folder = make_run(tmp_path / "graph")
    corpus = read_java_sources("java", str(file))
    (folder / "versions.json").write_text(json.dumps({"schema": 2, "corpus": corpus.fingerprint}))
    options = (f"task.runs.graph=[{folder}]", "task.untrained=false", "hydra.run.dir=odd", f"dataset.path={file}")
    sizes = ("task.sizes.train_variables=2000", "task.sizes.test_variables=2000")
    call(*options, *sizes)
    assert "texts that hold no method: 1 have no variables" in capsys.readouterr().out
