"""Flow graphs of branches and expressions, worked out by hand; for the notation see graph_notation."""

import pytest
from graph_notation import Case, check, expected_edges

from gedbd.code.parse import method_graph

TALK = Case(
    "double func(int a){ double x = sqrt(a); double y = log(a); if (x > y) x = x * y; else x = y; return x; }",
    "a:PARAMETER:INTEGER x:ASSIGNED:DOUBLE a:INVOCATION_ARGUMENT y:ASSIGNED:DOUBLE a:INVOCATION_ARGUMENT IF_CONDITION"
    " x:COMPARE_OPERATOR_LEFT y:COMPARE_OPERATOR_RIGHT IF_THEN x:ASSIGNED x:MATH_OPERATOR_LEFT y:MATH_OPERATOR_RIGHT"
    " IF_ELSE x:ASSIGNED y:ASSIGNMENT IF_CONVERGENCE x:RETURN",
    "a1 a2 x1 a3 y1 x2 y2 IF_CONDITION IF_THEN x4 y3 x3 IF_CONVERGENCE x6; IF_CONDITION IF_ELSE y4 x5 IF_CONVERGENCE",
    "a1>a2 a1>a3 a2>x1 x1>x2 x1>x4 a3>y1 y1>y2 y1>y3 y1>y4 x4>x3 y3>x3 y4>x5 x3>x6 x5>x6",
)
CASES = {
    "the talk's example": TALK,
    "if": Case(
        "void f(boolean a, int b) { if (a) b = 1; use(b); }",
        "a:PARAMETER:BOOLEAN b:PARAMETER:INTEGER IF_CONDITION a:IF_EXPRESSION IF_THEN b:ASSIGNED IF_CONVERGENCE"
        " b:INVOCATION_ARGUMENT",
        "a1 b1 a2 IF_CONDITION IF_THEN b2 IF_CONVERGENCE b3; IF_CONDITION IF_CONVERGENCE",
        "a1>a2 b1>b3 b2>b3",
    ),
    "else if": Case(
        "int f(boolean a, boolean b, int c) { if (a) { c = 1; } else if (b) { c = 2; } else { c = 3; } return c; }",
        "a:PARAMETER:BOOLEAN b:PARAMETER:BOOLEAN c:PARAMETER:INTEGER IF_CONDITION a:IF_EXPRESSION IF_THEN c:ASSIGNED"
        " IF_ELSE IF_CONDITION b:ELSE_EXPRESSION IF_THEN c:ASSIGNED IF_ELSE c:ASSIGNED IF_CONVERGENCE IF_CONVERGENCE"
        " c:RETURN",
        "a1 b1 c1 a2 IF_CONDITION1 IF_THEN1 c2 IF_CONVERGENCE2 c5; IF_CONDITION1 IF_ELSE1 b2 IF_CONDITION2 IF_THEN2 c3"
        " IF_CONVERGENCE1 IF_CONVERGENCE2; IF_CONDITION2 IF_ELSE2 c4 IF_CONVERGENCE1",
        "a1>a2 b1>b2 c2>c5 c3>c5 c4>c5",
    ),
    "early return": Case(
        "int f(int a) { if (a > 0) { return a; } a = -a; return a; }",
        "a:PARAMETER:INTEGER BEGIN IF_CONDITION a:COMPARE_OPERATOR_LEFT IF_THEN RETURN_EXIT a:RETURN IF_CONVERGENCE"
        " a:ASSIGNED a:OTHER_UNARY a:RETURN EXIT",
        "a1 BEGIN a2 IF_CONDITION IF_THEN a3 RETURN_EXIT EXIT; IF_CONDITION IF_CONVERGENCE a5 a4 a6 EXIT",
        "a1>a2 a1>a3 a1>a5 a5>a4 a4>a6",
    ),
    "both branches return": Case(
        "int f(boolean a) { if (a) return 1; else return 2; }",
        "a:PARAMETER:BOOLEAN BEGIN IF_CONDITION a:IF_EXPRESSION IF_THEN RETURN_EXIT IF_ELSE RETURN_EXIT EXIT",
        "a1 BEGIN a2 IF_CONDITION IF_THEN RETURN_EXIT1 EXIT; IF_CONDITION IF_ELSE RETURN_EXIT2 EXIT",
        "a1>a2",
    ),
    "dead code after return": Case(
        "int f(int a) { return a; a = 2; return a; }",
        "a:PARAMETER:INTEGER BEGIN RETURN_EXIT a:RETURN a:ASSIGNED a:RETURN EXIT",
        "a1 BEGIN a2 RETURN_EXIT EXIT; a3 a4 EXIT",
        "a1>a2 a3>a4",
    ),
    "value of a conditional": Case(
        "int f(boolean a, int b) { int c = a ? b : 0; return c; }",
        "a:PARAMETER:BOOLEAN b:PARAMETER:INTEGER c:ASSIGNED:INTEGER a:CONDITIONAL_CONDITION CONDITIONAL_CONDITION"
        " CONDITIONAL_THEN b:CONDITIONAL_THEN CONDITIONAL_ELSE CONDITIONAL_CONVERGENCE c:RETURN",
        "a1 b1 a2 CONDITIONAL_CONDITION CONDITIONAL_THEN b2 CONDITIONAL_CONVERGENCE c1 c2;"
        " CONDITIONAL_CONDITION CONDITIONAL_ELSE CONDITIONAL_CONVERGENCE",
        "a1>a2 b1>b2 b2>c1 c1>c2",
    ),
    "nested conditional": Case(
        "int f(boolean a, boolean b, int c, int d) { return a ? c : b ? d : c; }",
        "a:PARAMETER:BOOLEAN b:PARAMETER:BOOLEAN c:PARAMETER:INTEGER d:PARAMETER:INTEGER a:CONDITIONAL_CONDITION"
        " CONDITIONAL_CONDITION CONDITIONAL_THEN c:CONDITIONAL_THEN CONDITIONAL_ELSE b:CONDITIONAL_CONDITION"
        " CONDITIONAL_CONDITION CONDITIONAL_THEN d:CONDITIONAL_THEN CONDITIONAL_ELSE c:CONDITIONAL_ELSE"
        " CONDITIONAL_CONVERGENCE CONDITIONAL_CONVERGENCE",
        "a1 b1 c1 d1 a2 CONDITIONAL_CONDITION1 CONDITIONAL_THEN1 c2 CONDITIONAL_CONVERGENCE2;"
        " CONDITIONAL_CONDITION1 CONDITIONAL_ELSE1 b2 CONDITIONAL_CONDITION2 CONDITIONAL_THEN2 d2"
        " CONDITIONAL_CONVERGENCE1 CONDITIONAL_CONVERGENCE2; CONDITIONAL_CONDITION2 CONDITIONAL_ELSE2 c3"
        " CONDITIONAL_CONVERGENCE1",
        "a1>a2 b1>b2 c1>c2 c1>c3 d1>d2",
    ),
    "synchronized": Case(
        "void f(Object lock, int a) { synchronized (lock) { use(a); } }",
        "lock:PARAMETER:OTHER_JDK a:PARAMETER:INTEGER SYNCHRONIZED_ENTRY lock:SYNCHRONIZED_EXPRESSION"
        " a:INVOCATION_ARGUMENT",
        "lock1 a1 lock2 SYNCHRONIZED_ENTRY a2",
        "lock1>lock2 a1>a2",
    ),
    "assert": Case(
        "void f(int a, boolean b) { assert b : a; assert a > 0; }",
        "a:PARAMETER:INTEGER b:PARAMETER:BOOLEAN b:ASSERT_VALUE a:ASSERT_VALUE a:COMPARE_OPERATOR_LEFT",
        "a1 b1 b2 a2 a3",
        "a1>a2 a1>a3 b1>b2",
    ),
    "instanceof": Case(
        "int f(Object o) { if (o instanceof String s && s.isEmpty()) return 1; return o instanceof Mine(int x, var y)"
        " ? x : 0; }",
        "o:PARAMETER:OTHER_JDK BEGIN IF_CONDITION o:INSTANCEOF_OPERATOR_LEFT s:INSTANCEOF_OPERATOR_RIGHT:STRING"
        " s:INVOCATION_TARGET IF_THEN RETURN_EXIT IF_CONVERGENCE o:INSTANCEOF_OPERATOR_LEFT"
        " x:INSTANCEOF_OPERATOR_RIGHT:INTEGER y:INSTANCEOF_OPERATOR_RIGHT:NULL CONDITIONAL_CONDITION CONDITIONAL_THEN"
        " x:CONDITIONAL_THEN CONDITIONAL_ELSE CONDITIONAL_CONVERGENCE EXIT",
        "o1 BEGIN o2 s1 s2 IF_CONDITION IF_THEN RETURN_EXIT EXIT; IF_CONDITION IF_CONVERGENCE o3 x1 y"
        " CONDITIONAL_CONDITION CONDITIONAL_THEN x2 CONDITIONAL_CONVERGENCE EXIT;"
        " CONDITIONAL_CONDITION CONDITIONAL_ELSE CONDITIONAL_CONVERGENCE",
        "o1>o2 o1>o3 o2>s1 s1>s2 o3>x1 o3>y x1>x2",
    ),
    "shadowing in sibling blocks": Case(
        "void f() { { int x = 1; use(x); } { long x = 2; use(x); } }",
        "x:ASSIGNED:INTEGER x:INVOCATION_ARGUMENT x:ASSIGNED:LONG x:INVOCATION_ARGUMENT",
        "x1 x2 x3 x4",
        "x1>x2 x3>x4",
    ),
    "constructor that calls another": Case(
        "Foo(int a, int b) { this(a); use(b); }",
        "a:PARAMETER:INTEGER b:PARAMETER:INTEGER a:CONSTRUCTOR_ARGUMENT b:INVOCATION_ARGUMENT",
        "a1 b1 a2 b2",
        "a1>a2 b1>b2",
    ),
    "constructor that calls that of its superclass": Case(
        "Foo(int a) { super(a); this.a = new Bar(a); }",
        "a:PARAMETER:INTEGER a:CONSTRUCTOR_ARGUMENT a:ASSIGNED:NULL a:CONSTRUCTOR_ARGUMENT:INTEGER",
        "a1 a2 a4 a3",
        "a1>a2 a1>a4 a4>a3",
    ),
    "annotation": Case(
        "@Max(LIMIT) void f(int a) { use(a); }",
        "LIMIT:ANNOTATION_VALUE:NULL a:PARAMETER:INTEGER a:INVOCATION_ARGUMENT",
        "LIMIT a1 a2",
        "a1>a2",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_branches(name):
    check(method_graph(CASES[name].code), CASES[name])


def test_the_edges_of_the_talk_are_derived():
    edges = expected_edges(TALK)
    assert edges["CONTROL"] == {
        "IF_CONDITION1>IF_THEN1",
        "IF_CONDITION1>IF_ELSE1",
        "IF_THEN1>IF_CONVERGENCE1",
        "IF_ELSE1>IF_CONVERGENCE1",
    }
    assert edges["SEQUENTIAL"] == {
        "y2>IF_CONDITION1",
        "IF_THEN1>x4",
        "x3>IF_CONVERGENCE1",
        "IF_ELSE1>y4",
        "x5>IF_CONVERGENCE1",
        "IF_CONVERGENCE1>x6",
    }
