"""The figure of a flow graph: where its boxes, lines of code and edges are."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.path import Path

from gedbd.code.parse import method_graph
from gedbd.code.semantic_graph import EdgeKind
from gedbd.evaluation.flow_graph_figure import arrow_head, draw_flow_graph
from gedbd.evaluation.flow_graph_files import write_figures
from gedbd.evaluation.flow_graph_layout import HALF_HEIGHT, MAX_CHARACTERS, place_nodes
from gedbd.evaluation.flow_graph_routes import Router

LOOP = """int sum(int[] values, int limit) {
        int total = 0;

        // up to the limit
        for (int i = 0; i < values.length; i++) {
            if (total > limit) { break; }
            total += values[i] > 0 ? values[i] : -values[i];
        }
        return total;
    }"""
ONE_LINE = "void f(int a) { " + "if (a > 0) { use(a, a, a, a, a, a, a, a); a = a + 1; } " * 6 + "}"
SOURCES = [LOOP, ONE_LINE, "void f() { }", "void f(int $$) { use($$); }"]


@pytest.mark.parametrize("source", SOURCES)
def test_boxes_lie_apart_inside_of_the_figure(source):
    graph = method_graph(source)
    layout = place_nodes(graph, source)
    assert len(layout.boxes) == len(graph)
    for box in layout.boxes:
        assert 0 < box.x - box.width / 2 < box.x + box.width / 2 < layout.width
        assert 0 < box.y - HALF_HEIGHT < box.y + HALF_HEIGHT < layout.height
    for one, other in combinations(layout.boxes, 2):
        is_beside = abs(one.x - other.x) > (one.width + other.width) / 2
        assert is_beside or abs(one.y - other.y) > 2 * HALF_HEIGHT


def test_code_is_printed_line_by_line():
    layout = place_nodes(method_graph(LOOP), LOOP, first_line=7)
    printed = [(number, text) for _, number, text in layout.lines]
    assert printed[:3] == [
        ("7", "int sum(int[] values, int limit) {"),
        ("8", "    int total = 0;"),
        ("10", "    // up to the limit"),
    ]
    assert printed[-1] == ("16", "}")
    # The line of the if has three rows, of IF_CONDITION, IF_THEN, and BREAK, and IF_CONVERGENCE.
    rows = [text.rstrip() for number, text in printed[5:9]]
    assert rows == [
        "        if (total > limit)",
        " " * 27 + "{",
        " " * 29 + "break;",
        " " * 36 + "}",
    ]


def test_long_lines_are_broken_and_nothing_is_lost():
    layout = place_nodes(method_graph(ONE_LINE), ONE_LINE)
    assert max(len(text) for _, _, text in layout.lines) <= MAX_CHARACTERS
    assert "".join(text for _, _, text in layout.lines).replace(" ", "") == ONE_LINE.replace(" ", "")
    assert [number for _, number, _ in layout.lines if number] == ["1"]


def test_only_line_feeds_end_lines_and_control_characters_are_blanks():
    source = 'void f() {\f\n  g("\x01\u2028");\r\n}'
    printed = place_nodes(method_graph(source), source).lines
    assert [(number, text) for _, number, text in printed] == [("1", "void f() {"), ("2", '  g("  ");'), ("3", "}")]


def test_vertical_lines_of_data_edges_pass_no_box():
    graph = method_graph(LOOP)
    layout = place_nodes(graph, LOOP)
    router = Router(layout, len(graph.kinds))
    for first, second in graph.edges[:, graph.kinds == EdgeKind.DATA].T.tolist():
        rows = sorted((layout.boxes[first].row, layout.boxes[second].row))
        if rows[1] - rows[0] > 1:
            places = np.asarray(router.path(first, second, EdgeKind.DATA).vertices)
            # Each of the four corners has three vertices: 5 to 8 are on the line between the second and the third.
            assert np.ptp(places[5:9, 0]) == 0
            lane = places[5, 0]
            passed = [box for box in layout.boxes if rows[0] < box.row < rows[1]]
            assert all(abs(box.x - lane) > box.width / 2 for box in passed)


def test_every_edge_is_drawn():
    graph = method_graph(LOOP)
    (axis,) = draw_flow_graph(graph, LOOP, "sum").axes
    lines = [part for part in axis.collections if isinstance(part, PathCollection)]
    heads = [part for part in axis.collections if isinstance(part, PolyCollection)]
    counts = [int((graph.kinds == kind).sum()) for kind in EdgeKind]
    assert [len(part.get_paths()) for part in lines] == [len(part.get_paths()) for part in heads] == counts
    assert axis.texts[0].get_text() == "sum"


def test_arrow_head():
    base, left, tip, right = np.round(arrow_head(Path([(0, 0), (0, 1)])), 3).tolist()
    assert (base, tip) == ([0, 0.925], [0, 1])
    assert (left, right) == ([0.04, 0.925], [-0.04, 0.925])


def test_large_figures_and_missing_letters_are_told(tmp_path, monkeypatch):
    source = "void f(int 長) { use(長); }"
    monkeypatch.setattr("gedbd.evaluation.flow_graph_files.LARGE", 1)
    files, told = write_figures(method_graph(source), source, "f", tmp_path / "new" / "f")
    assert [file.name for file in files] == ["f.svg", "f.png"]
    assert told == (
        "the figure is large: 2 nodes on 9 by 2 inches",
        f"{files[1]}: the font has no sign for some letters, which are boxes",
    )
