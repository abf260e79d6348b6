"""English stop words, and texts without them."""

from functools import cache
from importlib.resources import files

from gedbd.text.cleaning import URL

PUNCTUATION = ".,:;!?()[]{}\"'"


@cache
def stop_words() -> frozenset[str]:
    """The English stop words of scikit-learn, from a copy: importing it takes longer than a search."""
    return frozenset((files("gedbd.text") / "stop_words.txt").read_text(encoding="utf-8").split())


def without_stop_words(text: str) -> str:
    """A text without URLs and stop words; one that holds nothing else keeps its stop words.

    ``How do I mount https://x.org/y on boot?`` becomes ``mount boot?``.
    """
    words = URL.sub(" ", text).split()
    kept = [word for word in words if word.strip(PUNCTUATION).lower() not in stop_words()]
    return " ".join(kept or words)
