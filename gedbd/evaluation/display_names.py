"""Display names of methods, metrics and columns; data and files use ids."""

import math
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
    "te_joined": "TE, joined text",
    "te_modern": "TE modern",
    "te_network_modern": "TE + network modern",
}
MIN_SHOWN_P = 0.001  # smaller p values would be rounded to 0.000
ABBREVIATIONS = re.compile(r"\b(f1|rr|mrr|map)\b")


def display_name(method_id: str) -> str:
    """``text_graph -> text + graph``; ids that are not in ``DISPLAY_NAMES`` get spaces for underscores."""
    return DISPLAY_NAMES.get(method_id, method_id.replace("_", " "))


def with_trained_encoder(baseline: str) -> str:
    """Name of a baseline with the encoder of a run: ``frozen -> frozen (trained encoder)``."""
    return f"{baseline} (trained encoder)"


def with_display_names(table: pd.DataFrame) -> pd.DataFrame:
    """A copy of a table with display names in its column ``method``, if it has one."""
    if "method" not in table:
        return table.copy()
    return table.assign(method=table["method"].map(display_name))


def metric_name(name: str) -> str:
    """``rr@10 -> RR@10``, ``pool_map@10 -> pool MAP@10``, ``average_precision -> average precision``."""
    return ABBREVIATIONS.sub(lambda match: match[1].upper(), name.replace("_", " "))


def column_name(name: str) -> str:
    """Heading of a column: options stay as typed, metrics get their display name."""
    return name if is_option(name) else metric_name(name)


def format_p_value(value: float | None) -> str:
    """``0.0312 -> 0.031``, ``0.0002 -> <0.001``; empty for None and NaN."""
    if value is None or math.isnan(value):
        return ""
    return f"<{MIN_SHOWN_P}" if value < MIN_SHOWN_P else f"{value:.3f}"


def is_p_value(name: str) -> bool:
    """Whether a column holds p values: ``p of MRR``, ``mrr_p_value``, ``mann_whitney_p``."""
    return name.startswith("p of ") or name.endswith(("p_value", "_p"))


def is_option(name: str) -> bool:
    """Whether a column holds the values of an option such as ``graph.pca_dim``."""
    return "." in name and " " not in name
