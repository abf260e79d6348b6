"""The numbers of Bayramoğlu et al., "Graph Enhanced Transformer for Semi-Supervised Duplicate Bug Report Detection"."""

from importlib.resources import files
from typing import Any

import pandas as pd


def read_published(item: str) -> pd.DataFrame:
    """The published numbers of one table or figure.

    Args:
        item: ``table4``, ``table5`` or ``figures34``.

    Returns:
        One row a model, in the paper's order: ``corpus``, ``encoder``, ``graph`` (bool), ``epoch`` (from 1; null in
        tables), and one column a metric. The paper's own model is BERT with the graph, as in the authors' code.
    """
    with files("gedbd.tasks.duplicates.reproduction").joinpath("published.csv").open() as file:
        table = pd.read_csv(file)
    mine = table[table["item"] == item]
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in mine.to_dict("records"):  # the file has one row a metric
        epoch = row["epoch"] if pd.notna(row["epoch"]) else None
        key = (row["corpus"], row["encoder"], row["graph"], epoch)
        first = {"corpus": row["corpus"], "encoder": row["encoder"], "graph": bool(row["graph"]), "epoch": epoch}
        rows.setdefault(key, first)[row["metric"]] = row["value"]
    return pd.DataFrame(list(rows.values()))
