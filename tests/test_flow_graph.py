"""The command flow-graph: what it writes and prints, and how it is called."""

import json
import re
from functools import partial

import pytest

SOURCE = """class Sorter {
    void sort() { }

    int least(int a, int b) {
        if (a < b) {
            return a;
        }
        return b;
    }

    void sort(int a) { use("$a$"); }
}
"""


@pytest.fixture
def run(tmp_path, run_command):
    """Runs the command in a folder with Sorter.java; gives what it prints."""
    (tmp_path / "Sorter.java").write_text(SOURCE)
    return partial(run_command, "flow-graph")


def test_graphs_and_tables(run, tmp_path):
    printed = run("Sorter.java", "--method", "least", "--out=graphs")
    assert sorted(file.name for file in (tmp_path / "graphs").iterdir()) == ["least.dot", "least.mmd"]
    assert 'title: "least, Sorter.java:4"' in (tmp_path / "graphs" / "least.mmd").read_text()
    assert re.search(r"1 +4 +a +INTEGER +PARAMETER", printed)
    assert re.search(r"4 +5 +IF_CONDITION", printed)
    # the parameters 1 and 2, the condition 5 and 6, the returned 9 and 11
    assert re.search(r"DATA +4 +1>5 1>9 2>6 2>11", printed)
    assert printed.endswith("written: graphs/least.mmd\nwritten: graphs/least.dot\n")


def test_tables_as_json(run):
    document = json.loads(run("Sorter.java", "method=least", "json=true"))
    assert list(document) == ["method", "line", "files", "nodes", "edges"]
    assert (document["method"], document["files"]) == ("least", ["least.mmd", "least.dot"])
    assert document["nodes"][0] == {"node": 1, "line": 4, "name": "a", "type": "INTEGER", "role": "PARAMETER"}
    assert document["edges"][0] == {"kind": "DATA", "edges": 4, "from>to": "1>5 1>9 2>6 2>11"}


def test_overloaded_methods_write_their_lines(run, tmp_path):
    run("path=Sorter.java", "method=sort", "line=11")
    first = (tmp_path / "sort-11.dot").read_bytes()
    run("Sorter.java", "--line", "11")
    assert (tmp_path / "sort-11.dot").read_bytes() == first


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["Sorter.java", "--line", "x"], "line=x must be a whole number"),
        (["Sorter.java", "--method"], "--method needs a value: --method VALUE"),
        ([], "path= is required, for example: gedbd flow-graph Sorter.java --method sort"),
        (["Sorter.java", "--method=short"], "Sorter.java has no method short: did you mean sort?"),
    ],
)
def test_mistakes(run, tmp_path, words, message):
    with pytest.raises(SystemExit, match=re.escape(message)):
        run(*words)
    assert [file.name for file in tmp_path.iterdir()] == ["Sorter.java"]
