"""The reports of a backtest: those with earlier fixed files or inducing commits."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from gedbd.corpora.corpus import ChangeCorpus, Documents
from gedbd.corpora.relevance import Links
from gedbd.io.console import stage
from gedbd.localization.change_ranking.change_history import ChangeHistory
from gedbd.localization.change_ranking.change_training import existing_paths, fixed_sources, fixes_of, reports_of
from gedbd.localization.change_ranking.file_features import KnownFix
from gedbd.localization.repository.commits import make_links
from gedbd.retrieval.ranking_tasks import evenly_spaced


def check_options(cfg: DictConfig) -> None:
    """Raises ValueError for invalid options."""
    if OmegaConf.is_missing(cfg.dataset, "path"):
        raise ValueError("no reports given: set repo=. dataset=csv dataset.path=issues.csv")
    for option in ("fix_patterns", "fixes"):
        if cfg[option] is not None and cfg.repo is None:
            raise ValueError(f"{option}= needs a repository: add repo=., or use dataset.{option}= with dataset=git")


@stage("read the repository")
def read_changes(cfg: DictConfig) -> ChangeCorpus:
    """The reports, and the commits of the repository that fixed and introduced their bugs.

    Raises ValueError for reports without a repository, or a repository with a history of changes for reports.
    """
    if cfg.repo is None:
        corpus = instantiate(cfg.dataset)
        if not isinstance(corpus, ChangeCorpus):
            raise ValueError(f"{corpus.name}: reports without a repository: add repo=. or repo=PATH")
        return corpus
    from gedbd.experiments.corpus_reading import read_corpus
    from gedbd.localization.readers.git import read_git

    try:
        reports = read_corpus(cfg.dataset)
    except ValueError as error:
        if "a history of changes" in str(error):
            raise ValueError(f"repo={cfg.repo}: dataset= must be the reports of a tracker: {error}") from error
        raise
    options = ("revision", "fix_patterns", "fixes", "merges", "suffixes", "max_diff_chars", "max_files", "cache_dir")
    try:
        return read_git(cfg.repo, None, reports=reports, **{name: cfg[name] for name in options})
    except ValueError as error:
        # The reader names its options as those of dataset=git.
        raise ValueError(str(error).replace("dataset.fix", "fix")) from error


def without_merges(corpus: ChangeCorpus) -> tuple[ChangeCorpus, tuple[str, ...]]:
    """The corpus without merges, with renumbered rows, and warnings that count what is removed."""
    kept = {"commit": ~corpus.commits.table["is_merge"].to_numpy(dtype=bool)}
    num_merges = int((~kept["commit"]).sum())
    if not num_merges:
        return corpus, ()
    for granularity, table in (("file", corpus.files.table), ("hunk", corpus.hunks.table)):
        kept[granularity] = kept["commit"][table["commit"].to_numpy(dtype=np.int64)]
    rows = {granularity: np.cumsum(mask) - 1 for granularity, mask in kept.items()}  # kept 1 0 1: rows 0 0 1
    inducing = {name: _links(links, kept[name], rows[name]) for name, links in corpus.inducing.items()}
    fixing = None if corpus.fixing is None else _links(corpus.fixing, kept["commit"], rows["commit"])
    messages = [f"merges are not candidates, as in gedbd locate: {num_merges:,}"]
    links_by_name = {
        "inducing": (corpus.inducing.get("commit"), inducing.get("commit")),
        "fixing": (corpus.fixing, fixing),
    }
    for what, (before, after) in links_by_name.items():
        if before is not None and after is not None and len(after) < len(before):
            messages.append(f"links to {what} commits that are merges, left out: {len(before) - len(after):,}")
    reduced = replace(
        corpus,
        commits=_documents(corpus.commits, kept["commit"], {"commit": rows["commit"]}),
        files=_documents(corpus.files, kept["file"], {"commit": rows["commit"]}),
        hunks=_documents(corpus.hunks, kept["hunk"], {"commit": rows["commit"], "file": rows["file"]}),
        fixing=fixing,
        inducing=inducing,
    )
    return reduced, tuple(messages)


def _documents(documents: Documents, kept: np.ndarray, numbers: dict[str, np.ndarray]) -> Documents:
    """The kept rows of a table; ``numbers`` maps old to new rows for each column with row numbers."""
    table = documents.table[kept].reset_index(drop=True)
    renumbered = {name: rows[table[name].to_numpy(dtype=np.int64)] for name, rows in numbers.items()}
    return replace(documents, table=table.assign(**renumbered))


def _links(links: Links, kept: np.ndarray, rows: np.ndarray) -> Links:
    """The links to kept documents."""
    table = links.table[kept[links.table["document"].to_numpy(dtype=np.int64)]].reset_index(drop=True)
    table = table.assign(document=rows[table["document"].to_numpy(dtype=np.int64)])
    return Links(table, links.num_queries, int(kept.sum()))


def with_all_links(corpus: ChangeCorpus) -> ChangeCorpus:
    """The corpus, with empty links to fixing or inducing commits if it has none.

    Raises ValueError if the corpus has no reports, no fixes or inducing commits, or a report without a date.
    """
    has_labels = corpus.fixing is not None or corpus.fixed_paths or "commit" in corpus.inducing
    if corpus.reports is None or not has_labels:
        raise ValueError(
            f"{corpus.name}: there are no reports with inducing commits or fixed files; give the tracker's export,"
            " such as repo=. dataset=csv dataset.path=issues.csv"
        )
    if corpus.reports.reports["created_at"].isna().any():
        raise ValueError(f"{corpus.name}: reports without a date cannot be replayed; give dataset.columns.created_at")
    nothing = make_links([], len(corpus.reports), len(corpus.commits), "none")
    return replace(
        corpus,
        fixing=nothing if corpus.fixing is None else corpus.fixing,
        inducing={"commit": nothing, **corpus.inducing},
    )


@dataclass(frozen=True)
class LabelledReports:
    """Reports with relevant documents before them, in chronological order."""

    rows: np.ndarray  # ``(L,)`` rows among all reports
    # for each report the rows of its earlier inducing commits in the history; or the source files that existed before
    # it and that its fix changed, ascending rows among the paths of the history
    relevant: list[np.ndarray]
    made_at: pd.Series  # ``(L,)`` when the last of these links became known: the date of the fix; ``NaT`` if unknown
    num_reports: int  # number of all reports
    num_fixed: int  # number of reports with a known fixing commit, or for files a known fixed file
    num_unordered: int = 0  # number of reports with later inducing commits only

    def __len__(self) -> int:
        return len(self.rows)


def labelled_reports(corpus: ChangeCorpus) -> LabelledReports:
    """The reports with earlier inducing commits; ``corpus`` is from ``with_all_links``."""
    links = corpus.inducing["commit"].table.reset_index(drop=True)
    reported_at = reports_of(corpus).reports["created_at"].iloc[links["query"]].reset_index(drop=True)
    changed_at = corpus.commits.table["created_at"].iloc[links["document"]].reset_index(drop=True)
    by_report = links[changed_at < reported_at].groupby("query")
    # max() skips NaT: the date is unknown if any link has no date.
    made_at = by_report["made_at"].max().where(by_report["made_at"].count() == by_report.size())
    num_fixed = 0 if corpus.fixing is None else int(corpus.fixing.table["query"].nunique())
    return LabelledReports(
        made_at.index.to_numpy(dtype=np.int64),
        [np.unique(rows.to_numpy(dtype=np.int64)) for _, rows in by_report["document"]],
        made_at.reset_index(drop=True),
        len(reports_of(corpus)),
        num_fixed,
        int(links["query"].nunique()) - len(made_at),
    )


def file_reports(
    corpus: ChangeCorpus, history: ChangeHistory, sources: Mapping[int, np.ndarray], known_at: pd.Series
) -> LabelledReports:
    """The reports whose fix changed a source file that existed before them, see ``sources_of_fixes``."""
    created_at = reports_of(corpus).reports["created_at"]
    existing = {
        row: existing_paths(history, sources[row], history.num_before(created_at.iloc[row])) for row in sorted(sources)
    }
    rows = np.array([row for row, paths in existing.items() if len(paths)], dtype=np.int64)
    made_at = known_at.loc[rows.tolist()].reset_index(drop=True)
    relevant = [existing[row] for row in rows.tolist()]
    return LabelledReports(rows, relevant, made_at, len(created_at), len(sources))


def sources_of_fixes(corpus: ChangeCorpus, history: ChangeHistory) -> dict[int, np.ndarray]:
    """The source files, without tests, that the fix of each report changed, by the row of the report.

    They are ``(F,)`` ascending paths of the history, including those that do not exist at the date of the report.
    """
    assert corpus.fixing is not None
    table = history.table
    number = {path: row for row, path in enumerate(table.paths)}
    sources = {}
    for row, paths in (corpus.fixed_paths or {}).items():
        named = np.array(sorted(number[path] for path in paths if path in number), dtype=np.int64)
        sources[row] = named[table.is_source[named] & ~table.is_test[named]]
    for row in corpus.fixing.table["query"].unique().tolist():
        sources[row] = fixed_sources(history, corpus.fixing.relevant(row))
    return sources


class FixHistory(NamedTuple):
    """The fixed reports of a tracker."""

    known_at: pd.Series  # when each fix became known, by the row of the report
    fixes: list[KnownFix]  # fixes of those with fixing commits, in the order of ``known_at``

    def before(self, moment: pd.Timestamp | None) -> np.ndarray:
        """Rows of the reports that were fixed before a time, ascending; all for None."""
        known_at = self.known_at if moment is None else self.known_at[self.known_at < moment]
        return np.sort(known_at.index.to_numpy(dtype=np.int64))


def fixed_reports(corpus: ChangeCorpus) -> FixHistory:
    """The fixed reports of a corpus, see ``fixes_of``; fixes of ``fixed_paths`` are known at the report's date."""
    fixes = fixes_of(corpus)
    created_at = reports_of(corpus).reports["created_at"]
    dates = {row: created_at.iloc[row] for row in corpus.fixed_paths or {}}
    dates |= {row: fix.known_at for row, fix in fixes.items()}
    known_at = pd.Series(dates, dtype="datetime64[us, UTC]").sort_values(kind="stable")
    return FixHistory(known_at, [fixes[row] for row in map(int, known_at.index) if row in fixes])


@dataclass(frozen=True)
class ReplaySplit:
    """A split of labelled reports into training and test set."""

    test: np.ndarray  # positions of the newer half, or of all reports without training
    # rows of the reports that were fixed before the first test report; empty if too few of them are labelled
    train: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    num_labelled: int = 0  # number of labelled reports in ``train``
    num_unknown: int = 0  # number of labelled reports of the older half that were fixed too late for ``train``


def split_reports(corpus: ChangeCorpus, labelled: LabelledReports, min_reports: int, max_replayed: int) -> ReplaySplit:
    """Splits off the newer half of the labelled reports as the test set; tests all reports if there are too few.

    The training set holds all reports that were fixed before the first test report, labelled or not. It is
    empty if less than half of ``min_reports`` of these are labelled.
    """
    if len(labelled) < max(min_reports, 1):
        return all_tested(labelled, max_replayed)
    half = len(labelled) // 2
    start = reports_of(corpus).reports["created_at"].iloc[int(labelled.rows[half])]
    num_known = int((labelled.made_at[:half] < start).sum())
    if num_known < max(min_reports // 2, 1):
        return all_tested(labelled, max_replayed)
    train = fixed_reports(corpus).before(start)
    return ReplaySplit(evenly_spaced(half, len(labelled), max_replayed), train, num_known, half - num_known)


def all_tested(labelled: LabelledReports, max_replayed: int) -> ReplaySplit:
    """A split without training: all labelled reports are tested."""
    return ReplaySplit(evenly_spaced(0, len(labelled), max_replayed))
