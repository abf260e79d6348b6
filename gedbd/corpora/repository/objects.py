"""Read commits from a repository: two git processes for all of them, one of messages and one of diffs."""

import re
from collections.abc import Generator, Iterator, Sequence
from typing import IO, NamedTuple

from gedbd.corpora.repository.commits import Commit, FileChange, Limits
from gedbd.corpora.repository.decoding import cut_line, decode, decode_message
from gedbd.corpora.repository.git import Git
from gedbd.corpora.repository.patch import PatchParser
from gedbd.corpora.repository.walk import WalkedCommit

# Everything that a user's or a repository's configuration could change is said.
DIFF = (
    *("diff-tree", "--stdin", "--root", "--always", "-r", "-p", "-M50%", "-l1000", "-U3", "--inter-hunk-context=0"),
    *("--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--diff-algorithm=myers", "--indent-heuristic"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=none", "-O/dev/null"),
)
MIN_LINE_BYTES = 65_536  # long enough for the paths of a header
MAX_LINE_CHARS = 2**28
COMMIT_LINE = re.compile(rb"(?:[0-9a-f]{40}|[0-9a-f]{64})")
PARENT_LINE = re.compile(rb"parent ([0-9a-f]{40}|[0-9a-f]{64})\n")
COMMIT_LINE_LENGTHS = {40, 64}  # of SHA-1 and SHA-256


class Losses(NamedTuple):
    """What reading a commit left out or guessed.

    Attributes:
        dropped_files: Files beyond the limit.
        cut_files: Files of which a part is missing.
        guessed_lines: Lines of changes that are not UTF-8.
        guessed_messages: 1 if the message is not in the encoding that the commit names, or in none that is known.
        cut_messages: 1 if the message is longer than the limit.
    """

    dropped_files: int = 0
    cut_files: int = 0
    guessed_lines: int = 0
    guessed_messages: int = 0
    cut_messages: int = 0


class ReadCommit(NamedTuple):
    """A commit and what reading it left out or guessed."""

    commit: Commit
    losses: Losses


def read_commits(git: Git, wanted: Sequence[WalkedCommit], limits: Limits) -> Generator[ReadCommit, None, None]:
    """The commits in the given order.

    Raises:
        ValueError: An object is missing or damaged.
    """
    if not wanted:
        return
    # "ID PARENT" compares a commit with this parent only.
    pairs = (f"{commit.id} {commit.first_parent}".rstrip() for commit in wanted)
    ids = (commit.id for commit in wanted)
    before: ReadCommit | None = None
    with (
        git.stream("cat-file", "--batch", "--buffer", asked=ids) as objects,
        git.stream(*DIFF, asked=pairs) as patches,
    ):
        # Where git fails in the middle of a diff, the context raises before that commit is yielded.
        for commit, diff in zip(wanted, _read_diffs(patches, limits), strict=False):
            if before is not None:
                yield before
            before = _read_commit(git, commit, objects, diff, limits)
    if before is not None:
        yield before


class _Diff(NamedTuple):
    """The files of a commit, how many the limit left out, and how many lines are not UTF-8."""

    files: list[FileChange]
    num_dropped: int
    num_guessed: int


def _read_diffs(patches: IO[bytes], limits: Limits) -> Iterator[_Diff]:
    """The diff of each commit. No line of a diff looks like the line with the id that precedes it."""
    parser: PatchParser | None = None
    num_guessed = 0
    for line in _lines(patches, limits):
        if len(line) in COMMIT_LINE_LENGTHS and COMMIT_LINE.fullmatch(line):
            if parser is not None:
                yield _Diff(parser.finish(), parser.num_dropped_files, num_guessed)
            parser = PatchParser(limits)
            num_guessed = 0
            continue
        text, is_utf8 = decode(line)
        num_guessed += not is_utf8
        if parser is not None:
            parser.add(text)
    if parser is not None:
        yield _Diff(parser.finish(), parser.num_dropped_files, num_guessed)


def _lines(patches: IO[bytes], limits: Limits) -> Iterator[bytes]:
    """Lines without their line feed. Of a longer one than any limit, the rest is read and dropped piece by piece."""
    # A character has at most 4 bytes, so what is left of a cut line is still too long for the parser, which flags it.
    max_bytes = max(MIN_LINE_BYTES, 4 * min(limits.max_line_chars, MAX_LINE_CHARS) + 8)
    while line := patches.readline(max_bytes):
        if line.endswith(b"\n"):
            yield line[:-1]
        else:
            yield cut_line(line) if len(line) == max_bytes else line
            while not line.endswith(b"\n") and line:
                line = patches.readline(max_bytes)


def _read_commit(git: Git, walked: WalkedCommit, objects: IO[bytes], diff: _Diff, limits: Limits) -> ReadCommit:
    """A commit from its diff and its object, which is the next one of the output of ``cat-file``."""
    name, _, size = objects.readline(MIN_LINE_BYTES).partition(b" commit ")
    if name != walked.id.encode():
        raise ValueError(f"{git.path}: commit {walked.id} cannot be read; git fsck shows which objects are damaged")
    num_left = int(size)
    parents: list[str] = []
    encoding = ""
    while line := objects.readline(min(num_left, MIN_LINE_BYTES)):
        num_left -= len(line)
        if match := PARENT_LINE.fullmatch(line):
            parents.append(match[1].decode("ascii"))
        elif line.startswith(b"encoding "):
            encoding = line[len(b"encoding ") : -1].decode("latin-1")
        elif line == b"\n":
            break
    content = objects.read(min(num_left, limits.max_message_bytes))
    num_left -= len(content)
    message, is_valid = decode_message(cut_line(content) if num_left else content, encoding)
    _skip(objects, num_left + 1)  # a line feed follows
    num_cut = sum(file.is_cut for file in diff.files)
    losses = Losses(diff.num_dropped, num_cut, diff.num_guessed, int(not is_valid), int(num_left > 0))
    is_cut = diff.num_dropped + num_cut > 0
    text = message.strip("\n")
    commit = Commit(walked.id, tuple(parents), walked.created_at, text, tuple(diff.files), is_cut)
    return ReadCommit(commit, losses)


def _skip(objects: IO[bytes], num_bytes: int) -> None:
    while num_bytes > 0:
        block = objects.read(min(num_bytes, MIN_LINE_BYTES))
        if not block:
            return
        num_bytes -= len(block)
