"""Features that tell which files a report concerns."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.changes.change_history import ChangeHistory
from gedbd.retrieval.changes.change_index import ChangeIndex
from gedbd.retrieval.changes.report_words import ReportWords

# What a file scores; a ranker reads each as it is, as a share of the best file's score, and as a rank.
FILE_SCORES = (
    "changes",
    "changes_title",
    "changes_code",
    "changes_added",
    "best_change",
    "messages",
    "path",
    "path_title",
    "name",
    "name_title",
    "qualified",
    "stack_first",
    "stack_count",
    "earlier_fixes",
)
# What files are, whatever the report says.
FILE_KINDS = ("is_test", "is_source")
FILE_FEATURES = tuple(f"{name}{form}" for name in FILE_SCORES for form in ("", "_share", "_rank")) + FILE_KINDS
SHORTLIST = 60  # files by each score


class FileFeatures(NamedTuple):
    """The files that may be meant.

    Attributes:
        paths: ``(C,)`` ascending.
        features: ``(C, F)`` float32: ``FILE_FEATURES``; NaN is a missing value.
        shares: ``(C, S)`` float32: each of ``FILE_SCORES`` as a share of the best; 0 where it is missing.
    """

    paths: np.ndarray
    features: np.ndarray
    shares: np.ndarray


def file_features(
    history: ChangeHistory, report: ReportWords, matches: Mapping[str, np.ndarray], earlier_fixes: np.ndarray | None
) -> FileFeatures:
    """Features of the files that are high in any score.

    Args:
        history: The commits.
        report: The words of the query.
        matches: Scores of the P paths that exist, see ``match_changes``.
        earlier_fixes: ``(P,)`` votes of earlier fixes; None without a tracker.
    """
    num_paths = len(matches["path"])
    missing = np.full(num_paths, np.nan, dtype=np.float32)
    scores = dict(matches)
    scores |= named_paths(history.index, report, num_paths)
    scores["earlier_fixes"] = missing if earlier_fixes is None else earlier_fixes
    columns: list[np.ndarray] = []
    shares = []
    is_listed = np.zeros(num_paths, dtype=bool)
    for name in FILE_SCORES:
        values = scores[name]
        share, rank = share_and_rank(values)
        is_listed |= (rank <= np.log1p(SHORTLIST)) & (values > 0)
        columns += [values, share, rank]
        shares.append(np.nan_to_num(share))
    kinds = history.index.path_kinds[:num_paths]
    paths = np.flatnonzero(is_listed)
    features = np.column_stack([*columns, kinds]).astype(np.float32)
    return FileFeatures(paths, features[paths], np.column_stack(shares).astype(np.float32)[paths])


def share_and_rank(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values as shares of the highest one, and log(1 + the number of higher values); NaN stays NaN."""
    if not len(values) or np.isnan(values[0]):
        return values, values
    highest = float(values.max())
    share = values / highest if highest > 0 else np.zeros_like(values)
    ascending = np.sort(values)
    higher = len(values) - np.searchsorted(ascending, values, side="right")
    return share, np.log1p(higher).astype(np.float32)


def named_paths(index: ChangeIndex, report: ReportWords, num_paths: int) -> dict[str, np.ndarray]:
    """Which files the report names: by name, by qualified name, in stack traces."""
    found = {name: np.zeros(num_paths, dtype=np.float32) for name in FILE_SCORES[8:13]}
    for name in report.names:
        paths = _existing(index, name.name, num_paths)
        for path in paths:
            weight = name.weight / (1 + np.log(len(paths)))
            early = 1 + 1 / (1 + name.place / 20)  # what a report names first is what it is about
            found["name"][path] = max(found["name"][path], weight * early)
            if name.in_title:
                found["name_title"][path] = max(found["name_title"][path], weight)
    for tail in report.tails:
        found["qualified"][_ending(index, tail, num_paths)] += 1
    depth = 0
    for tail in report.frames:
        paths = _ending(index, tail, num_paths)
        depth += bool(paths)  # frames of libraries do not count
        for path in paths:
            found["stack_first"][path] = max(found["stack_first"][path], 1 / depth)
            found["stack_count"][path] += 1
    found["qualified"] = np.log1p(found["qualified"])
    found["stack_count"] = np.log1p(found["stack_count"])
    return found


def _existing(index: ChangeIndex, name: str, num_paths: int) -> list[int]:
    """The paths of a file name that exist already."""
    return [path for path in index.paths_of_name.get(name, []) if path < num_paths]


def _ending(index: ChangeIndex, tail: str, num_paths: int) -> list[int]:
    """The paths that end with the parts of a tail, such as ``org/a/Parser``."""
    name = tail.rpartition("/")[2].lower()
    paths = _existing(index, name, num_paths)
    return [path for path in paths if f"/{index.table.paths[path].rpartition('.')[0]}".endswith(f"/{tail}")]
