"""Features that tell which commits induced the bug of a report."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gedbd.localization.change_ranking.change_table import NUMBERS
from gedbd.localization.change_ranking.file_features import share_and_rank

# What a commit scores by the files that the report may concern. A file has the probability p that the fix will change
# it, the share s of its lines that come from the commit now, and the rank r by p from 0. The text decides p alone: the
# lines of most files come from imports and other large commits, which score high for any text. These features are the
# product of the text and of that prior; ``TEXT_BOUND`` are those without it.
OWNERSHIP = (
    "lines",  # sum of p s: the probability that a line to be changed comes from the commit
    "lines_best_file",  # largest p s
    "lines_flat",  # as lines, p replaced by its root
    "lines_log",  # sum of p log(1 + number of the commit's lines)
    "lines_by_rank",  # largest s / (1 + r)
    "lines_top_1",  # mean s in the most probable file
    "lines_top_3",
    "lines_top_10",
    "lines_changes",  # as lines, with p from one score of files: its share of the best one to the power of 4
    "lines_changes_title",
    "lines_best_change",
    "lines_path",
    "lines_name",
    "touches",  # sum of p over the changed files
    "touches_best_file",  # largest p
    "touches_by_rank",  # largest 1 / (1 + r)
    "newest",  # sum of p / (1 + number of later changes of the file)
    "oldest",  # largest p of the files that the commit was the first to change
)
LEXICAL = ("diff", "diff_title", "diff_code", "added", "best_file", "message", "message_title")
# Features that tell little when the text is that of another report: no sums over lines or files.
TEXT_BOUND = ("touches_best_file", "touches_by_rank", "newest", *LEXICAL)
# Features whose value does not depend on the report's text. The table is named by ``content_free``.
CONTENT_FREE_COLUMNS = ("age_days", *NUMBERS)
RANKED = frozenset({"lines", "lines_flat", "lines_best_change", "lines_path", "touches", "newest", *LEXICAL})
POWER = 4  # of a file's share of the best score, where it serves as a probability
LISTED_BY_FILES = 100  # commits in the shortlist by each of three scores of ownership
LISTED_BY_WORDS = 50  # and by each of three lexical scores


class FileLinks(NamedTuple):
    """Which commits the lines of C files come from, and which commits changed them, before a query.

    Attributes:
        owned_file: ``(O,)`` place of the file.
        owner: ``(O,)`` row of a commit with lines in it.
        lines: ``(O,)`` number of these lines.
        share: ``(O,)`` their share of the file.
        changed_file: ``(T,)`` place of the file.
        changer: ``(T,)`` row of a commit that changed it.
        num_later: ``(T,)`` number of later changes of the file.
        is_first: ``(T,)`` whether it was the first change of the file.
    """

    owned_file: np.ndarray
    owner: np.ndarray
    lines: np.ndarray
    share: np.ndarray
    changed_file: np.ndarray
    changer: np.ndarray
    num_later: np.ndarray
    is_first: np.ndarray


def ownership_features(
    links: FileLinks, probability: np.ndarray, weights: Mapping[str, np.ndarray], num_commits: int
) -> dict[str, np.ndarray]:
    """The features ``OWNERSHIP``, each ``(n,)``.

    Args:
        links: Owners and changes of C files.
        probability: ``(C,)`` p, sum 1.
        weights: Single scores of the files as shares of the best, each ``(C,)``.
        num_commits: Number n of commits before the query.
    """

    def total(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.bincount(rows, values, num_commits).astype(np.float32)

    def highest(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
        found = np.zeros(num_commits, dtype=np.float32)
        np.maximum.at(found, rows, values.astype(np.float32))
        return found

    rank = np.empty(len(probability))
    rank[np.argsort(-probability, kind="stable")] = np.arange(len(probability))
    p, share, r = probability[links.owned_file], links.share, rank[links.owned_file]
    root = _normalised(np.sqrt(probability))[links.owned_file]
    p_changed, r_changed = probability[links.changed_file], rank[links.changed_file]
    found = {
        "lines": total(links.owner, p * share),
        "lines_best_file": highest(links.owner, p * share),
        "lines_flat": total(links.owner, root * share),
        "lines_log": total(links.owner, p * np.log1p(links.lines)),
        "lines_by_rank": highest(links.owner, share / (1 + r)),
        "touches": total(links.changer, p_changed),
        "touches_best_file": highest(links.changer, p_changed),
        "touches_by_rank": highest(links.changer, 1 / (1 + r_changed)),
        "newest": total(links.changer, p_changed / (1 + links.num_later)),
        "oldest": highest(links.changer, p_changed * links.is_first),
    }
    for count in (1, 3, 10):
        found[f"lines_top_{count}"] = total(links.owner, (r < count) * share / count)
    for name, values in weights.items():
        found[f"lines_{name}"] = total(links.owner, _normalised(values**POWER)[links.owned_file] * share)
    return found


def feature_names(content_free: bool, extra: tuple[str, ...] = (), ownership: bool = True) -> tuple[str, ...]:
    """The names of the columns of ``feature_table``.

    Args:
        content_free: Whether ``CONTENT_FREE_COLUMNS`` are among them.
        extra: Scores from elsewhere.
        ownership: Whether more than ``TEXT_BOUND`` of the others are.
    """
    names = []
    for name in (*((*OWNERSHIP, *LEXICAL) if ownership else TEXT_BOUND), *extra):
        names.append(name)
        if name in RANKED or name in extra:
            names += [f"{name}_share", f"{name}_rank"]
    return (*names, *CONTENT_FREE_COLUMNS) if content_free else tuple(names)


def feature_table(scores: Mapping[str, np.ndarray], names: tuple[str, ...], rows: np.ndarray) -> np.ndarray:
    """The columns ``names`` of some commits, ``(C, F)`` float32; shares and ranks are over all n commits.

    Args:
        scores: By name, each ``(n,)``.
        names: See ``feature_names``.
        rows: ``(C,)`` commits.
    """
    columns = []
    derived: dict[str, np.ndarray] = {}
    for name in names:
        if name in scores:
            column = scores[name]
            if f"{name}_share" in names:
                share, rank = share_and_rank(column)
                derived |= {f"{name}_share": share, f"{name}_rank": rank}
        else:
            column = derived[name]
        columns.append(column[rows])
    return np.column_stack(columns).astype(np.float32)


def shortlist(scores: Mapping[str, np.ndarray]) -> np.ndarray:
    """The commits that are high by ownership of lines or by words, ascending: all others are left unranked."""
    count = len(scores["diff"])
    is_listed = np.zeros(count, dtype=bool)
    for name in ("lines", "lines_flat", "touches"):
        is_listed[np.argsort(-scores[name], kind="stable")[:LISTED_BY_FILES]] = True
    for name in ("diff", "best_file", "message"):
        is_listed[np.argsort(-scores[name], kind="stable")[:LISTED_BY_WORDS]] = True
    return np.flatnonzero(is_listed)


def _normalised(values: np.ndarray) -> np.ndarray:
    """Values with the sum 1, or all 0."""
    return np.asarray(values / max(float(values.sum()), 1e-9))
