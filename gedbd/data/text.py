"""How a report becomes the encoder's input."""

import pandas as pd


def title_description(reports: pd.DataFrame) -> list[str]:
    """Joins title and description with a line break, as in the graph-enhanced transformer paper.

    Args:
        reports: N rows with the columns ``title`` and ``description``.

    Returns:
        N texts. A report that has neither is an empty text.
    """
    joined = reports["title"].str.strip() + "\n" + reports["description"].str.strip()
    return [str(text) for text in joined.str.strip()]
