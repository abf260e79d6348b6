"""The part of an open index that is held in memory: ids, features and groups of all stored reports."""

from collections.abc import Sequence
from copy import copy

import numpy as np
import pandas as pd

from gedbd.corpora.relevance import find_groups
from gedbd.retrieval.reports.feature_store import FeatureStore
from gedbd.retrieval.reports.known_groups import KnownGroups
from gedbd.retrieval.reports.report_features import FeatureEncoder, ReportFeatures, ReportTerms
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.triage.storage.damage_checks import check_features
from gedbd.triage.storage.rows import usable_days
from gedbd.triage.storage.store import Store

MAX_COMMON_SHARE = 0.2  # a word in more of the reports than this explains nothing
MIN_COMMON_REPORTS = 2  # in a small index, a word in so few reports always counts

StoredLinks = Sequence[tuple[str, str, str]]


class InMemoryIndex:
    """Ids, features and groups of all stored reports. Row i is the i-th report of the file.

    Changes of reports return another index, and this one stays as it is for searches that are using it. The other one
    equals the one that is read when the file is opened: answers do not depend on what was stored before.

    Args:
        dim: Size of the vectors.
        vocabulary: Numbers of terms.

    Attributes:
        store: The features of all reports.
        encoder: Turns other reports into features.
        ids: Issue id of each report.
        row_of: Row of each issue id.
        groups: The duplicate groups of all N reports; it is replaced, never changed.
        undated: Ids of reports whose date cannot be used, see ``usable_days``.
        unclear: Likewise those whose date of resolution cannot be used.
    """

    def __init__(self, dim: int, vocabulary: Vocabulary) -> None:
        self.store = FeatureStore(dim)
        self.encoder = FeatureEncoder.of(vocabulary)
        self.ids: list[str] = []
        self.row_of: dict[str, int] = {}
        self.groups = find_known_groups([], {}, 0)
        self.undated: list[str] = []
        self.unclear: list[str] = []

    def __len__(self) -> int:
        return len(self.groups.group)

    @classmethod
    def of(cls, file: Store) -> "InMemoryIndex":
        """Reads an index file.

        Raises:
            ValueError: If its numbers do not fit together.
        """
        with file.snapshot():
            index = cls(file.dim(), Vocabulary(file.terms()))
            rows = file.features()
            links = file.links()
        if not rows:
            return index
        check_features(rows, index.store.vectors.dim, len(index.vocabulary.terms), file.path)
        ids, created, resolved, product, component, version, priority, vectors, *terms = zip(*rows, strict=True)
        columns = {"id": ids, "product": product, "component": component, "version": version, "priority": priority}
        table = pd.DataFrame(columns, dtype=str)
        day = usable_days(created)
        resolved_day = usable_days(resolved)
        index.undated = _with_unusable_date(ids, created, day)
        index.unclear = _with_unusable_date(ids, resolved, resolved_day)
        features = ReportFeatures(
            vectors=np.frombuffer(b"".join(vectors), dtype=np.float32).reshape(len(rows), -1),
            terms=ReportTerms(*([np.frombuffer(one, dtype=np.int32) for one in kind] for kind in terms)),
            codes=index.encoder.encode_categories(table, learn=True),
            day=day,
            resolved=resolved_day,
        )
        return index.with_added(list(ids), features, links)

    @property
    def vocabulary(self) -> Vocabulary:
        """Numbers of terms."""
        return self.encoder.vocabulary

    def with_added(self, ids: list[str], features: ReportFeatures, links: StoredLinks) -> "InMemoryIndex":
        """An index with reports at the end, none of which is there yet."""
        other = copy(self)
        other.store = copy(self.store)
        other.store.add(features)
        # Both indexes share these: what is known of later reports changes no answer of this one.
        other.row_of |= {issue_id: row for row, issue_id in enumerate(ids, start=len(self))}
        other.ids += ids
        other.regroup(links)
        return other

    def changed(self, ids: list[str], features: ReportFeatures, links: StoredLinks) -> "InMemoryIndex":
        """An index with these reports: those that are there are replaced in their rows, others are added at the end."""
        old = [place for place, issue_id in enumerate(ids) if issue_id in self.row_of]
        new = [place for place, issue_id in enumerate(ids) if issue_id not in self.row_of]
        other = self
        if old:
            other = copy(self)
            other.store = self.store.replaced([self.row_of[ids[place]] for place in old], features.take(old))
        return other.with_added([ids[place] for place in new], features.take(new), links)

    def without(self, issue_id: str, links: StoredLinks) -> "InMemoryIndex":
        """An index without a report; its links go on connecting others."""
        removed = np.zeros(len(self), dtype=bool)
        removed[self.row_of[issue_id]] = True
        other = copy(self)
        other.store = self.store.without(removed)
        other.ids = [other_id for other_id in self.ids if other_id != issue_id]
        other.row_of = {other_id: row for row, other_id in enumerate(other.ids)}
        other.regroup(links)
        return other

    def regroup(self, links: StoredLinks) -> None:
        """Finds the duplicate groups again."""
        self.groups = find_known_groups(links, self.row_of, len(self.ids))

    def members(self, groups: KnownGroups, row: int) -> list[int]:
        """The rows of a report's group, the oldest first; without dates in the order of rows."""
        rows = groups.members.get(int(groups.group[row]), np.array([row]))
        days = self.store.day[rows]
        if not np.isnan(days).any():
            rows = rows[np.argsort(days, kind="stable")]
        return list(rows.tolist())

    def rarity(self, words: Sequence[str], count: int) -> np.ndarray:
        """log(N / reports with the word); 0 for stop words, common words and unknown ones.

        Args:
            words: The words.
            count: Only the first ``count`` reports exist.
        """
        (numbers,) = self.vocabulary([words], learn=False)
        distinct, place = np.unique(numbers, return_inverse=True)
        frequency = self.store.text.frequency(distinct, count)[place]
        is_rare = (frequency > 0) & (frequency <= max(MAX_COMMON_SHARE * count, MIN_COMMON_REPORTS))
        return np.where(is_rare, np.log((count + 1) / frequency.clip(1)), 0)


def _with_unusable_date(ids: Sequence[str], dates: Sequence[str | None], days: np.ndarray) -> list[str]:
    """Ids of the reports that have a date, but none that ``usable_days`` can use."""
    rows = zip(ids, dates, days, strict=True)
    return [issue_id for issue_id, date, day in rows if date and np.isnan(day)]


def find_known_groups(links: StoredLinks, row_of: dict[str, int], count: int) -> KnownGroups:
    """Groups of reports that links connect, directly or through others, deleted ones included."""
    linked = [issue_id for link in links for issue_id in link[:2]]
    # Deleted reports still connect others: they get the rows after the last one, and are cut off below.
    deleted = dict.fromkeys(issue_id for issue_id in linked if issue_id not in row_of)
    row_of_deleted = {issue_id: row for row, issue_id in enumerate(deleted, start=count)}
    rows = [row_of[issue_id] if issue_id in row_of else row_of_deleted[issue_id] for issue_id in linked]
    # [first, second, first, second, ...] becomes a row of first ends and a row of second ends.
    ends = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    return KnownGroups.of(find_groups(ends, count + len(deleted))[:count])
