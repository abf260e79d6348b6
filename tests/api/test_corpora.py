"""Corpora by the API: formats, options, tables and mistakes."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from omegaconf import OmegaConf

import gedbd
from gedbd.corpora.readers import formats
from gedbd.io.files import CONF_DIR

READERS = Path(__file__).parents[1] / "corpora" / "readers"
ISSUES, FILES = READERS / "issues.json", READERS.parents[1] / "field_cases"
NEED_OPTIONS = {"tilde.csv", "uk_dates.csv", "links_pairs_headless.csv", "links_pairs_labelled.csv"}


def test_the_format_is_recognized(tmp_path):
    assert gedbd.load_corpus(ISSUES).reports.equals(gedbd.load_corpus(str(ISSUES), "github").reports)
    (tmp_path / "bugs.csv").write_text("Issue_id,Title,Duplicated_issue\n1,Crash,\n2,Again,1\n")
    assert len(gedbd.load_corpus(tmp_path / "bugs.csv")) == 2
    (tmp_path / "odd.txt").write_text("?")
    with pytest.raises(ValueError, match=r"odd\.txt, row 1: no comma, semicolon, tab or pipe separates"):
        gedbd.load_corpus(tmp_path / "odd.txt")
    (tmp_path / "odd.json").write_text(json.dumps([{"a": 1}]))
    with pytest.raises(ValueError, match=r"odd\.json"):
        gedbd.load_corpus(tmp_path / "odd.json")


@pytest.mark.parametrize("file", sorted({file.name for file in FILES.iterdir()} - NEED_OPTIONS)[::3])
def test_the_format_is_that_of_the_command(file):
    command = gedbd.load_corpus(FILES / file, "auto")
    corpus = gedbd.load_corpus(FILES / file)
    assert corpus.reports.equals(command.reports)
    assert corpus.group.tolist() == command.group.tolist()
    assert corpus.warnings == command.warnings[1:]  # the first one says the format


def test_a_format_may_inherit_the_options_of_another(tmp_path, monkeypatch):
    conf = shutil.copytree(CONF_DIR, tmp_path / "conf")
    for module in ("api.calls", "configuration.options"):
        monkeypatch.setattr(f"gedbd.{module}.CONF_DIR", str(conf))
    monkeypatch.setattr(formats, "FOLDER", conf / "dataset")
    monkeypatch.setattr(formats, "_known_sets", formats._known_sets.__wrapped__)
    columns = {"id": "Nr", "title": "Titel", "description": "Text", "created_at": "Datum", "duplicate": "Doppelt"}
    recognised_by = {"columns": [["Nr", "Titel"]]}
    OmegaConf.save(
        {"defaults": ["csv"], "recognised_by": recognised_by, "columns": columns}, conf / "dataset" / "meldungen.yaml"
    )
    file = tmp_path / "m.csv"
    file.write_text("Nr;Titel;Text;Datum;Doppelt\n1;Absturz;Beim Start;2026-01-02;\n2;Wieder;;2026-01-03;1\n")
    for corpus in (gedbd.load_corpus(file, "meldungen"), gedbd.load_corpus(file), gedbd.load_corpus(file, "auto")):
        assert list(corpus.reports["description"]) == ["Beim Start", ""]
        assert corpus.group[0] == corpus.group[1]
    assert corpus.warnings[0] == "m.csv is read as dataset=meldungen"


def test_columns_and_options_are_those_of_the_command(tmp_path):
    file = tmp_path / "it's, {odd}.csv"
    file.write_bytes("Key;Summary\nx;Größe\ny;Crash\n".encode("cp1252"))
    corpus = gedbd.load_corpus(
        file, columns={"title": "Summary", "id": "Key", "duplicate": None}, encoding="cp1252", last_n=1, name="mine"
    )
    assert corpus.name == "mine"
    assert list(corpus.reports["title"]) == ["Crash"]
    assert any("the newest 1 of 2 reports are kept" in warning for warning in corpus.warnings)


def test_last_n_works_for_corpora_without_the_option(demo):
    assert list(gedbd.load_corpus("demo", last_n=5).reports["id"]) == list(demo.reports["id"][-5:])


def test_a_table_is_read_as_a_file_would_be(demo):
    fields = ["id", "title", "description", "created_at", "component", "priority"]
    table = demo.reports[fields].assign(Duplicated_issue=demo.reports["id"].to_numpy()[demo.group])
    table.loc[table["Duplicated_issue"] == table["id"], "Duplicated_issue"] = None
    corpus = gedbd.load_corpus(table.sample(frac=1, random_state=0), name="demo")
    assert not corpus.warnings
    assert corpus.reports[fields].equals(demo.reports[fields])
    assert (corpus.group == demo.group).all()


@pytest.mark.parametrize(
    ("source", "options", "line"),
    [
        ("nowhere.csv", {}, "^nowhere.csv: no such file or folder, and not one of the known corpora: askubuntu, demo,"),
        ("demo", {"format": "svn"}, "^format='svn' is unknown: choose one of askubuntu, auto, azure,"),
        ("other", {"format": "demo"}, "^format='demo' is the name of a corpus"),
        ("demo", {"columns": {"x": "y"}}, "^dataset.columns.x: no such field; the fields are id, title,"),
        ("demo", {"nonsense": 1}, "^unknown option nonsense of format='demo': choose name,"),
        (ISSUES, {"dataset": "jira"}, "^dataset='jira' is an option of commands: in Python, give it as format=$"),
        (pd.DataFrame({"id": ["1"]}), {}, r"^table, row 1: (no column|the column)"),
        (pd.DataFrame({"id": ["1"]}), {"format": "csv"}, "^format='csv' applies to files only"),
    ],
)
def test_mistakes_are_said_in_one_line(source, options, line):
    with pytest.raises(ValueError, match=line) as caught:
        gedbd.load_corpus(source, **options)
    assert "\n" not in str(caught.value)
