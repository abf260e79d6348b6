"""Flow graphs of branches, loops, switches and exceptions, worked out by hand; for the notation see graph_notation."""

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
BRANCHES = {
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
LOOPS = {
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
SWITCHES = {
    "fall through and default": Case(
        "int f(int a) { switch (a) { case 1: a = 2; case 3: a += 4; break; default: a = 5; } return a; }",
        "a:PARAMETER:INTEGER SWITCH_SELECTOR a:SWITCH_SELECTOR CASE_EXPRESSION a:ASSIGNED CASE_EXPRESSION a:ASSIGNED"
        " BREAK CASE_EXPRESSION a:ASSIGNED SWITCH_CONVERGENCE a:RETURN",
        "a1 a2 SWITCH_SELECTOR CASE_EXPRESSION1 a3 a4 BREAK SWITCH_CONVERGENCE a6; SWITCH_SELECTOR CASE_EXPRESSION2 a4;"
        " SWITCH_SELECTOR CASE_EXPRESSION3 a5 SWITCH_CONVERGENCE",
        "a1>a2 a3>a4 a1>a4 a4>a6 a5>a6",
    ),
    "several labels, no default": Case(
        "void f(int a, int b) { switch (a) { case 1: case 2: b = 1; break; case 3: } use(b); }",
        "a:PARAMETER:INTEGER b:PARAMETER:INTEGER SWITCH_SELECTOR a:SWITCH_SELECTOR CASE_EXPRESSION CASE_EXPRESSION"
        " b:ASSIGNED BREAK CASE_EXPRESSION SWITCH_CONVERGENCE b:INVOCATION_ARGUMENT",
        "a1 b1 a2 SWITCH_SELECTOR CASE_EXPRESSION1 b2 BREAK SWITCH_CONVERGENCE b3; SWITCH_SELECTOR CASE_EXPRESSION2 b2;"
        " SWITCH_SELECTOR CASE_EXPRESSION3 SWITCH_CONVERGENCE; SWITCH_SELECTOR SWITCH_CONVERGENCE",
        "a1>a2 b1>b3 b2>b3",
    ),
    "constant": Case(
        "void f(Colour c) { switch (c) { case RED: use(c); } }",
        "c:PARAMETER:USER_DEFINED SWITCH_SELECTOR c:SWITCH_SELECTOR CASE_EXPRESSION RED:CASE_VALUE:NULL"
        " c:INVOCATION_ARGUMENT SWITCH_CONVERGENCE",
        "c1 c2 SWITCH_SELECTOR CASE_EXPRESSION RED c3 SWITCH_CONVERGENCE; SWITCH_SELECTOR SWITCH_CONVERGENCE",
        "c1>c2 c1>c3",
    ),
    "continue in a switch": Case(
        "void f(int a) { while (a > 0) { switch (a) { case 1: continue; default: break; } a--; } }",
        "a:PARAMETER:INTEGER WHILE_CONTINUE a:COMPARE_OPERATOR_LEFT SWITCH_SELECTOR a:SWITCH_SELECTOR CASE_EXPRESSION"
        " CONTINUE CASE_EXPRESSION BREAK SWITCH_CONVERGENCE a:ASSIGN_UNARY WHILE_CONVERGENCE",
        "a1 a2 WHILE_CONTINUE a3 SWITCH_SELECTOR CASE_EXPRESSION1 CONTINUE a2;"
        " SWITCH_SELECTOR CASE_EXPRESSION2 BREAK SWITCH_CONVERGENCE a4 a2; WHILE_CONTINUE WHILE_CONVERGENCE",
        "a1>a2 a1>a3 a1>a4 a4>a2 a4>a3",
    ),
    "arrows": Case(
        "void f(int a) { switch (a) { case 1, 2 -> a = 3; case 4 -> { a = 5; } default -> throw new Error(); }"
        " use(a); }",
        "a:PARAMETER:INTEGER BEGIN SWITCH_SELECTOR a:SWITCH_SELECTOR CASE_EXPRESSION a:ASSIGNED CASE_EXPRESSION"
        " a:ASSIGNED CASE_EXPRESSION EXCEPTION_THROW SWITCH_CONVERGENCE a:INVOCATION_ARGUMENT EXIT",
        "a1 BEGIN a2 SWITCH_SELECTOR CASE_EXPRESSION1 a3 SWITCH_CONVERGENCE a5 EXIT;"
        " SWITCH_SELECTOR CASE_EXPRESSION2 a4 SWITCH_CONVERGENCE;"
        " SWITCH_SELECTOR CASE_EXPRESSION3 EXCEPTION_THROW EXIT",
        "a1>a2 a3>a5 a4>a5",
    ),
    "switch expression": Case(
        "int f(int a, int b) { int c = switch (a) { case 1 -> b; case 2 -> { yield a; } default -> b + 1; };"
        " return c; }",
        "a:PARAMETER:INTEGER b:PARAMETER:INTEGER c:ASSIGNED:INTEGER SWITCH_SELECTOR a:SWITCH_SELECTOR CASE_EXPRESSION"
        " b:YIELD_EXPRESSION CASE_EXPRESSION a:YIELD_EXPRESSION CASE_EXPRESSION b:MATH_OPERATOR_LEFT SWITCH_CONVERGENCE"
        " c:RETURN",
        "a1 b1 a2 SWITCH_SELECTOR CASE_EXPRESSION1 b2 SWITCH_CONVERGENCE c1 c2;"
        " SWITCH_SELECTOR CASE_EXPRESSION2 a3 SWITCH_CONVERGENCE;"
        " SWITCH_SELECTOR CASE_EXPRESSION3 b3 SWITCH_CONVERGENCE",
        "a1>a2 a1>a3 b1>b2 b1>b3 b2>c1 a3>c1 b3>c1 c1>c2",
    ),
    "switch expression with labels": Case(
        "int f(int a) { return switch (a) { case 1: yield a; default: yield 0; }; }",
        "a:PARAMETER:INTEGER SWITCH_SELECTOR a:SWITCH_SELECTOR CASE_EXPRESSION a:YIELD_EXPRESSION CASE_EXPRESSION"
        " SWITCH_CONVERGENCE",
        "a1 a2 SWITCH_SELECTOR CASE_EXPRESSION1 a3 SWITCH_CONVERGENCE;"
        " SWITCH_SELECTOR CASE_EXPRESSION2 SWITCH_CONVERGENCE",
        "a1>a2 a1>a3",
    ),
    "patterns with a guard": Case(
        "int f(Object o) { return switch (o) { case Integer i when i > 0 -> i; case String s -> s.length();"
        " case null, default -> 0; }; }",
        "o:PARAMETER:OTHER_JDK SWITCH_SELECTOR o:SWITCH_SELECTOR CASE_EXPRESSION i:CASE_VALUE:INTEGER"
        " i:COMPARE_OPERATOR_LEFT i:YIELD_EXPRESSION CASE_EXPRESSION s:CASE_VALUE:STRING s:INVOCATION_TARGET"
        " CASE_EXPRESSION SWITCH_CONVERGENCE",
        "o1 o2 SWITCH_SELECTOR CASE_EXPRESSION1 i1 i2 i3 SWITCH_CONVERGENCE;"
        " SWITCH_SELECTOR CASE_EXPRESSION2 s1 s2 SWITCH_CONVERGENCE;"
        " SWITCH_SELECTOR CASE_EXPRESSION3 SWITCH_CONVERGENCE",
        "o1>o2 o2>i1 i1>i2 i1>i3 o2>s1 s1>s2",
    ),
    "record pattern": Case(
        "int f(Object o) { return switch (o) { case Point(int x, int y) -> x + y; default -> 0; }; }",
        "o:PARAMETER:OTHER_JDK SWITCH_SELECTOR o:SWITCH_SELECTOR CASE_EXPRESSION x:CASE_VALUE:INTEGER"
        " y:CASE_VALUE:INTEGER x:MATH_OPERATOR_LEFT y:MATH_OPERATOR_RIGHT CASE_EXPRESSION SWITCH_CONVERGENCE",
        "o1 o2 SWITCH_SELECTOR CASE_EXPRESSION1 x1 y1 x2 y2 SWITCH_CONVERGENCE;"
        " SWITCH_SELECTOR CASE_EXPRESSION2 SWITCH_CONVERGENCE",
        "o1>o2 o2>x1 o2>y1 x1>x2 y1>y2",
    ),
    "try and catch": Case(
        "void f(int a) { try { a = read(a); } catch (Exception e) { use(e); } use(a); }",
        "a:PARAMETER:INTEGER TRY a:ASSIGNED a:INVOCATION_ARGUMENT CATCH e:CATCH:OTHER_JDK e:INVOCATION_ARGUMENT"
        " TRY_CONVERGENCE a:INVOCATION_ARGUMENT",
        "a1 TRY a3 a2 TRY_CONVERGENCE a4; TRY CATCH e1 e2 TRY_CONVERGENCE",
        "a1>a3 a3>a2 e1>e2 a1>a4 a2>a4",
    ),
    "two exceptions in one catch, finally": Case(
        "void f(int a) { try { a = 1; } catch (IOException | Mine e) { log(e); } finally { close(a); } }",
        "a:PARAMETER:INTEGER TRY a:ASSIGNED CATCH e:CATCH:OTHER_JDK e:INVOCATION_ARGUMENT FINALLY a:INVOCATION_ARGUMENT"
        " TRY_CONVERGENCE",
        "a1 TRY a2 FINALLY a3 TRY_CONVERGENCE; TRY CATCH e1 e2 FINALLY",
        "e1>e2 a1>a3 a2>a3",
    ),
    "try and finally": Case(
        "int f(int a) { try { return a; } finally { close(a); } }",
        "a:PARAMETER:INTEGER BEGIN TRY RETURN_EXIT a:RETURN FINALLY a:INVOCATION_ARGUMENT TRY_CONVERGENCE EXIT",
        "a1 BEGIN TRY a2 RETURN_EXIT EXIT; TRY FINALLY a3 TRY_CONVERGENCE EXIT",
        "a1>a2 a1>a3",
    ),
    "try with resources": Case(
        "void f(Path path, InputStream old) { try (InputStream stream = open(path); old) { use(stream); } }",
        "path:PARAMETER:OTHER_JDK old:PARAMETER:OTHER_JDK TRY stream:RESOURCE:OTHER_JDK path:INVOCATION_ARGUMENT"
        " old:RESOURCE stream:INVOCATION_ARGUMENT TRY_CONVERGENCE",
        "path1 old1 TRY path2 stream1 old2 stream2 TRY_CONVERGENCE",
        "path1>path2 path2>stream1 old1>old2 stream1>stream2",
    ),
    "throw inside and outside of try": Case(
        "void f(int a) { try { if (a > 0) throw new Mine(a); a = 1; } catch (Mine e) { throw e; } }",
        "a:PARAMETER:INTEGER BEGIN TRY IF_CONDITION a:COMPARE_OPERATOR_LEFT IF_THEN EXCEPTION_THROW"
        " a:CONSTRUCTOR_ARGUMENT IF_CONVERGENCE a:ASSIGNED CATCH e:CATCH:USER_DEFINED EXCEPTION_THROW e:BLOCK_DEFAULT"
        " TRY_CONVERGENCE EXIT",
        "a1 BEGIN TRY a2 IF_CONDITION IF_THEN a3 EXCEPTION_THROW1 CATCH e1 e2 EXCEPTION_THROW2 EXIT;"
        " IF_CONDITION IF_CONVERGENCE a4 TRY_CONVERGENCE EXIT; TRY CATCH",
        "a1>a2 a1>a3 e1>e2",
    ),
    "throw through a try without catch": Case(
        "void f(Mine a) { try { try { throw a; } finally { use(a); } } catch (Mine | Other e) { }"
        " catch (RuntimeException e) { } }",
        "a:PARAMETER:USER_DEFINED TRY TRY EXCEPTION_THROW a:BLOCK_DEFAULT FINALLY a:INVOCATION_ARGUMENT TRY_CONVERGENCE"
        " CATCH e:CATCH:USER_DEFINED CATCH e:CATCH:OTHER_JDK TRY_CONVERGENCE",
        "a1 TRY1 TRY2 a2 EXCEPTION_THROW CATCH1 e1 TRY_CONVERGENCE2; EXCEPTION_THROW CATCH2 e2 TRY_CONVERGENCE2;"
        " TRY1 CATCH1; TRY1 CATCH2; TRY2 FINALLY a3 TRY_CONVERGENCE1 TRY_CONVERGENCE2",
        "a1>a2 a1>a3",
    ),
    "throw": Case(
        "void f(int a) { if (a < 0) { throw new Error(); } }",
        "a:PARAMETER:INTEGER BEGIN IF_CONDITION a:COMPARE_OPERATOR_LEFT IF_THEN EXCEPTION_THROW IF_CONVERGENCE EXIT",
        "a1 BEGIN a2 IF_CONDITION IF_THEN EXCEPTION_THROW EXIT; IF_CONDITION IF_CONVERGENCE EXIT",
        "a1>a2",
    ),
}
CASES = BRANCHES | LOOPS | SWITCHES


@pytest.mark.parametrize("name", CASES)
def test_control(name):
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
