"""Text of strangers for terminals, logs and pages: no character steers a terminal or reorders the text around it."""

import re

# A joiner belongs to the spelling of Persian and Indic words and of emojis; beside Latin, Greek and Cyrillic letters it
# only hides.
JOINER = re.compile("(?<=[^\0-\u058f\u2000-\u206f])[\u200c\u200d](?=[^\0-\u058f\u2000-\u206f])")


def printable(text: str, keep: str = "") -> str:
    """A text with a blank for each character that has no shape of its own, so that positions stay.

    These are control characters, such as ESC, line breaks and tabs, the controls of bidirectional text, zero-width
    characters, and halves of surrogate pairs. Letters of any script stay.

    Args:
        text: Any text.
        keep: Characters that stay, such as a line feed.
    """
    if text.isprintable():
        return text
    joiners = {match.start() for match in JOINER.finditer(text)}
    return "".join(
        letter if letter.isprintable() or letter in keep or place in joiners else " "
        for place, letter in enumerate(text)
    )


def printable_line(text: str) -> str:
    """A printable text with single blanks between its words, and none around it."""
    return " ".join(printable(text).split())
