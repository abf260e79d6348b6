"""Tables of hand-made run folders beside the published numbers."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf
from small_models import save_small_model

import gedbd.train
from gedbd.duplicates.paper_tables import TITLES, convergence, paper_table, write_tables
from gedbd.evaluation.display_names import TEXT, TEXT_GRAPH
from gedbd.experiments.published import read_published
from gedbd.experiments.report.run_settings import Setting, group_settings
from gedbd.experiments.run_folder import Run


def make_run(folder: Path, seconds: float = 60, f1: float = 0.5, **config: object) -> Run:
    """A run of two epochs, two test pairs and one more method."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create({"seed": 0, **config})))
    method = TEXT_GRAPH if config.get("graph") else TEXT
    results = {"method": [method, "always_duplicate"], "threshold": [0.5, 0], "precision": [1.0, 0.5]}
    pd.DataFrame(results | {"recall": [0.25, 1], "f1": [f1, 0.6]}).to_csv(folder / "results.csv", index=False)
    pairs = {"part": ["test", "test", "val", "val"], "label": [1, 0] * 2, "score": [0.9, 0.1, 0.8, -0.2]}
    pairs |= {"group": ["a", "b"] * 2, "id_1": ["1", "3"] * 2, "id_2": ["2", "4"] * 2}
    pairs |= {"predicted": [1, 0] * 2}
    pd.DataFrame(pairs).to_parquet(folder / "predictions.parquet")
    epochs = {"epoch": [0, 4], "train/seconds": [seconds, 3 * seconds]}
    epochs |= {name: [0.1, 0.2] for name in ("train/loss", "val/loss", "train/f1", "val/f1")}
    pd.DataFrame(epochs).to_csv(folder / "metrics.csv", index=False)
    return Run(folder)


def setting(folder: Path, encoder: str, graph: bool, corpus: str = "eclipse", **more: float) -> Setting:
    config = {"dataset": {"name": corpus, "subset": "train"}, "encoder": {"name": encoder}, "graph": graph}
    run = make_run(folder / f"{corpus}-{encoder}-{graph}", **more, **config)
    return group_settings([run])[0]


@pytest.fixture
def settings(tmp_path) -> list[Setting]:
    return [
        setting(tmp_path, "roberta", False, seconds=30),
        setting(tmp_path, "bert", False, seconds=60),
        setting(tmp_path, "bert", True, seconds=90),
        setting(tmp_path, "bert", False, corpus="demo", seconds=15),
    ]


def test_the_published_numbers_are_the_papers():
    table = read_published("duplicates", "table5").set_index(["corpus", "method"])
    assert len(table) == 10
    metrics = table.loc[("eclipse", "bert, text + graph"), ["precision", "recall", "f1"]]
    assert metrics.tolist() == [0.913, 0.935, 0.924]
    for row in table.itertuples():  # the printed F1 follows from precision and recall, both rounded
        assert row.f1 == pytest.approx(2 * row.precision * row.recall / (row.precision + row.recall), abs=0.0011)
    minutes = read_published("duplicates", "table4").set_index(["corpus", "method"])
    assert len(minutes) == 10
    for row in minutes.itertuples():
        of_bert = minutes.loc[(row.Index[0], "bert, text alone"), "minutes"]
        assert row.relative == pytest.approx(row.minutes / of_bert, abs=0.01)
    assert read_published("duplicates", "figures34").groupby("corpus").size().to_dict() == {
        "eclipse": 4,
        "thunderbird": 3,
    }


def test_table5_has_the_papers_numbers_in_the_row_of_the_same_model_and_corpus(settings):
    table = paper_table(settings, "table5")
    assert len(table) == 4 + 10 - 3
    models = ["roberta, text alone", "bert, text alone", "bert, text + graph", "bert, text alone"]
    assert table["model"][:4].tolist() == models
    assert table["paper f1"][:3].tolist() == [0.924, 0.927, 0.924]
    assert np.isnan(table["paper f1"][3])  # another corpus
    assert table["precision"][:4].tolist() == [1.0] * 4
    rest = table[4:]
    assert rest["f1"].isna().all()
    assert set(rest["corpus"]) == {"eclipse", "thunderbird"}
    assert rest["paper f1"].notna().all()


def test_tables_3_and_4_and_figure2_stand_beside_the_papers(settings):
    table = paper_table(settings, "table4")
    assert table["minutes"][:4].tolist() == [1.0, 2.0, 3.0, 0.5]
    assert table["relative"][:4].tolist() == [0.5, 1.0, 1.5, 1.0]
    assert table["paper minutes"][:3].tolist() == [16.3, 16.2, 18.1]
    table = paper_table(settings, "table3")
    assert table["pair"][:2].tolist() == ["duplicates: 1 and 2", "others: 3 and 4"]
    assert table["similarity"].dropna().tolist() == [0.8, -0.2] * 4
    assert table["paper similarity"].dropna().tolist() == [0.923, 0.993, 0.979, -0.033, -0.107, 0.138]
    table = paper_table(settings[:1], "figure2")
    assert table.loc[0, ["tn", "fp", "fn", "tp", "accuracy"]].tolist() == [1, 0, 0, 1, 1]


def test_figures34_match_by_epoch_and_mark_what_the_paper_states(settings):
    table = paper_table(settings[:3], "figures34")
    ours = table[table["model"] == "bert, text + graph"]
    first = ours[(ours["corpus"] == "eclipse") & (ours["epoch"] == 1)].iloc[0]
    assert (first["train/loss"], first["paper train/loss"], first["paper val/loss"]) == (0.1, 0.125, 0.085)
    assert len(table) == 6 + 3  # the paper's three epochs on Thunderbird
    loss, f1 = convergence(settings[:3]).axes
    labels = [line.get_label() for line in loss.lines]
    assert labels[:2] == ["roberta, text alone: train", "roberta, text alone: val"]
    assert "paper, bert, text + graph: train" in labels
    assert len(f1.lines) == 6 + 4
    assert len(convergence(settings[3:]).axes[0].lines) == 2


WORDS = ("crash", "editor", "folder", "mail", "search", "theme", "update", "window")
CORPORA = {"EclipsePlatform": "eclipse_platform", "Thunderbird": "mozilla_thunderbird"}
MODELS = {"google-bert/bert-base-uncased": "bert", "FacebookAI/roberta-base": "roberta"}
MODELS |= {"distilbert/distilbert-base-uncased": "distilbert", "microsoft/codebert-base": "roberta"}


def write_bughub(folder: Path, name: str, count: int = 120, size: int = 3) -> None:
    """A corpus in bughub's columns: half of the reports in groups of ``size``, of which all but one are labelled."""
    rng = np.random.default_rng(0)
    words = rng.choice(WORDS, (count, 6))
    of_group = [str(row - row % size) if row < count // 2 and row % size else "" for row in range(count)]
    reports = {"Issue_id": range(count), "Priority": "P3", "Component": "UI", "Duplicated_issue": of_group}
    reports |= {"Title": [" ".join(row[:3]) for row in words], "Description": [" ".join(row) for row in words]}
    reports |= {"Status": "NEW", "Resolution": "", "Version": "1", "Resolved_time": ""}
    reports |= {"Created_time": pd.date_range("2010-01-01", periods=count, tz="UTC").astype(str)}
    folder.mkdir(parents=True)
    pd.DataFrame(reports).to_csv(folder / f"{name}.csv", index=False)
    labels = pd.DataFrame({"Issue_id": range(count - 1), "Duplicate": of_group[:-1]})
    labels.replace("", "NULL").to_csv(folder / "train.csv", index=False)


@pytest.mark.slow
def test_one_sweep_makes_all_tables_and_figures_of_the_paper_and_resumes(command, tmp_path, capsys):
    for folder, name in CORPORA.items():
        write_bughub(tmp_path / "data" / folder, name)
    for model, architecture in MODELS.items():  # the names of the hub's models are folders here
        save_small_model(tmp_path / model, architecture, positions=256)
    makefile = (Path(gedbd.train.__file__).parents[1] / "Makefile").read_text()
    words = re.search(r"gedbd.train (.*?)\) (experiment=paper_tables) \$\(ARGS\)", makefile).groups()
    words = [*words, "encoder.max_tokens=16", "pairs.fill_to=150", "trainer.max_epochs=2", "trainer.accelerator=cpu"]
    sweep = tmp_path / "outputs" / "paper"
    # Four of the sixteen runs: a sweep that ended early.
    command(gedbd.train, tmp_path, *words, "encoder=bert")
    first = {path: path.stat().st_mtime_ns for path in sweep.glob("*/predictions.parquet")}
    assert len(first) == 4
    command(gedbd.train, tmp_path, *words)
    runs = {path: path.stat().st_mtime_ns for path in sweep.glob("*/predictions.parquet")}
    assert len(runs) == 16
    assert first.items() <= runs.items()

    page = (sweep / "paper_tables.md").read_text()
    assert all(f"## {title}" in page for title in TITLES.values())
    tables = {name: pd.read_csv(sweep / f"{name}.csv") for name in TITLES}
    later = read_published("duplicates", "figures34")["condition"].astype(int) > 2
    assert len(tables["figures34"]) == 2 * 16 + later.sum()
    for name, metric in (("table4", "minutes"), ("table5", "f1")):
        assert tables[name][metric].notna().sum() == len(tables[name]) == 16  # all that are published have a run
        assert tables[name][f"paper {metric}"].notna().sum() == 10
    counts = tables["figure2"][["tn", "fp", "fn", "tp"]]
    assert (counts.sum(axis=1) == 30).all()  # a fifth of the pairs
    assert all((sweep / f"figures34_{corpus}.png").is_file() for corpus in ("eclipse", "thunderbird"))

    command(gedbd.train, tmp_path, *words)  # trains nothing again
    assert {path: path.stat().st_mtime_ns for path in sweep.glob("*/predictions.parquet")} == runs


def test_a_sweep_without_finished_runs_says_so(tmp_path, capsys):
    (tmp_path / "0").mkdir()
    write_tables(tmp_path)
    assert "no run of" in capsys.readouterr().out
