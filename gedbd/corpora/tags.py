"""Tags of documents: those of a question, or the component and the labels of a bug report."""

import pandas as pd

SEPARATOR = ";"


def tags_of(table: pd.DataFrame) -> list[tuple[str, ...]]:
    """The tags of N documents, each in lower case and once, in the order in which a document names them.

    Args:
        table: N documents with ``component`` and, where they have any, ``labels``.

    Returns:
        For each document its component, if it has one, and its labels.
    """
    labels = table["labels"] if "labels" in table else pd.Series("", index=table.index)
    tags = []
    for component, names in zip(table["component"], labels, strict=True):
        named = [name.strip().lower() for name in (component, *names.split(SEPARATOR))]
        tags.append(tuple(dict.fromkeys(name for name in named if name)))
    return tags
