"""What the id of a report may be, in every reader, in the HTTP API and in the index alike."""

import re

MAX_ID_LENGTH = 200
# No white space, which separates columns in TREC files, and no control characters; also the pattern of the API.
ID_PATTERN = r"^[^\s\x00-\x20\x7f-\x9f]+$"
ID_RULE = f"an id has 1 to {MAX_ID_LENGTH} characters, none of which is a blank or a control character"
ID = re.compile(ID_PATTERN)


def is_id(text: str) -> bool:
    """Whether a text, from which blanks around it were stripped, is an id."""
    return len(text) <= MAX_ID_LENGTH and ID.fullmatch(text) is not None
