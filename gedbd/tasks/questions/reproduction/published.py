"""The numbers of "Duplicate Question Retrieval and Confirmation Time Prediction in Software Communities"."""

from importlib.resources import files

import pandas as pd


def read_published(item: str) -> pd.DataFrame:
    """The published numbers of one table, in percent.

    Args:
        item: ``table4``.

    Returns:
        One row a method, in the paper's order and indexed by method id: ``name`` (as the paper calls it) and one column
        a metric.
    """
    with files("gedbd.tasks.questions").joinpath("published.csv").open() as file:
        table = pd.read_csv(file)
    mine = table[table["item"] == item]
    wide = mine.pivot(index="method", columns="metric", values="value")
    names = mine.drop_duplicates("method").set_index("method")["name"]
    return wide.loc[names.index, mine["metric"].unique()].assign(name=names)
