"""The part of an open index that is held in memory: ids, features and groups of all stored reports."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gedbd.corpora.relevance import find_groups
from gedbd.retrieval.inverted_index import Vocabulary
from gedbd.retrieval.report_ranking.feature_store import (
    FIELDS,
    TERM_KINDS,
    CategoryEncoder,
    FeatureEncoder,
    FeatureStore,
    ReportFeatures,
)
from gedbd.retrieval.report_ranking.first_stage import KnownGroups
from gedbd.retrieval.report_ranking.vector_table import RoughScores
from gedbd.triage.storage.index_store import FeatureRow, IndexStore, check_features
from gedbd.triage.storage.report_store import TERM_COLUMNS, usable_days

MAX_COMMON_SHARE = 0.2  # a word in more of the reports than this explains nothing
MIN_COMMON_REPORTS = 2  # in a small index, a word in so few reports always counts
TIME_COLUMNS = {"resolved": "resolved_at", "day": "created_at"}

StoredLinks = Sequence[tuple[str, str, str]]


@dataclass(eq=False)
class InMemoryIndex:
    """Ids, features and groups of reports, in the order in which they were added: row i is the i-th of them.

    An index never changes, so that searches need no lock: ``latest`` returns a new one with the changes of the file. It
    equals the index that would be read from the whole file, so that answers do not depend on earlier contents.
    """

    store: FeatureStore  # the features of N reports
    encoder: FeatureEncoder  # computes the features of other reports
    ids: list[str]  # issue id of each report
    groups: KnownGroups  # the duplicate groups of all reports
    # ``(N,)`` the keys of the reports in the file, ascending
    keys: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    change: int = 0  # the number of the last change of the file that the index includes
    undated: list[str] = field(default_factory=list)  # ids of reports whose date cannot be used, see ``usable_days``
    unclear: list[str] = field(default_factory=list)  # ids of reports whose date of resolution cannot be used
    cosines: RoughScores | None = None  # of all reports with the query that the index was read for
    num_changed: int = 0  # how many reports were added, replaced or deleted since all were read

    def __post_init__(self) -> None:
        self.row_of = {issue_id: row for row, issue_id in enumerate(self.ids)}

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, file: IndexStore) -> "InMemoryIndex":
        """Reads an index file; raises ValueError if its contents are inconsistent."""
        with file.snapshot():
            keys, rows = file.features()
            links = file.links()
            change = file.last_change()
            dim = file.dim()
            num_terms = file.num_terms()
        encoder = FeatureEncoder(Vocabulary())
        no_groups = KnownGroups.of(np.arange(0))
        state = (keys, change, *unusable_dates(rows))
        index = cls(FeatureStore(dim), encoder, [row.issue_id for row in rows], no_groups, *state)
        features = features_of(rows, encoder, dim, num_terms, file.path)
        del rows  # their bytes
        index.store.add(features)
        index.groups = find_known_groups(links, index.row_of)
        return index

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> "InMemoryIndex":
        """Creates an index from the result of ``as_arrays``."""
        encoder = FeatureEncoder(Vocabulary())
        encoder.categories = dict(zip(FIELDS, map(CategoryEncoder, facts["values"]), strict=True))
        store = FeatureStore.of_arrays(arrays, facts["means"])
        state = (arrays["keys"], int(facts["change"]), facts["undated"], facts["unclear"])
        return cls(store, encoder, arrays["ids"].tolist(), KnownGroups.of(arrays["group"]), *state)

    def as_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Returns an index that ``of`` has read as arrays and as JSON values.

        Returns:
            The arrays of ``FeatureStore.as_arrays``, ``ids``, ``keys`` and ``group`` of each report; the ``means`` of
            that method, the ``values`` of each field, ``undated``, ``unclear`` and ``change``.
        """
        arrays, means = self.store.as_arrays()
        arrays |= {"ids": np.array(self.ids, dtype=object), "keys": self.keys, "group": self.groups.group}
        values = [self.encoder.categories[name].values for name in FIELDS]
        facts = {"means": means, "values": values, "undated": self.undated, "unclear": self.unclear}
        return arrays, facts | {"change": self.change}

    def latest(self, file: IndexStore) -> "InMemoryIndex":
        """Returns the index with all later changes of the file, whose log must have them.

        Raises:
            ValueError: If the contents of the file are inconsistent.
        """
        changed = file.rows_since(self.change)
        keys, rows = file.features(changed.tolist())
        features = features_of(rows, self.encoder, self.store.vectors.dim, file.num_terms(), file.path)
        is_old = np.isin(keys, self.keys)
        is_deleted = np.isin(self.keys, np.setdiff1d(changed, keys))
        other = copy(self)
        if is_old.any():
            replaced = np.searchsorted(self.keys, keys[is_old]).tolist()
            other.store = other.store.replaced(replaced, features.take(np.flatnonzero(is_old).tolist()))
        if is_deleted.any():
            other.store = other.store.without(is_deleted)
            other.ids = list(compress(self.ids, (~is_deleted).tolist()))
            other.row_of = dict(zip(other.ids, range(len(other.ids)), strict=True))
            other.keys = self.keys[~is_deleted]
            other.groups = self.groups.without(is_deleted)  # those that a deleted report connects stay one group
        fresh = np.flatnonzero(~is_old).tolist()
        new_ids = [rows[position].issue_id for position in fresh]
        if fresh:
            other.store = copy(other.store)
            other.store.add(features.take(fresh))
            other.row_of = other.row_of | {issue_id: row for row, issue_id in enumerate(new_ids, start=len(other.ids))}
            other.ids = other.ids + new_ids
            other.keys = np.append(other.keys, keys[~is_old])
            other.groups = other.groups.grown(len(fresh))
        if file.has_links_since(self.change) or file.has_links_of(new_ids):
            other.groups = find_known_groups(file.links(), other.row_of)
        known = {row.issue_id for row in rows}
        undated, unclear = unusable_dates(rows)
        other.undated = [id_ for id_ in self.undated if id_ in other.row_of and id_ not in known] + undated
        other.unclear = [id_ for id_ in self.unclear if id_ in other.row_of and id_ not in known] + unclear
        other.change = file.last_change()
        other.num_changed = self.num_changed + len(changed)
        return other

    def members(self, row: int) -> list[int]:
        """The rows of a report's group, the oldest first; without dates in the order of rows."""
        rows = self.groups.members.get(int(self.groups.group[row]), np.array([row]))
        days = self.store["day"][rows]
        if not np.isnan(days).any():
            rows = rows[np.argsort(days, kind="stable")]
        return list(rows.tolist())

    def rarity(self, words: Sequence[str], count: int) -> np.ndarray:
        """log(N / reports with the word) among the first ``count`` reports; 0 for stop, common and unknown words."""
        (numbers,) = self.encoder.vocabulary([words], learn=False)
        distinct, which = np.unique(numbers, return_inverse=True)
        frequency = self.store.terms["text"].frequency(distinct, count)[which]
        is_rare = (frequency > 0) & (frequency <= max(MAX_COMMON_SHARE * count, MIN_COMMON_REPORTS))
        return np.where(is_rare, np.log((count + 1) / frequency.clip(1)), 0)


def features_of(
    rows: Sequence[FeatureRow], encoder: FeatureEncoder, dim: int, num_terms: int, path: Path
) -> ReportFeatures:
    """The features of rows of a file; the encoder learns new values of fields.

    Raises:
        ValueError: If they are inconsistent.
    """
    check_features(rows, dim, num_terms, path)
    fields = {name: [getattr(row, name) for row in rows] for name in FIELDS}
    table = pd.DataFrame({"id": [row.issue_id for row in rows], **fields}, dtype=str)
    terms = ([np.frombuffer(getattr(row, column), dtype=np.int32) for row in rows] for column in TERM_COLUMNS)
    times = {name: usable_days([getattr(row, column) for row in rows]) for name, column in TIME_COLUMNS.items()}
    return ReportFeatures(
        vectors=np.frombuffer(b"".join(row.vector for row in rows), dtype=np.float32).reshape(len(rows), dim),
        terms=dict(zip(TERM_KINDS, terms, strict=True)),
        columns=encoder.encode_categories(table, learn=True) | times,
    )


def unusable_dates(rows: Sequence[FeatureRow]) -> tuple[list[str], list[str]]:
    """Ids of reports with an unusable date, and with an unusable date of resolution, see ``usable_days``."""
    unusable = []
    for name in ("created_at", "resolved_at"):
        dates = [getattr(row, name) for row in rows]
        pairs = zip(rows, dates, usable_days(dates), strict=True)
        unusable.append([row.issue_id for row, date, day in pairs if date and np.isnan(day)])
    return unusable[0], unusable[1]


def find_known_groups(links: StoredLinks, row_of: Mapping[str, int]) -> KnownGroups:
    """Groups of the reports in ``row_of`` that links connect, directly or through other reports, also deleted ones."""
    # Deleted reports still connect others: they get the rows after the last one, and are cut off below.
    rows = dict(row_of)
    ends = [[rows.setdefault(link[end], len(rows)) for link in links] for end in (0, 1)]
    return KnownGroups.of(find_groups(np.array(ends, dtype=np.int64), len(rows))[: len(row_of)])
