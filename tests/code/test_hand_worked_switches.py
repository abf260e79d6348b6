"""Flow graphs of switches and exceptions, worked out by hand; for the notation see graph_notation."""

import pytest
from graph_notation import Case, check

from gedbd.code.parse import method_graph

CASES = {
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


@pytest.mark.parametrize("name", CASES)
def test_switches_and_exceptions(name):
    check(method_graph(CASES[name].code), CASES[name])
