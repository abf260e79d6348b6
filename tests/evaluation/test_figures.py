"""Figures, their files, and whether readers with colour blindness tell the colours apart."""

from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from sklearn.metrics import average_precision_score

from gedbd.encoders.node2vec import build_tag_network
from gedbd.evaluation.figures import (
    DUPLICATE,
    MARGINS,
    MAX_GROUPS,
    MAX_MEMBERS,
    MAX_SINGLETONS,
    OTHER,
    SERIES,
    bars,
    confusion_matrix,
    hit_curves,
    name_subject,
    over_option,
    precision_recall,
    project_reports,
    rank_curves,
    save_figure,
    similarity_histogram,
    title_cosines,
    training_curves,
)
from gedbd.experiments.tag_figure import strongest_edges, tag_network

SCORES = np.array([0.9, 0.8, 0.7, 0.2, 0.1, -0.4], dtype=np.float32)
LABELS = np.array([1, 0, 0, 1, 0, 0])


def legend(axis) -> list[str]:
    return [text.get_text() for text in axis.get_legend().get_texts()]


def test_title_cosines_tell_medians_and_how_many_are_high():
    raw, reduced = np.array([0.97, 0.97, 0.98, 0.2]), np.array([-1.0, 0.0, 0.1, 1.0000001])
    axis = title_cosines(raw, reduced).axes[0]
    assert legend(axis) == ["after PCA: median 0.05, 25% above 0.95", "raw: median 0.97, 75% above 0.95"]
    heights = np.array([bar.get_height() for bar in axis.patches])
    assert heights.sum() == pytest.approx(2)  # each distribution adds up to 1, the cosine above 1 included


def test_training_curves_show_both_parts_by_epoch():
    epochs = pd.DataFrame(
        {
            "epoch": [0, 1],
            "train/loss": [0.5, 0.3],
            "val/loss": [0.6, 0.4],
            "train/f1": [0.7, 0.9],
            "val/f1": [0.6, 0.8],
        }
    )
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


def test_histogram_shares_add_up_to_one_for_each_class():
    scores = np.append(SCORES, np.float32(1.0000001))  # the cosine of equal texts
    figure = similarity_histogram(scores, np.append(LABELS, 1), 0.45)
    (axis,) = figure.axes
    height = {OTHER: 0.0, DUPLICATE: 0.0}
    for bar in axis.patches:
        height[to_hex(bar.get_facecolor())] += bar.get_height()
    assert height == {OTHER: pytest.approx(1), DUPLICATE: pytest.approx(1)}
    assert set(axis.lines[0].get_xdata()) == {0.45}
    assert sorted(legend(axis)) == ["duplicate (3)", "not duplicate (4)", "threshold 0.45"]
    alone = similarity_histogram(SCORES[:3], np.ones(3, dtype=int), 0.5)
    assert sorted(legend(alone.axes[0])) == ["duplicate (3)", "threshold 0.50"]


def test_precision_recall_encloses_the_average_precision_of_each_method():
    figure = precision_recall({"mine": (SCORES, LABELS), "other": (-SCORES, LABELS)})
    (axis,) = figure.axes
    assert legend(axis) == ["mine", "other", "always duplicate"]
    for line, scores in zip(axis.lines, (SCORES, -SCORES), strict=False):
        recall, precision = line.get_data()
        assert -np.sum(np.diff(recall) * precision[:-1]) == pytest.approx(average_precision_score(LABELS, scores))
    assert set(axis.lines[2].get_ydata()) == {2 / 6}


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
    table = pd.DataFrame(
        {
            "model": ["a", "a", "a", "b", "b"],
            "margin": ["0.1", "0.2", "0.5", "0.1", "0.5"],
            "f1": [0.5, 0.3, 0.6, 0.7, 0.8],
            "f1_low": [0.4, 0.2, 0.6, 0.6, 0.7],
            "f1_high": [0.6, 0.4, 0.6, 0.8, 0.9],
        }
    )
    figure = over_option(table, "margin", "f1")
    axis = figure.axes[0]
    assert [container.lines[0].get_ydata().tolist() for container in axis.containers] == [[0.5, 0.3, 0.6], [0.7, 0.8]]
    assert axis.containers[1].lines[0].get_xdata().tolist() == pytest.approx([0.02, 2.02])
    ends = axis.containers[0].lines[2][0].get_segments()
    assert ends[0][:, 1].tolist() == pytest.approx([0.4, 0.6])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0.1", "0.2", "0.5"]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("margin", "F1")


def test_bars_have_their_intervals_and_leave_out_what_was_not_measured():
    table = pd.DataFrame({"method": ["text", "bm25", "median"], "mrr": [0.5, 0.2, None]})
    table = table.assign(mrr_low=table["mrr"] - 0.1, mrr_high=table["mrr"] + 0.2)
    axis = bars({"commits": table}, "mrr", "MRR", first=["text"], lines={"commits": 0.2}).axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["bm25", "text alone"]
    assert [bar.get_width() for bar in axis.patches] == [0.2, 0.5]
    assert [to_hex(bar.get_facecolor()) for bar in axis.patches] == [OTHER, DUPLICATE]
    assert set(axis.lines[-1].get_xdata()) == {0.2}


def test_hit_curves_count_ranks_up_to_k():
    left, right = hit_curves({"commits": {"bm25": np.array([1, 3, 0, 200])}, "files": {"a": np.array([2])}}).axes
    assert left.lines[0].get_ydata()[[0, 1, 2, 99]].tolist() == [0.25, 0.25, 0.5, 0.5]
    assert right.get_title() == "files"


# Machado, Oliveira and Fernandes (2009), severity 1, for linear RGB
DEFICIENCIES = {
    "none": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
NOTICED = 10  # a CIELAB distance that is seen at a glance; 2 is the smallest that is seen at all


def lab(linear):
    """CIELAB of a colour in linear RGB."""
    x, y, z = np.cbrt(TO_XYZ @ np.clip(linear, 0, 1) / TO_XYZ.sum(axis=1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_colours_differ_for_every_reader(deficiency):
    srgb = np.array([to_rgb(one) for one in SERIES])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = [lab(np.asarray(DEFICIENCIES[deficiency]) @ one) for one in linear]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > NOTICED


def drawn(layout):
    figure = Figure(figsize=(4, 3), layout=layout)
    axis = figure.subplots(gridspec_kw=None if layout else MARGINS)
    axis.plot([1, 2], [3, 4])
    axis.set_title("Loss")
    return figure


@pytest.mark.figures
@pytest.mark.parametrize("text", [r"$\frac a$", "costs $5 or $6", "$", "a \x1b[31m\u202eb\x00"])
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


def test_no_more_groups_and_singletons_than_can_be_told_apart():
    sizes = [2] * (MAX_GROUPS + 5) + [3] * 4 + [1] * (MAX_SINGLETONS + 20)
    group = np.repeat(np.arange(len(sizes)), sizes)
    shown = project_reports(np.arange(len(group)), unit_vectors(group), group, np.ones(len(group), dtype=bool), seed=0)
    singletons = shown[shown["group"] == -1]
    assert len(singletons) == singletons["row"].nunique() == MAX_SINGLETONS
    several = shown[shown["group"] != -1]["group"].value_counts()
    assert len(several) == MAX_GROUPS
    assert (several == 3).sum() == 4


def test_the_seed_fixes_the_map_and_another_changes_it():
    group = np.arange(MAX_SINGLETONS + 30)
    draws = [project_reports(group, unit_vectors(group), group, group >= 10, seed) for seed in (0, 0, 1)]
    assert draws[0].equals(draws[1])
    assert set(draws[0]["row"]) != set(draws[2]["row"])
    assert all(draw["row"].min() >= 10 for draw in draws)


def test_equal_vectors_share_a_place_and_alone_make_no_map():
    group = np.repeat(np.arange(0, 40, 2), 2)
    vectors = unit_vectors(group)
    vectors[1::2] = vectors[::2]
    shown = project_reports(np.arange(40), vectors, group, np.ones(40, dtype=bool), seed=0).set_index("row")
    assert shown.loc[0, ["x", "y"]].tolist() == shown.loc[1, ["x", "y"]].tolist()
    same = np.ones((40, 8), dtype=np.float32) / 8**0.5
    assert project_reports(np.arange(40), same, group, np.ones(40, dtype=bool), seed=0).empty


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
