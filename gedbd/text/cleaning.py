"""What is done with the noise in descriptions: stack traces, logs, code, addresses and template lines."""

import re
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass
from itertools import groupby

import pandas as pd

from gedbd.text.noise import Passage, find_code, find_fences, find_logs, find_traces, put

KINDS = ("stack_traces", "logs", "code", "urls", "boilerplate")
CHOICES = ("keep", "shorten", "mark")
FEWEST_DESCRIPTIONS, FEWEST_COPIES, COPIES_SHARE = 100, 20, 0.01  # what makes a line boilerplate

URL = re.compile(r"""\b(?:https?|ftp)://[^\s<>"'|\])}]*[^\s<>"'|\])}.,:;!?]""")


@dataclass(frozen=True)
class Cleaning:
    """Keeps, shortens or marks each kind of noise.

    A kind on ``keep`` is left as it is. ``mark`` puts a marker such as ``[LOG]`` in its place. ``shorten`` keeps

    - of a stack trace the exceptions and the innermost three frames of each,
    - of a log the first line, the first five lines that tell of trouble, and the last line,
    - of code the first three lines,
    - of an address the host and the end of the path,
    - of boilerplate nothing: lines that at least 1% of the descriptions share, and at least 20 of them.

    Args:
        shared: The boilerplate, where it was found before, see ``shared_lines``; null finds it in the texts at hand.

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
        """N cleaned texts; a description of which nothing would be left stays as it is."""
        texts = [str(text) for text in descriptions]
        if all(getattr(self, kind) == "keep" for kind in KINDS):
            return texts
        shared = set() if self.boilerplate == "keep" else shared_lines(texts) if self.shared is None else self.shared
        cleaned = [self.clean(text, shared) for text in texts]
        return [new if new.strip() else text for new, text in zip(cleaned, texts, strict=True)]

    def clean(self, text: str, shared: Set[str]) -> str:
        """One description, of which nothing may be left."""
        lines, parts, end = text.splitlines(keepends=True), [], 0
        for passage in find_passages(lines, shared):
            choice = getattr(self, passage.kind)
            if choice != "keep":
                parts += [*lines[end : passage.start], getattr(passage, choice)]
                end = passage.stop
        text = "".join([*parts, *lines[end:]])
        return text if self.urls == "keep" else URL.sub(short_url if self.urls == "shorten" else "[URL]", text)


def shared_lines(texts: list[str]) -> set[str]:
    """The boilerplate, stripped and case-folded; a line without a letter is none."""
    if len(texts) < FEWEST_DESCRIPTIONS:
        return set()
    copies = Counter(line for text in texts for line in {line.strip().casefold() for line in text.splitlines()})
    fewest = max(FEWEST_COPIES, COPIES_SHARE * len(texts))
    return {line for line, count in copies.items() if count >= fewest and any(map(str.isalpha, line))}


def short_url(match: re.Match[str]) -> str:
    """Host and last part of the path."""
    host, *path = re.split(r"[?#]", match[0], maxsplit=1)[0].split("://", 1)[1].rstrip("/").split("/")
    return "/".join([host.rsplit("@", 1)[-1], *path[-1:]])


def find_passages(lines: list[str], shared: Set[str]) -> list[Passage]:
    """The passages in order; none overlap. What is found first wins: traces, logs, code, boilerplate."""
    taken, found = bytearray(len(lines)), []
    for find in (find_traces, find_logs, find_fences, find_code):
        for passage in find(lines, taken):
            taken[passage.start : passage.stop] = b"\1" * (passage.stop - passage.start)
            found.append(passage)
    if shared:
        common = [not held and line.strip().casefold() in shared for line, held in zip(lines, taken, strict=True)]
        runs = [list(run) for is_common, run in groupby(range(len(lines)), common.__getitem__) if is_common]
        found += [put(lines, "boilerplate", "[TEMPLATE]", run[0], run[-1] + 1, []) for run in runs]
    return sorted(found)
