"""Cleaning of descriptions: keep, shorten or mark stack traces, logs, code, URLs and boilerplate."""

import re
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass
from itertools import groupby

import pandas as pd

from gedbd.text.noise import Passage, find_code, find_fences, find_logs, find_traces, make_passage

KINDS = ("stack_traces", "logs", "code", "urls", "boilerplate")
CHOICES = ("keep", "shorten", "mark")
# A line is boilerplate if enough descriptions share it; a handful of descriptions does not tell.
MIN_DESCRIPTIONS = 100
MIN_COPIES = 20
MIN_COPIES_FRACTION = 0.01

URL = re.compile(r"""\b(?:https?|ftp)://[^\s<>"'|\])}]*[^\s<>"'|\])}.,:;!?]""")


@dataclass(frozen=True)
class Cleaning:
    """Keeps, shortens or marks each kind of noise.

    ``keep`` leaves a kind as it is, ``mark`` replaces it with a marker such as ``[LOG]``, and ``shorten`` keeps

    - of a stack trace the exceptions and the innermost three frames of each,
    - of a log the first line, the first five lines that report an error or warning, and the last line,
    - of code the first three lines,
    - of a URL the host and the end of the path,
    - of boilerplate nothing: lines that at least 1% of the descriptions share, and at least 20 of them.

    Args:
        shared: The boilerplate, see ``shared_lines``; null finds it in the texts that are cleaned.

    Raises:
        ValueError: If a choice is unknown.
    """

    stack_traces: str = "keep"
    logs: str = "keep"
    code: str = "keep"
    urls: str = "keep"
    boilerplate: str = "keep"
    shared: frozenset[str] | None = None

    def __post_init__(self) -> None:
        for kind in KINDS:
            choice = getattr(self, kind)
            if choice not in CHOICES:
                raise ValueError(f"text.cleaning.{kind}={choice} is unknown: choose {', '.join(CHOICES)}")

    def __call__(self, descriptions: pd.Series) -> list[str]:
        """N cleaned texts; a description that would become empty is kept unchanged."""
        texts = [str(text) for text in descriptions]
        if all(getattr(self, kind) == "keep" for kind in KINDS):
            return texts
        shared: Set[str] = set()
        if self.boilerplate != "keep":
            shared = shared_lines(texts) if self.shared is None else self.shared
        cleaned = [self.clean(text, shared) for text in texts]
        return [new if new.strip() else text for new, text in zip(cleaned, texts, strict=True)]

    def clean(self, text: str, shared: Set[str]) -> str:
        """One cleaned description, which may be empty.

        Args:
            text: The description.
            shared: The boilerplate, see ``shared_lines``.
        """
        lines = text.splitlines(keepends=True)
        parts: list[str] = []
        end = 0
        for passage in find_passages(lines, shared):
            choice = getattr(self, passage.kind)
            if choice != "keep":
                parts += [*lines[end : passage.start], getattr(passage, choice)]
                end = passage.stop
        text = "".join([*parts, *lines[end:]])
        if self.urls == "keep":
            return text
        return URL.sub(short_url if self.urls == "shorten" else "[URL]", text)


def shared_lines(texts: list[str]) -> set[str]:
    """The boilerplate of N descriptions: lines that many share, stripped and case-folded, with at least one letter."""
    if len(texts) < MIN_DESCRIPTIONS:
        return set()
    copies: Counter[str] = Counter()
    for text in texts:
        # A set: a line that one description repeats counts once.
        copies.update({line.strip().casefold() for line in text.splitlines()})
    min_copies = max(MIN_COPIES, MIN_COPIES_FRACTION * len(texts))
    return {line for line, count in copies.items() if count >= min_copies and any(map(str.isalpha, line))}


def short_url(match: re.Match[str]) -> str:
    """Host and last part of the path: ``https://me@b.org/a/show.cgi?id=3`` becomes ``b.org/show.cgi``."""
    address = re.split(r"[?#]", match[0], maxsplit=1)[0]
    host, *path = address.split("://", 1)[1].rstrip("/").split("/")
    return "/".join([host.rsplit("@", 1)[-1], *path[-1:]])


def find_passages(lines: list[str], shared: Set[str]) -> list[Passage]:
    """Passages of noise in order, without overlaps. The kind found first wins: traces, logs, code, boilerplate."""
    taken = bytearray(len(lines))  # 1 for each line that is in a passage
    found: list[Passage] = []
    for find in (find_traces, find_logs, find_fences, find_code):
        for passage in find(lines, taken):
            taken[passage.start : passage.stop] = b"\1" * (passage.stop - passage.start)
            found.append(passage)
    if not shared:
        return sorted(found)
    is_shared = [line.strip().casefold() in shared for line in lines]
    free = [shared_line and not held for shared_line, held in zip(is_shared, taken, strict=True)]
    for in_run, group in groupby(range(len(lines)), free.__getitem__):
        if in_run:
            run = list(group)
            found.append(make_passage(lines, "boilerplate", "[TEMPLATE]", run[0], run[-1] + 1, []))
    return sorted(found)
