"""The paper's Table 7 beside the measured numbers."""

import pandas as pd

from gedbd.evaluation.report.page import markdown
from gedbd.evaluation.report.shown_tables import show
from gedbd.io.paths import locate
from gedbd.io.plain_text import escape_markdown
from gedbd.io.tables import read_csv

METRICS = ("rmse", "spearman")


def beside_published(table: pd.DataFrame) -> pd.DataFrame:
    """Published and measured RMSE and rho of the paper's methods, in the paper's order, then of the other methods.

    Args:
        table: See ``compare_methods``.

    Returns:
        ``method``, ``paper_rmse``, ``rmse``, ``paper_spearman`` and ``spearman``; NaN where there is no number.
    """
    published = read_csv(locate("pkg://gedbd.tasks.confirmation/published.csv"), "value")
    wide = published.pivot(index="method", columns="metric", values="value")
    others = [name for name in table["method"] if name not in wide.index]
    names = [*published["method"].unique(), *others]
    measured = table.set_index("method").reindex(names)
    columns: dict[str, object] = {"method": names}
    for metric in METRICS:
        columns[f"paper_{metric}"] = wide[metric].reindex(names).to_numpy()
        columns[metric] = measured[metric].to_numpy()
    return pd.DataFrame(columns)


def table7_markdown(name: str, table: pd.DataFrame) -> str:
    """The table in Markdown, under a line that names the corpus."""
    head = f"{escape_markdown(name)}: the paper's numbers are of askubuntu, 3,756 test pairs."
    return "\n".join([head, "", *markdown(show(table)), ""])
