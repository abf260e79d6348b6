"""The results of a backtest in words, and as tables on the page, on the console and in Markdown."""

import shlex
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console

from gedbd.evaluation.figures import DUPLICATE, GREY, OTHER, draw_band, finish_figure, start_figure
from gedbd.evaluation.result_tables import right_and_wrong
from gedbd.evaluation.thresholds import MET, TOO_FEW, met_targets
from gedbd.experiments.report.judging import PAIR, VERDICT, VERDICT_TEXTS, Verdict
from gedbd.experiments.report.report_page import Section, markdown, show
from gedbd.io.command_output import print_table
from gedbd.triage.backtesting.history_replay import MIN_RIGHT, SAME_TITLE
from gedbd.triage.backtesting.measured_suggestions import GRID, Backtest
from gedbd.triage.triage_model import TriageModel

LISTED_THRESHOLDS = np.round(np.arange(0.1, 1.0, 0.1), 2)
TARGETS_TEXT = (
    "A precision target is the desired share of right suggestions. For each target, the threshold is the lowest one at"
    " which a lower confidence bound of the precision on the validation split reaches the target. The other columns are"
    " measured on the newest reports, which were not used to choose it. Brackets hold 95% intervals. A target is met if"
    " the whole interval is at or above it, missed if the whole interval is below it, and inconclusive otherwise. An"
    " index makes automatic suggestions only if its target was met."
)
LISTS_TEXT = (
    "The same for lists of the three best matches: a list is right if one of the three is, and the threshold applies to"
    " the sum of their probabilities. Comments on GitHub name such lists with webhook.lists=true."
)
SEARCH_TEXT = (
    "The share of the duplicates among the newest reports for which a search would have listed the right match among"
    " the first results. Brackets hold 95% intervals."
)
COVERAGE_TEXT = (
    "Results of suggesting the best match if its probability reaches the threshold. Coverage is the share of all"
    " duplicates that get the right suggestion; the suggestion rate is the share of all reports that get any. Brackets"
    " hold 95% intervals."
)
CALIBRATION_TEXT = (
    "The expected calibration error on test is {error:.3f}: the average difference between the predicted probability"
    " and the share of right matches. The average precision measures how well probabilities separate right from wrong"
    " best matches: 1 if all right ones come first. The second table and the figure exclude unknown matches."
)
HUBS_TEXT = (
    "Hubs: groups that are the best match of several reports but rarely the right one, such as empty templates and"
    " vague titles. If their probabilities are high, run gedbd backtest with text=fields"
    " text.cleaning.boilerplate=mark, which cleans the texts, and compare the two pages."
)
UNKNOWN_TEXT = (
    "Best matches that are not marked as duplicates but may well be: the report has exactly the same title as its"
    " match, or it was closed as a duplicate and the export does not say of which report. Probabilities are learnt"
    " without them, and they count neither as right nor as wrong; the first table also shows the precision as marked,"
    " which counts them as wrong."
)
EXAMPLES_TEXT = (
    "The most probable right and wrong suggestions in one list. Look at the wrong ones before you trust the precision"
    " above: some may be duplicates that nobody marked, and then the true precision is higher. In the column"
    " verdict, say which are duplicates, for the right ones too: if only wrong ones get a verdict, the precision can"
    " only rise. Then download judgements.csv (at the end of the page), put it into the folder of this page and run"
    " {command}: the first table then shows the precision with verdicts next to the one as marked. Without JavaScript,"
    " write accept, reject or unclear in the column verdict of to_judge.csv in that folder and run the same command."
)
VERDICTS_TEXT = (
    "A suggestion with a verdict is right if it was accepted; all others count as marked, unknown ones not at all."
    " Intervals are bootstrapped over duplicate groups, which accepted pairs merge. Whether a target is met is decided"
    " without verdicts."
)
FEW_DUPLICATES = 50
DEFAULT_TEXT = (
    f"Fewer than {MIN_RIGHT} best matches of the older reports are right, which is too few to learn probabilities from."
    " So those shipped with gedbd are used: learnt from other trackers, and shifted to this tracker's share of"
    " duplicates."
)
# Columns of the page that do not fit a terminal, without and with verdicts.
NOT_PRINTED = ("unknown", "right as marked")
NOT_PRINTED_WITH_VERDICTS = (*NOT_PRINTED, "threshold", "right on validation", "coverage", "suggestion rate")


def next_step(matching: TriageModel, folder: str) -> tuple[str, str]:
    """The next step for the user: a sentence and a command, which reads the run folder."""
    command = shlex.join(["gedbd", "index", f"run={folder}", "out=my-index"])
    if matching.target.status == MET:
        return "Build an index; the webhook of gedbd serve then suggests duplicates automatically:", command
    return "Build an index to search; nothing is suggested automatically:", command


def summary(backtest: Backtest) -> str:
    """The result in a few sentences."""
    val = backtest.val
    test = backtest.test
    target = backtest.matching.target
    sentences = []
    if val.duplicates < FEW_DUPLICATES:
        sentences.append(f"The validation split has only {val.duplicates} duplicates, so all figures are uncertain.")
    if backtest.matching.has_default_confidence:
        sentences.append(DEFAULT_TEXT)
    sentences.append(
        f"{len(test.best):,} reports were replayed in chronological order, {test.duplicates:,} of them duplicates of an"
        f" earlier one. {search_sentence(backtest.tables['search'])}"
    )
    if target.threshold is not None:
        sentences.append(
            f"For a target of {target.target_precision:.0%}, the threshold is {target.threshold:.3f}, chosen on the"
            f" {len(val.best):,} reports before them."
        )
    met = met_targets(backtest.matching.targets, backtest.matching.list_targets)
    return " ".join([*sentences, target.statement, met])


def search_sentence(search: pd.DataFrame) -> str:
    """The shares of ``search_table`` for one and ten matches, in a sentence; empty without duplicates."""
    rows = {row["first"]: row for row in search.to_dict("records") if row["duplicates"]}
    if not rows:
        return ""
    first, ten = (f"{rows[k]['found']:,} ({interval_text(rows[k], 'share')})" for k in (1, 10))
    return f"The best match was right for {first} of them, and one of the first ten matches for {ten}."


def readable_search(search: pd.DataFrame) -> pd.DataFrame:
    """``search_table`` as text."""
    rows = [
        {
            "matches looked at": f"first {row['first']}" if row["first"] > 1 else "the first",
            "right one among them": f"{interval_text(row, 'share')} of {row['duplicates']:,} duplicates",
        }
        for row in search.to_dict("records")
        if row["duplicates"]
    ]
    return pd.DataFrame(rows)


def readable(targets: pd.DataFrame) -> pd.DataFrame:
    """``targets_table`` as text."""
    rows = []
    for row in targets.to_dict("records"):
        cells = {"target": f"{row['target']:.0%}", "threshold": "none"}
        if not pd.isna(row["threshold"]):
            cells |= {
                "threshold": f"{row['threshold']:.3f}",
                "right on validation": f"{row['validation_precision']:.0%} of {row['validation_suggestions']:,}",
                "right on test": precision_text(row, "precision", row["suggestions"]),
            }
            total = row["suggestions"] + row["unknown"]
            cells["unknown"] = f"{row['unknown']:,}"
            cells["right as marked"] = precision_text(row, "precision_as_marked", total)
            if "judgements" in row:
                count = row["suggestions_with_judgements"]
                cells["verdicts"] = f"{row['judgements']:,}"
                cells["right with verdicts"] = precision_text(row, "precision_with_judgements", count)
            cells |= {"coverage": f"{row['coverage']:.1%}", "suggestion rate": f"{row['suggestion_rate']:.1%}"}
        status = str(row["status"])
        if status == TOO_FEW:
            status += f": {row['validation_duplicates']:,}, at least {row['duplicates_needed']:,} needed"
        rows.append(cells | {"status": status})
    columns = max(rows, key=len).keys()  # a target without a threshold has fewer cells
    return pd.DataFrame(rows, columns=list(columns)).fillna("")


def precision_text(row: Mapping[Hashable, Any], name: str, count: int) -> str:
    """A precision with its interval and count: ``78% [46%, 96%] of 18``."""
    if not count:
        return "no suggestion"
    return f"{interval_text(row, name)} of {count:,}"


def interval_text(row: Mapping[Hashable, Any], name: str) -> str:
    """A share with its interval: ``78% [46%, 96%]``."""
    return f"{row[name]:.0%} [{row[f'{name}_low']:.0%}, {row[f'{name}_high']:.0%}]"


def readable_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """The precision without and with verdicts, from ``with_judgements``, as text."""
    rows = [
        {
            "from probability": f"{row['threshold']:.3f}",
            "right without verdicts": precision_text(row, "precision", row["suggestions"]),
            "verdicts": f"{row['judgements']:,}",
            "of them on marked duplicates": f"{row['judgements_marked']:,}",
            "right with verdicts": precision_text(row, "precision_with_judgements", row["suggestions_with_judgements"]),
        }
        for row in table.to_dict("records")
    ]
    return pd.DataFrame(rows)


def print_targets(console: Console, targets: pd.DataFrame) -> None:
    """Prints the table of targets."""
    hidden = NOT_PRINTED_WITH_VERDICTS if "judgements" in targets else NOT_PRINTED
    table = readable(targets).drop(columns=list(hidden), errors="ignore")
    print_table(console, table, "Suggestions on the newest reports")


def targets_markdown(name: str, backtest: Backtest) -> str:
    """The table of targets in Markdown; the heading of its first column names the corpus and its sizes."""
    test = backtest.test
    heading = f"{name}: newest {len(test.best):,} reports, {test.duplicates:,} duplicates; target"
    table = readable(backtest.tables["targets"]).rename(columns={"target": heading})
    return "\n".join(markdown(show(table)))


def fill_targets(text: str, name: str, table: str) -> str:
    """Puts a table into Markdown, between ``<!-- backtest: NAME -->`` and ``<!-- end -->``.

    Raises:
        ValueError: If the text has no such comments.
    """
    start = f"<!-- backtest: {name} -->"
    end = "<!-- end -->"
    before, has_start, rest = text.partition(start)
    _, has_end, after = rest.partition(end)
    if not (has_start and has_end):
        raise ValueError(f"the file to fill has no {start} ... {end}")
    return f"{before}{start}\n{table}\n{end}{after}"


def precision_and_coverage(thresholds: pd.DataFrame, chosen: float | None) -> Figure:
    """Draws precision and coverage of ``at_thresholds`` with their intervals, and marks the chosen threshold."""
    figure, axis = start_figure()
    table = thresholds[thresholds["threshold"].isin(GRID)]  # without the chosen threshold
    for name, tone in (("precision", DUPLICATE), ("coverage", OTHER)):
        draw_band(axis, table["threshold"], table, name, color=tone, label=name)
    axis.plot(table["threshold"], table["suggestion_rate"], color=GREY, linestyle=":", label="suggestion rate")
    if chosen is not None:
        axis.axvline(chosen, color="black", linestyle="--", linewidth=1, label="chosen")
    axis.set(title="Suggesting the best match", xlabel="from probability", ylabel="share", xlim=(0, 1), ylim=(0, 1.02))
    return finish_figure(figure)


def reliability_diagram(table: pd.DataFrame) -> Figure:
    """Draws observed against predicted probability; points grow with the logarithm of their number of reports.

    scikit-learn's ``CalibrationDisplay`` draws points of one size, without the numbers of reports.
    """
    figure, axis = start_figure()
    axis.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    axis.plot(table["predicted"], table["right"], color=DUPLICATE, linewidth=1)
    axis.scatter(table["predicted"], table["right"], s=20 * (1 + np.log(table["reports"])), color=DUPLICATE)
    for _, row in table.iterrows():
        point = (row["predicted"], row["right"])
        axis.annotate(f"{row['reports']:,.0f}", point, xytext=(7, -11), textcoords="offset points")
    axis.set(title="Calibration on test", xlabel="predicted probability", ylabel="share right")
    axis.set(xlim=(-0.02, 1.04), ylim=(-0.07, 1.04))  # space for the numbers below points at 0
    axis.grid(alpha=0.25)
    return figure


def sections(
    backtest: Backtest, max_examples: int, command: str, verdicts: Sequence[Verdict] = (), texts: Sequence[str] = ()
) -> list[Section]:
    """The sections of the page. At most ``max_examples`` unknown pairs are listed; ``command`` reads verdicts."""
    tables = backtest.tables
    chosen = backtest.matching.target.threshold
    curve = precision_and_coverage(tables["thresholds"], chosen)
    figures = [("precision_and_coverage", "Precision and coverage at every threshold", curve)]
    unknown_text = f"{UNKNOWN_TEXT} {unknown_sentence(backtest)}".rstrip()
    unknown = with_verdicts(tables["unknown"].head(max_examples), verdicts)
    listed = with_verdicts(right_and_wrong(tables["right"], tables["wrong"], "suggestion", by="probability"), verdicts)
    examples_text = EXAMPLES_TEXT.format(command=command)
    verdict_sections = []
    if verdicts:
        verdicts_text = " ".join(
            [VERDICTS_TEXT, *(f"{text[0].upper()}{text[1:].removesuffix('.')}." for text in texts)]
        )
        verdict_sections = [Section("With verdicts", verdicts_text, [readable_verdicts(tables["verdicts"])])]
    return [
        Section("Which precision targets are met?", TARGETS_TEXT, [readable(tables["targets"])]),
        *verdict_sections,
        Section("What would lists of three gain?", LISTS_TEXT, [readable(tables["lists"])]),
        Section("Does a search find the duplicate?", SEARCH_TEXT, [readable_search(tables["search"])]),
        Section("Precision and coverage", COVERAGE_TEXT, [some_thresholds(tables["thresholds"], chosen)], figures),
        Section(
            "Are the probabilities calibrated?",
            CALIBRATION_TEXT.format(error=backtest.calibration_error),
            [tables["probabilities"], tables["reliability"]],
            [("reliability", "Predicted and observed probability", reliability_diagram(tables["reliability"]))],
        ),
        Section("Hubs", HUBS_TEXT, [tables["hubs"]]),
        Section("Unknown matches", unknown_text, [unknown], asks_verdicts=True),
        Section("Right and wrong suggestions", examples_text, [listed], asks_verdicts=True),
    ]


def some_thresholds(thresholds: pd.DataFrame, chosen: float | None) -> pd.DataFrame:
    """The rows of ``at_thresholds`` with suggestions, at 0.1, 0.2, ... and the chosen threshold."""
    is_listed = thresholds["threshold"].isin(LISTED_THRESHOLDS) | (thresholds["threshold"] == chosen)
    return thresholds[is_listed & (thresholds["suggestions"] > 0)].reset_index(drop=True)


def unknown_sentence(backtest: Backtest) -> str:
    """The numbers of unknown best matches and suggestions, in a sentence; empty if there are none."""
    table = backtest.tables["unknown"]
    if table.empty:
        return ""
    unmarked = (~backtest.test.best["right"]).sum()
    same = (table["why"] == SAME_TITLE).sum()
    sentence = (
        f"Of the {unmarked:,} best matches that are not marked as duplicates, {len(table):,} are unknown: {same:,} have"
        f" the same title as the report, {len(table) - same:,} are of reports that were closed as duplicates of an"
        " unknown report"
    )
    target = backtest.matching.target
    if target.threshold is None:
        return f"{sentence}."
    suggested = int((table["probability"] >= target.threshold).sum())
    return f"{sentence}; of the {target.suggestions + target.unknown:,} suggestions, {suggested:,} are unknown."


def with_verdicts(table: pd.DataFrame, verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """A table of pairs with the verdicts in its first column."""
    texts = {(verdict.report, verdict.suggested): VERDICT_TEXTS[verdict.verdict] for verdict in verdicts}
    pairs = zip(*(table[name] for name in PAIR), strict=True)
    judged = table.copy()
    judged.insert(0, VERDICT, [texts.get(pair, "") for pair in pairs])
    return judged
