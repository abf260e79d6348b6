"""Flow graphs of loops and jumps, worked out by hand; for the notation see graph_notation."""

import pytest
from graph_notation import Case, check

from gedbd.code.parse import method_graph

CASES = {
    "while with break and continue": Case(
        "int f(int n) { while (n > 0) { if (n == 7) break; if (n == 5) continue; n = n - 1; } return n; }",
        "n:PARAMETER:INTEGER WHILE_CONTINUE n:COMPARE_OPERATOR_LEFT IF_CONDITION n:COMPARE_OPERATOR_LEFT IF_THEN BREAK"
        " IF_CONVERGENCE IF_CONDITION n:COMPARE_OPERATOR_LEFT IF_THEN CONTINUE IF_CONVERGENCE n:ASSIGNED"
        " n:MATH_OPERATOR_LEFT WHILE_CONVERGENCE n:RETURN",
        "n1 n2 WHILE_CONTINUE n3 IF_CONDITION1 IF_THEN1 BREAK WHILE_CONVERGENCE n7; IF_CONDITION1 IF_CONVERGENCE1 n4"
        " IF_CONDITION2 IF_THEN2 CONTINUE n2; IF_CONDITION2 IF_CONVERGENCE2 n6 n5 n2; WHILE_CONTINUE WHILE_CONVERGENCE",
        "n1>n2 n1>n3 n1>n4 n1>n6 n1>n7 n5>n2 n5>n3 n5>n4 n5>n6 n5>n7 n6>n5",
    ),
    "labelled while": Case(
        "void f(int a) { outer: while (a > 0) { while (a > 1) { a = a - 1; if (a == 3) continue outer; if (a == 4)"
        " break outer; } } use(a); }",
        "a:PARAMETER:INTEGER WHILE_CONTINUE a:COMPARE_OPERATOR_LEFT WHILE_CONTINUE a:COMPARE_OPERATOR_LEFT a:ASSIGNED"
        " a:MATH_OPERATOR_LEFT IF_CONDITION a:COMPARE_OPERATOR_LEFT IF_THEN CONTINUE IF_CONVERGENCE IF_CONDITION"
        " a:COMPARE_OPERATOR_LEFT IF_THEN BREAK IF_CONVERGENCE WHILE_CONVERGENCE WHILE_CONVERGENCE"
        " a:INVOCATION_ARGUMENT",
        "a1 a2 WHILE_CONTINUE1 a3 WHILE_CONTINUE2 a5 a4 a6 IF_CONDITION1 IF_THEN1 CONTINUE a2;"
        " IF_CONDITION1 IF_CONVERGENCE1 a7 IF_CONDITION2 IF_THEN2 BREAK WHILE_CONVERGENCE2 a8;"
        " IF_CONDITION2 IF_CONVERGENCE2 a3; WHILE_CONTINUE2 WHILE_CONVERGENCE1 a2; WHILE_CONTINUE1 WHILE_CONVERGENCE2",
        "a1>a2 a1>a3 a1>a5 a1>a8 a4>a2 a4>a3 a4>a5 a4>a6 a4>a7 a4>a8 a5>a4",
    ),
    "while a variable": Case(
        "void f(boolean a) { while (a) a = false; }",
        "a:PARAMETER:BOOLEAN WHILE_CONTINUE a:WHILE_EXPRESSION a:ASSIGNED WHILE_CONVERGENCE",
        "a1 a2 WHILE_CONTINUE a3 a2; WHILE_CONTINUE WHILE_CONVERGENCE",
        "a1>a2 a3>a2",
    ),
    "while true": Case(
        "void f(int a) { while (true) { if (a > 0) break; a++; } }",
        "a:PARAMETER:INTEGER WHILE_CONTINUE IF_CONDITION a:COMPARE_OPERATOR_LEFT IF_THEN BREAK IF_CONVERGENCE"
        " a:ASSIGN_UNARY WHILE_CONVERGENCE",
        "a1 WHILE_CONTINUE a2 IF_CONDITION IF_THEN BREAK WHILE_CONVERGENCE;"
        " IF_CONDITION IF_CONVERGENCE a3 WHILE_CONTINUE; WHILE_CONTINUE WHILE_CONVERGENCE",
        "a1>a2 a1>a3 a3>a2",
    ),
    "do with continue": Case(
        "int f(int n) { do { n--; if (n == 3) continue; n = n - 2; } while (n > 0); return n; }",
        "n:PARAMETER:INTEGER DO_CONVERGENCE_INSIDE n:ASSIGN_UNARY IF_CONDITION n:COMPARE_OPERATOR_LEFT IF_THEN CONTINUE"
        " IF_CONVERGENCE n:ASSIGNED n:MATH_OPERATOR_LEFT DO_WHILE_CONDITION n:COMPARE_OPERATOR_LEFT"
        " DO_CONVERGENCE_OUTSIDE n:RETURN",
        "n1 DO_CONVERGENCE_INSIDE n2 n3 IF_CONDITION IF_THEN CONTINUE n6 DO_WHILE_CONDITION DO_CONVERGENCE_OUTSIDE n7;"
        " IF_CONDITION IF_CONVERGENCE n5 n4 n6; DO_WHILE_CONDITION DO_CONVERGENCE_INSIDE",
        "n1>n2 n2>n3 n2>n5 n5>n4 n2>n6 n4>n6 n2>n7 n4>n7 n4>n2",
    ),
    "do while a variable": Case(
        "void f(boolean a) { do a = next(a); while (a); }",
        "a:PARAMETER:BOOLEAN DO_CONVERGENCE_INSIDE a:ASSIGNED a:INVOCATION_ARGUMENT DO_WHILE_CONDITION"
        " a:DO_WHILE_EXPRESSION DO_CONVERGENCE_OUTSIDE",
        "a1 DO_CONVERGENCE_INSIDE a3 a2 a4 DO_WHILE_CONDITION DO_CONVERGENCE_OUTSIDE;"
        " DO_WHILE_CONDITION DO_CONVERGENCE_INSIDE",
        "a1>a3 a3>a2 a2>a4 a2>a3",
    ),
    "for with continue": Case(
        "int f(int n) { int s = 0; for (int i = 0; i < n; i++) { if (i == 2) continue; s += i; } return s; }",
        "n:PARAMETER:INTEGER s:ASSIGNED:INTEGER FOR_CONDITION i:ASSIGNED:INTEGER i:COMPARE_OPERATOR_LEFT"
        " n:COMPARE_OPERATOR_RIGHT i:ASSIGN_UNARY IF_CONDITION i:COMPARE_OPERATOR_LEFT IF_THEN CONTINUE IF_CONVERGENCE"
        " s:ASSIGNED i:ASSIGNMENT FOR_CONVERGENCE s:RETURN",
        "n1 s1 i1 i2 n2 FOR_CONDITION i4 IF_CONDITION IF_THEN CONTINUE i3 i2; IF_CONDITION IF_CONVERGENCE i5 s2 i3;"
        " FOR_CONDITION FOR_CONVERGENCE s3",
        "i1>i2 i1>i4 i1>i5 i1>i3 i3>i2 i3>i4 i3>i5 n1>n2 s1>s2 s1>s3 s2>s3 i5>s2",
    ),
    "for without a condition": Case(
        "void f(int a) { for (;;) { a = a - 1; if (a < 0) break; } use(a); }",
        "a:PARAMETER:INTEGER FOR_CONDITION a:ASSIGNED a:MATH_OPERATOR_LEFT IF_CONDITION a:COMPARE_OPERATOR_LEFT IF_THEN"
        " BREAK IF_CONVERGENCE FOR_CONVERGENCE a:INVOCATION_ARGUMENT",
        "a1 FOR_CONDITION a3 a2 a4 IF_CONDITION IF_THEN BREAK FOR_CONVERGENCE a5;"
        " IF_CONDITION IF_CONVERGENCE FOR_CONDITION",
        "a1>a3 a3>a2 a2>a4 a2>a3 a2>a5",
    ),
    "for without an end": Case(
        "void f(int a) { for (;;) use(a); }",
        "a:PARAMETER:INTEGER FOR_CONDITION a:INVOCATION_ARGUMENT",
        "a1 FOR_CONDITION a2 FOR_CONDITION",
        "a1>a2",
    ),
    "for a variable": Case(
        "void f(boolean a) { for (; a; ) a = next(); }",
        "a:PARAMETER:BOOLEAN FOR_CONDITION a:BLOCK_DEFAULT a:ASSIGNED FOR_CONVERGENCE",
        "a1 a2 FOR_CONDITION a3 a2; FOR_CONDITION FOR_CONVERGENCE",
        "a1>a2 a3>a2",
    ),
    "for with two variables": Case(
        "void f() { for (int i = 0, j = 9; i < j; i++, j--) use(i); }",
        "FOR_CONDITION i:ASSIGNED:INTEGER j:ASSIGNED:INTEGER i:COMPARE_OPERATOR_LEFT j:COMPARE_OPERATOR_RIGHT"
        " i:ASSIGN_UNARY j:ASSIGN_UNARY i:INVOCATION_ARGUMENT FOR_CONVERGENCE",
        "i1 j1 i2 j2 FOR_CONDITION i4 i3 j3 i2; FOR_CONDITION FOR_CONVERGENCE",
        "i1>i2 i1>i4 i1>i3 i3>i2 i3>i4 j1>j2 j1>j3 j3>j2",
    ),
    "enhanced for": Case(
        "int f(List<String> list) { int n = 0; for (String s : list) n += s.length(); return n; }",
        "list:PARAMETER:LIST n:ASSIGNED:INTEGER FOREACH_CONDITION s:ASSIGNED:STRING list:FOREACH_EXPRESSION n:ASSIGNED"
        " s:INVOCATION_TARGET FOREACH_CONVERGENCE n:RETURN",
        "list1 n1 list2 FOREACH_CONDITION s1 s2 n2 FOREACH_CONDITION; FOREACH_CONDITION FOREACH_CONVERGENCE n3",
        "list1>list2 list2>s1 s1>s2 s2>n2 n1>n2 n1>n3 n2>n3",
    ),
    "enhanced for with continue": Case(
        "void f(int[] a) { for (var x : a) { if (x > 0) continue; use(x); } }",
        "a:PARAMETER:INTEGER FOREACH_CONDITION x:ASSIGNED:NULL a:FOREACH_EXPRESSION IF_CONDITION"
        " x:COMPARE_OPERATOR_LEFT IF_THEN CONTINUE IF_CONVERGENCE x:INVOCATION_ARGUMENT FOREACH_CONVERGENCE",
        "a1 a2 FOREACH_CONDITION x1 x2 IF_CONDITION IF_THEN CONTINUE FOREACH_CONDITION;"
        " IF_CONDITION IF_CONVERGENCE x3 FOREACH_CONDITION; FOREACH_CONDITION FOREACH_CONVERGENCE",
        "a1>a2 a2>x1 x1>x2 x1>x3",
    ),
    "labelled block": Case(
        "void f(int a) { block: { if (a > 0) break block; a = 1; } use(a); }",
        "a:PARAMETER:INTEGER IF_CONDITION a:COMPARE_OPERATOR_LEFT IF_THEN BREAK IF_CONVERGENCE a:ASSIGNED"
        " a:INVOCATION_ARGUMENT",
        "a1 a2 IF_CONDITION IF_THEN BREAK a4; IF_CONDITION IF_CONVERGENCE a3 a4",
        "a1>a2 a1>a4 a3>a4",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_loops(name):
    check(method_graph(CASES[name].code), CASES[name])
