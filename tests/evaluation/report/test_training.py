"""The time of an epoch, relative to a setting of the same corpus."""

import pandas as pd
import pytest

from gedbd.evaluation.report.optional_sections import training
from gedbd.evaluation.report.run_settings import group_settings


@pytest.fixture
def settings(leave):
    runs = [
        leave("a", "dataset.name=one", seconds=60),
        leave("b", "dataset.name=one", "graph=none", seconds=30),
        leave("c", "dataset.name=two", "graph=none", seconds=600),
        leave("d", "dataset.name=two", seconds=900),
        leave("e", "dataset.name=three", seconds=6),
        leave("f", "dataset.name=four"),
    ]
    return group_settings(runs)


def test_each_corpus_has_its_own_base(settings):
    section = training(settings)
    table = section.tables[0]
    assert table["corpus"].tolist() == ["one", "one", "two", "two", "three", "four"]
    assert table["minutes per epoch"].tolist()[:5] == pytest.approx([1, 0.5, 10, 15, 0.1])
    assert table["relative"].tolist()[:5] == pytest.approx([2, 1, 1, 1.5, 1])
    assert pd.isna(table["relative"].iloc[5])


def test_the_bases_are_named(settings):
    text = training(settings).text
    assert "in one to tiny, text alone; in two to tiny, text alone; in three to tiny, text + graph." in text


def test_curves_are_drawn_where_there_are_any(settings):
    figures = training(settings).figures
    assert [caption.rpartition(", ")[2] for _, caption, _ in figures] == ["one", "one", "two", "two", "three"]


def test_nothing_trained_means_no_section():
    assert training([]) is None
