"""The report of a backtest: a page, a table on the console, and a table in Markdown."""

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from gedbd.evaluation.report.page import markdown, show
from gedbd.evaluation.report.section import Section
from gedbd.triage.backtesting.backtest import Backtest
from gedbd.triage.backtesting.figures import STEPS, precision_and_coverage, reliability_diagram
from gedbd.triage.backtesting.targets import MET, met_targets
from gedbd.triage.triage_model import TriageModel

FEW_DUPLICATES = 50
TARGETS_TEXT = (
    "A precision target is the desired share of right suggestions. For each target the validation part gives a"
    " threshold: the lowest one at which a lower confidence bound of the precision reaches the target. The other"
    " columns are measured on the newest reports, which were not used to choose it. Brackets hold 95% intervals. A"
    " target is met if the whole interval is at or above it, missed if it is below, inconclusive otherwise. An index"
    " makes suggestions unasked only if its target was met."
)
COVERAGE_TEXT = (
    "Results of suggesting the best match from each probability. Coverage is the share of all duplicates that get the"
    " right suggestion, the suggestion rate the share of all reports that get any. Brackets hold 95% intervals."
)
HUBS_TEXT = (
    "Hubs: groups that are the best match of several reports but rarely the right one, such as empty templates and"
    " vague titles. If their probabilities are high, cleaning (text=fields text.cleaning.boilerplate=mark) may help."
)
EXAMPLES_TEXT = (
    "The most probable right and wrong suggestions in one list. Look at the wrong ones before you trust the precision"
    " above: some may be duplicates that are not marked as such, and then the true precision is higher."
)


def sections(backtest: Backtest) -> list[Section]:
    """The sections of the page."""
    tables = backtest.tables
    chosen = backtest.matching.target.threshold
    thresholds = tables["thresholds"]
    steps = thresholds["threshold"].isin(STEPS) | (thresholds["threshold"] == chosen)
    shown = thresholds[steps & (thresholds["suggestions"] > 0)]
    curve = precision_and_coverage(thresholds, chosen)
    diagram = reliability_diagram(tables["reliability"])
    calibration = (
        f"The expected calibration error on test is {backtest.calibration_error:.3f}: the average distance between the"
        " predicted probability and the share of right matches."
    )
    examples = f"{EXAMPLES_TEXT} {same_titles(tables['wrong'])}".rstrip()
    return [
        Section("Which precision targets are met?", TARGETS_TEXT, [readable(tables["targets"])]),
        Section(
            "Precision and coverage",
            COVERAGE_TEXT,
            [shown],
            [("precision_and_coverage", "Precision and coverage at every threshold", curve)],
        ),
        Section(
            "Are the probabilities calibrated?",
            calibration,
            [tables["reliability"]],
            [("reliability", "Predicted and observed probability", diagram)],
        ),
        Section("Hubs", HUBS_TEXT, [tables["hubs"]]),
        Section("Right and wrong suggestions", examples, [side_by_side(tables["right"], tables["wrong"])]),
    ]


def side_by_side(right: pd.DataFrame, wrong: pd.DataFrame) -> pd.DataFrame:
    """Right and wrong suggestions in one table, the most probable first; ``suggestion`` is "right" or "wrong"."""
    both = pd.concat([right.assign(suggestion="right"), wrong.assign(suggestion="wrong")])
    both = both.sort_values("probability", ascending=False, kind="stable").reset_index(drop=True)
    both.insert(0, "suggestion", both.pop("suggestion"))
    return both


def same_titles(wrong: pd.DataFrame) -> str:
    """How many wrong suggestions may be unmarked duplicates, in a sentence; empty if none is wrong."""
    if wrong.empty:
        return ""
    same = wrong["title of report"].str.strip().str.lower() == wrong["title of suggested"].str.strip().str.lower()
    return f"Of the {len(wrong)} wrong ones, {same.sum()} have the same title as the report that was suggested."


def next_step(matching: TriageModel, folder: str) -> tuple[str, str]:
    """The next step for the user: a sentence and a command, which reads the run folder."""
    command = f"python -m gedbd.index run={folder} out=my-index"
    if matching.target.status == MET:
        return "Build an index; the webhook of gedbd.serve then suggests duplicates unasked:", command
    return f"{met_targets(matching.targets)} Build an index to search; nothing is suggested unasked:", command


def summary(backtest: Backtest) -> str:
    """The result in a few sentences."""
    val = backtest.val
    test = backtest.test
    target = backtest.matching.target
    sentences = []
    if val.duplicates < FEW_DUPLICATES:
        sentences.append(f"The thresholds are based on only {val.duplicates} duplicates, so all numbers are uncertain.")
    sentences.append(
        f"{len(test.best):,} reports were replayed in chronological order, {test.duplicates:,} of them duplicates of an"
        f" earlier one; the best match was right for {test.best['right'].sum():,} of these."
    )
    if target.threshold is not None:
        sentences.append(
            f"For a target of {target.target_precision:.0%}, the {len(val.best):,} reports before them give the"
            f" threshold {target.threshold:.3f}."
        )
    return " ".join([*sentences, target.statement])


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
        rows.append(cells | {"status": row["status"]})
    columns = max(rows, key=len).keys()  # a target without a threshold has fewer cells
    return pd.DataFrame(rows, columns=list(columns)).fillna("")


def print_targets(console: Console, targets: pd.DataFrame) -> None:
    """Prints the table of targets."""
    title = "Suggestions on the newest reports"
    printed = Table(title=title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False, collapse_padding=True)
    table = readable(targets)
    for name in table.columns:
        printed.add_column(name, justify="right", no_wrap=" " not in name)
    for row in table.itertuples(index=False):
        printed.add_row(*row)
    console.print(printed)


def targets_markdown(name: str, backtest: Backtest) -> str:
    """The table of targets in Markdown; the heading of its first column names the corpus and its numbers."""
    test = backtest.test
    what = f"{name}: newest {len(test.best):,} reports, {test.duplicates:,} duplicates"
    table = readable(backtest.tables["targets"]).rename(columns={"target": f"{what}; target"})
    return "\n".join(markdown(show(table)))


def fill_targets(text: str, name: str, table: str) -> str:
    """Puts a table into Markdown, between ``<!-- backtest: NAME -->`` and ``<!-- end -->``.

    Raises:
        ValueError: If the text has no such comments.
    """
    start, end = f"<!-- backtest: {name} -->", "<!-- end -->"
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"there is no {start} ... {end} in the file to fill")
    return f"{before}{start}\n{table}\n{end}{after}"
