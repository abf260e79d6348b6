"""Reports in the form in which ``gedbd locate`` ranks commits for them."""

from datetime import datetime

import pandas as pd

from gedbd.corpora.bug_report import Report
from gedbd.localization.change_ranking.change_history import ChangeQuery


def query_of(report: Report, before: datetime | None = None) -> ChangeQuery:
    """A report in the form in which commits are ranked for it.

    Args:
        report: The report.
        before: Only commits before this moment are ranked; None for those before the report, or for all if the report
            has no date.
    """
    moment = before or report.created_at
    created_at = None if moment is None else pd.Timestamp(moment)
    return ChangeQuery(report.title, report.description, created_at)
