"""Print what a corpus holds: ``python -m gedbd.describe dataset=demo``."""

import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from gedbd.configuration.command import command
from gedbd.corpora.corpus import Corpus
from gedbd.corpora.statistics import Statistic, describe_corpus


@command("describe")
def main(cfg: DictConfig) -> None:
    """Read the corpus, and the label files published with it, and print their statistics and warnings."""
    if "subset" in cfg.dataset:
        corpora = instantiate(cfg.dataset, _target_="gedbd.corpora.readers.bughub.read_parts")
    else:
        corpora = [instantiate(cfg.dataset)]
    console = Console()
    console.print(statistics_table(corpora))
    for corpus in corpora:
        for warning in corpus.warnings:
            console.print(f"{corpus.name}: {warning}", markup=False, highlight=False, soft_wrap=True)


def statistics_table(corpora: list[Corpus]) -> Table:
    """One row for each metric, one column for each corpus."""
    table = Table("metric")
    for corpus in corpora:
        table.add_column(corpus.name, justify="right")
    columns = [describe_corpus(corpus) for corpus in corpora]
    for metric in dict.fromkeys(metric for column in columns for metric in column):
        table.add_row(metric, *(format_statistic(column.get(metric)) for column in columns))
    return table


def format_statistic(value: Statistic) -> str:
    """A number or date for reading; a dash for none."""
    if value is None:
        return "-"
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


if __name__ == "__main__":
    main()
