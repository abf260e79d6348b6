from itertools import combinations

import numpy as np
import pytest
from matplotlib.figure import Figure

from gedbd.encoders.node2vec import build_tag_network
from gedbd.evaluation.tag_figure import strongest_edges, tag_network

# Two triangles, of which b and e also occur together, and a tag of its own.
TAGS = [("a", "b", "c")] * 4 + [("d", "e", "f")] * 3 + [("b", "e"), ("alone",)]


def drawn_labels(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_labels_begin_with_the_most_frequent_tags_and_communities_have_a_colour_each():
    figure = tag_network(build_tag_network(TAGS))
    axis = figure.axes[0]
    assert drawn_labels(figure) == ["b", "a", "c", "e", "d", "f"]
    colours = {text.get_text(): text.get_color() for text in axis.texts}
    assert colours["a"] == colours["b"] == colours["c"] != colours["d"] == colours["e"] == colours["f"]
    assert len(axis.lines) == 7
    areas = axis.collections[0].get_sizes()
    assert areas.max() / areas.min() == pytest.approx(5 / 3)  # b has five documents, d three
    assert axis.get_title() == "Tags that occur together: the 7 most frequent of 7"
    assert figure.texts[0].get_text() == "not shown, without an edge to the others: alone"


def test_only_the_most_frequent_tags_are_drawn():
    assert drawn_labels(tag_network(build_tag_network(TAGS), max_tags=4)) == ["b", "a", "c", "e"]


def test_a_tag_has_edges_to_its_strongest_neighbours():
    # Of equal weights the first count: each of five tags has edges to the first three others, so 3 - 4 is missing.
    weights = strongest_edges(build_tag_network([("a", "b", "c", "d", "e")]), np.arange(5))
    assert np.count_nonzero(np.triu(weights)) == 9
    assert weights[3, 4] == 0
    # b and c are the stronger pair; without b, c keeps its edge to a.
    network = build_tag_network([("b", "c")] * 3 + [("a", "c")])
    assert strongest_edges(network, np.array([0, 2])).tolist() == [[0, 0.25], [0.25, 0]]


def test_without_edges_the_counts_are_drawn():
    axis = tag_network(build_tag_network([("a",), ("b",), ("b",)])).axes[0]
    assert [bar.get_width() for bar in axis.patches] == [2, 1]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["b", "a"]
    assert axis.get_title() == "No edge among 2 tags; the most frequent"


def test_labels_that_would_overlap_are_left_out_those_of_rare_tags_first():
    names = [rf"$\frac a-tag-with-a-long-name-{place}$" for place in range(40)]
    network = build_tag_network([(names[place], names[(place + 1) % 40]) for place in range(40)] + [(names[3],)])
    figure = tag_network(network)
    labels = figure.axes[0].texts
    assert labels[0].get_text() == names[3]
    assert 5 < len(labels) < 40
    boxes = [label.get_window_extent() for label in labels]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
