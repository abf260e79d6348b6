"""The paper's numbers beside the measured ones.

Source: Tables 2 and 4 of "Pre-training Code Representation with Semantic Flow Graph for Effective Bug Localization"
(2023). There they have 200 reports of AspectJ and 193 of Tomcat, labels of another data set, and other candidates.
"""

import pandas as pd

from gedbd.evaluation.report.page import markdown
from gedbd.evaluation.report.shown_tables import show
from gedbd.io.paths import locate
from gedbd.io.plain_text import escape_markdown
from gedbd.io.tables import read_csv

METRICS = ("mrr", "map", "p@1", "p@3", "p@5")
REMARK = (
    "Labels, reports and candidates differ from the paper's, so no number here repeats or refutes one of the paper's:"
    " its reports are 200 of AspectJ and 193 of Tomcat with labels of another data set, and its candidates are 2,939"
    " and 10,034 commits."
)


def beside_published(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The paper's rows of a project, then the measured ones.

    Args:
        table: See ``ranking_table``.
        name: Name of the corpus, such as ``tomcat``; one that the paper does not have gets no published rows.

    Returns:
        ``granularity``, ``method``, ``source`` (``Table 2``, ``Table 4`` or ``here``) and ``METRICS``; the rows of a
        granularity follow each other.
    """
    published = read_csv(locate("pkg://gedbd.tasks.localization/published.csv"), "mrr")
    chosen = published[published["project"].str.lower() == name.lower()]
    columns = ["granularity", "method", "source", *METRICS]
    both = pd.concat([chosen[columns], table.assign(source="here")[columns]], ignore_index=True)
    order = {granularity: place for place, granularity in enumerate(dict.fromkeys(table["granularity"]))}
    both = both[both["granularity"].isin(order)]
    return both.sort_values("granularity", key=lambda column: column.map(order), kind="stable", ignore_index=True)


def table3_markdown(name: str, table: pd.DataFrame) -> str:
    """The table in Markdown, under a line that names the corpus and one that says what differs."""
    return "\n".join([f"{escape_markdown(name)}, test half.", "", REMARK, "", *markdown(show(table)), ""])
