"""Ids of reports: one rule for readers, the HTTP API and the index."""

import re

MAX_ID_LENGTH = 200
# No white space, which separates columns in TREC files, and no control characters; also the pattern of the API.
ID_PATTERN = r"^[^\s\x00-\x20\x7f-\x9f]+$"
ID_RULE = f"an id has 1 to {MAX_ID_LENGTH} characters, without blanks and control characters"
ID = re.compile(ID_PATTERN)


def is_id(text: str) -> bool:
    """Whether a stripped text is a valid id."""
    return len(text) <= MAX_ID_LENGTH and ID.fullmatch(text) is not None
