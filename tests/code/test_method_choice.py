"""Which method of a file a user means."""

import re
from pathlib import Path

import pytest

from gedbd.code.java_methods import choose_method, read_source

SOURCE = """class Sorter {
    int least(int a, int b) {
        if (a < b) {
            return a;
        }
        return b;
    }

    Sorter(int größe) { super(größe); }

    void sort() { use(); }

    void sort(int[] a) { new Thread() {
        void run() { use(a); }
    }; }
}
"""


@pytest.mark.parametrize(
    ("name", "line", "found", "is_overloaded"),
    [("least", None, 2, False), ("sort", 11, 11, True), ("sort", 14, 13, True), (None, 6, 2, False)],
)
def test_choice(name, line, found, is_overloaded):
    method, others = choose_method(SOURCE, "Sorter.java", name, line)
    assert (method.line, others) == (found, is_overloaded)


def test_the_innermost_method_of_a_line_is_chosen():
    assert choose_method(SOURCE, "Sorter.java", None, 14)[0].name == "run"


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        (None, None, "Sorter.java has 5 methods: choose one with --method, of least, Sorter, sort, run"),
        ("leest", None, "Sorter.java has no method leest: did you mean least?"),
        ("SORT", None, "Sorter.java has no method SORT: did you mean sort or Sorter?"),
        ("xyz", None, "Sorter.java has no method xyz: it has least, Sorter, sort, run"),
        ("sort", None, "Sorter.java has 2 methods sort: choose one with line=, of 11, 13"),
        ("sort", 8, "Sorter.java: no method sort holds line 8: they are at lines 11-11, 13-15"),
    ],
)
def test_choices_that_are_refused(name, line, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        choose_method(SOURCE, "Sorter.java", name, line)


def test_text_without_a_method():
    with pytest.raises(ValueError, match=r"notes.txt has no method or constructor with a body: is it a Java file\?"):
        choose_method("Nothing to draw here.", "notes.txt")


def test_files_that_are_refused(tmp_path):
    file = tmp_path / "Large.java"
    file.write_bytes(b"/" * 2_500_000)
    with pytest.raises(ValueError, match=r"Large.java has 2.5 MB, more than max_megabytes=2: cut it, or raise that"):
        read_source(file, 2)
    with pytest.raises(ValueError, match="is a folder: name a Java file"):
        read_source(tmp_path, 2)
    with pytest.raises(ValueError, match=r"Nowhere.java: there is no such file"):
        read_source(Path("Nowhere.java"), 2)


def test_another_encoding_is_read_as_cp1252(tmp_path):
    file = tmp_path / "Latin.java"
    file.write_bytes("class T {\n  int größe() { }\n}".encode("latin-1"))
    text, warnings = read_source(file, 1)
    assert text == "class T {\n  int größe() { }\n}"
    assert warnings == (f"{file} is not UTF-8, so that it is read as cp1252",)


def test_a_byte_order_mark_is_no_text(tmp_path):
    file = tmp_path / "Marked.java"
    file.write_bytes("class T { }".encode("utf-8-sig"))
    assert read_source(file, 1) == ("class T { }", ())
