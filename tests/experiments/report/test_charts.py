import numpy as np
import pandas as pd
import pytest

from gedbd.evaluation.figures import cut_labels
from gedbd.experiments.report.charts import scarcity_curve, sensitivity_grid, tsne_projection


def test_scarcity_shows_a_line_a_kind_in_the_order_of_the_shares():
    table = pd.DataFrame(
        {
            "fraction": [1.0, 0.1, 0.1, 1.0],
            "kind": ["graph", "graph", "none", "none"],
            "mrr": [0.5, 0.3, 0.2, 0.4],
            "mrr_low": [0.4, 0.2, 0.1, 0.3],
            "mrr_high": [0.6, 0.4, 0.3, 0.5],
        }
    )
    figure = scarcity_curve(table, "mrr")
    axis = figure.axes[0]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["graph", "none"]
    graph, none = (container.lines[0].get_ydata().tolist() for container in axis.containers)
    assert (graph, none) == ([0.3, 0.5], [0.2, 0.4])
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0.1", "1"]


def test_grid_shows_means_and_leaves_cells_empty():
    table = pd.DataFrame({"margin": [0.1, 0.1, 0.2, 0.2], "dim": [5, 5, 5, 9], "f1": [0.2, 0.4, 0.5, 0.9]})
    axis = sensitivity_grid(table, "margin", "dim", "f1").axes[0]
    assert sorted(text.get_text() for text in axis.texts) == ["0.300", "0.500", "0.900"]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("margin", "dim")


def test_an_option_of_numbers_makes_a_line_a_model_at_the_true_distances():
    table = pd.DataFrame(
        {
            "model": ["a", "a", "a", "b", "b"],
            "margin": [0.2, 0.1, 0.5, 0.1, 0.2],
            "f1": [0.5, 0.3, 0.6, 0.7, 0.8],
            "f1_deviation": [0.1, 0.2, float("nan"), 0.1, 0.1],
        }
    )
    figure = sensitivity_grid(table, "margin", None, "f1")
    axis = figure.axes[0]
    assert [container.lines[0].get_xdata().tolist() for container in axis.containers] == [[0.1, 0.2, 0.5], [0.1, 0.2]]
    assert axis.containers[0].lines[0].get_ydata().tolist() == pytest.approx([0.3, 0.5, 0.6])
    bars = axis.containers[0].lines[2][0].get_segments()
    assert bars[0][:, 1].tolist() == pytest.approx([0.1, 0.5])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("margin", "F1")


def test_an_option_without_an_order_makes_bars_and_no_line():
    for values in (["tiny", "minilm"], [True, False]):
        table = pd.DataFrame({"encoder.name": values, "f1": [0.25, 0.5]})
        axis = sensitivity_grid(table, "encoder.name", None, "f1").axes[0]
        assert not axis.lines
        assert [bar.get_height() for bar in axis.patches] == [0.25, 0.5]
        assert [label.get_text() for label in axis.get_xticklabels()] == [str(value) for value in values]


def test_map_shows_every_report():
    table = pd.DataFrame({"group": [-1, 4, 4, 7], "x": np.arange(4.0), "y": np.arange(4.0)})
    axis = tsne_projection(table).axes[0]
    assert sum(len(points.get_offsets()) for points in axis.collections) == 4


def test_long_entries_of_a_legend_are_cut_unless_two_would_be_equal():
    assert cut_labels(["short", "0123456789ab"], max_length=6) == ["short", "012…9ab"]
    alike = ["aaa-1-bbb", "aaa-2-bbb"]
    assert cut_labels(alike, max_length=6) == alike
