"""Names and error messages in a report that say more than words: identifiers, codes, lines about errors."""

import re

MAX_CHARACTERS = 10_000  # of a text; what follows is mostly the rest of a log
MAX_IDENTIFIERS = 200
MAX_NAME_LENGTH = 200  # a longer one is data, such as Base64
MAX_ERROR_LINES = 20
MIN_LINE_LENGTH = 15
MAX_LINE_LENGTH = 120

# Numbers too, which are no identifiers: a pattern that looks ahead for a letter takes quadratic time for many digits.
NAME = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*|\d\w*")
# camelCase, snake_case, 0x00ff, MT5202
IDENTIFIER = re.compile(r"[a-z]\w*[A-Z]|[A-Za-z0-9]_[A-Za-z0-9]|^0x[0-9a-fA-F]+$|^[A-Z]+\d{2,}$")
ERROR_WORD = re.compile(r"error|exception|fail|fatal|cannot|can't|could not|unable|crash|assert|denied|invalid")
NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
BLANKS = re.compile(r"\W+")


def find_identifiers(text: str) -> list[str]:
    """The identifiers of a text, lower case, each once, in the order in which they first occur.

    Identifiers are names in camel or snake case, dotted names and the last part of each, hexadecimal numbers, and codes
    such as ``MT5202``. Only the first ``MAX_CHARACTERS`` are read, and at most ``MAX_IDENTIFIERS`` are returned.
    """
    found: dict[str, None] = {}
    for name in dict.fromkeys(NAME.findall(text[:MAX_CHARACTERS])):
        # Most names are plain words, which this test recognises faster than a pattern.
        if (name.isalpha() and name.islower()) or len(name) > MAX_NAME_LENGTH:
            continue
        if "." in name:
            found[name.lower()] = None
            name = name.rpartition(".")[2]
        if IDENTIFIER.search(name):
            found[name.lower()] = None
    return list(found)[:MAX_IDENTIFIERS]


def find_error_lines(text: str) -> list[str]:
    """The lines of a text that speak of an error, each once, in order.

    Numbers become 0, and signs blanks, so that lines that differ in an address or a time are equal. At most
    ``MAX_ERROR_LINES`` of the first ``MAX_CHARACTERS`` are returned, each cut to ``MAX_LINE_LENGTH``.
    """
    found: dict[str, None] = {}
    # Lower case once: a pattern that ignores case is ten times as slow.
    lowered = text[:MAX_CHARACTERS].lower()
    if not ERROR_WORD.search(lowered):
        return []
    for line in lowered.splitlines():
        if ERROR_WORD.search(line):
            plain = BLANKS.sub(" ", NUMBER.sub("0", line)).strip()
            if len(plain) >= MIN_LINE_LENGTH:
                found[plain[:MAX_LINE_LENGTH]] = None
    return list(found)[:MAX_ERROR_LINES]
