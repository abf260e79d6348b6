"""The page of a backtest."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from gedbd.evaluation.figures import DUPLICATE, GREY, MARGINS, OTHER, SIZE
from gedbd.evaluation.report.section import Section
from gedbd.matching.backtest import GRID, Suggestions
from gedbd.matching.learn import Matching

ENOUGH = 50
KEPT = (
    "For each share of right suggestions that one may want, validation recommends the lowest threshold with at least"
    " ten suggestions that reaches it; without a threshold none does. The other columns are what came of it on the"
    " newest reports, which had no part in choosing."
)
COVERED = (
    "What comes of suggesting the best match from a probability on. Coverage is the share of all duplicates that get"
    " the right suggestion, bothered the share of all reports that get any. Brackets hold 95% intervals."
)
MAGNETS = (
    "Groups that are the best match of several reports and seldom the right one: templates that were hardly filled in,"
    " vague titles. If their probabilities are high, cleaning (text=fields text.cleaning.boilerplate=mark) may help."
)
WRONG = (
    "Look at them before you trust the precision above: some may be duplicates that nobody has marked, and then the"
    " true precision is higher."
)
STEPS = np.round(np.arange(0.1, 1.0, 0.1), 2)


def sections(tables: Mapping[str, pd.DataFrame], matching: Matching, error: float) -> list[Section]:
    """What the page shows.

    Args:
        tables: ``promises``, ``thresholds``, ``reliability``, ``magnets`` and ``wrong``, see ``backtest``.
        matching: What was learnt.
        error: Expected calibration error on test.
    """
    thresholds = tables["thresholds"]
    steps = thresholds["threshold"].isin(STEPS) | (thresholds["threshold"] == matching.threshold)
    shown = thresholds[steps & (thresholds["suggestions"] > 0)]
    curve = (
        "precision_and_coverage",
        "Precision and coverage at every threshold",
        precision_and_coverage(thresholds, matching),
    )
    diagram = ("reliability", "Said and true probability", reliability_diagram(tables["reliability"]))
    measured = (
        f"The expected calibration error on test is {error:.3f}: so far, on average, lies what is said from the share"
        " that is right."
    )
    return [
        Section("Is the promise kept?", KEPT, [readable(tables["promises"])]),
        Section("Precision and coverage", COVERED, [shown], [curve]),
        Section("Does a probability mean what it says?", measured, [tables["reliability"]], [diagram]),
        Section("Reports that match everything", MAGNETS, [tables["magnets"]]),
        Section("The surest wrong suggestions", f"{WRONG} {same_titles(tables['wrong'])}", [tables["wrong"]]),
    ]


def same_titles(wrong: pd.DataFrame) -> str:
    """How many suggestions that count as wrong are hardly that."""
    same = wrong["title of report"].str.strip().str.lower() == wrong["title of suggested"].str.strip().str.lower()
    return f"Of these {len(wrong)}, {same.sum()} have the very title of the report that was suggested."


def summary(val: Suggestions, test: Suggestions, at: pd.Series | None, matching: Matching) -> str:
    """The result in a few sentences; ``at`` is test's row at the recommended threshold."""
    said = (
        ""
        if val.duplicates >= ENOUGH
        else f"Only {val.duplicates} duplicates to choose by: take no number at its word. "
    )
    said += (
        f"{len(test.best):,} reports were replayed in the order in which they came, {test.duplicates:,} of them"
        f" duplicates of an earlier one; the best match was right for {test.best['right'].sum():,} of these."
    )
    if matching.threshold is None or at is None:
        return (
            f"{said} At no threshold were {matching.precision:.0%} of the suggestions right on the validation part:"
            " gedbd advises against suggesting anything unasked. Searching by hand is another matter."
        )
    said += f" To be right in {matching.precision:.0%} of its suggestions, gedbd recommends the threshold"
    said += f" {matching.threshold:.3f}, chosen on the {len(val.best):,} reports before."
    if not at["suggestions"]:
        return f"{said} On test there was no suggestion at all."
    interval = f"[{at['precision_low']:.0%}, {at['precision_high']:.0%}]"
    return (
        f"{said} It then makes {at['suggestions']:,.0f} suggestions ({at['bothered']:.1%} of the reports),"
        f" {at['right']:,.0f} of them right: {at['precision']:.0%} {interval}."
        f" They cover {at['coverage']:.0%} of the duplicates."
    )


def precision_and_coverage(thresholds: pd.DataFrame, matching: Matching) -> Figure:
    """Both curves with their intervals."""
    figure = Figure(figsize=SIZE)
    axis = figure.subplots(gridspec_kw=MARGINS)
    table = thresholds[thresholds["threshold"].isin(GRID)]
    for name, colour in (("precision", DUPLICATE), ("coverage", OTHER)):
        axis.plot(table["threshold"], table[name], color=colour, label=name)
        axis.fill_between(table["threshold"], table[f"{name}_low"], table[f"{name}_high"], color=colour, alpha=0.15)
    axis.plot(
        table["threshold"], table["bothered"], color=GREY, linestyle=":", label="share of reports with a suggestion"
    )
    if matching.threshold is not None:
        axis.axvline(matching.threshold, color="black", linestyle="--", linewidth=1, label="recommended")
    axis.set(title="Suggesting the best match", xlabel="from probability", xlim=(0, 1), ylim=(0, 1.02))
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)
    return figure


def reliability_diagram(table: pd.DataFrame) -> Figure:
    """Said against true probability; points are as large as the logarithm of the reports behind them."""
    figure = Figure(figsize=SIZE)
    axis = figure.subplots(gridspec_kw=MARGINS)
    axis.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    axis.plot(table["said"], table["right"], color=DUPLICATE, linewidth=1)
    axis.scatter(table["said"], table["right"], s=20 * (1 + np.log(table["reports"])), color=DUPLICATE)
    for _, row in table.iterrows():
        axis.annotate(
            f"{row['reports']:,.0f}", (row["said"], row["right"]), xytext=(7, -11), textcoords="offset points"
        )
    axis.set(title="Calibration on test", xlabel="probability said", ylabel="share right", xlim=(0, 1), ylim=(0, 1.02))
    axis.grid(alpha=0.25)
    return figure


def readable(promises: pd.DataFrame) -> pd.DataFrame:
    """The first table in few columns of text."""
    rows = []
    for row in promises.to_dict("records"):
        cells = {"wanted": f"{row['wanted']:.0%}", "threshold": "none reaches it"}
        if not np.isnan(row["threshold"]):
            interval = f"{row['precision']:.0%} [{row['precision_low']:.0%}, {row['precision_high']:.0%}]"
            cells |= {
                "threshold": f"{row['threshold']:.3f}",
                "right on validation": f"{row['validation precision']:.0%} of {row['validation suggestions']:,}",
                "right on test": f"{interval} of {row['suggestions']:,}" if row["suggestions"] else "no suggestion",
                "duplicates covered": f"{row['coverage']:.1%}",
                "reports bothered": f"{row['bothered']:.1%}",
                "kept": str(row["kept"]),
            }
        rows.append(cells)
    return pd.DataFrame(rows).fillna("")


def print_promises(console: Console, promises: pd.DataFrame) -> None:
    """The first table on screen."""
    printed = Table(title="Suggestions on the newest reports", box=SIMPLE_HEAD, title_justify="left")
    table = readable(promises)
    for name in table.columns:
        printed.add_column(name, justify="right")
    for row in table.itertuples(index=False):
        printed.add_row(*row)
    console.print(printed)
