"""The JSON document of a command."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gedbd.io.command_output import finish_document, json_output, record, recorded_part, write_json_line

TABLE = pd.DataFrame({"method": ["bm25", "rep"], "f1": np.array([0.1, np.nan], dtype=np.float32), "queries": [3, 4]})
TABLE = TABLE.assign(first=[pd.Timestamp("2024-01-31", tz="UTC"), pd.NaT], met=[True, False])


def test_values_have_all_digits_and_no_type_of_their_own(capsys):
    with json_output(True):
        print("progress")
        record(table=TABLE, folder=Path("out"), at=datetime(2024, 1, 31, tzinfo=UTC), shares=np.array([1 / 3, np.inf]))
        record(counts={"a": np.int64(1)}, nothing=None, pair=(1, "ä"))
    output = capsys.readouterr()
    assert output.err == "progress\n"
    assert output.out.isascii()
    assert output.out.count("\n") == 1
    assert json.loads(output.out) == {
        "table": [
            {"method": "bm25", "f1": 0.1, "queries": 3, "first": "2024-01-31T00:00:00+00:00", "met": True},
            {"method": "rep", "f1": None, "queries": 4, "first": None, "met": False},
        ],
        "folder": "out",
        "at": "2024-01-31T00:00:00+00:00",
        "shares": [1 / 3, None],
        "counts": {"a": 1},
        "nothing": None,
        "pair": [1, "ä"],
    }


def test_parts_become_a_list_and_one_document_is_printed(capsys):
    with json_output(True):
        for seed in (0, 1):
            with recorded_part("runs", seed=seed):
                record(f1=seed / 2)
        record(mean=0.25)
    assert json.loads(capsys.readouterr().out) == {
        "runs": [{"seed": 0, "f1": 0.0}, {"seed": 1, "f1": 0.5}],
        "mean": 0.25,
    }


def test_a_failed_command_prints_no_document_but_what_was_finished(capsys):
    def fail(is_sweep):
        with json_output(True):
            record(summary=2)
            if is_sweep:
                finish_document()
            raise SystemExit(1)

    with pytest.raises(SystemExit):
        fail(is_sweep=False)
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit):
        fail(is_sweep=True)
    assert capsys.readouterr().out == '{"summary": 2}\n'


def test_only_the_first_process_prints(monkeypatch, capsys):
    monkeypatch.setenv("LOCAL_RANK", "1")
    with json_output(True):
        record(a=1)
        write_json_line("[2]")
    assert capsys.readouterr().out == ""


def test_what_json_has_no_value_for_is_an_error_of_the_program():
    with pytest.raises(TypeError, match="set cannot be recorded"), json_output(True):
        record(a={1, 2})
