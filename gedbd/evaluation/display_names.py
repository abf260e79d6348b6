"""Names for readers: of methods, metrics and columns. Data and files hold ids."""

import re

import pandas as pd

TEXT_GRAPH = "text_graph"
TEXT = "text"
FROZEN = "frozen"
ALWAYS_DUPLICATE = "always_duplicate"
DISPLAY_NAMES = {
    TEXT_GRAPH: "text + graph",
    TEXT: "text alone",
    FROZEN: "frozen encoder",
    ALWAYS_DUPLICATE: "always duplicate",
    "te": "TE",
    "te_network": "TE + network",
    "te_modern": "TE modern",
    "te_network_modern": "TE + network modern",
}
ABBREVIATIONS = re.compile(r"\b(f1|rr|mrr|map)\b")


def display_name(method_id: str) -> str:
    """``text_graph -> text + graph``; of an id without an entry in ``DISPLAY_NAMES`` the underscores become spaces."""
    return DISPLAY_NAMES.get(method_id, method_id.replace("_", " "))


def with_display_names(table: pd.DataFrame) -> pd.DataFrame:
    """A copy of a table to show: its column ``method``, if it has one, holds display names."""
    if "method" not in table:
        return table.copy()
    return table.assign(method=table["method"].map(display_name))


def metric_name(name: str) -> str:
    """``rr@10 -> RR@10``, ``pool_map@10 -> pool MAP@10``, ``average_precision -> average precision``."""
    return ABBREVIATIONS.sub(lambda match: match[1].upper(), name.replace("_", " "))


def column_name(name: str) -> str:
    """Heading of a column: an option as it is typed, a metric by its name."""
    return name if is_option(name) else metric_name(name)


def is_option(name: str) -> bool:
    """Whether a column holds the values of an option such as ``graph.pca_dim``."""
    return "." in name and " " not in name
