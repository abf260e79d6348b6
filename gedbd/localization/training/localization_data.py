"""Training and test reports of localization, training pairs and their batches, and what validation ranks."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from gedbd.corpora.corpus import ChangeCorpus, Granularity
from gedbd.corpora.relevance import Links
from gedbd.experiments.training_task import batch_loader, process_of
from gedbd.localization.change_ranking.change_training import reports_of
from gedbd.localization.code_encoder.code_inputs import CodeBatch, collate
from gedbd.localization.code_encoder.pretraining_data import BatchRows
from gedbd.localization.repository.inducing import rows_of_each
from gedbd.localization.training.change_inputs import Inputs
from gedbd.retrieval.ranking_tasks import EarlierDocuments
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs, count_earlier
from gedbd.sampling.batches import BatchSampler

MIN_REPORTS = 10
TOP_K = (1, 3, 5, 10, 20, 100)


class Halves(NamedTuple):
    """The reports with an earlier inducing commit, in chronological order."""

    train: np.ndarray  # ``(T,)`` rows of the first half; the smaller half of an odd number
    test: np.ndarray  # ``(Q,)`` rows of the second half
    warnings: tuple[str, ...]  # counts of what is left out


@dataclass(frozen=True)
class Level:
    """The ranking of changes of one granularity."""

    granularity: Granularity
    inputs: ScorerInputs  # all reports and changes; the training pairs are the inducing changes of the first half
    task: EarlierDocuments  # the reports of the second half with their candidates, named by the granularity
    training: np.ndarray  # ``(T,)`` rows of the reports of the first half with an earlier inducing change
    warnings: tuple[str, ...] = ()  # counts of what is left out

    def among(self, reports: np.ndarray, queries: np.ndarray) -> "Level":
        """The level with the training pairs of ``reports``, and ``queries`` of the first half as test reports."""
        train = self.inputs.train[self.inputs.train["query"].isin(reports)]
        table = self.inputs.train
        links = Links(table, len(self.inputs.queries), len(self.inputs.documents))
        rows = queries[np.isin(queries, self.training)]
        task = EarlierDocuments(rows, self.inputs.num_earlier[rows], links, self.task.top_k, self.granularity)
        inputs = ScorerInputs(self.inputs.documents, self.inputs.queries, train)
        return Level(self.granularity, inputs, task, self.training[np.isin(self.training, reports)])


def find_halves(corpus: ChangeCorpus) -> Halves:
    """Splits the reports into training and test reports.

    Raises ValueError if there are no reports, dates or links, or fewer than ``MIN_REPORTS`` reports can be used.
    """
    reports = reports_of(corpus)
    links = corpus.inducing.get("commit")
    if links is None or not len(links):
        raise ValueError(f"{corpus.name}: no report has an inducing commit: give reports whose fixes remove lines")
    if reports.reports["created_at"].isna().any():
        raise ValueError(f"{corpus.name}: reports without a date: candidates are the changes before a report")
    usable = _with_earlier(links, num_before(corpus, "commit"))
    if len(usable) < MIN_REPORTS:
        raise ValueError(
            f"{corpus.name}: reports with an inducing commit before them: {len(usable)}; at least {MIN_REPORTS} are"
            " needed to train and test"
        )
    # Of 731 reports, 365 are for training and 366 for testing.
    half = len(usable) // 2
    num_later = links.table["query"].nunique() - len(usable)
    warnings = [f"reports with later inducing commits only, left out: {num_later:,}"] if num_later else []
    made_at = links.table.loc[links.table["query"].isin(usable[:half]), "made_at"]
    num_late = int((made_at >= reports.reports["created_at"].iloc[usable[half]]).sum())
    if num_late:
        warnings.append(
            f"links of the first half that became known during the second half: {num_late:,} of {len(made_at):,}"
        )
    return Halves(usable[:half], usable[half:], tuple(warnings))


def num_before(corpus: ChangeCorpus, granularity: Granularity) -> np.ndarray:
    """``(R,)`` number of changes made before each report: candidates are rows 0..n-1."""
    changes = corpus.changes(granularity).table
    return count_earlier(changes["created_at"], reports_of(corpus).reports["created_at"])


def make_level(corpus: ChangeCorpus, halves: Halves, granularity: Granularity) -> Level:
    """The ranking of changes of a granularity.

    Raises ValueError if the corpus has no links of the granularity, or a half has none.
    """
    links = corpus.inducing.get(granularity)
    if links is None:
        raise ValueError(
            f"{corpus.name} names no inducing {granularity}s: leave {granularity} out of task.granularities"
        )
    earlier = num_before(corpus, granularity)
    usable = _with_earlier(links, earlier)
    training, test = (rows[np.isin(rows, usable)] for rows in (halves.train, halves.test))
    for rows, name in ((training, "first"), (test, "second")):
        if not len(rows):
            raise ValueError(f"{corpus.name}: no report of the {name} half has an inducing {granularity} before it")
    train = links.table[links.table["query"].isin(training)]
    train = train[train["document"] < earlier[train["query"]]].assign(label=1)
    inputs = ScorerInputs(corpus.changes(granularity).table, reports_of(corpus).reports, train)
    task = EarlierDocuments(test, earlier[test], links, TOP_K, granularity)
    missing = len(halves.test) - len(test)
    warning = f"test reports without an inducing {granularity} before them, left out there: {missing:,}"
    return Level(granularity, inputs, task, training, (warning,) if missing else ())


def _with_earlier(links: Links, num_earlier: np.ndarray) -> np.ndarray:
    """The reports with a linked change before them, ascending."""
    table = links.table
    return np.unique(table.loc[table["document"] < num_earlier[table["query"]], "query"].to_numpy(dtype=np.int64))


MAX_CHANGES = 30  # of a commit, as an import has thousands of hunks
MAX_DRAWS = 50
VALIDATION_EPOCH = 2**31  # seed of the draws for validation, the same in every epoch


class Draw(NamedTuple):
    """A pair with its negatives."""

    report: int  # row of the report
    change: int  # row of an inducing change of the report
    other_report: int  # row of a report whose bug does not come from the commit of ``change``
    other_change: int  # row of a change before the report that did not introduce its bug


class InducingPairs:
    """Pairs of reports and their earlier inducing commits.

    At the granularities of files and hunks, one of the inducing files or hunks of the commit is drawn each time; one of
    all its files or hunks if the data names none.

    ``hard`` is the share of negative changes from commits that change a file of the positive commit. Raises ValueError
    if no report has an earlier inducing commit, or a pair has no negative.
    """

    def __init__(
        self, corpus: ChangeCorpus, granularity: Granularity, reports: np.ndarray, seed: int, hard: float = 0.0
    ) -> None:
        self.seed = seed
        self.hard = hard
        self.reports = np.unique(reports)
        self.before = num_before(corpus, "commit")
        self.commit_of = corpus.changes(granularity).table["commit"].to_numpy(dtype=np.int64)
        self.rows_of = rows_of_each(self.commit_of, len(corpus.commits))
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
        """Draws the change and the negatives of a pair in an epoch; None for validation."""
        report, commit = self.pairs[number].tolist()
        rng = np.random.default_rng([self.seed, VALIDATION_EPOCH if epoch is None else epoch, number])
        change = int(rng.choice(self.positives[number]))
        other_change = int(rng.choice(self.rows_of[self._other_commit(report, commit, rng)]))
        return Draw(report, change, self._other_report(commit, rng), other_change)

    def _other_commit(self, report: int, commit: int, rng: np.random.Generator) -> int:
        """A commit before the report that did not introduce its bug."""
        if rng.random() < self.hard:
            path = rng.choice(self.paths_of.get(commit, [""]))
            same_file = [row for row in self.commits_of_path.get(str(path), ()) if self._is_negative(report, row)]
            if same_file:
                return int(rng.choice(same_file))
        for _ in range(MAX_DRAWS):
            other = int(rng.integers(self.before[report]))
            if self._is_negative(report, other):
                return other
        return int(rng.choice([row for row in range(self.before[report]) if self._is_negative(report, row)]))

    def _is_negative(self, report: int, commit: int) -> bool:
        is_candidate = commit < self.before[report] and len(self.rows_of[commit]) > 0
        return is_candidate and commit not in self.inducing[report]

    def _other_report(self, commit: int, rng: np.random.Generator) -> int:
        """A report whose bug does not come from the commit, after the commit if possible."""
        negatives = [row for row in self.reports.tolist() if row not in self.induced[commit]]
        later = [row for row in negatives if self.before[row] > commit]
        return int(rng.choice(later or negatives))

    def _find_pairs(self) -> np.ndarray:
        """``(P, 2)`` reports and commits."""
        pairs = []
        for report in self.reports.tolist():
            for commit in sorted(self.inducing[report]):
                if commit >= self.before[report] or not len(self.rows_of[commit]):
                    continue
                pairs.append((report, commit))
                if not set(self.reports.tolist()) - self.induced[commit]:
                    raise ValueError("a commit introduced the bugs of all reports of a split: give more reports")
                if not any(self._is_negative(report, row) for row in range(self.before[report])):
                    raise ValueError("all commits before a report introduced its bug: give more commits")
        if not pairs:
            raise ValueError("no report of a split has an inducing commit before it: give more reports")
        return np.array(pairs, dtype=np.int64)

    def _find_positives(self, corpus: ChangeCorpus, granularity: Granularity) -> list[np.ndarray]:
        """Rows to draw from for each pair: inducing ones, else those of inducing files, else all of the commit."""
        links = {name: _sets(*links.pairs) for name, links in corpus.inducing.items()}
        inducing = links.get(granularity, defaultdict(set))
        files = links.get("file", defaultdict(set))
        # Hunks fall back to inducing files; files and commits have no fallback.
        file_of = corpus.hunks.table["file"].to_numpy() if granularity == "hunk" else None
        positives = []
        for report, commit in self.pairs.tolist():
            rows = self.rows_of[commit]
            named = rows[np.isin(rows, list(inducing[report]))]
            if not len(named) and file_of is not None:
                named = rows[np.isin(file_of[rows], list(files[report]))]
            positives.append(named if len(named) else rows)
        return positives


def _sets(owners: np.ndarray, members: np.ndarray) -> dict[int, set[int]]:
    """The members of each owner; empty by default."""
    sets: dict[int, set[int]] = defaultdict(set)
    for owner, member in zip(owners.tolist(), members.tolist(), strict=True):
        sets[owner].add(member)
    return sets


class RankedReports(NamedTuple):
    """Reports and the changes that they are ranked against."""

    reports: np.ndarray  # ``(Q,)`` rows of the reports
    changes: np.ndarray  # ``(N,)`` rows of the changes, by commit
    commits: np.ndarray  # ``(C,)`` rows of the commits, ascending
    first: np.ndarray  # ``(C,)`` start of each commit in ``changes``
    is_candidate: np.ndarray  # ``(Q, C)`` bool, commits before each report
    is_relevant: np.ndarray  # ``(Q, C)`` bool, inducing commits of each report


def choose_candidates(pairs: InducingPairs, count: int) -> RankedReports:
    """The inducing commits of the pairs and ``count`` random commits before the last report."""
    reports = np.unique(pairs.pairs[:, 0])
    inducing = np.unique(pairs.pairs[:, 1])
    present = [row for row in range(pairs.before[reports].max()) if len(pairs.rows_of[row])]
    rest = np.setdiff1d(present, inducing)
    rng = np.random.default_rng(pairs.seed)
    commits = np.union1d(inducing, rng.choice(rest, min(count, len(rest)), replace=False)).astype(np.int64)
    changes = []
    for commit in commits.tolist():
        rows = pairs.rows_of[commit]
        is_long = len(rows) > MAX_CHANGES
        changes.append(np.sort(rng.choice(rows, MAX_CHANGES, replace=False)) if is_long else rows)
    first = np.cumsum([0, *(len(rows) for rows in changes[:-1])])
    is_candidate = commits < pairs.before[reports][:, None]
    is_relevant = np.array([[commit in pairs.inducing[report] for commit in commits] for report in reports.tolist()])
    return RankedReports(reports, np.concatenate(changes), commits, first, is_candidate, is_relevant & is_candidate)


def mean_reciprocal_rank(ranked: RankedReports, reports: np.ndarray, changes: np.ndarray) -> float:
    """The mean of 1 / rank of the first relevant commit, by the highest cosine of its changes; ties rank before it.

    ``reports (Q, D)`` and ``changes (N, D)`` are unit vectors.
    """
    scores = np.maximum.reduceat(reports @ changes.T, ranked.first, axis=1)
    best = np.where(ranked.is_relevant, scores, -np.inf).max(axis=1, keepdims=True)
    before = ranked.is_candidate & ~ranked.is_relevant & (scores >= best)
    return float((1 / (1 + before.sum(axis=1))).mean())


class PairBatch(NamedTuple):
    """B pairs, each with a negative report and a negative change."""

    reports: CodeBatch  # 2B reports: those of the pairs, then the negatives
    changes: CodeBatch  # 2B changes likewise
    n_id: Tensor  # ``(2B,)`` rows of the reports
    commit_rows: Tensor  # ``(2B,)`` rows of the commits of the changes


class PairDataset(Dataset[PairBatch]):
    """A data set of whole batches."""

    def __init__(self, pairs: InducingPairs, reports: Inputs, changes: Inputs) -> None:
        self.pairs = pairs
        self.reports = reports
        self.changes = changes

    def __getitem__(self, key: BatchRows) -> PairBatch:
        """The batch of the pairs."""
        draws = [self.pairs.draw(number, key.epoch) for number in key.rows.tolist()]
        reports = np.array([draw.report for draw in draws] + [draw.other_report for draw in draws])
        changes = np.array([draw.change for draw in draws] + [draw.other_change for draw in draws])
        return PairBatch(
            collate([self.reports[row] for row in reports.tolist()]),
            collate([self.changes[row] for row in changes.tolist()]),
            torch.from_numpy(reports),
            torch.from_numpy(self.pairs.commit_of[changes]),
        )


class PairKeys(BatchSampler[BatchRows]):
    """The batches of an epoch, of about equal size.

    The processes share the pairs of a batch: the first of 2 processes has the first half. If the pairs divide evenly,
    the batches are those of one process with twice the batch size; otherwise pairs are repeated to share them evenly.

    ``count`` pairs are in batches of at most ``batch_size`` a process. The order depends on ``seed`` and the epoch;
    None keeps the order, for validation.
    """

    def __init__(self, count: int, batch_size: int, seed: int | None, rank: int = 0, world_size: int = 1) -> None:
        super().__init__(seed or 0, rank, world_size, num_batches=-(-count // (batch_size * world_size)))
        self.count = count
        self.is_training = seed is not None

    def __iter__(self) -> Iterator[BatchRows]:
        order = np.arange(self.count)
        if self.is_training:
            order = self.rng().permutation(self.count)
        # np.resize repeats from the start: 5 pairs for 2 processes give 0 1 2 3 4 0, in rows 01 23 40.
        shares = np.resize(order, -(-self.count // self.world_size) * self.world_size).reshape(-1, self.world_size)
        for batch in np.array_split(shares, len(self)):
            numbers = batch.reshape(self.world_size, -1)[self.rank]
            yield BatchRows(numbers, self.epoch if self.is_training else None)


class LocalizationDataModule(pl.LightningDataModule):
    """Pairs for training and validation.

    The last reports of the first half are for validation, later than all training reports. Lightning's test ranks them
    again with the best weights.

    ``changes`` are those of the granularity, ``training`` rows of the first half's reports with earlier inducing
    commits, of which ``val_share`` is for validation; ``batch_size`` counts the pairs of a process. Raises ValueError
    if an option is out of range, or a split has too few reports.
    """

    def __init__(
        self,
        corpus: ChangeCorpus,
        reports: Inputs,
        changes: Inputs,
        granularity: Granularity,
        training: np.ndarray,
        val_share: float = 0.2,
        batch_size: int = 16,
        seed: int = 0,
        val_candidates: int = 400,
        hard: float = 0.0,
    ) -> None:
        super().__init__()
        self.fit_rows, self.val_rows = split_by_time(training, val_share)
        self.reports = reports
        self.changes = changes
        self.batch_size = batch_size
        self.seed = seed
        self.train_pairs = InducingPairs(corpus, granularity, self.fit_rows, seed, hard)
        self.val_pairs = InducingPairs(corpus, granularity, self.val_rows, seed)
        self.ranked: RankedReports = choose_candidates(self.val_pairs, val_candidates)

    def train_dataloader(self) -> DataLoader[PairBatch]:
        """Batches of training pairs."""
        return self._load(self.train_pairs, self.seed)

    def val_dataloader(self) -> DataLoader[PairBatch]:
        """Batches of validation pairs."""
        return self._load(self.val_pairs, None)

    test_dataloader = val_dataloader

    def _load(self, pairs: InducingPairs, seed: int | None) -> DataLoader[PairBatch]:
        keys = PairKeys(len(pairs), self.batch_size, seed, *process_of(self))
        return batch_loader(self, PairDataset(pairs, self.reports, self.changes), keys)


def split_by_time(rows: np.ndarray, val_share: float) -> tuple[np.ndarray, np.ndarray]:
    """Splits rows of reports, in chronological order, into training and validation; raises ValueError if too few."""
    rows = np.unique(rows)
    count = round(len(rows) * val_share)
    if min(count, len(rows) - count) < 2:
        raise ValueError(
            f"{len(rows)} reports with inducing commits before them are too few for training and validation, which"
            " need two each: give more reports, or change task.val_share"
        )
    return rows[: len(rows) - count], rows[len(rows) - count :]
