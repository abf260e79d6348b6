"""What a backtest says: summary, next step, and tables on the page, on the console and in Markdown."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
from rich.console import Console

from gedbd.evaluation.report.page import markdown
from gedbd.evaluation.report.shown_tables import show
from gedbd.io.console_tables import print_table
from gedbd.triage.backtesting.backtest import Backtest
from gedbd.triage.backtesting.learning import MIN_RIGHT
from gedbd.triage.backtesting.targets import MET, TOO_FEW, met_targets
from gedbd.triage.triage_model import TriageModel

FEW_DUPLICATES = 50
DEFAULT_TEXT = (
    f"Fewer than {MIN_RIGHT} best matches of the older reports are right, which is too few to learn probabilities from."
    " So those shipped with gedbd are used: learnt from other trackers, and shifted to this tracker's share of"
    " duplicates."
)
# Columns of the page that do not fit a terminal, without and with verdicts.
NOT_PRINTED = ("same title, not marked", "right without those")
NOT_PRINTED_WITH_VERDICTS = (*NOT_PRINTED, "threshold", "right on validation", "coverage", "suggestion rate")


def next_step(matching: TriageModel, folder: str) -> tuple[str, str]:
    """The next step for the user: a sentence and a command, which reads the run folder."""
    command = f"gedbd index run={folder} out=my-index"
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
        sentences.append(f"The validation part has only {val.duplicates} duplicates, so all figures are uncertain.")
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
    return " ".join([*sentences, target.statement, met_targets(backtest.matching.targets)])


def search_sentence(search: pd.DataFrame) -> str:
    """What ``search_table`` says of the first match and of the first ten, in a sentence; empty without duplicates."""
    rows = {row["first"]: row for row in search.to_dict("records") if row["duplicates"]}
    if not rows:
        return ""
    first, ten = (f"{rows[k]['found']:,} ({interval_text(rows[k], 'share')})" for k in (1, 10))
    return f"The best match was right for {first} of them, and one of the first ten matches for {ten}."


def readable_search(search: pd.DataFrame) -> pd.DataFrame:
    """``search_table`` in columns of text."""
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
        rows.append(cells | {"status": status_text(row)})
    columns = max(rows, key=len).keys()  # a target without a threshold has fewer cells
    return pd.DataFrame(rows, columns=list(columns)).fillna("")


def status_text(row: Mapping[Hashable, Any]) -> str:
    """The status of a target; ``too few duplicates: 2, at least 10 needed``."""
    if row["status"] != TOO_FEW:
        return str(row["status"])
    return f"{TOO_FEW}: {row['validation_duplicates']:,}, at least {row['duplicates_needed']:,} needed"


def precision_text(row: Mapping[Hashable, Any], name: str, count: int) -> str:
    """``78% [46%, 96%] of 18``."""
    if not count:
        return "no suggestion"
    return f"{interval_text(row, name)} of {count:,}"


def interval_text(row: Mapping[Hashable, Any], name: str) -> str:
    """``78% [46%, 96%]``."""
    return f"{row[name]:.0%} [{row[f'{name}_low']:.0%}, {row[f'{name}_high']:.0%}]"


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
    print_table(console, table, "Suggestions on the newest reports")


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
        raise ValueError(f"the file to fill has no {start} ... {end}")
    return f"{before}{start}\n{table}\n{end}{after}"
