"""Texts that every file and every JSON parser takes."""

import re

NOT_STORABLE = re.compile("[\x00\ud800-\udfff]")  # NUL and unpaired surrogates


def storable(value: object) -> object:
    """A text with U+FFFD in place of NUL and unpaired surrogates, which no file takes; other values do not change."""
    return NOT_STORABLE.sub("\ufffd", value) if isinstance(value, str) else value
