"""Which commits last touched some lines of a file."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gedbd.corpora.repository.decoding import decode, encoded_paths, unquote
from gedbd.corpora.repository.git import Git

RECORD = re.compile(rb"([0-9a-f]{40,64}) (\d+) (\d+)")
MAX_RANGES = 1_000  # of a command line


class BlamedLine(NamedTuple):
    """Where a line comes from: the commit that last touched it, and the path and number it had there."""

    commit_id: str
    path: str
    line: int


def blame_lines(git: Git, commit: str, path: str, lines: Sequence[int]) -> list[BlamedLine]:
    """The origin of each of M lines, by ``git blame -w -M``: neither white space nor a move within a file counts.

    Args:
        git: The repository.
        commit: Any name of the commit that has the file.
        path: The file.
        lines: Line numbers from 1, in any order.

    Raises:
        ValueError: There is no such commit, file or line.
    """
    if lines and min(lines) < 1:
        raise ValueError(f"{git.path}: line {min(lines)} of {path}: lines are numbered from 1")
    revision = git.resolve(commit)
    name = stored_name(git, revision, path)
    ranges = list(_ranges(lines))
    origins: dict[int, BlamedLine] = {}
    for start in range(0, len(ranges), MAX_RANGES):
        origins |= _blame(git, revision, name, ranges[start : start + MAX_RANGES])
    return [origins[line] for line in lines]


def _ranges(lines: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last line of each run of neighbours: (3, 4) and (9, 9) for lines 4, 9, 3."""
    first = last = 0
    for line in sorted(set(lines)):
        if line != last + 1 and last:
            yield first, last
        if line != last + 1 or not last:
            first = line
        last = line
    if last:
        yield first, last


def stored_name(git: Git, revision: str, path: str) -> bytes:
    """The path as the repository spells it: names that are not UTF-8 were decoded."""
    names = encoded_paths(path)
    for name in names[1:]:  # there is one only for a path outside of ASCII
        if git.run("ls-tree", "-z", revision, "--", name):
            return name
    return names[0]


def _blame(git: Git, revision: str, path: bytes, ranges: Sequence[tuple[int, int]]) -> dict[int, BlamedLine]:
    """The origin of each line of some ranges."""
    # The repository's configuration may name a file of commits that blame looks through; it does not count here.
    arguments = ["blame", "--no-textconv", "--no-ignore-revs-file", "-w", "-M", "--porcelain"]
    arguments += [f"-L{first},{last}" for first, last in ranges]
    origins: dict[int, BlamedLine] = {}
    paths: dict[str, str] = {}  # told again for each group only if a commit had lines in several files
    commit = ""
    old_line = new_line = 0
    for line in git.run(*arguments, revision, "--", path).split(b"\n"):
        if line.startswith(b"\t"):  # the content ends the record of a line
            origins[new_line] = BlamedLine(commit, paths[commit], old_line)
        elif line.startswith(b"filename "):
            paths[commit] = unquote(decode(line[len(b"filename ") :])[0])
        elif match := RECORD.match(line):
            commit = match[1].decode("ascii")
            old_line = int(match[2])
            new_line = int(match[3])
    return origins
