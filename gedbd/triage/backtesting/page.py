"""The report of a backtest: a page, a table on the console, and a table in Markdown."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from gedbd.evaluation.report.judging import PAIR, VERDICT, VERDICT_TEXTS, Verdict
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
SAME_TITLE_TEXT = (
    "Best matches that have the very title of the report, but that nobody marked as duplicates. The precision as marked"
    " counts them as wrong; at each threshold, the first table has the precision without them beside it. Some are"
    " duplicates that nobody marked, others have the title of a template."
)
EXAMPLES_TEXT = (
    "The most probable right and wrong suggestions in one list. Look at the wrong ones before you trust the precision"
    " above: some may be duplicates that are not marked as such, and then the true precision is higher. Say in the"
    " column verdict which are duplicates, of right ones too: if only wrong ones get a verdict, the precision can only"
    " rise. Then download judgements.csv (at the end of the page), put it into the folder of this page and run"
    " {command}: the first table gets the precision with verdicts beside the one as marked. Without JavaScript, write"
    " accept or reject into the column verdict of to_judge.csv in that folder, and run the same command."
)
VERDICTS_TEXT = (
    "With verdicts, a suggestion that has one is right if it was accepted; all others count as marked. Intervals are"
    " over duplicate groups, which accepted pairs join. Whether a target is met goes by the precision as marked."
)
# Columns that the page has and a terminal has no place for, without and with verdicts.
NOT_PRINTED = ("same title, not marked", "right without those")
NOT_PRINTED_WITH_VERDICTS = (*NOT_PRINTED, "right on validation", "suggestion rate")


def sections(
    backtest: Backtest,
    max_examples: int,
    command: str,
    verdicts: Sequence[Verdict] = (),
    texts: Sequence[str] = (),
) -> list[Section]:
    """The sections of the page.

    Args:
        backtest: What was measured.
        max_examples: Number of pairs with the same title that are listed at most.
        command: The command that reads verdicts.
        verdicts: What people said of the suggestions.
        texts: Sentences about these.
    """
    tables = backtest.tables
    calibration = (
        f"The expected calibration error on test is {backtest.calibration_error:.3f}: the average distance between the"
        " predicted probability and the share of right matches."
    )
    diagram = reliability_diagram(tables["reliability"])
    examples = side_by_side(tables["right"], tables["wrong"])
    with_people = (
        [Section("With verdicts", " ".join([VERDICTS_TEXT, *texts]), [readable_verdicts(tables["verdicts"])])]
        if verdicts
        else []
    )
    return [
        Section("Which precision targets are met?", TARGETS_TEXT, [readable(tables["targets"])]),
        *with_people,
        coverage_section(backtest),
        Section(
            "Are the probabilities calibrated?",
            calibration,
            [tables["reliability"]],
            [("reliability", "Predicted and observed probability", diagram)],
        ),
        Section("Hubs", HUBS_TEXT, [tables["hubs"]]),
        same_title_section(backtest, max_examples, verdicts),
        Section(
            "Right and wrong suggestions",
            EXAMPLES_TEXT.format(command=command),
            [with_verdicts(examples, verdicts)],
            asks_verdicts=True,
        ),
    ]


def coverage_section(backtest: Backtest) -> Section:
    """Precision and coverage at some thresholds, with a figure of all."""
    chosen = backtest.matching.target.threshold
    thresholds = backtest.tables["thresholds"]
    shown = some_thresholds(thresholds, chosen)
    curve = precision_and_coverage(thresholds, chosen)
    figures = [("precision_and_coverage", "Precision and coverage at every threshold", curve)]
    return Section("Precision and coverage", COVERAGE_TEXT, [shown], figures)


def some_thresholds(thresholds: pd.DataFrame, chosen: float | None) -> pd.DataFrame:
    """The rows of ``at_thresholds`` with suggestions, at 0.1, 0.2, ... and the chosen threshold."""
    steps = thresholds["threshold"].isin(STEPS) | (thresholds["threshold"] == chosen)
    return thresholds[steps & (thresholds["suggestions"] > 0)].reset_index(drop=True)


def same_title_section(backtest: Backtest, max_examples: int, verdicts: Sequence[Verdict]) -> Section:
    """The unmarked pairs with the same title, whose title is shown once."""
    same = backtest.tables["same_title"]
    shown = same.head(max_examples).drop(columns="title of suggested").rename(columns={"title of report": "title"})
    text = f"{SAME_TITLE_TEXT} {same_title_sentence(backtest)}".rstrip()
    return Section("Same title, not marked", text, [with_verdicts(shown, verdicts)], asks_verdicts=True)


def same_title_sentence(backtest: Backtest) -> str:
    """How many best matches and suggestions these are; empty if there are none."""
    count = len(backtest.tables["same_title"])
    if not count:
        return ""
    unmarked = (~backtest.test.best["right"]).sum()
    sentence = (
        f"Of the {unmarked:,} best matches that are not marked as duplicates, {count:,} have the report's own title"
    )
    target = backtest.matching.target
    if target.threshold is None:
        return f"{sentence}."
    same = int((backtest.tables["same_title"]["probability"] >= target.threshold).sum())
    return f"{sentence}; of the {target.suggestions - target.right:,} wrong suggestions, {same:,} have."


def with_verdicts(table: pd.DataFrame, verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """A table of pairs with the verdict on each in its first column, empty without one."""
    texts = {(one.report, one.suggested): VERDICT_TEXTS[one.verdict] for one in verdicts}
    shown = table.copy()
    pairs = zip(*(table[name] for name in PAIR), strict=True)
    shown.insert(0, VERDICT, [texts.get(pair, "") for pair in pairs])
    return shown


def side_by_side(right: pd.DataFrame, wrong: pd.DataFrame) -> pd.DataFrame:
    """Right and wrong suggestions in one table, the most probable first; ``suggestion`` is "right" or "wrong"."""
    both = pd.concat([right.assign(suggestion="right"), wrong.assign(suggestion="wrong")])
    both = both.sort_values("probability", ascending=False, kind="stable").reset_index(drop=True)
    both.insert(0, "suggestion", both.pop("suggestion"))
    return both


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
            cells |= {
                "threshold": f"{row['threshold']:.3f}",
                "right on validation": f"{row['validation_precision']:.0%} of {row['validation_suggestions']:,}",
                "right on test": precision_text(row, "precision", row["suggestions"]),
            }
            if "same_title" in row:
                rest = row["suggestions"] - row["same_title"]
                cells["same title, not marked"] = f"{row['same_title']:,}"
                cells["right without those"] = precision_text(row, "precision_without_same_title", rest)
            if "judgements" in row:
                cells["verdicts"] = f"{row['judgements']:,}"
                cells["right with verdicts"] = precision_text(row, "precision_with_judgements", row["suggestions"])
            cells |= {"coverage": f"{row['coverage']:.1%}", "suggestion rate": f"{row['suggestion_rate']:.1%}"}
        rows.append(cells | {"status": row["status"]})
    columns = max(rows, key=len).keys()  # a target without a threshold has fewer cells
    return pd.DataFrame(rows, columns=list(columns)).fillna("")


def precision_text(row: Mapping[Hashable, Any], name: str, count: int) -> str:
    """``78% [46%, 96%] of 18``."""
    if not count:
        return "no suggestion"
    return f"{row[name]:.0%} [{row[f'{name}_low']:.0%}, {row[f'{name}_high']:.0%}] of {count:,}"


def readable_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """The precision as marked and with verdicts, from ``with_judgements`` at some thresholds, in columns of text."""
    rows = [
        {
            "from probability": f"{row['threshold']:.3f}",
            "right as marked": precision_text(row, "precision", row["suggestions"]),
            "verdicts": f"{row['judgements']:,}",
            "of them on marked duplicates": f"{row['judgements_marked']:,}",
            "right with verdicts": precision_text(row, "precision_with_judgements", row["suggestions"]),
        }
        for row in table.to_dict("records")
    ]
    return pd.DataFrame(rows)


def print_targets(console: Console, targets: pd.DataFrame) -> None:
    """Prints the table of targets."""
    left_out = NOT_PRINTED_WITH_VERDICTS if "judgements" in targets else NOT_PRINTED
    table = readable(targets).drop(columns=list(left_out), errors="ignore")
    print_table(console, "Suggestions on the newest reports", table)


def print_table(console: Console, title: str, table: pd.DataFrame) -> None:
    """Prints a table of texts."""
    printed = Table(title=title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False, collapse_padding=True)
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
