"""Names as readers see them: of metrics in headings of tables, in titles and on axes."""

import re

ABBREVIATED = re.compile(r"\b(f1|rr|mrr|map)\b")


def metric_name(name: str) -> str:
    """``rr@10 -> RR@10``, ``pool_map@10 -> pool MAP@10``, ``average_precision -> average precision``."""
    return ABBREVIATED.sub(lambda match: match[1].upper(), name.replace("_", " "))


def column_name(name: str) -> str:
    """Heading of a column: options stay as one types them, metrics get their names."""
    return name if is_option(name) else metric_name(name)


def is_option(name: str) -> bool:
    """Whether a column holds the values of an option such as ``graph.pca_dim``."""
    return "." in name and " " not in name
