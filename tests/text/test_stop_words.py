import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from gedbd.text.stop_words import stop_words, without_stop_words


def test_stop_words_are_those_of_scikit_learn():
    assert stop_words() == ENGLISH_STOP_WORDS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How do I mount https://x.org/y on boot?", "mount boot?"),
        ("What is this?", "What is this?"),  # nothing but stop words: they are kept
        ("(The) disk", "disk"),
        ("https://x.org", ""),
        ("  ", ""),
    ],
)
def test_urls_and_stop_words_are_removed(text, expected):
    assert without_stop_words(text) == expected
