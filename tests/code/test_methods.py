"""The methods of Java files."""

from gedbd.code.java_methods import find_methods

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


def test_texts_without_methods_give_none():
    for text in ("", " \n", "// a\n/* b */", "interface A { int f(int a); }", "no Java at all"):
        assert find_methods(text) == []


def test_windows_line_ends_leave_the_comment():
    method = find_methods("class A {\r\n  /**\r\n   * One.\r\n   * Two.\r\n   */\r\n  void f() { }\r\n}\r\n")[0]
    assert method.comment == "One.\nTwo."
