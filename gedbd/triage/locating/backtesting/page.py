"""The page of a backtest of the ranking of commits, its summary, and its tables on the console."""

import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console

from gedbd.evaluation.figures import MARGINS, SIZE
from gedbd.evaluation.palette import DUPLICATE, GREY, OTHER
from gedbd.evaluation.report.section import Section
from gedbd.io.console_tables import print_table
from gedbd.triage.locating.backtesting.backtest import LocatingBacktest
from gedbd.triage.locating.backtesting.hit_rate import TOP
from gedbd.triage.locating.backtesting.systems import BM25, DEFAULT, LEARNT, NUM_FILES

STYLES = {LEARNT: (DUPLICATE, "-"), DEFAULT: (OTHER, "-"), BM25: (GREY, "--"), NUM_FILES: (GREY, ":")}
METRICS_TEXT = (
    "Hit@k is the share of the tested reports with an inducing commit among the first k suspects; MRR is the mean of"
    " 1 / rank of the first inducing commit. Brackets hold 95% intervals. Candidates are the commits before the report."
    " BM25 over diffs compares words and the parts of identifiers; the number of changed files ignores the report and"
    " shows how far commit size alone gets, since large commits are often blamed."
)
LEARNT_TEXT = (
    " The learnt ranker measured here was trained on the older half of the reports only. The one in ranker.json was"
    " trained on all of them, so its own figures are not known."
)
DEFAULT_TEXT = (
    " The default ranker was trained on the histories of Apache Tomcat and AspectJ: when these are replayed, it is left"
    " out, or, if no other ranker is trained, its figures are too high."
)
DIFFERENCES_TEXT = (
    "Differences between the {system} and each other system on the same reports. Brackets hold paired 95% intervals."
)
COUNTS_TEXT = (
    "Fixes are found by the reports that commit messages name, or are listed in a table. The commits that last changed"
    " the lines that a fix removes count as inducing ones; a fix that only adds lines has none. All figures cover the"
    " reports that have one; nothing is known about the others."
)
EXAMPLES_TEXT = (
    "The first suspects with the largest margin: the score of the first minus that of the tenth. Blame is not"
    " always right: look at the wrong ones before you trust the figures above."
)


def summary(backtest: LocatingBacktest) -> str:
    """The result in a few sentences."""
    labelled = backtest.labelled
    without = labelled.num_reports - len(labelled)
    sentences = [backtest.hit_rate.statement]
    if backtest.hit_rate.learnt:
        sentences.append(f"The measured ranker was trained on {backtest.parts.num_labelled:,} older reports.")
    else:
        sentences.append(
            f"The {len(labelled):,} reports with an earlier inducing commit are too few to learn from, so the default"
            " ranker is measured on all of them, and used."
        )
    sentences.append(
        f"{without:,} of {labelled.num_reports:,} reports have no such commit and cannot be tested; the figures cover"
        " the others."
    )
    return " ".join(sentences)


def next_step(folder: str, repo: str | None) -> tuple[str, str]:
    """The next step for the user: a sentence and a command, which reads the run folder."""
    place = repo or "PATH"
    return "Find the suspect commits for a new report:", f'gedbd locate repo={place} run={folder} "text of the report"'


def sections(backtest: LocatingBacktest) -> list[Section]:
    """The sections of the page; those without rows are left out by the page."""
    tables = backtest.tables
    learnt = LEARNT_TEXT if backtest.hit_rate.learnt else ""
    curve = [("hits", "Share of reports with an inducing commit among the first k", hit_figure(tables["curve"]))]
    return [
        Section(
            "How often is an inducing commit among the first?",
            f"{METRICS_TEXT}{learnt}{DEFAULT_TEXT}",
            [tables["metrics"]],
            curve,
        ),
        Section("Differences", DIFFERENCES_TEXT.format(system=backtest.system), [tables["differences"]]),
        Section("By year", f"The {backtest.system}, by the year of the report.", [tables["years"]]),
        Section("Which reports are tested?", COUNTS_TEXT, [tables["counts"]]),
        Section("Right and wrong suspects", EXAMPLES_TEXT, [side_by_side(tables["right"], tables["wrong"])]),
    ]


def side_by_side(right: pd.DataFrame, wrong: pd.DataFrame) -> pd.DataFrame:
    """Right and wrong first suspects in one table, the largest margin first."""
    marked = [right.assign(suspicion="right"), wrong.assign(suspicion="wrong")]
    both = pd.concat([table for table in marked if len(table)] or marked[:1])
    both = both.sort_values("margin", ascending=False, kind="stable").reset_index(drop=True)
    both.insert(0, "suspicion", both.pop("suspicion"))
    return both


def hit_figure(curve: pd.DataFrame) -> Figure:
    """Hit@k against k for each system, with the interval of the first one."""
    figure = Figure(figsize=SIZE)
    axis = figure.subplots(gridspec_kw=MARGINS)
    systems = list(dict.fromkeys(curve["system"]))
    for name in systems:
        mine = curve[curve["system"] == name]
        colour, line = STYLES[name]
        axis.plot(mine["k"], mine["hit"], color=colour, linestyle=line, label=name)
    first = curve[curve["system"] == systems[0]]
    axis.fill_between(first["k"], first["hit_low"], first["hit_high"], color=STYLES[systems[0]][0], alpha=0.15)
    axis.axvline(TOP, color="black", linewidth=0.8, alpha=0.4)
    axis.set_xscale("log")
    axis.set_xticks([1, 5, 10, 50, 100], ["1", "5", "10", "50", "100"])
    axis.set(title="An inducing commit among the first k", xlabel="k", ylabel="share of reports", ylim=(0, 1.02))
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)
    return figure


def print_metrics(console: Console, metrics: pd.DataFrame) -> None:
    """Prints hit@k and MRR of each system; of the intervals only that of hit@10, so that a row fits 80 columns."""
    from gedbd.experiments.results import with_intervals

    count = int(metrics["reports"].iloc[0])
    left_out = [name for name in metrics if str(name).endswith(("_low", "_high")) and f"hit@{TOP}" not in str(name)]
    table = with_intervals(metrics.drop(columns=["reports", *left_out]), 3)
    print_table(console, table, f"an inducing commit among the first k, {count:,} reports")
