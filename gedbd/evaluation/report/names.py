"""Names as readers see them: of metrics in headings of tables, in titles and on axes."""

import re

ABBREVIATED = re.compile(r"\b(f1|rr|mrr|map)\b")


def metric_name(name: str) -> str:
    """``rr@10 -> RR@10``, ``pool_map@10 -> pool MAP@10``, ``average_precision -> average precision``."""
    return ABBREVIATED.sub(lambda match: match[1].upper(), name.replace("_", " "))


def column_name(name: str) -> str:
    """Heading of a column: options (``graph.pca_dim``) stay as one types them, metrics get their names."""
    return name if "." in name and " " not in name else metric_name(name)
