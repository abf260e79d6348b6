"""The task from the command line: a run folder with tables and a page, seeds, and refusals."""

import re

import numpy as np
import pandas as pd
import pytest

import gedbd.commands.evaluate
import gedbd.commands.report
import gedbd.train

pytestmark = pytest.mark.slow  # trainings
SMALL = (
    *("task=confirmation", "encoder=tiny", "dataset=csv", "dataset.path=small.csv", "tags.walks=1", "tags.length=10"),
    *(f"~task.methods.text{network}_{model}" for network in ("", "_network") for model in ("xgboost", "mlp")),
    *(
        f"task.methods.gradient_boosting_{name}.model.{option}"
        for name in ("question", "pair")
        for option in ("trees=10", "repeats=1")
    ),
    *(
        f"task.methods.blend_{name}.model.models.{option}"
        for name in ("question", "pair")
        for option in ("boosting.trees=10", "boosting.repeats=1", "trees.n_estimators=10")
    ),
)


@pytest.fixture(scope="module")
def call(command, waiting_corpus, tmp_path_factory):
    """Runs a command in a folder with the corpus as a file."""
    folder = tmp_path_factory.mktemp("confirmation")
    table = waiting_corpus.reports
    links = waiting_corpus.links.table.set_index("query")
    pd.DataFrame(
        {
            "Issue_id": table["id"],
            "Title": table["title"],
            "Description": table["description"],
            "Component": table["component"],
            "Created_time": table["created_at"],
            "Duplicated_issue": links["document"].reindex(table.index).astype("Int64"),
            "Resolved_time": table["resolved_at"],
        }
    ).to_csv(folder / "small.csv", index=False)

    return lambda module, *options: command(module, folder, *options)


@pytest.fixture(scope="module")
def run(call):
    return call(gedbd.train, *SMALL, "task.published=true", "hydra.run.dir=run") / "run"


def test_a_run_leaves_tables_and_a_page(run):
    table = pd.read_csv(run / "confirmation.csv")
    assert len(table) == 7
    assert table["val_spearman"].dropna().is_monotonic_decreasing
    # Waits depend on the weekday alone, which the features hold.
    row = table.set_index("method").loc["gradient_boosting_question"]
    assert row["spearman"] > 0.4
    assert row["rmse_difference_high"] < 0
    page = (run / "report.html").read_text()
    assert "Longest waits first" in page
    assert "Comparison with the paper" in page
    assert {"rho_by_method.png", "importance_gradient_boosting_pair.png"} <= {
        file.name for file in (run / "figures").iterdir()
    }
    pending = pd.read_csv(run / "pending.csv")
    assert pending["hours"].is_monotonic_decreasing
    assert ((pending["from"] <= pending["hours"]) & (pending["hours"] <= pending["to"])).all()
    assert len(pending) == len(pd.read_parquet(run / "confirmation.parquet"))
    assert pd.read_csv(run / "results.csv")["method"][0] == table["method"][0]


def test_report_names_the_page_and_other_commands_refuse(run, call):
    for command, options, line in (
        (gedbd.commands.report, (str(run),), "run has its own page"),
        (gedbd.commands.evaluate, (f"run={run}",), "ConfirmationTask, trains no encoder"),
        (gedbd.train, (*SMALL, "~task.methods.median"), "task.methods has no median"),
        (gedbd.train, (*SMALL, "split.test_from=0.99"), "split test has 1 anchors"),
    ):
        with pytest.raises(SystemExit, match=re.escape(line)):
            call(command, *options)


def test_seeds_are_summarised(call):
    folder = call(gedbd.train, *SMALL, "seeds=2", "hydra.run.dir=seeds") / "seeds"
    table = pd.read_csv(folder / "seeds.csv")
    assert sorted(set(table["seed"])) == [0, 1]
    assert np.isfinite(table["val_value"]).all()
