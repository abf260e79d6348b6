import pandas as pd

from gedbd.corpora.tags import tags_of


def test_the_component_comes_first_and_each_tag_once():
    table = pd.DataFrame({"component": ["UI", "", "Core", ""], "labels": ["crash; ui", "a;b;;A", "", ""]})
    assert tags_of(table) == [("ui", "crash"), ("a", "b"), ("core",), ()]


def test_a_table_without_labels_has_components_only():
    assert tags_of(pd.DataFrame({"component": ["UI", ""]})) == [("ui",), ()]
