"""The figure of a flow graph: where its boxes, lines of code and edges are."""

from itertools import combinations

import pytest
from matplotlib.patches import FancyArrowPatch

from gedbd.localization.flow_graph.flow_graph_figure import (
    HALF_HEIGHT,
    MAX_CHARACTERS,
    STYLES,
    Box,
    draw_flow_graph,
    edge_ends,
    place_nodes,
    write_figures,
)
from gedbd.localization.flow_graph.parse import method_graph
from gedbd.localization.flow_graph.semantic_graph import EdgeKind

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


BOXES = {
    "if": Box(1.0, 1.0, 0.5, "IF", "", 0),
    "then": Box(1.0, 2.0, 0.5, "THEN", "", 1),
    "end": Box(1.0, 4.0, 0.5, "END", "", 3),
    "a": Box(3.0, 1.0, 0.5, "a", "READ", 0),
    "b": Box(4.0, 1.0, 0.5, "b", "READ", 0),
    "c": Box(4.0, 3.0, 0.5, "c", "READ", 2),
}


@pytest.mark.parametrize(
    ("start", "end", "places"),
    [
        ("if", "then", [1, 1.145, 1, 1.855, 0]),
        ("then", "end", [0.75, 2.07, 0.75, 3.93, 0.333]),  # at the left: downwards rad > 0 bends to it
        ("end", "then", [0.75, 4.07, 0.75, 1.93, -0.29]),  # upwards rad < 0 does
        ("a", "b", [3.06, 0.855, 3.94, 0.855, -0.318]),  # above: rightwards rad < 0
        ("b", "a", [3.94, 0.855, 3.06, 0.855, 0.318]),
        ("a", "a", [2.94, 0.855, 3.06, 0.855, -1.833]),
        ("b", "c", [4, 1.145, 4, 2.855, 0.1]),
        ("c", "b", [4, 2.855, 4, 1.145, 0.1]),
        ("if", "c", [1, 1.145, 4, 2.855, 0.1]),
    ],
)
def test_ends_and_bends_of_edges(start, end, places):
    first, last, bend = edge_ends(BOXES[start], BOXES[end])
    assert [*first, *last, bend] == pytest.approx(places, abs=1e-3)


def test_every_edge_is_drawn_in_the_style_of_its_kind():
    graph = method_graph(LOOP)
    (axis,) = draw_flow_graph(graph, LOOP, "sum").axes
    widths = [arrow.get_linewidth() for arrow in axis.findobj(FancyArrowPatch)]
    assert widths == [STYLES[EdgeKind(kind)].width for kind in graph.kinds.tolist()]
    assert {STYLES[kind].width for kind in EdgeKind} == set(widths)
    assert axis.texts[0].get_text() == "sum"


@pytest.mark.figures
def test_large_figures_and_missing_letters_are_told(tmp_path, monkeypatch):
    source = "void f(int 長) { use(長); }"
    monkeypatch.setattr("gedbd.localization.flow_graph.flow_graph_figure.LARGE", 1)
    files, told = write_figures(method_graph(source), source, "f", tmp_path / "new" / "f")
    assert [file.name for file in files] == ["f.svg", "f.png"]
    assert told == (
        "the figure is large: 2 nodes on 9 by 2 inches",
        f"{files[1]}: the font has no sign for some letters, which are boxes",
    )
