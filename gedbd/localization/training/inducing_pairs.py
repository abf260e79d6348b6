"""Training pairs: reports, the changes that induced their bugs, and what is drawn beside them."""

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from gedbd.corpora.changes import ChangeCorpus, Granularity
from gedbd.localization.training.localization_protocol import num_before

MAX_DRAWS = 50
EVALUATION_EPOCH = 2**31  # of what is drawn for validation: the same in every epoch


class Draw(NamedTuple):
    """A pair with its negatives.

    Attributes:
        report: Row of the report.
        change: Row of a change that induced its bug.
        other_report: Row of a report whose bug the commit of ``change`` did not induce.
        other_change: Row of a change before the report that did not induce its bug.
    """

    report: int
    change: int
    other_report: int
    other_change: int


class InducingPairs:
    """The pairs of some reports and the commits before them that induced their bugs.

    A pair is of a report and a commit. At the granularities of files and hunks one of the inducing files or hunks of
    the commit is drawn each time; where the data names none, one of all.

    Args:
        corpus: Reports, changes and links.
        granularity: Of the changes that are drawn.
        reports: ``(R,)`` rows of the reports.
        seed: With epoch and pair, determines what is drawn.
        hard: Share of the negative changes that are taken from the commits that change a file of the positive one.

    Raises:
        ValueError: If no report has an inducing commit before it, or a commit induced the
            bugs of all reports, so that none is its negative.
    """

    def __init__(
        self, corpus: ChangeCorpus, granularity: Granularity, reports: np.ndarray, seed: int, hard: float = 0.0
    ) -> None:
        self.seed = seed
        self.hard = hard
        self.reports = np.unique(reports)
        self.before = num_before(corpus, "commit")
        self.commit_of = corpus.changes(granularity).table["commit"].to_numpy(dtype=np.int64)
        self.rows_of = _rows_by_commit(self.commit_of, len(corpus.commits))
        links = corpus.inducing["commit"].pairs
        self.inducing = _sets(links[0], links[1])
        self.induced = _sets(links[1], links[0])
        self.pairs = self._find_pairs()
        self.positives = self._find_positives(corpus, granularity)
        files = corpus.files.table if hard else corpus.files.table.head(0)
        self.commits_of_path = files.groupby("paths")["commit"].agg(list).to_dict()
        self.paths_of = files.groupby("commit")["paths"].agg(list).to_dict()

    def __len__(self) -> int:
        return len(self.pairs)

    def draw(self, number: int, epoch: int | None = None) -> Draw:
        """What is drawn for a pair in an epoch; None for validation."""
        report, commit = self.pairs[number].tolist()
        rng = np.random.default_rng([self.seed, EVALUATION_EPOCH if epoch is None else epoch, number])
        change = int(rng.choice(self.positives[number]))
        other_change = int(rng.choice(self.rows_of[self._other_commit(report, commit, rng)]))
        return Draw(report, change, self._other_report(commit, rng), other_change)

    def _other_commit(self, report: int, commit: int, rng: np.random.Generator) -> int:
        """A commit before the report that did not induce its bug."""
        if rng.random() < self.hard:
            path = rng.choice(self.paths_of.get(commit, [""]))
            near = [row for row in self.commits_of_path.get(str(path), ()) if self._is_negative(report, row)]
            if near:
                return int(rng.choice(near))
        for _ in range(MAX_DRAWS):
            other = int(rng.integers(self.before[report]))
            if self._is_negative(report, other):
                return other
        left = [row for row in range(self.before[report]) if self._is_negative(report, row)]
        return int(rng.choice(left))

    def _is_negative(self, report: int, commit: int) -> bool:
        is_candidate = commit < self.before[report] and len(self.rows_of[commit]) > 0
        return is_candidate and commit not in self.inducing[report]

    def _other_report(self, commit: int, rng: np.random.Generator) -> int:
        """A report after the commit whose bug it did not induce; of any date if there is none."""
        strangers = [row for row in self.reports.tolist() if row not in self.induced[commit]]
        later = [row for row in strangers if self.before[row] > commit]
        return int(rng.choice(later or strangers))

    def _find_pairs(self) -> np.ndarray:
        """``(P, 2)`` reports and commits."""
        found = []
        for report in self.reports.tolist():
            for commit in sorted(self.inducing[report]):
                if commit < self.before[report] and len(self.rows_of[commit]):
                    found.append((report, commit))
                    self._check_negatives(report, commit)
        if not found:
            raise ValueError("no report of a part has an inducing commit before it: give more reports")
        return np.array(found, dtype=np.int64)

    def _check_negatives(self, report: int, commit: int) -> None:
        if not set(self.reports.tolist()) - self.induced[commit]:
            raise ValueError("a commit induced the bugs of all reports of a part: give more reports")
        if not any(self._is_negative(report, row) for row in range(self.before[report])):
            raise ValueError("all commits before a report induced its bug: give more commits")

    def _find_positives(self, corpus: ChangeCorpus, granularity: Granularity) -> list[np.ndarray]:
        """The rows that may be drawn for each pair: inducing ones, else those of inducing files, else all."""
        inducing = _links_of(corpus, granularity)
        files = _links_of(corpus, "file")
        # The file of a hunk; of files and commits, nothing that is named in its place.
        file_of = corpus.hunks.table["file"].to_numpy() if granularity == "hunk" else None
        found = []
        for report, commit in self.pairs.tolist():
            rows = self.rows_of[commit]
            named = rows[np.isin(rows, list(inducing[report]))]
            if not len(named) and file_of is not None:
                named = rows[np.isin(file_of[rows], list(files[report]))]
            found.append(named if len(named) else rows)
        return found


def _links_of(corpus: ChangeCorpus, granularity: Granularity) -> dict[int, set[int]]:
    """The inducing rows of each report, none where the data does not name them."""
    links = corpus.inducing.get(granularity)
    return defaultdict(set) if links is None else _sets(*links.pairs)


def _sets(owners: np.ndarray, members: np.ndarray) -> dict[int, set[int]]:
    """The members of each owner; of one without any, an empty set."""
    found: dict[int, set[int]] = defaultdict(set)
    for owner, member in zip(owners.tolist(), members.tolist(), strict=True):
        found[owner].add(member)
    return found


def _rows_by_commit(commit_of: np.ndarray, num_commits: int) -> list[np.ndarray]:
    """The rows of each commit: of ``[0, 0, 2]`` and 3 commits, rows 0 and 1, none, and 2."""
    ends = np.cumsum(np.bincount(commit_of, minlength=num_commits))
    return np.split(np.argsort(commit_of, kind="stable"), ends[:-1])
