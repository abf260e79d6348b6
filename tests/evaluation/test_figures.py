"""Figures, their files, and whether readers with colour blindness tell the colours apart."""

from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from gedbd.encoders.node2vec import build_tag_network
from gedbd.evaluation.figures import (
    MARGINS,
    MAX_MEMBERS,
    confusion_matrix,
    name_subject,
    over_option,
    precision_recall,
    project_reports,
    rank_curves,
    save_figure,
    similarity_histogram,
    training_curves,
)
from gedbd.experiments.tag_figure import strongest_edges, tag_network

SCORES = np.array([0.9, 0.8, 0.7, 0.2, 0.1, -0.4], dtype=np.float32)
LABELS = np.array([1, 0, 0, 1, 0, 0])


def legend(axis) -> list[str]:
    return [text.get_text() for text in axis.get_legend().get_texts()]


def test_training_curves_show_both_parts_by_epoch():
    epochs = pd.DataFrame({"epoch": [0, 1], "train/loss": [0.5, 0.3], "val/loss": [0.6, 0.4]})
    epochs[["train/f1", "val/f1"]] = [[0.7, 0.6], [0.9, 0.8]]
    figure = training_curves([epochs])
    assert isinstance(figure, Figure)
    for axis, name in zip(figure.axes, ("loss", "f1"), strict=True):
        train, val = axis.lines
        assert train.get_xdata().tolist() == [1, 2]
        assert train.get_ydata().tolist() == epochs[f"train/{name}"].tolist()
        assert val.get_ydata().tolist() == epochs[f"val/{name}"].tolist()
        assert legend(axis) == ["train", "val"]


def test_confusion_matrix_counts_what_stands_on_and_above_the_threshold():
    figure = confusion_matrix(SCORES, LABELS, 0.7)
    (axis,) = figure.axes
    counts = {text.get_position(): text.get_text() for text in axis.texts}
    assert counts == {(0, 0): "2", (1, 0): "2", (0, 1): "1", (1, 1): "1"}  # (predicted, true)
    assert axis.images[0].get_array().tolist() == [[2, 2], [1, 1]]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("predicted", "true")
    assert axis.get_title() == "Test pairs at threshold 0.70"
    many = confusion_matrix(np.ones(1234), np.ones(1234, dtype=int), 0.5)
    assert [text.get_text() for text in many.axes[0].texts] == ["0", "0", "0", "1,234"]


def test_no_label_leaves_the_picture():
    epochs = pd.DataFrame({"epoch": range(30)})
    for part in ("train", "val"):
        epochs[f"{part}/loss"] = np.linspace(0.00012, 0.00018, 30)
        epochs[f"{part}/f1"] = np.linspace(0.0101, 0.0102, 30)
    queries = pd.DataFrame({"rank": [1, 100, 0], "reachable": True})
    narrow = np.linspace(0.99991, 1, 1000, dtype=np.float32)
    figures = [
        training_curves([epochs]),
        confusion_matrix(np.ones(1234567), np.ones(1234567, dtype=int), 0.5),
        similarity_histogram(narrow, np.arange(1000) % 2, 0.45),
        precision_recall({"text_graph": (SCORES, LABELS), "frozen": (-SCORES, LABELS)}),
        rank_curves({"text_graph": queries}),
    ]
    for figure in figures:
        drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
        assert 0 <= drawn.x0 < drawn.x1 <= width
        assert 0 <= drawn.y0 < drawn.y1 <= height


def test_a_metric_over_an_option_has_a_line_a_model_at_equal_distances():
    table = pd.DataFrame({"model": list("aaabb"), "margin": ["0.1", "0.2", "0.5", "0.1", "0.5"]})
    table["f1"] = [0.5, 0.3, 0.6, 0.7, 0.8]
    table = table.assign(f1_low=[0.4, 0.2, 0.6, 0.6, 0.7], f1_high=[0.6, 0.4, 0.6, 0.8, 0.9])
    figure = over_option(table, "margin", "f1")
    axis = figure.axes[0]
    assert [container.lines[0].get_ydata().tolist() for container in axis.containers] == [[0.5, 0.3, 0.6], [0.7, 0.8]]
    assert axis.containers[1].lines[0].get_xdata().tolist() == pytest.approx([0.02, 2.02])
    ends = axis.containers[0].lines[2][0].get_segments()
    assert ends[0][:, 1].tolist() == pytest.approx([0.4, 0.6])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0.1", "0.2", "0.5"]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("margin", "F1")


def drawn(layout):
    figure = Figure(figsize=(4, 3), layout=layout)
    axis = figure.subplots(gridspec_kw=None if layout else MARGINS)
    axis.plot([1, 2], [3, 4])
    axis.set_title("Loss")
    return figure


@pytest.mark.figures
@pytest.mark.parametrize("text", [r"$\frac a$ or $6", "a \x1b[31m\u202eb\x00"])
def test_texts_are_neither_formulas_nor_control_signs(text, tmp_path):
    figure = Figure(layout="constrained")
    left, right = figure.subplots(1, 2)
    left.barh([text, "b"], [1, 1000])
    left.set(title=text, xlabel=text, xscale="log")
    right.plot([1, 2], [0, 1], label=text)
    right.set_xticks([1, 2], labels=[text, "second"])
    right.annotate(text, (1, 1))
    right.legend()
    for file in save_figure(name_subject(figure, text), tmp_path / "figure"):
        assert file.stat().st_size > 1000
    svg = ElementTree.parse(tmp_path / "figure.svg")
    assert any("mathdefault" in str(label.get_text()) for label in left.get_xticklabels())  # numbers stay powers of ten
    assert svg.getroot().tag.endswith("svg")


@pytest.mark.figures
@pytest.mark.parametrize("layout", [None, "constrained"])
def test_both_files_name_the_subject_and_are_the_same_again(layout, tmp_path):
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        figure = name_subject(drawn(layout), "demo: minilm")
        name_subject(figure, "another")  # the first one stays
        files = save_figure(figure, folder / "loss")
        assert [file.name for file in files] == ["loss.svg", "loss.png"]
    svg, png = files
    assert "<!-- demo: minilm -->" in svg.read_text()
    assert "another" not in svg.read_text()
    assert "<dc:date>" not in svg.read_text()
    assert png.read_bytes().startswith(b"\x89PNG")
    for file in files:
        assert file.read_bytes() == (tmp_path / "first" / file.name).read_bytes()


def unit_vectors(group: np.ndarray) -> np.ndarray:
    """Vectors that lie near each other within a group."""
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(group.max() + 1, 8))
    vectors = centres[group] + 0.05 * generator.normal(size=(len(group), 8))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_the_largest_groups_that_test_touches_are_shown_whole_up_to_a_size():
    # group 0 has 20 reports, 20 and 25 five each, 30 six that test does not touch; 36 to 39 are singletons
    group = np.array([0] * 20 + [20] * 5 + [25] * 5 + [30] * 6 + [36, 37, 38, 39])
    tested = np.isin(np.arange(40), [3, 24, 28, 29, 37, 39])
    shown = project_reports(np.arange(40), unit_vectors(group), group, tested, seed=0)
    assert list(shown) == ["row", "group", "x", "y"]
    assert sorted(shown["row"]) == [*range(20 - MAX_MEMBERS, 30), 37, 39]
    of_row = shown.set_index("row")["group"]
    assert of_row.drop([37, 39]).tolist() == group[of_row.drop([37, 39]).index].tolist()
    assert of_row[[37, 39]].tolist() == [-1, -1]
    assert np.isfinite(shown[["x", "y"]].to_numpy()).all()


# Two triangles, of which b and e also occur together, and a tag of its own.
TAGS = [("a", "b", "c")] * 4 + [("d", "e", "f")] * 3 + [("b", "e"), ("alone",)]


def test_labels_begin_with_the_most_frequent_tags_and_communities_have_a_colour_each():
    figure = tag_network(build_tag_network(TAGS))
    axis = figure.axes[0]
    assert [text.get_text() for text in axis.texts] == ["b", "a", "c", "e", "d", "f"]
    colours = {text.get_text(): text.get_color() for text in axis.texts}
    assert colours["a"] == colours["b"] == colours["c"] != colours["d"] == colours["e"] == colours["f"]
    assert len(axis.lines) == 7
    areas = axis.collections[0].get_sizes()
    assert areas.max() / areas.min() == pytest.approx(5 / 3)  # b has five documents, d three
    assert axis.get_title() == "Tags that occur together: the 7 most frequent of 7"
    assert figure.texts[0].get_text() == "not shown, without an edge to the others: alone"


def test_tags_are_drawn_with_their_strongest_edges_or_without_any_by_their_counts():
    # Of equal weights the first count: each of five tags has edges to the first three others, so 3 - 4 is missing.
    weights = strongest_edges(build_tag_network([("a", "b", "c", "d", "e")]), np.arange(5))
    assert np.count_nonzero(np.triu(weights)) == 9
    assert weights[3, 4] == 0
    # b and c are the stronger pair; without b, c keeps its edge to a.
    network = build_tag_network([("b", "c")] * 3 + [("a", "c")])
    assert strongest_edges(network, np.array([0, 2])).tolist() == [[0, 0.25], [0.25, 0]]
    axis = tag_network(build_tag_network([("a",), ("b",), ("b",)])).axes[0]
    assert [bar.get_width() for bar in axis.patches] == [2, 1]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["b", "a"]
    assert axis.get_title() == "No edge among 2 tags; the most frequent"
