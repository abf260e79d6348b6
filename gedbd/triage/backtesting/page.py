"""The page of a backtest."""

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from gedbd.evaluation.report.page import markdown, show
from gedbd.evaluation.report.section import Section
from gedbd.triage.backtesting.backtest import Backtest
from gedbd.triage.backtesting.figures import STEPS, precision_and_coverage, reliability_diagram
from gedbd.triage.backtesting.targets import MET, met_targets
from gedbd.triage.training import TriageModel

FEW_DUPLICATES = 50
TARGETS_TEXT = (
    "For each precision target, the share of suggestions that one may want to be right, the validation part gives a"
    " threshold: the lowest one down to which a lower confidence bound of the precision reaches the target. The other"
    " columns are measured on the newest reports, which had no part in choosing. Brackets hold 95% intervals. A target"
    " is met if the whole interval lies at it or above, missed if it lies below, inconclusive otherwise. Only an index"
    " whose target was met suggests anything unasked."
)
COVERAGE_TEXT = (
    "What suggesting the best match from each probability on would have given. Coverage is the share of all duplicates"
    " that get the right suggestion, the suggestion rate the share of all reports that get any. Brackets hold 95%"
    " intervals."
)
HUBS_TEXT = (
    "Groups that are the best match of several reports and seldom the right one: templates that were hardly filled in,"
    " vague titles. If their probabilities are high, cleaning (text=fields text.cleaning.boilerplate=mark) may help."
)
EXAMPLES_TEXT = (
    "The most probable right and wrong suggestions in one list. Look at the wrong ones before you trust the precision"
    " above: some may be duplicates that nobody has marked, and then the true precision is higher."
)


def sections(backtest: Backtest) -> list[Section]:
    """What the page shows."""
    tables, chosen = backtest.tables, backtest.matching.target.threshold
    thresholds = tables["thresholds"]
    steps = thresholds["threshold"].isin(STEPS) | (thresholds["threshold"] == chosen)
    shown = thresholds[steps & (thresholds["suggestions"] > 0)]
    curve = precision_and_coverage(thresholds, chosen)
    diagram = reliability_diagram(tables["reliability"])
    calibration = (
        f"The expected calibration error on test is {backtest.calibration_error:.3f}: the average distance between the"
        " stated probability and the share that is right."
    )
    looked = f"{EXAMPLES_TEXT} {same_titles(tables['wrong'])}".rstrip()
    return [
        Section("Which precision targets are met?", TARGETS_TEXT, [readable(tables["targets"])]),
        Section(
            "Precision and coverage",
            COVERAGE_TEXT,
            [shown],
            [("precision_and_coverage", "Precision and coverage at every threshold", curve)],
        ),
        Section(
            "Does a probability mean what it says?",
            calibration,
            [tables["reliability"]],
            [("reliability", "Stated and true probability", diagram)],
        ),
        Section("Reports that match everything", HUBS_TEXT, [tables["hubs"]]),
        Section("Right and wrong suggestions", looked, [side_by_side(tables["right"], tables["wrong"])]),
    ]


def side_by_side(right: pd.DataFrame, wrong: pd.DataFrame) -> pd.DataFrame:
    """Right and wrong suggestions in one table, the most probable first; ``verdict`` tells them apart."""
    both = pd.concat([right.assign(verdict="right"), wrong.assign(verdict="wrong")])
    both = both.sort_values("probability", ascending=False, kind="stable")
    return both[["verdict", *(name for name in both.columns if name != "verdict")]].reset_index(drop=True)


def same_titles(wrong: pd.DataFrame) -> str:
    """How many suggestions that count as wrong may be duplicates that nobody has marked; empty if none is wrong."""
    if wrong.empty:
        return ""
    same = wrong["title of report"].str.strip().str.lower() == wrong["title of suggested"].str.strip().str.lower()
    return f"Of the {len(wrong)} wrong ones, {same.sum()} have the same title as the report that was suggested."


def next_step(matching: TriageModel, folder: str) -> tuple[str, str]:
    """What to do with the result: a sentence and a command, which reads the run folder."""
    command = f"python -m gedbd.index run={folder} out=my-index"
    if matching.target.verdict == MET:
        return "Store the tracker; the webhook of gedbd.serve then suggests duplicates unasked:", command
    return f"{met_targets(matching.targets)} Store the tracker for searching; nothing is suggested unasked:", command


def summary(backtest: Backtest) -> str:
    """The result in a few sentences."""
    val, test, target = backtest.val, backtest.test, backtest.matching.target
    said = (
        ""
        if val.duplicates >= FEW_DUPLICATES
        else f"The thresholds rest on {val.duplicates} duplicates only, so all numbers are uncertain. "
    )
    said += (
        f"{len(test.best):,} reports were replayed in the order in which they came, {test.duplicates:,} of them"
        f" duplicates of an earlier one; the best match was right for {test.best['right'].sum():,} of these."
    )
    if target.threshold is not None:
        said += f" For a target of {target.target_precision:.0%}, the {len(val.best):,} reports before give the"
        said += f" threshold {target.threshold:.3f}."
    return f"{said} {target.statement}"


def readable(targets: pd.DataFrame) -> pd.DataFrame:
    """``targets_table`` in few columns of text."""
    rows = []
    for row in targets.to_dict("records"):
        cells = {"target": f"{row['target']:.0%}", "threshold": "none"}
        if not pd.isna(row["threshold"]):
            interval = f"{row['precision']:.0%} [{row['precision_low']:.0%}, {row['precision_high']:.0%}]"
            cells |= {
                "threshold": f"{row['threshold']:.3f}",
                "right on validation": f"{row['validation_precision']:.0%} of {row['validation_suggestions']:,}",
                "right on test": f"{interval} of {row['suggestions']:,}" if row["suggestions"] else "no suggestion",
                "coverage": f"{row['coverage']:.1%}",
                "suggestion rate": f"{row['suggestion_rate']:.1%}",
            }
        rows.append(cells | {"verdict": row["verdict"]})
    columns = max(rows, key=len).keys()
    return pd.DataFrame(rows, columns=list(columns)).fillna("")


def print_targets(console: Console, targets: pd.DataFrame) -> None:
    """The first table on screen."""
    title = "Suggestions on the newest reports"
    printed = Table(title=title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False, collapse_padding=True)
    table = readable(targets)
    for name in table.columns:
        printed.add_column(name, justify="right", no_wrap=" " not in name)
    for row in table.itertuples(index=False):
        printed.add_row(*row)
    console.print(printed)


def targets_markdown(name: str, backtest: Backtest) -> str:
    """The first table in Markdown, with the corpus and its numbers at the head of the first column."""
    test = backtest.test
    what = f"{name}: newest {len(test.best):,} reports, {test.duplicates:,} duplicates"
    table = readable(backtest.tables["targets"]).rename(columns={"target": f"{what}; target"})
    return "\n".join(markdown(show(table)))


def fill_targets(text: str, name: str, table: str) -> str:
    """Puts a table into Markdown, between ``<!-- backtest: NAME -->`` and ``<!-- end -->``.

    Raises:
        ValueError: If the text has no such place.
    """
    start, end = f"<!-- backtest: {name} -->", "<!-- end -->"
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"there is no {start} ... {end} in the file to fill")
    return f"{before}{start}\n{table}\n{end}{after}"
