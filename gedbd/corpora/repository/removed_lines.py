"""Which removed lines of a change may have held a bug."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from gedbd.code.comments import code_lines
from gedbd.corpora.repository.commits import FileChange, Hunk


class Block(NamedTuple):
    """Neighbouring changed lines of a hunk.

    Attributes:
        removed: Numbers in the old file, from 1, and texts.
        added: Texts.
    """

    removed: list[tuple[int, str]]
    added: list[str]


def is_source(change: FileChange, suffixes: Sequence[str] | None) -> bool:
    """Whether a file is text whose name before the change, or that of an added file, ends with one of the suffixes.

    Args:
        change: The file.
        suffixes: In small letters, such as ``.java``; None for all.
    """
    if change.is_binary or change.is_submodule:
        return False
    suffix = PurePosixPath(change.old_path or change.path).suffix
    return suffixes is None or suffix.lower() in suffixes


def removed_code(change: FileChange, old_text: str) -> list[int]:
    """The numbers of the removed lines that held code, ascending.

    Comments and blank lines do not count, nor does formatting: a block of changed lines that is the same before and
    after but for white space, and a removed line that is among the added ones of its hunk but for white space, such as
    one that is indented.

    Args:
        change: What happened to the file.
        old_text: The whole file before the change.
    """
    code = code_lines(old_text, change.old_path)
    return [number for hunk in change.hunks for number in _changed_for_good(hunk) if number in code]


def _changed_for_good(hunk: Hunk) -> Iterator[int]:
    """The numbers of the removed lines of a hunk that are no formatting."""
    blocks = [block for block in changed_blocks(hunk) if not _is_formatting(block)]
    added = Counter(_squeezed(text) for block in blocks for text in block.added)
    for number, text in (line for block in blocks for line in block.removed):
        if added[_squeezed(text)]:
            added[_squeezed(text)] -= 1  # one added line accounts for one removed line
        else:
            yield number


def changed_blocks(hunk: Hunk) -> Iterator[Block]:
    """Yields the blocks of a hunk: the hunk ``-a +b  c -d`` from line 7 on has ``(7, a), b`` and ``(9, d)``."""
    block = Block([], [])
    number = hunk.old_start
    for line in hunk.lines:
        sign = line[:1]
        if sign == "+":
            block.added.append(line[1:])
            continue
        if sign == "-":
            block.removed.append((number, line[1:]))
        elif block.removed or block.added:
            yield block
            block = Block([], [])
        number += 1
    if block.removed or block.added:
        yield block


def _is_formatting(block: Block) -> bool:
    before = "".join(text for _, text in block.removed)
    return _squeezed(before) == _squeezed("".join(block.added))


def _squeezed(text: str) -> str:
    return "".join(text.split())
