import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from sklearn.metrics import average_precision_score

from gedbd.evaluation.figures import (
    DUPLICATE,
    OTHER,
    bars,
    confusion_matrix,
    cut_labels,
    hit_curves,
    over_option,
    precision_recall,
    rank_curves,
    similarity_histogram,
    title_cosines,
    training_curves,
    tsne_projection,
)

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


def test_map_shows_every_report():
    table = pd.DataFrame({"group": [-1, 4, 4, 7], "x": np.arange(4.0), "y": np.arange(4.0)})
    axis = tsne_projection(table).axes[0]
    assert sum(len(points.get_offsets()) for points in axis.collections) == 4


def test_long_entries_of_a_legend_are_cut_unless_two_would_be_equal():
    assert cut_labels(["short", "0123456789ab"], max_length=6) == ["short", "012…9ab"]
    alike = ["aaa-1-bbb", "aaa-2-bbb"]
    assert cut_labels(alike, max_length=6) == alike
