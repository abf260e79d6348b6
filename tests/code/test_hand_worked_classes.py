"""Flow graphs of lambdas and nested classes, worked out by hand, and whether the cases cover every type and role."""

import pytest
import test_hand_worked
import test_hand_worked_expressions
import test_hand_worked_loops
import test_hand_worked_switches
from graph_notation import Case, check, expected_nodes

from gedbd.code.parse import method_graph
from gedbd.code.semantic_graph import NodeType, Role

CASES = {
    "lambda with an expression": Case(
        "Function<Integer, Integer> f(int a) { return b -> a + b; }",
        "a:PARAMETER:INTEGER b:PARAMETER:NULL LAMBDA_ENTRY a:MATH_OPERATOR_LEFT b:MATH_OPERATOR_RIGHT LAMBDA_EXIT",
        "a1 LAMBDA_ENTRY b1 a2 b2 LAMBDA_EXIT",
        "a1>a2 b1>b2",
    ),
    "lambda with a variable": Case(
        "void f(int a) { run(() -> a); }",
        "a:PARAMETER:INTEGER LAMBDA_ENTRY a:RETURN LAMBDA_EXIT",
        "a1 LAMBDA_ENTRY a2 LAMBDA_EXIT",
        "a1>a2",
    ),
    "lambda with a block": Case(
        "void f(List<String> list) { list.forEach((String s) -> { if (s == null) return; use(s, list); }); }",
        "list:PARAMETER:LIST list:INVOCATION_TARGET s:PARAMETER:STRING LAMBDA_ENTRY IF_CONDITION"
        " s:COMPARE_OPERATOR_LEFT IF_THEN RETURN_EXIT IF_CONVERGENCE s:INVOCATION_ARGUMENT list:INVOCATION_ARGUMENT"
        " LAMBDA_EXIT",
        "list1 list2 LAMBDA_ENTRY s1 s2 IF_CONDITION IF_THEN RETURN_EXIT LAMBDA_EXIT;"
        " IF_CONDITION IF_CONVERGENCE s3 list3 LAMBDA_EXIT",
        "list1>list2 list1>list3 s1>s2 s1>s3",
    ),
    "lambda that throws": Case(
        "void f() { run(x -> { if (x > 0) { throw new Error(); } return x; }); }",
        "x:PARAMETER:NULL LAMBDA_ENTRY IF_CONDITION x:COMPARE_OPERATOR_LEFT IF_THEN EXCEPTION_THROW IF_CONVERGENCE"
        " x:RETURN LAMBDA_EXIT",
        "LAMBDA_ENTRY x1 x2 IF_CONDITION IF_THEN EXCEPTION_THROW LAMBDA_EXIT;"
        " IF_CONDITION IF_CONVERGENCE x3 LAMBDA_EXIT",
        "x1>x2 x1>x3",
    ),
    "throw of a lambda in a try": Case(
        "void f(Mine a) { try { run(() -> { throw a; }); } catch (Exception e) { } }",
        "a:PARAMETER:USER_DEFINED TRY LAMBDA_ENTRY EXCEPTION_THROW a:BLOCK_DEFAULT LAMBDA_EXIT CATCH e:CATCH:OTHER_JDK"
        " TRY_CONVERGENCE",
        "a1 TRY LAMBDA_ENTRY a2 EXCEPTION_THROW LAMBDA_EXIT TRY_CONVERGENCE; TRY CATCH e TRY_CONVERGENCE",
        "a1>a2",
    ),
    "lambda in a lambda": Case(
        "void f() { run(a -> b -> a); }",
        "a:PARAMETER:NULL LAMBDA_ENTRY b:PARAMETER:NULL LAMBDA_ENTRY a:RETURN LAMBDA_EXIT LAMBDA_EXIT",
        "LAMBDA_ENTRY1 a1 LAMBDA_ENTRY2 b a2 LAMBDA_EXIT1 LAMBDA_EXIT2",
        "a1>a2",
    ),
    "method reference": Case(
        "void f(List<String> list, Mine m) { list.forEach(m::use); list.forEach(String::trim); }",
        "list:PARAMETER:LIST m:PARAMETER:USER_DEFINED list:INVOCATION_TARGET m:INVOCATION_TARGET"
        " list:INVOCATION_TARGET",
        "list1 m1 list2 m2 list3",
        "list1>list2 list1>list3 m1>m2",
    ),
    "anonymous class": Case(
        "Runnable f(int a) { return new Base(a) { int n; int m = a; public void run() { n = m; } }; }",
        "a:PARAMETER:INTEGER a:CONSTRUCTOR_ARGUMENT NEW_CLASS_ENTRY n:FIELD:INTEGER m:ASSIGNED:INTEGER a:ASSIGNMENT"
        " n:ASSIGNED m:ASSIGNMENT NEW_CLASS_EXIT",
        "a1 a2 NEW_CLASS_ENTRY n1 a3 m1 m2 n2 NEW_CLASS_EXIT",
        "a1>a2 a1>a3 a3>m1 m1>m2 m2>n2",
    ),
    "anonymous class with two methods": Case(
        "void f() { run(new Object() { int one(int a) { if (a > 0) return a; return 0; } int two(int b) { return b; }"
        " }); }",
        "NEW_CLASS_ENTRY a:PARAMETER:INTEGER BEGIN IF_CONDITION a:COMPARE_OPERATOR_LEFT IF_THEN RETURN_EXIT a:RETURN"
        " IF_CONVERGENCE EXIT b:PARAMETER:INTEGER b:RETURN NEW_CLASS_EXIT",
        "NEW_CLASS_ENTRY a1 BEGIN a2 IF_CONDITION IF_THEN a3 RETURN_EXIT EXIT b1 b2 NEW_CLASS_EXIT;"
        " IF_CONDITION IF_CONVERGENCE EXIT",
        "a1>a2 a1>a3 b1>b2",
    ),
    "local class": Case(
        "int f(int a) { class Local { long total = a; { total++; } Local(int b) { this.total = b; }"
        " long get() { return total; } } return a; }",
        "a:PARAMETER:INTEGER NEW_CLASS_ENTRY total:ASSIGNED:LONG a:ASSIGNMENT total:ASSIGN_UNARY b:PARAMETER:INTEGER"
        " total:ASSIGNED b:ASSIGNMENT total:RETURN NEW_CLASS_EXIT a:RETURN",
        "a1 NEW_CLASS_ENTRY a2 total1 total2 b1 b2 total3 total4 NEW_CLASS_EXIT a3",
        "a1>a2 a1>a3 a2>total1 total1>total2 b1>b2 b2>total3 total3>total4",
    ),
    "local record": Case(
        "int f(int a) { record Pair(int x, String y) { int one() { return 1; } } return a; }",
        "a:PARAMETER:INTEGER x:RECORD_COMPONENT:INTEGER y:RECORD_COMPONENT:STRING NEW_CLASS_ENTRY NEW_CLASS_EXIT"
        " a:RETURN",
        "a1 NEW_CLASS_ENTRY x y NEW_CLASS_EXIT a2",
        "a1>a2",
    ),
    "local enum": Case(
        "void f(int a) { enum Kind { ONE(LIMIT), TWO; Kind(int b) { use(b); } } use(a); }",
        "a:PARAMETER:INTEGER NEW_CLASS_ENTRY LIMIT:CONSTRUCTOR_ARGUMENT:NULL b:PARAMETER:INTEGER b:INVOCATION_ARGUMENT"
        " NEW_CLASS_EXIT a:INVOCATION_ARGUMENT",
        "a1 NEW_CLASS_ENTRY LIMIT b1 b2 NEW_CLASS_EXIT a2",
        "a1>a2 b1>b2",
    ),
    "local interface": Case(
        "void f() { interface Op { int LIMIT = 3; default int twice(int b) { return b; } } }",
        "NEW_CLASS_ENTRY LIMIT:ASSIGNED:INTEGER b:PARAMETER:INTEGER b:RETURN NEW_CLASS_EXIT",
        "NEW_CLASS_ENTRY LIMIT b1 b2 NEW_CLASS_EXIT",
        "b1>b2",
    ),
    "field that hides a parameter": Case(
        "void f(int x) { run(new Object() { String x = name(); String get() { return x; } }); use(x); }",
        "x:PARAMETER:INTEGER NEW_CLASS_ENTRY x:ASSIGNED:STRING x:RETURN NEW_CLASS_EXIT x:INVOCATION_ARGUMENT:INTEGER",
        "x1 NEW_CLASS_ENTRY x2 x3 NEW_CLASS_EXIT x4",
        "x1>x4 x2>x3",
    ),
}
MODULES = (test_hand_worked, test_hand_worked_expressions, test_hand_worked_loops, test_hand_worked_switches)


@pytest.mark.parametrize("name", CASES)
def test_classes(name):
    check(method_graph(CASES[name].code), CASES[name])


def test_every_type_and_role_occurs():
    cases = [*CASES.values(), *(case for module in MODULES for case in module.CASES.values())]
    nodes = [node for case in cases for node in expected_nodes(case)]
    assert {node_type.name for node_type in NodeType} - {node.type for node in nodes} == {"OTHER_PRIMITIVE"}
    assert {role.name for role in Role} - {node.role for node in nodes} == {"UNKNOWN"}
