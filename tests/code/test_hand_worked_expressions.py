"""Flow graphs of expressions and types, worked out by hand; for the notation see graph_notation."""

import pytest
from graph_notation import Case, check

from gedbd.code.parse import method_graph

CASES = {
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


@pytest.mark.parametrize("name", CASES)
def test_expressions(name):
    check(method_graph(CASES[name].code), CASES[name])
