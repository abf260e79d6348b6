import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.fields import number_tags, occurrence_matrix, tag_overlap, tags_of


def test_the_component_comes_first_and_each_tag_once():
    table = pd.DataFrame({"component": ["UI", "", "Core", ""], "labels": ["crash; ui", "a;b;;A", "", ""]})
    assert tags_of(table) == [("ui", "crash"), ("a", "b"), ("core",), ()]
    assert tags_of(pd.DataFrame({"component": ["UI", ""]})) == [("ui",), ()]


def test_occurrences_leave_unknown_and_repeated_tags_out():
    occurrences = occurrence_matrix([("x", "b", "b"), (), ("a", "b")], {"a": 0, "b": 1})
    assert occurrences.toarray().tolist() == [[0, 1], [0, 0], [1, 1]]


def test_overlap_of_tags_worked_out_by_hand():
    tags = [("a", "b"), ("b", "c"), (), ("a", "b")]
    occurrences = occurrence_matrix(tags, number_tags(tags))
    overlap = tag_overlap(occurrences[[0, 2]], occurrences)
    assert overlap.dtype == np.float32
    assert overlap.tolist() == [pytest.approx([1, 1 / 3, 0, 1]), [0, 0, 0, 0]]


def test_without_any_tag_nothing_overlaps():
    occurrences = occurrence_matrix([(), ()], number_tags([(), ()]))
    assert occurrences.shape == (2, 0)
    assert tag_overlap(occurrences, occurrences).tolist() == [[0, 0], [0, 0]]
