"""Flow graphs of expressions, lambdas and classes, worked out by hand, and whether cases cover each type and role."""

import pytest
import test_hand_worked
from graph_notation import Case, check, expected_nodes

from gedbd.code.parse import method_graph
from gedbd.code.semantic_graph import NodeType, Role

EXPRESSIONS = {
    "operators": Case(
        "boolean f(int a, int b, boolean c) { boolean d = c && (a & b) > 1; return !d || c; }",
        "a:PARAMETER:INTEGER b:PARAMETER:INTEGER c:PARAMETER:BOOLEAN d:ASSIGNED:BOOLEAN c:RELATION_OPERATOR_LEFT"
        " a:BIT_OPERATOR_LEFT b:BIT_OPERATOR_RIGHT d:OTHER_UNARY c:RELATION_OPERATOR_RIGHT",
        "a1 b1 c1 c2 a2 b2 d1 d2 c3",
        "a1>a2 b1>b2 c1>c2 c1>c3 c2>d1 a2>d1 b2>d1 d1>d2",
    ),
    "casts and parentheses": Case(
        "long f(byte a, short b, char c, float d) { long e = (long) (a << b) + c; return e ^ (int) d; }",
        "a:PARAMETER:BYTE b:PARAMETER:SHORT c:PARAMETER:CHARACTER d:PARAMETER:FLOAT e:ASSIGNED:LONG a:BIT_OPERATOR_LEFT"
        " b:BIT_OPERATOR_RIGHT c:MATH_OPERATOR_RIGHT e:BIT_OPERATOR_LEFT d:BIT_OPERATOR_RIGHT",
        "a1 b1 c1 d1 a2 b2 c2 e1 e2 d2",
        "a1>a2 b1>b2 c1>c2 d1>d2 a2>e1 b2>e1 c2>e1 e1>e2",
    ),
    "types": Case(
        "<T> void f(Void a, Boolean b, Double c, Date d, LocalDate e, Iterator<String> g, Iterable<T> h,"
        " Collection<T> i, Deque<T> j, ArrayList<T> k, java.util.Set<T> l, TreeMap<String, T> m, StringBuilder n,"
        " Thread o, Mine p, T[] q, Character r, String... s) { }",
        "a:PARAMETER:VOID b:PARAMETER:BOOLEAN c:PARAMETER:DOUBLE d:PARAMETER:DATE e:PARAMETER:DATE g:PARAMETER:ITERABLE"
        " h:PARAMETER:ITERABLE i:PARAMETER:COLLECTION j:PARAMETER:COLLECTION k:PARAMETER:LIST l:PARAMETER:SET"
        " m:PARAMETER:MAP n:PARAMETER:STRING o:PARAMETER:OTHER_JDK p:PARAMETER:USER_DEFINED q:PARAMETER:USER_DEFINED"
        " r:PARAMETER:CHARACTER s:PARAMETER:STRING",
    ),
    "array element": Case(
        "void f(int[] a, int i, int e) { a[i] = e; use(a[0]); }",
        "a:PARAMETER:INTEGER i:PARAMETER:INTEGER e:PARAMETER:INTEGER a:ARRAY_TARGET i:ARRAY_EXPRESSION e:ASSIGNMENT"
        " a:ARRAY_TARGET",
        "a1 i1 e1 a2 i2 e2 a3",
        "a1>a2 i1>i2 e1>e2 e2>a2 a2>a3 a1>a3",
    ),
    "arrays": Case(
        "int f(int n, int m, int[][] b) { int[] a = {n, m}; use(new int[n]); return a.length + b[m][n]; }",
        "n:PARAMETER:INTEGER m:PARAMETER:INTEGER b:PARAMETER:INTEGER a:ASSIGNED:INTEGER n:ARRAY_EXPRESSION"
        " m:ARRAY_EXPRESSION n:ARRAY_EXPRESSION a:FIELD_READ_TARGET length:MATH_OPERATOR_LEFT:INTEGER b:ARRAY_TARGET"
        " m:ARRAY_EXPRESSION n:ARRAY_EXPRESSION",
        "n1 m1 b1 n2 m2 a1 n3 a2 length b2 m3 n4",
        "n1>n2 n1>n3 n1>n4 m1>m2 m1>m3 b1>b2 n2>a1 m2>a1 a1>a2 a2>length",
    ),
    "varargs": Case(
        "int f(int... a) { return a.length; }",
        "a:PARAMETER:INTEGER a:FIELD_READ_TARGET length:RETURN:INTEGER",
        "a1 a2 length",
        "a1>a2 a2>length",
    ),
    "compound assignment and increments": Case(
        "int f(int a, int b) { a += b; a++; return --a; }",
        "a:PARAMETER:INTEGER b:PARAMETER:INTEGER a:ASSIGNED b:ASSIGNMENT a:ASSIGN_UNARY a:ASSIGN_UNARY",
        "a1 b1 b2 a2 a3 a4",
        "a1>a2 b1>b2 b2>a2 a2>a3 a3>a4",
    ),
    "assignment in an assignment": Case(
        "int f(int a) { int b; int c = b = a; return c; }",
        "a:PARAMETER:INTEGER b:LOCAL:INTEGER c:ASSIGNED:INTEGER b:ASSIGNED a:ASSIGNMENT c:RETURN",
        "a1 b1 a2 b2 c1 c2",
        "a1>a2 a2>b2 b2>c1 c1>c2",
    ),
    "field of an object": Case(
        "int f(Mine p, int e) { p.x = e; return p.x; }",
        "p:PARAMETER:USER_DEFINED e:PARAMETER:INTEGER p:FIELD_READ_TARGET x:ASSIGNED:NULL e:ASSIGNMENT"
        " p:FIELD_READ_TARGET x:RETURN",
        "p1 e1 p2 e2 x1 p3 x2",
        "p1>p2 p1>p3 e1>e2 p2>x1 e2>x1 x1>x2 p3>x2",
    ),
    "field of an object that is assigned": Case(
        "int f(Mine p) { p.x = 1; p = next(); return p.x; }",
        "p:PARAMETER:USER_DEFINED p:FIELD_READ_TARGET x:ASSIGNED:NULL p:ASSIGNED p:FIELD_READ_TARGET x:RETURN",
        "p1 p2 x1 p3 p4 x2",
        "p1>p2 p2>x1 p3>p4 p4>x2 x1>x2",
    ),
    "own field beside a parameter of its name": Case(
        "int f(int count) { this.count = count; total = this.count; return total; }",
        "count:PARAMETER:INTEGER count:ASSIGNED:NULL count:ASSIGNMENT:INTEGER total:ASSIGNED:NULL count:ASSIGNMENT:NULL"
        " total:RETURN",
        "count1 count3 count2 count4 total1 total2",
        "count1>count3 count3>count2 count2>count4 count4>total1 total1>total2",
    ),
    "own field with and without this": Case(
        "void f() { size = 1; use(this.size, size); }",
        "size:ASSIGNED:NULL size:INVOCATION_ARGUMENT size:INVOCATION_ARGUMENT",
        "size1 size2 size3",
        "size1>size2 size1>size3",
    ),
    "chained calls": Case(
        "String f(StringBuilder b, int n) { return b.append(n).append(this.tail.rest).toString(); }",
        "b:PARAMETER:STRING n:PARAMETER:INTEGER b:INVOCATION_TARGET n:INVOCATION_ARGUMENT tail:FIELD_READ_TARGET:NULL"
        " rest:INVOCATION_ARGUMENT:NULL",
        "b1 n1 b2 n2 tail rest",
        "b1>b2 n1>n2 tail>rest",
    ),
    "chains of names": Case(
        "void f(Mine a) { System.out.println(a.b.c); java.util.Arrays.sort(a.items()); use(Integer.MAX_VALUE); }",
        "a:PARAMETER:USER_DEFINED out:INVOCATION_TARGET:NULL a:FIELD_READ_TARGET b:FIELD_READ_TARGET:NULL"
        " c:INVOCATION_ARGUMENT:NULL a:INVOCATION_TARGET MAX_VALUE:INVOCATION_ARGUMENT:NULL",
        "a1 out a2 b c a3 MAX_VALUE",
        "a1>a2 a1>a3 a2>b b>c",
    ),
    "value of a call": Case(
        "String f(Mine a, String b) { String c = a.name(b, 1); return c; }",
        "a:PARAMETER:USER_DEFINED b:PARAMETER:STRING c:ASSIGNED:STRING a:INVOCATION_TARGET b:INVOCATION_ARGUMENT"
        " c:RETURN",
        "a1 b1 a2 b2 c1 c2",
        "a1>a2 b1>b2 a2>c1 b2>c1 c1>c2",
    ),
    "letters beyond ASCII": Case(
        'int höhe(int größe) { use("\U0001f600"); int 長さ = größe; return 長さ; }',
        "größe:PARAMETER:INTEGER 長さ:ASSIGNED:INTEGER größe:ASSIGNMENT 長さ:RETURN",
        "größe1 größe2 長さ1 長さ2",
        "größe1>größe2 größe2>長さ1 長さ1>長さ2",
    ),
}
CLASSES = {
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
CASES = EXPRESSIONS | CLASSES


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    check(method_graph(CASES[name].code), CASES[name])


def test_every_type_and_role_occurs():
    nodes = [node for case in (CASES | test_hand_worked.CASES).values() for node in expected_nodes(case)]
    assert {node_type.name for node_type in NodeType} - {node.type for node in nodes} == {"OTHER_PRIMITIVE"}
    assert {role.name for role in Role} - {node.role for node in nodes} == {"UNKNOWN"}
