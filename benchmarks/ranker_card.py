"""The card of the default ranker: two commands write it, each its own part."""

from pathlib import Path

import pandas as pd

HEADING = "## From how many duplicates of its own a tracker gains by training"
CURVE = """
RR@10 / MRR on validation (60% to 80% of each history), trained on the latest labelled queries before it, beside the
default ranker that was trained on the other three; means of {draws} trainings up to 300 queries
(`python benchmarks/report_ranker_curve.py` with `FOLDER/reports.csv` of each tracker, two x86-64
cores, {date}):

![RR@10 by the number of own queries]({figure})

| tracker | own queries | default alone | own queries alone | with the default's score as features |
|---|---|---|---|---|
{rows}
"""


def write_figures(card: Path, text: str) -> None:
    """Writes the card; what it says about own queries stays."""
    rest = card.read_text(encoding="utf-8").partition(HEADING)[2] if card.is_file() else ""
    card.write_text(text + (f"\n{HEADING}\n\n{rest.lstrip()}" if rest else ""), encoding="utf-8")


def write_curve(card: Path, table: pd.DataFrame, figure: str, date: str) -> None:
    """Writes what the card says about own queries; the rest stays.

    Args:
        card: The card.
        table: ``tracker``, ``method`` (default, own or stacked), ``queries``, ``draw``, ``rr@10`` and ``mrr``.
        figure: The figure's path, as seen from the card.
        date: Of the measurement.
    """
    means = table.groupby(["tracker", "method", "queries"])[["rr@10", "mrr"]].mean()
    cells = {key: f"{one['rr@10']:.3f} / {one['mrr']:.3f}" for key, one in means.iterrows()}
    sizes = table.loc[table["method"] == "own", ["tracker", "queries"]].drop_duplicates()
    rows = []
    for name, size in sizes.itertuples(index=False):
        found = [cells[name, "default", 0], cells[name, "own", size], cells[name, "stacked", size]]
        rows.append(f"| {name} | {size:,} | {' | '.join(found)} |")
    draws = table["draw"].max() + 1
    text = CURVE.format(draws=draws, date=date, figure=figure, rows="\n".join(rows))
    start = card.read_text(encoding="utf-8").partition(HEADING)[0]
    card.write_text(f"{start}{HEADING}\n{text}", encoding="utf-8")
