"""Writes a run: tables, rankings, figures and page in the run folder, tables on the console, metrics to loggers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pytorch_lightning.loggers import Logger
from rich.console import Console

from gedbd.evaluation.display_names import display_name
from gedbd.evaluation.figure_files import DUPLICATE, GREY, OTHER
from gedbd.evaluation.report.report_page import markdown
from gedbd.evaluation.report.section import Section, show
from gedbd.evaluation.trec import write_qrels, write_run
from gedbd.experiments.run_page import RunPage
from gedbd.experiments.run_results import with_intervals
from gedbd.io.console import escape_markdown
from gedbd.io.files import locate, write_text
from gedbd.io.table_files import read_csv, write_parquet
from gedbd.tasks.localization.change_rankings import MAX_RANK, MeasuredMethod
from gedbd.tasks.localization.localization_results import LocalizationResult

PROTOCOL_TEXT = (
    "Of the reports that have an inducing commit before them, in the order of their dates, the first half trains and"
    " the second half tests; candidates are all changes made strictly before the report, and of equal scores the newer"
    " change comes first. RR@k is the share of reports with an inducing change among the first k (hit@k), P@k the share"
    " of the first k that are inducing. Brackets hold 95% intervals, bootstrapped over reports; differences are from"
    " {baseline} on the same reports. Methods with a random seed are means over seeds. num files, age and earlier bugs"
    " read no content: they rank large, old and often blamed commits first. Learnt rankers of content read none of"
    " these, yet most lines of a file come from large and old commits, whatever the report says: boosted text leaves"
    " sums over lines out. In shuffled rows each report has the text of another one: only what a ranker finds beyond"
    " them is due to the text."
)
PART_TEXT = (
    " best part: a file's score is that of its best hunk, and a commit's that of its best file, so of its best hunk."
)
KNOWN_TEXT = (
    "A few changes, such as the import of a project, induced very many bugs, and a ranker may remember them. known: the"
    " reports one of whose inducing changes is known to have induced an earlier bug, whose fix was made before the"
    " report. new: all others, where only the content can tell. earlier bugs ranks changes by the number of bugs that"
    " they are known to have induced, and reads no content."
)
COLUMNS = (
    *("method", "queries", "mrr", "mrr_low", "mrr_high", "map", "p@1", "p@3", "p@5"),
    *("rr@10", "rr@10_low", "rr@10_high"),
    *("mrr_difference", "mrr_difference_low", "mrr_difference_high", "mrr_p_value", "seeds"),
)
MAX_CURVES = 6
TICKS = (1, 5, 10, 20, 100)
METRICS = ("mrr", "map", "p@1", "p@3", "p@5")
REMARK = (
    "Labels, reports and candidates differ from the paper's, so no number here repeats or refutes one of the paper's:"
    " its reports are 200 of AspectJ and 193 of Tomcat with labels of another data set, and its candidates are 2,939"
    " and 10,034 commits."
)
SHOWN = ("method", "mrr", "mrr_low", "mrr_high", "map", "p@1", "rr@10", "rr@10_low", "rr@10_high")


def write_result(
    folder: Path, result: LocalizationResult, published: bool, loggers: list[Logger], console: Console
) -> None:
    """Writes, shows and logs a run.

    Args:
        folder: The run folder.
        result: What the run has measured.
        published: Write the paper's numbers beside the measured ones, ``table3.csv`` and ``table3.md``.
        loggers: Loggers of the run.
        console: Where tables are shown.
    """
    name = result.corpus.name
    ranking = result.ranking
    tables = {"results": result.results, "ranking": ranking, "known": result.known}
    if published:
        tables["table3"] = beside_published(ranking, name)
        write_text(folder / "table3.md", table3_markdown(name, tables["table3"]))
    write_text(folder / "results.md", "\n".join([escape_markdown(result.summary), "", *markdown(show(ranking)), ""]))
    write_queries(folder, result)
    shown = {}
    for level in result.levels:
        rows = ranking[ranking["granularity"] == level.granularity]
        shown[f"{name}, {len(level.task):,} test reports: {level.granularity}s"] = with_intervals(rows[list(SHOWN)])
    metrics = {
        f"test/{row['granularity']}/{row['method']}/{metric}": float(row[metric])
        for row in ranking.to_dict("records")
        for metric in ("mrr", "map", "rr@10")
    }
    page = RunPage("Bug localization", name, result.summary, tables, shown, sections(result, tables), metrics)
    page.write(folder, loggers, console)


def write_queries(folder: Path, result: LocalizationResult) -> None:
    """Writes ``queries.parquet``, every query's metrics by method and granularity, and TREC files in ``trec/``."""
    (folder / "trec").mkdir(exist_ok=True)
    frames = []
    tasks = {level.granularity: level for level in result.levels}
    for level in result.levels:
        ids = level.inputs.queries["id"], level.inputs.documents["id"]
        write_qrels(folder / "trec" / f"{level.granularity}.qrels", level.task, *ids)
    for one in result.measured:
        level = tasks[one.granularity]
        reports, changes = level.inputs.queries["id"], level.inputs.documents["id"]
        path = folder / "trec" / f"{one.granularity}.{one.method}.run"
        write_run(path, one.ranking, reports, one.method, changes)
        named = {"granularity": one.granularity, "method": one.method}
        frames.append(one.values.assign(id=reports.to_numpy()[level.task.queries], **named))
    write_parquet(folder / "queries.parquet", pd.concat(frames, ignore_index=True))


def sections(result: LocalizationResult, tables: Mapping[str, pd.DataFrame]) -> list[Section]:
    """The sections of the page.

    Args:
        result: What the run has measured.
        tables: Tables by name, see ``write_result``.
    """
    ranking = result.ranking
    first = ranking[ranking["granularity"] == result.levels[0].granularity]
    best = first.sort_values("mrr", ascending=False, kind="stable")["method"]
    curves = list(dict.fromkeys([*result.first[:2], result.baseline, *best]))
    text = PROTOCOL_TEXT.format(baseline=result.baseline.replace("_", " ")) + PART_TEXT
    figures: list[tuple[str, str, Figure | Path]] = [
        (
            "mrr_by_method",
            "MRR of each method with its 95% interval; the line is BM25's",
            mrr_bars(ranking, result.first, result.baseline),
        ),
        (
            "hit_curves",
            "Share of reports with an inducing change among the first k",
            hit_curves(result.measured, curves),
        ),
    ]
    made = [Section("Methods", text, [], figures)]
    for level in result.levels:
        rows = ranking[ranking["granularity"] == level.granularity]
        text = f"{len(level.task):,} reports against the {len(level.inputs.documents):,} {level.granularity}s before."
        columns = [name for name in COLUMNS if name in rows]
        made.append(Section(f"{level.granularity.capitalize()}s", text, [rows[columns]]))
    known = result.known.sort_values("inducing_change", kind="stable")
    made.append(Section("Changes that had induced an earlier bug", KNOWN_TEXT, [known]))
    if "table3" in tables:
        made.append(Section("Beside the paper", REMARK, [tables["table3"]]))
    if len(result.epochs):
        text = "The training of HMCBL; validation is the latest part of the first half."
        training = ("training", "Losses and MRR on validation by epoch", training_curves(result.epochs))
        made.append(Section("Training", text, [], [training]))
    return made


def mrr_bars(table: pd.DataFrame, trained: Sequence[str], baseline: str) -> Figure:
    """MRR of every method with its interval, a panel for each granularity.

    Args:
        table: See ``ranking_table``.
        trained: Methods in the first colour.
        baseline: A line shows its MRR.
    """
    names = list(dict.fromkeys(table["granularity"]))
    longest = table.groupby("granularity").size().max()
    figure = Figure(figsize=(4.4 * len(names) + 1, 1.4 + 0.24 * longest), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        rows = table[table["granularity"] == name].sort_values("mrr", kind="stable")
        _bars(panel, rows, trained)
        panel.set(title=f"{name}s", xlabel="MRR")
        of_baseline = rows.loc[rows["method"] == baseline, "mrr"]
        for value in of_baseline:
            panel.axvline(value, color=GREY, linestyle="--", linewidth=1)
    return figure


def _bars(panel: Axes, rows: pd.DataFrame, trained: Sequence[str]) -> None:
    colours = [DUPLICATE if name in trained else OTHER for name in rows["method"]]
    ends = np.stack([rows["mrr"] - rows["mrr_low"], rows["mrr_high"] - rows["mrr"]]).clip(0)
    labels = [display_name(name) for name in rows["method"]]
    panel.barh(labels, rows["mrr"], xerr=ends, color=colours, alpha=0.8, capsize=2)
    panel.tick_params(labelsize=7)
    panel.grid(alpha=0.25, axis="x")


def hit_curves(measured: Sequence[MeasuredMethod], shown: Sequence[str]) -> Figure:
    """The share of reports with an inducing change among the first k, over k, a panel for each granularity.

    Args:
        measured: What the methods have reached.
        shown: Methods; of more than ``MAX_CURVES`` the first ones are drawn.
    """
    names = list(dict.fromkeys(one.granularity for one in measured))
    figure = Figure(figsize=(4.4 * len(names) + 1, 3.8), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    k = np.arange(1, MAX_RANK + 1)
    for panel, name in zip(panels, names, strict=True):
        of_level = {one.method: one for one in measured if one.granularity == name}
        for method in [method for method in shown if method in of_level][:MAX_CURVES]:
            rank = of_level[method].ranking.queries["rank"].to_numpy()
            shares = [np.mean((rank > 0) & (rank <= top)) for top in k]
            panel.step(k, shares, where="post", label=display_name(method))
        panel.set(title=f"{name}s", xlabel="k", ylabel="RR@k (hit@k)", xscale="log", ylim=(0, 1.02))
        panel.set_xticks(TICKS, labels=[str(tick) for tick in TICKS])
        panel.grid(alpha=0.25)
        panel.legend(frameon=False, fontsize=7, loc="upper left")
    return figure


def training_curves(epochs: pd.DataFrame) -> Figure:
    """Losses of training and validation, and MRR on validation, by epoch."""
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name in ("train/loss", "val/loss"):
        left.plot(epochs["epoch"] + 1, epochs[name], marker="o", markersize=3, label=name.partition("/")[0])
    right.plot(epochs["epoch"] + 1, epochs["val/mrr"], marker="o", markersize=3, label="val")
    for axis, title in ((left, "loss"), (right, "MRR on validation")):
        axis.set(title=title, xlabel="epoch")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(alpha=0.25)
        axis.legend(frameon=False)
    return figure


def beside_published(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The paper's rows of a project, then the measured ones.

    Args:
        table: See ``ranking_table``.
        name: Name of the corpus, such as ``tomcat``; one that the paper does not have gets no published rows.

    Returns:
        ``granularity``, ``method``, ``source`` (``Table 2``, ``Table 4`` or ``here``) and ``METRICS``; the rows of a
        granularity follow each other.
    """
    published = read_csv(locate("pkg://gedbd.tasks.localization/published.csv"), "mrr")
    chosen = published[published["project"].str.lower() == name.lower()]
    columns = ["granularity", "method", "source", *METRICS]
    both = pd.concat([chosen[columns], table.assign(source="here")[columns]], ignore_index=True)
    order = {granularity: place for place, granularity in enumerate(dict.fromkeys(table["granularity"]))}
    both = both[both["granularity"].isin(order)]
    return both.sort_values("granularity", key=lambda column: column.map(order), kind="stable", ignore_index=True)


def table3_markdown(name: str, table: pd.DataFrame) -> str:
    """The table in Markdown, under a line that names the corpus and one that says what differs."""
    return "\n".join([f"{escape_markdown(name)}, test half.", "", REMARK, "", *markdown(show(table)), ""])
