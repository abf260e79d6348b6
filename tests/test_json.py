"""``json=true`` of the commands that read little: one document, which holds the numbers of the CSV files."""

import json
from importlib.resources import files

import pandas as pd
import pytest
from run_commands import composed

from gedbd.configuration.help import read_command
from gedbd.corpora.statistics import describe_corpus
from gedbd.experiments.corpus_reading import read_corpus

pytestmark = pytest.mark.integration

DEMO = str(files("gedbd.corpora") / "demo.csv")


@pytest.fixture
def told(run_command):
    """Runs a command in a folder of its own; gives its document."""

    def through(*words):
        printed = run_command(*words, "json=true")
        assert printed.count("\n") == 1
        return json.loads(printed)

    return through


def test_statistics_of_a_corpus(told, capsys):
    document = told("describe", "dataset=demo")
    assert capsys.readouterr().err == ""
    (corpus,) = document["corpora"]
    assert (corpus["name"], corpus["warnings"]) == ("demo", [])
    expected = describe_corpus(read_corpus(composed("describe", "dataset=demo").dataset))
    dates = {name: value.isoformat() for name, value in expected.items() if isinstance(value, pd.Timestamp)}
    assert corpus["statistics"] == expected | dates


@pytest.fixture
def small(told) -> list[str]:
    """The options of a corpus of 150 reports."""
    pd.read_csv(DEMO, dtype=str).head(150).to_csv("small.csv", index=False)
    return ["dataset=csv", "dataset.path=small.csv"]


def test_tables_of_runs_of_a_comparison_and_of_a_page(told, small, tmp_path, same_rows):
    for name in ("constant", "bm25"):
        run = told("baseline", f"name={name}", f"hydra.run.dir={name}", *small)
        assert list(run) == ["folder", "corpus", "part", "results", "ranking", "examples", "leak", "conclusions"]
        assert (run["corpus"], run["part"]) == ("small", "test")
        for table in ("results", "ranking"):
            same_rows(run[table], tmp_path / name / f"{table}.csv")
        assert run["leak"] == json.loads((tmp_path / name / "leak.json").read_text())
        assert "json:" not in (tmp_path / name / "config.yaml").read_text()
    compared = told("compare", "run=bm25", "against=constant", "out=compared.csv")
    same_rows(compared["comparison"], tmp_path / "compared.csv")
    told("compare", "bm25", "constant", "out=compared.tex")
    comment, _, table = (tmp_path / "compared.tex").read_text().partition("\n")
    assert comment == "% bm25 minus constant"
    assert table.startswith("\\begin{tabular}")
    page = told("report", "bm25", "constant", "out=page")
    assert page["page"] == "page/report.html"
    assert page["not_finished"] == []


@pytest.mark.parametrize(
    "command",
    ["backtest", "baseline", "compare", "describe", "evaluate", "flow_graph", "judge", "locate_backtest", "train"],
)
def test_every_command_with_a_table_documents_its_fields(command):
    (option,) = [one for one in read_command(command).options if one.name == "json"]
    assert option.value == "false"
    assert option.comment.startswith("print one JSON document to standard output")
