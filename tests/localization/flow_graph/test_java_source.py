"""The methods of Java files, which of them a user means, and code without layout and comments."""

import re

import pytest

from gedbd.localization.flow_graph.java_source import choose_method, find_methods, plain_code, read_source

SOURCE = """package a.b;

/** A class. */
public class A {
    /**
     * Adds <b>two</b> numbers.
     *
     * @param a  the first
     */
    // Not this.
    @Deprecated
    public int add(int a, int b) {
        return a + b;
    }

    /** Not of the constructor. */
    private int größe;

    A() { }

    interface I {
        void none();
        default int one() { return 1; }
    }

    Object o = new Object() {
        /* Not Javadoc. */
        public String toString() { return "ä"; }
    };

    record P(int x) {
        /** Checks. */ P { check(x); }
    }
}
"""
SORTER = """class Sorter {
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


def test_methods_with_a_body_are_found_in_order():
    methods = find_methods(SOURCE, "A.java")
    found = [(method.name, method.line, method.comment) for method in methods]
    assert found == [
        ("add", 11, "Adds <b>two</b> numbers.\n\n@param a  the first"),
        ("A", 19, ""),
        ("one", 23, ""),
        ("toString", 28, ""),
        ("P", 32, "Checks."),
    ]
    assert methods[0].path == "A.java"
    assert methods[0].code.startswith("@Deprecated\n    public int add(")
    assert methods[3].code == 'public String toString() { return "ä"; }'


def test_files_with_errors_or_replaced_characters_give_what_parses():
    broken = 'class A { void f() { g(); } int x = ; String s = "\ufffd"; int h() { return 1 } }'
    assert [method.name for method in find_methods(broken)] == ["f", "h"]
    assert find_methods('class A { String s = "\udcff"; void f() { } }')[0].code == "void f() { }"


def test_windows_line_ends_leave_the_comment():
    method = find_methods("class A {\r\n  /**\r\n   * One.\r\n   * Two.\r\n   */\r\n  void f() { }\r\n}\r\n")[0]
    assert method.comment == "One.\nTwo."


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("least", None, ("least", 2, False)),
        ("sort", 11, ("sort", 11, True)),
        ("sort", 14, ("sort", 13, True)),
        (None, 6, ("least", 2, False)),
        (None, 14, ("run", 14, False)),  # the innermost one
    ],
)
def test_a_method_is_chosen_by_name_and_line(name, line, expected):
    method, is_overloaded = choose_method(SORTER, "Sorter.java", name, line)
    assert (method.name, method.line, is_overloaded) == expected


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        (None, None, "Sorter.java has 5 methods: choose a name, of least, Sorter, sort, run"),
        ("leest", None, "Sorter.java has no method leest: did you mean least?"),
        ("sort", None, "Sorter.java has 2 methods sort: choose a line, of 11, 13"),
        ("sort", 8, "Sorter.java: no method sort holds line 8: they are at lines 11-11, 13-15"),
    ],
)
def test_choices_that_are_refused(name, line, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        choose_method(SORTER, "Sorter.java", name, line)
    with pytest.raises(ValueError, match=r"notes.txt has no method or constructor with a body: is it a Java file\?"):
        choose_method("Nothing to draw here.", "notes.txt", name, line)


def test_other_encodings_are_read(tmp_path):
    file = tmp_path / "Latin.java"
    file.write_bytes("class T {\n  int größe() { }\n}".encode("latin-1"))
    warning = f"{file} is not UTF-8, so that it is read as cp1252"
    assert read_source(file, 1) == ("class T {\n  int größe() { }\n}", (warning,))
    file.write_bytes("class T { }".encode("utf-8-sig"))  # with a byte order mark
    assert read_source(file, 1) == ("class T { }", ())


@pytest.mark.parametrize(
    ("left", "right", "is_equal"),
    [
        ("int f( int a )\n{\n\treturn a;\n}", "int f(int a) { return a; }", True),
        ("int f(int a) { // the first { \"\n return a; /* and ' more */ }", "int f(int a) { return a; }", True),
        ("/** Doc. */ int/**/f(int a){return a;}", "int f(int a) { return a; }", True),
        ('s = "a b";', 's = "ab";', False),
        ('s = "http://x";', 's = "http:";', False),
        ('s = "\\" // x";', 's = "\\"";', False),
        ("c = '\"'; // x", "c = '\"'; d();", False),
        ("return a;", "returna;", False),
        ('s = """\n a " // b\n""";', 's = """\n a " \n""";', False),
    ],
)
def test_layout_and_comments_do_not_count_but_literals_and_words_do(left, right, is_equal) -> None:
    assert (plain_code(left) == plain_code(right)) == is_equal


@pytest.mark.parametrize("text", ["/*", '"', "'", "'\"", '"""'])
def test_literals_without_an_end_take_time_in_proportion(text, hang_guard) -> None:
    assert plain_code(100_000 * text) is not None
