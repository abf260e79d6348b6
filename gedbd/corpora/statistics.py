"""Statistics of a corpus: counts of reports, groups and links, dates, lengths of texts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import GRANULARITIES, ChangeCorpus, Corpus, Documents
from gedbd.corpora.fields import tags_of

# Notes on rows whose names do not say what they count, by the beginning of the name.
NOTES = {
    "links: ": "pairs: any two reports in the same group; links: the pairs named by the tracker or in a comment. A"
    " group of three has 3 pairs, even if only 2 of them are linked.",
    "labels": "labels: distinct names; on GitHub and GitLab, 'kind/duplicate' and the like are not counted.",
}
Statistic = int | float | pd.Timestamp | None


def describe_corpus(corpus: Corpus) -> dict[str, Statistic]:
    """Counts reports, groups and pairs, and computes statistics of dates and text.

    Returns:
        Metric to value, null where the tracker has no date or no text. ``pairs`` is the sum of n (n - 1) / 2 over
        groups of n reports. Words are separated by white space; medians are over the reports that have such a text.
        ``with a web address`` counts the reports whose page is known, ``links: <source>`` the pairs of reports that
        this source links. ``labels`` and ``with a label`` are present only if a report has one.
    """
    labels = tags_of(corpus.reports.assign(component=""))
    distinct_labels = {label for report_labels in labels for label in report_labels}
    sizes = np.unique(corpus.group, return_counts=True)[1].astype(np.int64)
    sizes = sizes[sizes > 1]
    links: dict[str, Statistic] = {}
    if corpus.links is not None:
        # A link from 7 to 3 and one from 3 to 7 are one pair (3, 7), which counts once per source.
        earlier, later = np.sort(corpus.links.pairs, axis=0)
        columns = {"earlier": earlier, "later": later, "source": corpus.links.table["source"]}
        sources = pd.DataFrame(columns).drop_duplicates()["source"]
        links = {f"links: {source}": int(count) for source, count in sources.value_counts().items()}
    return {
        "reports": len(corpus),
        "without duplicate": len(corpus) - int(sizes.sum()),
        "in a group": int(sizes.sum()),
        "in a group (%)": 100 * float(sizes.sum()) / len(corpus),
        "groups": len(sizes),
        "pairs": int((sizes * (sizes - 1) // 2).sum()),
        "largest group": int(sizes.max(initial=0)),
        "first created": date_or_none(corpus.reports["created_at"].min()),
        "last created": date_or_none(corpus.reports["created_at"].max()),
        "median words of a title": median_words(corpus.reports["title"]),
        "median words of a description": median_words(corpus.reports["description"]),
        "with a web address": int((corpus.reports["url"] != "").sum()),
        **({"labels": len(distinct_labels), "with a label": sum(map(bool, labels))} if distinct_labels else {}),
        **links,
    }


def date_or_none(date: pd.Timestamp) -> pd.Timestamp | None:
    """The date, or null for ``NaT``."""
    return None if pd.isna(date) else date


def median_words(texts: pd.Series) -> float | None:
    """Median number of words over the texts with at least one word; null if all texts are empty."""
    words = texts.str.count(r"\S+")
    words = words[words > 0]
    return float(words.median()) if len(words) else None


def describe_changes(corpus: ChangeCorpus) -> dict[str, Statistic]:
    """Counts commits, files, hunks and, if there are reports, those with fixes and inducing commits.

    Returns:
        Metric to value. ``fixing links`` and ``inducing links`` count pairs of a report and a change.
    """
    commits = corpus.commits.table
    counts: dict[str, Statistic] = {
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
    }
    if corpus.reports is None:
        return counts
    created = corpus.reports.reports["created_at"]
    counts |= {
        "reports": len(corpus.reports),
        "first report": date_or_none(created.min()),
        "last report": date_or_none(created.max()),
        "reports with a fix": 0 if corpus.fixing is None else int(corpus.fixing.table["query"].nunique()),
        "fixing links": 0 if corpus.fixing is None else len(corpus.fixing),
    }
    if corpus.fixed_paths is not None:
        counts["reports with fixed files but no commit"] = len(corpus.fixed_paths)
    for granularity in GRANULARITIES:
        links = corpus.inducing.get(granularity)
        if links is not None:
            counts[f"reports with an inducing {granularity}"] = int(links.table["query"].nunique())
            counts[f"inducing links: {granularity}"] = len(links)
    return counts


def corpus_statistics(corpora: Sequence[Corpus | ChangeCorpus]) -> list[dict[str, Any]]:
    """For each corpus its ``name``, its ``statistics`` by name, its ``warnings``, and of reports how they were read."""
    described = []
    for corpus in corpora:
        statistics = describe_changes(corpus) if isinstance(corpus, ChangeCorpus) else describe_corpus(corpus)
        content: dict[str, Any] = {"name": corpus.name, "statistics": statistics, "warnings": list(corpus.warnings)}
        if isinstance(corpus, Corpus):
            content["fields"] = [field._asdict() for field in corpus.documents.fields]
            content["unread"] = list(corpus.documents.unread)
        described.append(content)
    return described


def fields_table(documents: Documents) -> pd.DataFrame:
    """How each field that a report has was read, see ``FieldSource``."""
    rows = [(field, source, f"{count:,}", first) for field, source, count, first in documents.fields if count]
    return pd.DataFrame(rows, columns=["field", "source", "reports", "first value"])


def statistics_table(described: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """A table with a row per statistic and a text column per corpus; see ``corpus_statistics``."""
    names = [name for corpus in described for name in corpus["statistics"]]
    metrics = list(dict.fromkeys(names))  # unlike a set, keeps the order
    columns: dict[str, list[str]] = {"metric": metrics}
    for corpus in described:
        columns[corpus["name"]] = [format_statistic(corpus["statistics"].get(metric)) for metric in metrics]
    return pd.DataFrame(columns)


def notes_on(described: Sequence[dict[str, Any]]) -> list[str]:
    """Notes on rows whose names do not say what they count; see ``corpus_statistics``."""
    names = [name for corpus in described for name in corpus["statistics"]]
    return [note for start, note in NOTES.items() if any(name.startswith(start) for name in names)]


def format_statistic(value: Statistic) -> str:
    """Formats a number or date for display; a dash for a missing one."""
    if value is None:
        return "-"
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
