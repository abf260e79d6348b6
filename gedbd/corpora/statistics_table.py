"""Statistics of corpora as a table for the terminal."""

from collections.abc import Sequence

import pandas as pd
from rich.markup import escape
from rich.table import Table

from gedbd.corpora.change_statistics import describe_changes
from gedbd.corpora.changes import ChangeCorpus
from gedbd.corpora.corpus import Corpus
from gedbd.corpora.statistics import Statistic, describe_corpus


def statistics_table(corpora: Sequence[Corpus | ChangeCorpus]) -> Table:
    """A row for each statistic, a column for each corpus."""
    table = Table("metric")
    for corpus in corpora:
        table.add_column(escape(corpus.name), justify="right")
    columns = [_describe(corpus) for corpus in corpora]
    metrics = dict.fromkeys(metric for column in columns for metric in column)  # unlike a set, keeps the order
    for metric in metrics:
        table.add_row(metric, *(format_statistic(column.get(metric)) for column in columns))
    return table


def _describe(corpus: Corpus | ChangeCorpus) -> dict[str, Statistic]:
    return describe_changes(corpus) if isinstance(corpus, ChangeCorpus) else describe_corpus(corpus)


def format_statistic(value: Statistic) -> str:
    """A number or date for reading; a dash for a missing one."""
    if value is None:
        return "-"
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
