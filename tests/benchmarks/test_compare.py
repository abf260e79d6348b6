"""Records of the benchmark and what changed between two of them."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compare import changes, differences, verdict
from measure import Row, repeated
from records import Record, read_record, two_newest

RATE = repeated("encoding", "ours", [20.0, 30.0, 24.0], "reports/s", ("theirs", np.array([10.0, 10.0, 8.0])))
TIME = repeated("search", "p50", np.array([4.0, 2.0, 3.0]), "ms")
ONCE = Row("search", "memory", 100.0, "MB")
RECORD = Record("demo", "a processor, 2 cores, 24 GB", "2026-11-01T10:00:00", [RATE, TIME, ONCE])


def test_ratios_are_those_of_each_turn():
    assert (RATE.value, RATE.spread) == (24.0, (20.0, 30.0))
    assert (RATE.ratio, RATE.ratio_spread) == (3.0, (2.0, 3.0))
    time = repeated("search", "p50", np.array([4.0, 2.0]), "ms", ("theirs", np.array([8.0, 8.0])))
    assert (time.ratio, time.ratio_spread) == (3.0, (2.0, 4.0))


@pytest.mark.parametrize(
    ("before", "after", "is_rate", "expected"),
    [
        ((1.0, 2.0), (2.5, 3.0), True, "better"),
        ((1.0, 2.0), (2.5, 3.0), False, "worse"),
        ((2.5, 3.0), (1.0, 2.0), False, "better"),
        ((1.0, 2.0), (2.0, 3.0), True, "within the spread"),
        (None, (2.0, 3.0), True, "measured once"),
    ],
)
def test_verdict(before, after, is_rate, expected):
    assert verdict(before, after, is_rate) == expected


def test_ratios_are_compared_where_there_are_any():
    # Half as fast, beside a reference that is half as fast too.
    slower = repeated("encoding", "ours", [10.0, 15.0, 12.0], "reports/s", ("theirs", np.array([5.0, 5.0, 4.0])))
    later = replace(RECORD, rows=[slower, replace(TIME, value=6.0, spread=(5.0, 7.0)), ONCE])
    found = changes(RECORD, later)
    assert [row[2] for row in found] == ["times better than theirs", "ms", "MB"]
    assert [row[5:] for row in found] == [
        ("+0.0%", "within the spread"),
        ("+100.0%", "worse"),
        ("+0.0%", "measured once"),
    ]


def test_differences_name_other_machines_and_missing_rows():
    later = replace(RECORD, machine="another", rows=[RATE])
    lines = differences(RECORD, later)
    assert "the machines differ: compare only what is times better than something" in lines
    assert "only in the earlier record: search: p50; search: memory" in lines


def test_a_record_is_read_as_it_was_written(tmp_path):
    assert read_record(RECORD.write(tmp_path)) == RECORD


def test_the_two_newest_are_of_one_machine_and_corpus(tmp_path):
    with pytest.raises(ValueError, match="no record; make bench writes one"):
        two_newest(tmp_path)
    first = RECORD.write(tmp_path)
    replace(RECORD, machine="another", made_at="2026-11-02T10:00:00").write(tmp_path)
    replace(RECORD, corpus="xamarin", made_at="2026-11-03T10:00:00").write(tmp_path)
    with pytest.raises(ValueError, match="is of the same machine, corpus and sections"):
        two_newest(tmp_path)
    last = replace(RECORD, made_at="2026-11-04T10:00:00").write(tmp_path)
    assert two_newest(tmp_path) == (first, last)


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"corpus": "demo", "rows": [{"what": 1}]})])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"{path}: no record of make bench"):
        read_record(path)


@pytest.mark.integration
def test_the_command(tmp_path):
    later = replace(RECORD, made_at="2026-11-04T10:00:00")
    names = [str(one.write(tmp_path)) for one in (RECORD, later)]

    def compare(*words: str) -> subprocess.CompletedProcess[str]:
        script = Path(__file__).parents[2] / "benchmarks" / "compare.py"
        return subprocess.run([sys.executable, script, *words], capture_output=True, text=True, cwd=tmp_path)

    assert "within the" in compare(*names).stdout
    for words, message in ((names[:1], "RECORDS: 1 named"), ([], "no record"), (["a", "b"], "a: no record")):
        done = compare(*words)
        assert done.returncode == 1
        assert message in done.stderr
