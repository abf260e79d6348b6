"""The part of an open index that is held in memory: ids, features and groups of all stored reports."""

from collections.abc import Sequence
from copy import copy
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.corpora.relevance import find_groups
from gedbd.retrieval.reports.feature_store import FeatureStore
from gedbd.retrieval.reports.known_groups import KnownGroups
from gedbd.retrieval.reports.report_features import FIELDS, TERM_KINDS, FeatureEncoder, ReportFeatures
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.rows import TERM_COLUMNS, FeatureRow, check_features, usable_days
from gedbd.triage.storage.string_table import Ids

MAX_COMMON_SHARE = 0.2  # a word in more of the reports than this explains nothing
MIN_COMMON_REPORTS = 2  # in a small index, a word in so few reports always counts

TIME_COLUMNS = {"resolved": "resolved_at", "day": "created_at"}

StoredLinks = Sequence[tuple[str, str, str]]


class InMemoryIndex:
    """Ids, features and groups of all stored reports. Row i is the i-th report of the file.

    Changes return another index, and this one stays as it is for searches that are using it. The other one equals the
    one that is read when the file is opened: answers do not depend on what was stored before.

    Args:
        store: The features of N reports.
        encoder: Turns other reports into features.
        ids: Issue id of each report.
        groups: The duplicate groups of all reports.

    Attributes:
        undated: Ids of reports whose date cannot be used, see ``usable_days``.
        unclear: Likewise those whose date of resolution cannot be used.
        num_changed: How many reports were added, replaced or deleted since the files beside the index were made.
    """

    def __init__(self, store: FeatureStore, encoder: FeatureEncoder, ids: Ids, groups: KnownGroups) -> None:
        self.store = store
        self.encoder = encoder
        self.ids = ids
        self.groups = groups
        self.undated: list[str] = []
        self.unclear: list[str] = []
        self.num_changed = 0

    def __len__(self) -> int:
        return len(self.groups.group)

    @classmethod
    def of(cls, file: IndexStore) -> "InMemoryIndex":
        """Reads an index file.

        Raises:
            ValueError: If its numbers do not fit together.
        """
        with file.snapshot():
            dim = file.dim()
            encoder = FeatureEncoder(Vocabulary(file.terms()))
            _, rows = file.features()
            links = file.links()
        index = cls(FeatureStore(dim), encoder, Ids(), KnownGroups.of(np.arange(0)))
        index.undated, index.unclear = unusable_dates(rows)
        features = features_of(rows, encoder, dim, file.path)
        return index.with_added([row.issue_id for row in rows], features, links)

    @property
    def vocabulary(self) -> Vocabulary:
        """Numbers of terms."""
        return self.encoder.vocabulary

    def with_added(self, ids: list[str], features: ReportFeatures, links: StoredLinks) -> "InMemoryIndex":
        """An index with reports at the end, none of which is there yet.

        Args:
            ids: Their ids.
            features: Their features.
            links: All links of the index; none if no link names one of the reports.
        """
        other = copy(self)
        other.store = copy(self.store)
        other.store.add(features)
        other.ids = copy(self.ids)
        other.ids.add(ids)
        other.groups = self.groups.grown(len(ids))
        other.num_changed = self.num_changed + len(ids)
        if links:
            other.groups = find_known_groups(links, other.ids)
        return other

    def changed(self, ids: list[str], features: ReportFeatures, links: StoredLinks) -> "InMemoryIndex":
        """An index with these reports: those that are there are replaced in their rows, others are added at the end.

        Args:
            ids: Their ids.
            features: Their features.
            links: All links of the index; none if no link names one of those that are added.
        """
        rows = [self.ids.row(issue_id) for issue_id in ids]
        old = [place for place, row in enumerate(rows) if row is not None]
        new = [place for place, row in enumerate(rows) if row is None]
        other = self
        if old:
            other = copy(self)
            other.store = self.store.replaced([row for row in rows if row is not None], features.take(old))
            other.num_changed = self.num_changed + len(old)
        if new:
            other = other.with_added([ids[place] for place in new], features.take(new), links)
        return other

    def without(self, issue_id: str) -> "InMemoryIndex":
        """An index without a stored report; its links go on connecting others."""
        row = self.ids.row(issue_id)
        if row is None:
            return self
        removed = np.zeros(len(self), dtype=bool)
        removed[row] = True
        other = copy(self)
        other.store = self.store.without(removed)
        other.ids = self.ids.without(removed)
        other.groups = self.groups.without(row)
        other.num_changed = self.num_changed + 1
        return other

    def linked(self, first: str, second: str) -> "InMemoryIndex":
        """An index after a link between two stored reports."""
        rows = self.ids.row(first), self.ids.row(second)
        if rows[0] is None or rows[1] is None:
            return self
        other = copy(self)
        other.groups = self.groups.linked(rows[0], rows[1])
        return other

    def regrouped(self, links: StoredLinks) -> "InMemoryIndex":
        """An index with the groups that these links form."""
        other = copy(self)
        other.groups = find_known_groups(links, self.ids)
        return other

    def members(self, groups: KnownGroups, row: int) -> list[int]:
        """The rows of a report's group, the oldest first; without dates in the order of rows."""
        rows = groups.members.get(int(groups.group[row]), np.array([row]))
        days = self.store["day"][rows]
        if not np.isnan(days).any():
            rows = rows[np.argsort(days, kind="stable")]
        return list(rows.tolist())

    def group_ids(self, issue_id: str) -> list[str]:
        """The ids of a report and its known duplicates, the oldest first; none if it is not stored."""
        row = self.ids.row(issue_id)
        return [] if row is None else [self.ids[one] for one in self.members(self.groups, row)]

    def rarity(self, words: Sequence[str], count: int) -> np.ndarray:
        """log(N / reports with the word); 0 for stop words, common words and unknown ones.

        Args:
            words: The words.
            count: Only the first ``count`` reports exist.
        """
        (numbers,) = self.vocabulary([words], learn=False)
        distinct, place = np.unique(numbers, return_inverse=True)
        frequency = self.store.terms["text"].frequency(distinct, count)[place]
        is_rare = (frequency > 0) & (frequency <= max(MAX_COMMON_SHARE * count, MIN_COMMON_REPORTS))
        return np.where(is_rare, np.log((count + 1) / frequency.clip(1)), 0)


def features_of(rows: Sequence[FeatureRow], encoder: FeatureEncoder, dim: int, path: Path) -> ReportFeatures:
    """The features of rows of a file; values of fields that the encoder does not know are learned.

    Raises:
        ValueError: If they do not fit together.
    """
    check_features(rows, dim, len(encoder.vocabulary), path)
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
    """Ids of the reports that have a date, or one of resolution, but none that ``usable_days`` can use."""
    found = []
    for name in ("created_at", "resolved_at"):
        dates = [getattr(row, name) for row in rows]
        pairs = zip(rows, dates, usable_days(dates), strict=True)
        found.append([row.issue_id for row, date, day in pairs if date and np.isnan(day)])
    return found[0], found[1]


def find_known_groups(links: StoredLinks, ids: Ids) -> KnownGroups:
    """Groups of reports that links connect, directly or through others, deleted ones included."""
    # Deleted reports still connect others: they get the rows after the last one, and are cut off below.
    row_of_deleted: dict[str, int] = {}
    ends = []
    for place in (0, 1):
        named = [link[place] for link in links]
        for issue_id, row in zip(named, ids.rows(named), strict=True):
            ends.append(row_of_deleted.setdefault(issue_id, len(ids) + len(row_of_deleted)) if row is None else row)
    rows = np.array(ends, dtype=np.int64).reshape(2, -1)
    return KnownGroups.of(find_groups(rows, len(ids) + len(row_of_deleted))[: len(ids)])
