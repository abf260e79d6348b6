"""Statistics of a history of changes: counts of commits, files, hunks and links, and dates."""

import pandas as pd

from gedbd.corpora.changes import GRANULARITIES, ChangeCorpus
from gedbd.corpora.relevance import Links
from gedbd.corpora.statistics import Statistic, date_or_none, median_words


def describe_changes(corpus: ChangeCorpus) -> dict[str, Statistic]:
    """Count commits, files, hunks and, where there are reports, those with fixes and inducing commits.

    Returns:
        Metric to value. ``fixing links`` and ``inducing links`` count pairs of a report and a change.
    """
    commits = corpus.commits.table
    return {
        "commits": len(commits),
        "merges": int(commits["is_merge"].sum()),
        "commits cut": int(commits["is_cut"].sum()),
        "files": len(corpus.files),
        "hunks": len(corpus.hunks),
        "added lines": int(commits["added_lines"].sum()),
        "removed lines": int(commits["removed_lines"].sum()),
        "first commit": date_or_none(commits["created_at"].min()),
        "last commit": date_or_none(commits["created_at"].max()),
        "median words of a commit's title": median_words(commits["title"]),
        **_count_reports(corpus),
    }


def _count_reports(corpus: ChangeCorpus) -> dict[str, Statistic]:
    """Counts of reports and links; nothing without reports."""
    if corpus.reports is None:
        return {}
    created: pd.Series = corpus.reports.reports["created_at"]
    counts: dict[str, Statistic] = {
        "reports": len(corpus.reports),
        "first report": date_or_none(created.min()),
        "last report": date_or_none(created.max()),
        "reports with a fix": _num_queries(corpus.fixing),
        "fixing links": _num_links(corpus.fixing),
    }
    for granularity in GRANULARITIES:
        links = corpus.inducing.get(granularity)
        if links is not None:
            counts[f"reports with an inducing {granularity}"] = _num_queries(links)
            counts[f"inducing links: {granularity}"] = _num_links(links)
    return counts


def _num_queries(links: Links | None) -> int:
    return 0 if links is None else int(links.table["query"].nunique())


def _num_links(links: Links | None) -> int:
    return 0 if links is None else len(links)
