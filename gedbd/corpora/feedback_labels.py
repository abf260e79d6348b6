"""Pairs that triagers accepted or rejected, as labels for training."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import OUTSIDE, TEST, VAL, Split

FEEDBACK_FILE = "feedback.sqlite"
COLUMNS = ("moment", "subject", "issue_id", "title", "description", "candidate", "verdict", "who", "source")


@dataclass(frozen=True)
class FeedbackLabels:
    """Verdicts of people that training may use.

    Attributes:
        pairs: ``earlier`` and ``later`` (rows of the corpus), and ``label``: 1 accepted, 0 rejected.
        warnings: What is not used, with counts and reasons.
    """

    pairs: pd.DataFrame
    warnings: tuple[str, ...]

    @property
    def rejected(self) -> pd.DataFrame:
        """The pairs that are not duplicates."""
        return self.pairs[self.pairs["label"] == 0]

    def join_accepted(self, observed: np.ndarray) -> np.ndarray:
        """Groups ``(N,)`` in which the training reports of accepted pairs are together, numbered by the oldest."""
        return _join(observed, self.pairs[self.pairs["label"] == 1])


def read_feedback_labels(path: Path, corpus: Corpus, split: Split, parts: np.ndarray) -> FeedbackLabels:
    """Finds the reports of verdicts in a corpus and keeps the pairs of the training part.

    A report is found by its id, a pasted text by its title and description.

    Args:
        path: A ``feedback.sqlite``, or the index folder that holds one.
        corpus: The reports.
        split: Determines the part of each pair.
        parts: ``(N,)`` part of each report.

    Raises:
        ValueError: If there is no such file.
    """
    table = feedback_table(path)
    rows = np.stack([_rows(table, corpus), _by_id(table["candidate"], corpus)], axis=1).reshape(-1, 2)
    pairs = pd.DataFrame({"earlier": rows.min(axis=1), "later": rows.max(axis=1)}, dtype=np.int64)
    pairs["label"] = (table["verdict"] == "accept").astype(np.int64)
    warnings: list[str] = []
    # Each check sees only the pairs that passed those before it, so the later ones meet no unknown report.
    for reason, fails in _checks(corpus, split, parts):
        bad = fails(pairs).astype(bool)
        if bad.any():
            warnings.append(f"feedback: {int(bad.sum()):,} pairs {reason}, not used")
            pairs = pairs[~bad]
    if (pairs["label"] == 0).any():
        num_rejected = int((pairs["label"] == 0).sum())
        warnings.append(
            f"feedback: {num_rejected:,} rejected pairs; pairs=grouped and pairs=pk read accepted ones only"
        )
    return FeedbackLabels(pairs.reset_index(drop=True), tuple(warnings))


def feedback_table(path: Path) -> pd.DataFrame:
    """The latest verdicts, one row a pair of reports, in the order in which they were given.

    Args:
        path: A ``feedback.sqlite``, or the index folder that holds one.

    Returns:
        Text columns moment (ISO 8601, UTC), subject, issue_id (empty for a pasted text), title, description, candidate,
        verdict (accept, reject), who and source.

    Raises:
        ValueError: If there is no such file, or it is something else.
    """
    file = path / FEEDBACK_FILE if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{file}: no such file: give a {FEEDBACK_FILE} or the index folder that holds one")
    query = f"SELECT {', '.join(COLUMNS)} FROM latest ORDER BY number"
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as store:
            rows = store.execute(query).fetchall()
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{file}: this is not a feedback file ({error})") from error
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=str)


def _checks(corpus: Corpus, split: Split, parts: np.ndarray) -> list[tuple[str, Callable[[pd.DataFrame], np.ndarray]]]:
    """Reasons not to use a pair, each with a function that finds the pairs it applies to."""
    group = corpus.group
    grouped = corpus.relevance.in_group

    def part(pairs: pd.DataFrame) -> np.ndarray:
        return split.of_pairs(parts, pairs["earlier"].to_numpy(), pairs["later"].to_numpy())

    def against_tracker(pairs: pd.DataFrame) -> np.ndarray:
        same = group[pairs["earlier"]] == group[pairs["later"]]
        return np.where(pairs["label"] == 1, _bridges(pairs, group, grouped), same)

    def against_others(pairs: pd.DataFrame) -> np.ndarray:
        joined = _join(group, pairs[pairs["label"] == 1])
        return np.asarray((pairs["label"] == 0) & (joined[pairs["earlier"]] == joined[pairs["later"]]))

    return [
        ("name a report that the corpus does not have", lambda pairs: np.asarray(pairs["earlier"] < 0)),
        ("name one report twice", lambda pairs: np.asarray(pairs["earlier"] == pairs["later"])),
        # A pasted text and the report that was created from it may both have a verdict.
        (
            "have a later verdict under another name",
            lambda pairs: pairs.duplicated(["earlier", "later"], keep="last").to_numpy(),
        ),
        ("cross the split", lambda pairs: part(pairs) == OUTSIDE),
        ("belong to part val", lambda pairs: part(pairs) == VAL),
        ("belong to part test", lambda pairs: part(pairs) == TEST),
        ("contradict the groups of the tracker", against_tracker),
        ("are rejected though accepted ones make them duplicates", against_others),
    ]


def _rows(table: pd.DataFrame, corpus: Corpus) -> np.ndarray:
    """Row of the report of each verdict, -1 where there is none; of reports with one text the oldest."""
    texts = corpus.reports["title"].str.strip() + "\x1f" + corpus.reports["description"].str.strip()
    first = pd.Series(corpus.reports.index, index=texts)
    first = first[~first.index.duplicated()]
    pasted = table["title"].str.strip() + "\x1f" + table["description"].str.strip()
    by_text = first.reindex(pasted).fillna(-1).to_numpy(dtype=np.int64)
    return np.where(table["issue_id"] == "", by_text, _by_id(table["issue_id"], corpus))


def _by_id(ids: pd.Series, corpus: Corpus) -> np.ndarray:
    row_of = pd.Series(corpus.reports.index, index=corpus.reports["id"])
    return row_of.reindex(ids).fillna(-1).to_numpy(dtype=np.int64)


def _bridges(pairs: pd.DataFrame, group: np.ndarray, grouped: np.ndarray) -> np.ndarray:
    """Accepted pairs that would join two groups of the tracker, directly or through singletons.

    A union-find over the accepted pairs in their order: ``root`` points from a group to the one it was joined to.
    """
    root = np.arange(len(group))
    bridges = np.zeros(len(pairs), dtype=bool)
    for place, (earlier, later, label) in enumerate(pairs[["earlier", "later", "label"]].itertuples(index=False)):
        ends = [group[earlier], group[later]]
        for side in (0, 1):
            while root[ends[side]] != ends[side]:
                root[ends[side]] = root[root[ends[side]]]  # halves the path, so that a long chain takes no longer
                ends[side] = root[ends[side]]
        # A group of the tracker stays the root, so a second one is always noticed.
        first, second = sorted(ends, key=lambda end: grouped[end])
        bridges[place] = label == 1 and first != second and grouped[first]
        if label == 1 and not bridges[place]:
            root[first] = second
    return bridges


def _join(group: np.ndarray, accepted: pd.DataFrame) -> np.ndarray:
    """Merges the groups of the two reports of each accepted pair; other groups keep their number."""
    earlier = group[accepted["earlier"].to_numpy()]
    later = group[accepted["later"].to_numpy()]
    # A group number is the row of its oldest report, so numbers can be linked as rows are.
    links = coo_matrix((np.ones(len(accepted)), (earlier, later)), shape=(len(group), len(group)))
    _, component = connected_components(links, directed=False)
    oldest = np.full(component.max(initial=0) + 1, len(group), dtype=np.int64)
    np.minimum.at(oldest, component, np.arange(len(group)))
    return np.asarray(oldest[component[group]])
