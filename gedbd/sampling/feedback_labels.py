"""Labels of pairs from feedback on suggestions: which verdicts training may use."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import DisjointSet
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from gedbd.corpora.corpus import OUTSIDE, TEST, VAL, Corpus
from gedbd.corpora.feedback import ACCEPT, feedback_table
from gedbd.sampling.splits import Split


@dataclass(frozen=True)
class FeedbackLabels:
    """Labels of pairs for training, from feedback."""

    pairs: pd.DataFrame  # ``earlier`` and ``later`` (rows of the corpus), and ``label``: 1 accepted, 0 rejected
    warnings: tuple[str, ...]  # counts of unused verdicts, with reasons

    @property
    def rejected(self) -> pd.DataFrame:
        """The pairs that are not duplicates."""
        return self.pairs[self.pairs["label"] == 0]

    def join_accepted(self, observed: np.ndarray) -> np.ndarray:
        """Merges groups ``(N,)`` by the accepted pairs; each is numbered by its oldest report."""
        return _join(observed, self.pairs[self.pairs["label"] == 1])


def read_feedback_labels(path: Path, corpus: Corpus, split: Split, parts: np.ndarray) -> FeedbackLabels:
    """Matches feedback to the reports of a corpus, by id or by text, and keeps the training pairs."""
    table = feedback_table(path)
    rows = np.stack([_subject_rows(table, corpus), _id_rows(table["candidate"], corpus)], axis=1).reshape(-1, 2)
    pairs = pd.DataFrame({"earlier": rows.min(axis=1), "later": rows.max(axis=1)}, dtype=np.int64)
    pairs["label"] = (table["verdict"] == ACCEPT).astype(np.int64)
    warnings: list[str] = []
    # Each check reads only the pairs that passed the previous ones, so that later checks see no unknown report.
    for reason, find_unusable in _checks(corpus, split, parts):
        is_unusable = find_unusable(pairs).astype(bool)
        if is_unusable.any():
            warnings.append(f"feedback: {int(is_unusable.sum()):,} pairs {reason}, not used")
            pairs = pairs[~is_unusable]
    num_rejected = int((pairs["label"] == 0).sum())
    if num_rejected:
        warnings.append(
            f"feedback: {num_rejected:,} rejected pairs; pairs=grouped and pairs=pk read accepted ones only"
        )
    return FeedbackLabels(pairs.reset_index(drop=True), tuple(warnings))


def _checks(corpus: Corpus, split: Split, parts: np.ndarray) -> list[tuple[str, Callable[[pd.DataFrame], np.ndarray]]]:
    """Reasons not to use a pair, each with a function that finds such pairs."""
    group = corpus.group
    grouped = corpus.relevance.in_group

    def split_of_pairs(pairs: pd.DataFrame) -> np.ndarray:
        return split.of_pairs(parts, pairs["earlier"].to_numpy(), pairs["later"].to_numpy())

    def contradicts_tracker(pairs: pd.DataFrame) -> np.ndarray:
        same = group[pairs["earlier"]] == group[pairs["later"]]
        return np.where(pairs["label"] == 1, _bridges(pairs, group, grouped), same)

    def contradicts_accepted(pairs: pd.DataFrame) -> np.ndarray:
        joined = _join(group, pairs[pairs["label"] == 1])
        return np.asarray((pairs["label"] == 0) & (joined[pairs["earlier"]] == joined[pairs["later"]]))

    return [
        ("name a report that the corpus does not have", lambda pairs: np.asarray(pairs["earlier"] < 0)),
        ("name one report twice", lambda pairs: np.asarray(pairs["earlier"] == pairs["later"])),
        # A pasted text and the report created from it may both have a verdict.
        (
            "have a later verdict under another name",
            lambda pairs: pairs.duplicated(["earlier", "later"], keep="last").to_numpy(),
        ),
        ("cross the split", lambda pairs: split_of_pairs(pairs) == OUTSIDE),
        ("belong to split val", lambda pairs: split_of_pairs(pairs) == VAL),
        ("belong to split test", lambda pairs: split_of_pairs(pairs) == TEST),
        ("contradict the groups of the tracker", contradicts_tracker),
        ("are rejected though accepted ones make them duplicates", contradicts_accepted),
    ]


def _subject_rows(table: pd.DataFrame, corpus: Corpus) -> np.ndarray:
    """The row of the report of each verdict, the oldest of reports with the same text; -1 if there is none."""
    texts = corpus.reports["title"].str.strip() + "\x1f" + corpus.reports["description"].str.strip()
    first = pd.Series(corpus.reports.index, index=texts)
    first = first[~first.index.duplicated()]
    subject_texts = table["title"].str.strip() + "\x1f" + table["description"].str.strip()
    by_text = first.reindex(subject_texts).fillna(-1).to_numpy(dtype=np.int64)
    return np.where(table["issue_id"] == "", by_text, _id_rows(table["issue_id"], corpus))


def _id_rows(ids: pd.Series, corpus: Corpus) -> np.ndarray:
    row_of = pd.Series(corpus.reports.index, index=corpus.reports["id"])
    return row_of.reindex(ids).fillna(-1).to_numpy(dtype=np.int64)


def _bridges(pairs: pd.DataFrame, group: np.ndarray, grouped: np.ndarray) -> np.ndarray:
    """Finds accepted pairs that would merge two groups of the tracker, directly or through singletons."""
    accepted = (pairs["label"] == 1).to_numpy()
    ends = group[pairs[["earlier", "later"]].to_numpy()]
    merged = DisjointSet(np.unique(ends))
    of_tracker = grouped.copy()  # whether a merged group contains one of the tracker, by its root
    bridges = np.zeros(len(pairs), dtype=bool)
    for number in np.flatnonzero(accepted):
        roots = [merged[end] for end in ends[number]]
        bridges[number] = roots[0] != roots[1] and of_tracker[roots].all()
        if not bridges[number]:
            merged.merge(*roots)
            of_tracker[merged[roots[0]]] = of_tracker[roots].any()
    return bridges


def _join(group: np.ndarray, accepted: pd.DataFrame) -> np.ndarray:
    """Merges the groups of the two reports of each accepted pair; other groups keep their number."""
    earlier = group[accepted["earlier"].to_numpy()]
    later = group[accepted["later"].to_numpy()]
    # A group number is the row of its oldest report.
    links = coo_matrix((np.ones(len(accepted)), (earlier, later)), shape=(len(group), len(group)))
    _, component = connected_components(links, directed=False)
    oldest = np.full(component.max(initial=0) + 1, len(group), dtype=np.int64)
    np.minimum.at(oldest, component, np.arange(len(group)))
    return np.asarray(oldest[component[group]])
