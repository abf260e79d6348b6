"""What a report names: words, identifiers, files, and frames of stack traces."""

import re
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np

from gedbd.text.stack_traces import Frame, find_frames
from gedbd.text.words import CodeWords, separate

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# An identifier of code rather than a word of prose: parseUrl, max_size, JSPServlet.
CODE_LIKE = re.compile(r"[a-z0-9][A-Z]|_|[A-Z]{2}[a-z]")
QUALIFIED = re.compile(r"(?<![\w.])(?:[a-z_]\w{0,50}[./]){2,20}[A-Z]\w{0,100}")
MAX_WORDS = 400  # of a report, the first ones
MAX_NAMES = 500  # likewise of names, qualified names and frames
TAIL_PARTS = 2  # of a file's path in a stack trace: what stands before differs between machines


class NamedFile(NamedTuple):
    """A name of the report that a file may have.

    Attributes:
        name: Small letters, without an ending.
        weight: 1 for an identifier of code, .4 for a word that begins with a capital.
        place: How many identifiers stand before it.
        in_title: Whether the title has it.
    """

    name: str
    weight: float
    place: int
    in_title: bool


class ReportWords(NamedTuple):
    """What is searched for.

    Attributes:
        words: Words and their weights: 1 + log of the count, and 1 more for those of the title.
        title: Words of the title and their counts.
        code: Identifiers of code, each with the weight 1.
        names: Names that files may have.
        tails: Ends of paths without endings that qualified names stand for, such as ``org/a/Parser``.
        frames: Ends of paths of the stack traces' frames, in their order.
    """

    words: Mapping[str, float]
    title: Mapping[str, float]
    code: Mapping[str, float]
    names: tuple[NamedFile, ...]
    tails: tuple[str, ...]
    frames: tuple[str, ...]


def report_words(title: str, description: str) -> ReportWords:
    """Reads a report."""
    code_words = CodeWords()
    text = f"{title}\n{description}"
    in_title = Counter(code_words.of_text(title))
    counts = Counter(code_words.of_text(text))
    weights = {word: 1 + float(np.log(count)) + (word in in_title) for word, count in counts.items()}
    identifiers = IDENTIFIER.findall(separate(text))
    code = {name.lower(): 1.0 for name in identifiers if CODE_LIKE.search(name)}
    tails = (match[0].replace(".", "/") for match in QUALIFIED.finditer(separate(text)))
    return ReportWords(
        words=_first(weights),
        title=_first({word: float(count) for word, count in in_title.items()}),
        code=_first(code),
        names=_names(identifiers, set(IDENTIFIER.findall(separate(title)))),
        tails=tuple(islice(tails, MAX_NAMES)),
        frames=tuple(_tail(frame) for frame in find_frames(text)[:MAX_NAMES]),
    )


def _first(weights: Mapping[str, float]) -> dict[str, float]:
    return dict(list(weights.items())[:MAX_WORDS])


def _names(identifiers: list[str], in_title: set[str]) -> tuple[NamedFile, ...]:
    """Each name once, at its first place; the spelling with the highest weight counts."""
    found: dict[str, NamedFile] = {}
    for place, name in enumerate(identifiers):
        is_code = CODE_LIKE.search(name) is not None
        if len(name) < 3 or not (is_code or name[0].isupper()):
            continue
        named = NamedFile(name.lower(), 1.0 if is_code else 0.4, place, name in in_title)
        known = found.setdefault(named.name, named)
        if named.weight > known.weight:
            found[named.name] = named._replace(place=known.place, in_title=named.in_title or known.in_title)
    return tuple(found.values())[:MAX_NAMES]


def _tail(frame: Frame) -> str:
    """The end of the path of a frame's file, without its ending."""
    file = PurePosixPath(frame.file.replace("\\", "/"))
    if len(file.parts) > 1 or not frame.class_name:
        return "/".join(file.with_suffix("").parts[-TAIL_PARTS:]) if file.name else ""
    *package, class_name = frame.class_name.split(".")
    return "/".join([*package, file.stem or class_name.partition("$")[0]])
