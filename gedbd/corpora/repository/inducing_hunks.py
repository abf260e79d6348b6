"""Which hunks of the files that induced a bug did so, where the data names only commits and files.

A hunk is linked if it added a line of code that a fix of the report removes in the same file. A line is compared
without the white space around it. Where a diff was cut, its lines are missing, and so are links.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import numpy as np

from gedbd.corpora.relevance import Links
from gedbd.corpora.repository.documents import ChangeTables
from gedbd.corpora.repository.report_links import LinkBuilder

SOURCE = "equal lines"
MIN_WORD_CHARACTERS = 8  # of a line: brackets and keywords such as "} finally {" are in every file
WORD_CHARACTER = re.compile(r"\w")
COMMENT = re.compile(r"//|/\*|\*|#|<!--|--")

# The removed lines of a fix by the path of the file.
RemovedLines = Mapping[str, set[str]]


def link_hunks(fixing: Links, inducing_files: Links, tables: ChangeTables) -> tuple[Links, tuple[str, ...]]:
    """Links from reports to the hunks that induced their bugs; see the module's docstring.

    Args:
        fixing: Links from reports to the commits that fixed them.
        inducing_files: Links from reports to the files that induced the bugs.
        tables: The history.

    Returns:
        The links, made at the date of the link to the file, and a warning that counts reports with such links and
        reports without one.
    """
    hunks = _rows_of_each(tables.hunks.table["file"].to_numpy(), len(tables.files))
    hunks_of_commit = _rows_of_each(tables.hunks.table["commit"].to_numpy(), len(tables.commits))
    paths = tables.hunks.table["paths"].tolist()
    diffs = tables.hunks.table["diff"].tolist()
    builder = LinkBuilder(inducing_files.num_queries, len(tables.hunks), SOURCE)
    linked = set()
    for report in inducing_files.table["query"].unique().tolist():
        links = inducing_files.table[inducing_files.table["query"] == report]
        fixes = [row for commit in fixing.relevant(report) for row in hunks_of_commit[commit]]
        removed = _removed_lines([paths[row] for row in fixes], [diffs[row] for row in fixes])
        for file, made_at in zip(links["document"], links["made_at"], strict=True):
            for row in hunks[file]:
                if _of_same_file(removed, paths[row]) & _code_lines(diffs[row], "+"):
                    builder.add(report, row, made_at)
                    linked.add(report)
    total = inducing_files.table["query"].nunique()
    return builder.links(), (_told(len(linked), total),)


def _told(linked: int, total: int) -> str:
    return (
        f"reports with inducing files whose inducing hunks are found by equal lines: {linked:,}; not found, as diffs"
        f" were cut or lines were changed in between: {total - linked:,}"
    )


def _rows_of_each(owner: np.ndarray, count: int) -> list[list[int]]:
    """The rows that belong to each owner: ``[0, 0, 2]`` of 3 owners gives rows 0 and 1, none, and 2."""
    ends = np.cumsum(np.bincount(owner, minlength=count))
    return [rows.tolist() for rows in np.split(np.argsort(owner, kind="stable"), ends[:-1])]


def _removed_lines(paths: Sequence[str], diffs: Sequence[str]) -> RemovedLines:
    """The lines of code that the hunks of a fix remove and do not add again, by path."""
    removed: dict[str, set[str]] = defaultdict(set)
    added: dict[str, set[str]] = defaultdict(set)
    for path, diff in zip(paths, diffs, strict=True):
        removed[path] |= _code_lines(diff, "-")
        added[path] |= _code_lines(diff, "+")
    return {path: lines - added[path] for path, lines in removed.items()}


def _of_same_file(removed: RemovedLines, path: str) -> set[str]:
    """The removed lines of a path; of all files with its name if the fix changes no such path, as after a move."""
    if path in removed:
        return removed[path]
    name = PurePosixPath(path).name
    return {line for other, lines in removed.items() if PurePosixPath(other).name == name for line in lines}


def _code_lines(hunk: str, sign: str) -> set[str]:
    """The lines of one sign that may hold code, stripped; the first line of a hunk is its header."""
    stripped = (line[1:].strip() for line in hunk.split("\n")[1:] if line.startswith(sign))
    return {text for text in stripped if _may_be_code(text)}


def _may_be_code(text: str) -> bool:
    if COMMENT.match(text):
        return False
    return len(WORD_CHARACTER.findall(text)) >= MIN_WORD_CHARACTERS
