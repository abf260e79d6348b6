import pandas as pd

from gedbd.data.text import title_description


def test_title_and_description_are_joined_and_nothing_is_added_to_what_is_empty():
    reports = pd.DataFrame({"title": [" Crash ", "", "Crash", ""], "description": ["on start\n", "boom", " ", ""]})
    assert title_description(reports) == ["Crash\non start", "boom", "Crash", ""]
