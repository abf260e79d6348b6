"""The sections of the page of a backtest."""

from collections.abc import Sequence

import pandas as pd

from gedbd.evaluation.report.judging import PAIR, VERDICT, VERDICT_TEXTS, Verdict
from gedbd.evaluation.report.section import Section
from gedbd.triage.backtesting.backtest import Backtest
from gedbd.triage.backtesting.figures import STEPS, precision_and_coverage, reliability_diagram
from gedbd.triage.backtesting.page import readable, readable_search, readable_verdicts

TARGETS_TEXT = (
    "A precision target is the desired share of right suggestions. For each target, the threshold is the lowest one at"
    " which a lower confidence bound of the precision on the validation part reaches the target. The other columns are"
    " measured on the newest reports, which were not used to choose it. Brackets hold 95% intervals. A target is met if"
    " the whole interval is at or above it, missed if the whole interval is below it, and inconclusive otherwise. An"
    " index makes automatic suggestions only if its target was met."
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
HUBS_TEXT = (
    "Hubs: groups that are the best match of several reports but rarely the right one, such as empty templates and"
    " vague titles. If their probabilities are high, cleaning (text=fields text.cleaning.boilerplate=mark) may help."
)
SAME_TITLE_TEXT = (
    "Best matches with exactly the same title as the report that nobody marked as duplicates. The precision as marked"
    " counts them as wrong; the first table also shows the precision without them. Some are duplicates that nobody"
    " marked, others have a title that comes from a template."
)
EXAMPLES_TEXT = (
    "The most probable right and wrong suggestions in one list. Look at the wrong ones before you trust the precision"
    " above: some may be duplicates that nobody marked, and then the true precision is higher. In the column"
    " verdict, say which are duplicates, for the right ones too: if only wrong ones get a verdict, the precision can"
    " only rise. Then download judgements.csv (at the end of the page), put it into the folder of this page and run"
    " {command}: the first table then shows the precision with verdicts next to the one as marked. Without JavaScript,"
    " write accept or reject in the column verdict of to_judge.csv in that folder and run the same command."
)
VERDICTS_TEXT = (
    "A suggestion with a verdict is right if it was accepted; all others count as marked. Intervals are bootstrapped"
    " over duplicate groups, which accepted pairs merge. Whether a target is met is decided by the precision as marked."
)


def sections(
    backtest: Backtest, max_examples: int, command: str, verdicts: Sequence[Verdict] = (), texts: Sequence[str] = ()
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
    listed = with_verdicts(side_by_side(tables["right"], tables["wrong"]), verdicts)
    examples_text = EXAMPLES_TEXT.format(command=command)
    with_people = []
    if verdicts:
        text = " ".join([VERDICTS_TEXT, *texts])
        with_people = [Section("With verdicts", text, [readable_verdicts(tables["verdicts"])])]
    return [
        Section("Which precision targets are met?", TARGETS_TEXT, [readable(tables["targets"])]),
        *with_people,
        Section("Does a search find the duplicate?", SEARCH_TEXT, [readable_search(tables["search"])]),
        coverage_section(backtest),
        calibration_section(backtest),
        Section("Hubs", HUBS_TEXT, [tables["hubs"]]),
        same_title_section(backtest, max_examples, verdicts),
        Section("Right and wrong suggestions", examples_text, [listed], asks_verdicts=True),
    ]


def calibration_section(backtest: Backtest) -> Section:
    """Predicted and observed probabilities."""
    table = backtest.tables["reliability"]
    text = (
        f"The expected calibration error on test is {backtest.calibration_error:.3f}: the average difference between"
        " the predicted probability and the share of right matches."
    )
    figures = [("reliability", "Predicted and observed probability", reliability_diagram(table))]
    return Section("Are the probabilities calibrated?", text, [table], figures)


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
    sentence = f"Of the {unmarked:,} best matches that are not marked as duplicates, {count:,} have the same title as"
    " the report"
    target = backtest.matching.target
    if target.threshold is None:
        return f"{sentence}."
    same = int((backtest.tables["same_title"]["probability"] >= target.threshold).sum())
    return f"{sentence}; of the {target.suggestions - target.right:,} wrong suggestions, {same:,} do."


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
