"""The published table beside runs whose numbers are known."""

import json
from pathlib import Path

import pandas as pd
import pytest
from omegaconf import OmegaConf
from scipy.stats import mannwhitneyu

from gedbd.experiments.report.run_settings import group_settings
from gedbd.experiments.run_folder import SCHEMA, Run
from gedbd.questions.table4 import table4, write_table4

READER = "gedbd.questions.stackexchange.reader.read_stackexchange"


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """A sweep of four baselines; the first finds the original at rank 2 among candidates, at 40 among all."""
    ranked = {"bm25": {"candidate_sets": 2, "earlier": 40}, "own": {"earlier": 1}}
    ranked |= {"te": {"candidate_sets": 1}, "te_network": {"candidate_sets": 4}}
    for number, (name, ranks) in enumerate(ranked.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        config = {"seed": 0, "name": name, "run": None, "part": "test", "baselines": {name: {"_target_": "x"}}}
        config |= {"dataset": {"name": "cs", "_target_": READER}, "encoder": {"name": "minilm"}}
        config["split"] = {"_target_": "gedbd.sampling.splits.TimeSplit"}
        OmegaConf.save(OmegaConf.create(config), folder / "config.yaml")
        (folder / "versions.json").write_text(json.dumps({"schema": SCHEMA, "corpus": "0b6"}))
        results = pd.DataFrame({"method": [name, "always_duplicate"], "threshold": 0.5, "f1": 0.5})
        results.to_csv(folder / "results.csv", index=False)
        pairs = pd.DataFrame({"label": [1], "score": [0.9], "part": ["test"]})
        pairs.to_parquet(folder / "predictions.parquet", index=False)
        tables = []
        for protocol, rank in ranks.items():
            found = pd.DataFrame({"id": ["a", "b", "c", "d"], "group": list("abcd"), "reachable": [True] * 3 + [False]})
            found = found.assign(rank=[rank] * 3 + [0], average_precision=0.5, method=name, protocol=protocol)
            at_k = {f"average_precision@{k}": 0.0 for k in (10, 20, 30, 50, 100, 500)}
            tables.append(found.assign(**at_k))
        pd.concat(tables).to_parquet(folder / "queries.parquet", index=False)
    return tmp_path


def test_runs_stand_beside_the_paper_and_its_other_methods_follow(sweep):
    table = table4(group_settings([Run(sweep / str(number)) for number in range(4)]))
    assert table["ranked"].tolist() == ["candidate sets"] * 14 + ["all earlier"] * 2
    assert table["model"].tolist()[0] == "bm25"
    assert table["model"].tolist()[-2:] == ["bm25", "own"]
    assert "BM25" not in table["model"].tolist()
    ours = table.loc[0, ["reachable", "mrr", "rr@10", "rr@500", "paper mrr", "paper rr@10"]]
    assert ours.tolist() == pytest.approx([75, 37.5, 75, 75, 6.06, 10.3])
    among_all = table.iloc[14][["mrr", "rr@10", "rr@50"]]
    assert among_all.tolist() == pytest.approx([100 * 0.75 / 40, 0, 75])
    assert table.loc[table["ranked"] == "all earlier", "paper mrr"].isna().all()
    assert table.loc[3:13, "mrr"].isna().all()
    expected = mannwhitneyu([1, 1, 1, 0], [0.25, 0.25, 0.25, 0], method="asymptotic").pvalue
    assert table["p against text alone"].dropna().tolist() == pytest.approx([expected])
    assert table.loc[table["p against text alone"].notna(), "model"].tolist() == ["te_network"]


def test_the_page_says_what_the_encoder_has_seen_and_that_the_data_differ(sweep, capsys):
    write_table4(sweep)
    page = (sweep / "table4.md").read_text()
    assert "has very likely seen duplicate questions of this corpus" in page
    assert "cs is not the paper's data" in page
    assert "| InferSent |" in page
    assert len(pd.read_csv(sweep / "table4.csv")) == 16
    assert "table4.md" in capsys.readouterr().out


def test_without_a_finished_run_there_is_no_table(tmp_path, capsys):
    write_table4(tmp_path)
    assert "no run of" in capsys.readouterr().out.replace("\n", " ")
    assert not list(tmp_path.iterdir())
