"""Statistics of corpora as a table for the terminal, and as plain values for programs."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from gedbd.corpora.change_statistics import describe_changes
from gedbd.corpora.changes import ChangeCorpus
from gedbd.corpora.corpus import Corpus
from gedbd.corpora.statistics import Statistic, describe_corpus

# What a row of the table counts, where its name does not tell: by the beginning of the name.
NOTES = {
    "links: ": "pairs: any two reports in the same group; links: the pairs named by the tracker or in a comment. A"
    " group of three has 3 pairs, even if only 2 of them are linked.",
    "labels": "labels: distinct names; on GitHub, 'duplicate', 'status: duplicate' and the like are not counted.",
}


def corpus_statistics(corpora: Sequence[Corpus | ChangeCorpus]) -> list[dict[str, Any]]:
    """For each corpus its ``name``, its ``statistics`` by name, and its ``warnings``."""
    return [
        {"name": corpus.name, "statistics": _describe(corpus), "warnings": list(corpus.warnings)} for corpus in corpora
    ]


def statistics_table(described: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """A row for each statistic, a column of texts for each corpus; see ``corpus_statistics``."""
    names = [name for corpus in described for name in corpus["statistics"]]
    metrics = list(dict.fromkeys(names))  # unlike a set, keeps the order
    columns: dict[str, list[str]] = {"metric": metrics}
    for corpus in described:
        columns[corpus["name"]] = [format_statistic(corpus["statistics"].get(metric)) for metric in metrics]
    return pd.DataFrame(columns)


def notes_on(described: Sequence[dict[str, Any]]) -> list[str]:
    """What some rows of the table count, in sentences; see ``corpus_statistics``."""
    names = [name for corpus in described for name in corpus["statistics"]]
    return [note for start, note in NOTES.items() if any(name.startswith(start) for name in names)]


def _describe(corpus: Corpus | ChangeCorpus) -> dict[str, Statistic]:
    return describe_changes(corpus) if isinstance(corpus, ChangeCorpus) else describe_corpus(corpus)


def format_statistic(value: Statistic) -> str:
    """A number or date for reading; a dash for a missing one."""
    if value is None:
        return "-"
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
