"""Reads what a backtest of the ranking of commits is run on."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from gedbd.corpora.changes import ChangeCorpus
from gedbd.corpora.documents import Documents
from gedbd.corpora.relevance import Links
from gedbd.io.console import stage
from gedbd.localization.repository.commits import LinkBuilder

REPOSITORY_OPTIONS = ("fix_patterns", "fixes")


def check_options(cfg: DictConfig) -> None:
    """Raises ValueError if the options are invalid, before any long work."""
    if OmegaConf.is_missing(cfg.dataset, "path"):
        raise ValueError("no reports given: set repo=. dataset=csv dataset.path=issues.csv")
    given = [name for name in REPOSITORY_OPTIONS if cfg[name] is not None]
    if given and cfg.repo is None:
        raise ValueError(f"{given[0]}= needs a repository: add repo=., or use dataset.{given[0]}= with dataset=git")


@stage("read the repository")
def read_changes(cfg: DictConfig) -> ChangeCorpus:
    """The reports, and the commits of the repository that fixed and induced their bugs.

    Args:
        cfg: The composed configuration of ``conf/locate_backtest.yaml``.

    Raises:
        ValueError: If there are reports without a repository, or a history of changes with one.
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
    """The commits that are no merges, with their files, hunks and links, and counts of what is left out, in words.

    What a merge changes is changed by the commits that it merges. The rows of the tables are numbered again.
    """
    kept = {"commit": ~corpus.commits.table["is_merge"].to_numpy(dtype=bool)}
    num_merges = int((~kept["commit"]).sum())
    if not num_merges:
        return corpus, ()
    for granularity, table in (("file", corpus.files.table), ("hunk", corpus.hunks.table)):
        kept[granularity] = kept["commit"][table["commit"].to_numpy(dtype=np.int64)]
    rows = {granularity: np.cumsum(mask) - 1 for granularity, mask in kept.items()}  # kept 1 0 1: rows 0 0 1
    inducing = {name: _links(links, kept[name], rows[name]) for name, links in corpus.inducing.items()}
    fixing = None if corpus.fixing is None else _links(corpus.fixing, kept["commit"], rows["commit"])
    counts = [f"merges left out of the candidates, as gedbd locate leaves them out: {num_merges:,}"]
    for what, before, after in (
        ("inducing", corpus.inducing.get("commit"), inducing.get("commit")),
        ("fixing", corpus.fixing, fixing),
    ):
        if before is not None and after is not None and len(after) < len(before):
            counts.append(f"links to {what} commits left out, as these are merges: {len(before) - len(after):,}")
    reduced = replace(
        corpus,
        commits=_documents(corpus.commits, kept["commit"], {"commit": rows["commit"]}),
        files=_documents(corpus.files, kept["file"], {"commit": rows["commit"]}),
        hunks=_documents(corpus.hunks, kept["hunk"], {"commit": rows["commit"], "file": rows["file"]}),
        fixing=fixing,
        inducing=inducing,
    )
    return reduced, tuple(counts)


def _documents(documents: Documents, kept: np.ndarray, numbers: dict[str, np.ndarray]) -> Documents:
    """The kept rows of a table; ``numbers`` gives the new row of each old one, by the column that names them."""
    table = documents.table[kept].reset_index(drop=True)
    renumbered = {name: rows[table[name].to_numpy(dtype=np.int64)] for name, rows in numbers.items()}
    return replace(documents, table=table.assign(**renumbered))


def _links(links: Links, kept: np.ndarray, rows: np.ndarray) -> Links:
    """The links to kept documents."""
    table = links.table[kept[links.table["document"].to_numpy(dtype=np.int64)]].reset_index(drop=True)
    table = table.assign(document=rows[table["document"].to_numpy(dtype=np.int64)])
    return Links(table, links.num_queries, int(kept.sum()))


def with_all_links(corpus: ChangeCorpus) -> ChangeCorpus:
    """The corpus with empty links to fixing or inducing commits where the data tells none.

    Raises:
        ValueError: If the corpus has no reports, if nothing says how they were fixed, or if one has no date.
    """
    has_labels = corpus.fixing is not None or corpus.fixed_paths or "commit" in corpus.inducing
    if corpus.reports is None or not has_labels:
        raise ValueError(
            f"{corpus.name}: there are no reports with inducing commits or fixed files; give the tracker's export,"
            " such as repo=. dataset=csv dataset.path=issues.csv"
        )
    if corpus.reports.reports["created_at"].isna().any():
        raise ValueError(f"{corpus.name}: reports without a date cannot be replayed; give dataset.columns.created_at")
    nothing = LinkBuilder(len(corpus.reports), len(corpus.commits), "none").links()
    return replace(
        corpus,
        fixing=nothing if corpus.fixing is None else corpus.fixing,
        inducing={"commit": nothing, **corpus.inducing},
    )


@dataclass(frozen=True)
class LabelledReports:
    """Reports with a right answer before them, in chronological order.

    Attributes:
        rows: ``(L,)`` their rows among all reports.
        right: For each of them the inducing commits before it, rows of the history; or the source files that its fix
            changed and that existed before it, ascending rows among the paths of the history.
        made_at: ``(L,)`` when the last of these links became known: the date of the fix; ``NaT`` where unknown.
        num_reports: Number of all reports.
        num_fixed: Number of the reports of which a fixing commit, or for files a fixed file, is known.
        num_unordered: Number of the reports whose inducing commits are all later than they are.
    """

    rows: np.ndarray
    right: list[np.ndarray]
    made_at: pd.Series
    num_reports: int
    num_fixed: int
    num_unordered: int = 0

    def __len__(self) -> int:
        return len(self.rows)


def labelled_reports(corpus: ChangeCorpus) -> LabelledReports:
    """The reports whose inducing commits can be tested, and counts of the others; see ``with_all_links``."""
    assert corpus.reports is not None
    created_at = corpus.reports.reports["created_at"]
    links = corpus.inducing["commit"]
    earlier = _earlier_links(links, created_at, corpus.commits.table["created_at"])
    by_report = earlier.groupby("query")
    # max() skips NaT: a report counts as known once the dated links are, unless one has no date
    made_at = by_report["made_at"].max().where(by_report["made_at"].count() == by_report.size())
    num_fixed = 0 if corpus.fixing is None else int(corpus.fixing.table["query"].nunique())
    return LabelledReports(
        made_at.index.to_numpy(dtype=np.int64),
        [np.unique(rows.to_numpy(dtype=np.int64)) for _, rows in by_report["document"]],
        made_at.reset_index(drop=True),
        len(corpus.reports),
        num_fixed,
        int(links.table["query"].nunique()) - len(made_at),
    )


def _earlier_links(links: Links, reported: pd.Series, committed: pd.Series) -> pd.DataFrame:
    """The links to commits that were made strictly before the report."""
    table = links.table
    queried_at = reported.iloc[table["query"]].reset_index(drop=True)
    changed_at = committed.iloc[table["document"]].reset_index(drop=True)
    return table.reset_index(drop=True)[(changed_at < queried_at).to_numpy()]
