import numpy as np
import pandas as pd
import pytest

from gedbd.evaluation.report.charts import report_map, scarcity_curve, sensitivity_grid


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


def test_one_option_makes_a_line():
    table = pd.DataFrame({"margin": [0.2, 0.1, 0.1], "f1": [0.5, 0.2, 0.4]})
    (line,) = sensitivity_grid(table, "margin", None, "f1").axes[0].lines
    assert line.get_ydata().tolist() == pytest.approx([0.3, 0.5])


def test_map_shows_every_report():
    table = pd.DataFrame({"group": [-1, 4, 4, 7], "x": np.arange(4.0), "y": np.arange(4.0)})
    axis = report_map(table).axes[0]
    assert sum(len(points.get_offsets()) for points in axis.collections) == 4
