"""The paper's tables and figures as sweeps on the bundled corpus."""

import pandas as pd
import pytest

import gedbd.train
from gedbd.duplicates.paper_tables import write_item

SMALL = ["dataset=demo", "encoder=tiny", "trainer.enable_progress_bar=false"]


@pytest.fixture
def sweep(command, tmp_path):
    """Trains what an experiment sweeps, and gives the sweep's folder."""
    return lambda *options: command(gedbd.train, tmp_path, *SMALL, "hydra.sweep.dir=sweep", *options) / "sweep"


@pytest.mark.slow
def test_tables_and_figures_of_the_methods(sweep, capsys):
    folder = sweep("experiment=table5", "pairs.fill_to=600", "trainer.max_epochs=2")
    text = (folder / "table5.md").read_text()
    assert "demo is not the paper's data" in text
    assert "split=pair" in text
    table = pd.read_csv(folder / "table5.csv")
    assert table["model"][:2].tolist() == ["tiny, text alone", "tiny, text + graph"]
    results = pd.read_csv(folder / "1" / "results.csv")
    assert table["f1"][1] == pytest.approx(results["f1"][0])
    assert (table["paper f1"].notna()).sum() == 10
    for name in ("table4", "figures34"):
        write_item(folder, (), name)
        assert (folder / f"{name}.md").is_file()
    assert (folder / "figures34_demo.png").is_file()
    assert pd.read_csv(folder / "table4.csv")["relative"][0] == 1


@pytest.mark.slow
def test_sensitivity_with_intervals_over_seeds(sweep):
    fixed = ["loss.margin=0.5", "encoder.dim=16", "fusion.lambda_text=0.5"]
    folder = sweep("experiment=sensitivity", *fixed, "seeds=2", "graph.pca_dim=10,100", "trainer.max_epochs=2,1")
    table = pd.read_csv(folder / "sensitivity.csv")
    assert table[["option", "value"]].to_numpy().tolist() == [
        ["graph.pca_dim", 10],
        ["graph.pca_dim", 100],
        ["trainer.max_epochs", 2],
        ["trainer.max_epochs", 1],
    ]
    assert (table["seeds"] == 2).all()
    assert (table["f1_low"] <= table["f1"]).all()
    assert (folder / "sensitivity.png").is_file()


def test_a_sweep_without_finished_runs_says_so(tmp_path, capsys):
    (tmp_path / "0").mkdir()
    write_item(tmp_path, (), "table5")
    assert "no run of" in capsys.readouterr().out
