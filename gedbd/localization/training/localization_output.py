"""Writes the tables, rankings, figures and page of a run, and the tables that compare it with published numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hydra import compose
from hydra.utils import instantiate
from matplotlib.figure import Figure
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.loggers import Logger
from rich.console import Console

from gedbd.configuration.command_words import quoted_text
from gedbd.evaluation.display_names import display_name
from gedbd.evaluation.figures import bars, epoch_curves, hit_curves
from gedbd.evaluation.trec import write_qrels, write_run
from gedbd.experiments.published import paper_markdown, print_paper_table, read_published, readable, write_paper_page
from gedbd.experiments.report.report_page import Section, markdown, show
from gedbd.experiments.report.sweep_table import job_results
from gedbd.experiments.resuming import readable_checkpoint
from gedbd.experiments.run_folder import OWN_PAGE, Run
from gedbd.experiments.run_results import with_intervals, write_run_page
from gedbd.experiments.sweep_jobs import FINISHED, read_jobs
from gedbd.experiments.training_task import Task
from gedbd.io.console import escape_markdown, open_console, print_line
from gedbd.io.files import write_text
from gedbd.io.table_files import write_csv, write_parquet
from gedbd.localization.training.compared_methods import encoded_unit
from gedbd.localization.training.localization_results import LocalizationResult, MeasuredMethod, results_table

PROTOCOL_TEXT = (
    "Of the reports that have an inducing commit before them, in the order of their dates, the first half trains and"
    " the second half tests; candidates are all changes made strictly before the report, and newer changes come first"
    " among ties. RR@k is the share of reports with an inducing change among the first k (hit@k), P@k the share"
    " of the first k that are inducing. Brackets hold 95% intervals, bootstrapped over reports; differences are from"
    " {baseline} on the same reports. Methods with a random seed are means over seeds. num files, age and earlier bugs"
    " read no content: they rank large, old and often blamed commits first. Learnt rankers of content read none of"
    " these, yet most lines of a file come from large and old commits, whatever the report says: boosted text leaves"
    " sums over lines out. In shuffled rows each report has the text of another one: only what a ranker finds beyond"
    " them is due to the text."
)
PART_TEXT = (
    " best file, best hunk: a commit's score is that of its best file or hunk, and a file's that of its best hunk."
)
OWN_TASK_TEXT = (
    " This table ranks the inducing {granularity}s themselves, as no paper does: the published table ranks"
    " commits by their {granularity}s, as the methods best {granularity} of the commits do."
)
KNOWN_TEXT = (
    "A few changes, such as the import of a project, induced very many bugs, and a ranker may remember them. known:"
    " reports with an inducing change that is known to have introduced an earlier bug, which was fixed before the"
    " report. new: all others, where only the content can tell. earlier bugs ranks changes by the number of bugs that"
    " they are known to have induced; it reads no content."
)
COLUMNS = (
    *("method", "queries", "mrr", "mrr_low", "mrr_high", "map", "p@1", "p@3", "p@5"),
    *("rr@10", "rr@10_low", "rr@10_high"),
    *("mrr_difference", "mrr_difference_low", "mrr_difference_high", "mrr_p_value", "seeds"),
)
MAX_CURVES = 6
CURVES = {"loss": {"train": "train/loss", "val": "val/loss"}, "MRR on validation": {"val": "val/mrr"}}
PUBLISHED_UNITS = {"commit": "commits", "file": "commits, by their best file", "hunk": "commits, by their best hunk"}
# P@k of the authors' code is R_cap@k, see ``query_metrics``.
PUBLISHED_METRICS = {"mrr": "mrr", "map": "map", "p@1": "r_cap@1", "p@3": "r_cap@3", "p@5": "r_cap@5"}
REMARK = (
    "All rows rank commits: those of files and hunks by the best file or hunk of a commit, as the authors' code does."
    " P@k is the number of inducing commits among the first k, divided by k or, if that is smaller, by the number of"
    " inducing commits, likewise as in their code; the paper's formula divides by k, as p@k of ranking.csv does."
    " No report has a P@1 above its reciprocal rank, so published rows where P@1 is above MRR cannot be right."
    " Labels, reports and candidates differ from the paper's, so no number here repeats or refutes one of the paper's:"
    " its reports are 200 of AspectJ and 193 of Tomcat with labels of another data set, and its candidates are 2,939"
    " and 10,034 commits."
)
SHOWN = ("method", "mrr", "mrr_low", "mrr_high", "map", "p@1", "rr@10", "rr@10_low", "rr@10_high")


def write_result(
    folder: Path, result: LocalizationResult, published: bool, loggers: list[Logger], console: Console
) -> None:
    """Writes, prints and logs a run; ``published`` adds the table of the paper's numbers."""
    name = result.corpus.name
    ranking = result.ranking
    tables = {"results": results_table(ranking), "ranking": ranking, "known": result.known}
    if published:
        tables["tables24"] = beside_published(ranking, name)
        write_text(folder / "tables24.md", paper_markdown(f"{name}, test half", [REMARK], [tables["tables24"]]))
    write_text(folder / "results.md", "\n".join([escape_markdown(result.summary), "", *markdown(show(ranking)), ""]))
    write_queries(folder, result)
    printed = {}
    for level in result.levels:
        rows = ranking[ranking["granularity"] == level.granularity]
        what = "commits" if level.granularity == "commit" else f"inducing {level.granularity}s (not in the paper)"
        printed[f"{name}, {len(level.task):,} test reports: {what}"] = with_intervals(rows[list(SHOWN)])
    metrics = {
        f"test/{row['granularity']}/{row['method']}/{metric}": float(row[metric])
        for row in ranking.to_dict("records")
        for metric in ("mrr", "map", "rr@10")
    }
    page = sections(result, tables)
    write_run_page(folder, "Bug localization", name, result.summary, tables, printed, page, loggers, console, metrics)


def write_queries(folder: Path, result: LocalizationResult) -> None:
    """Writes ``queries.parquet``, the metrics of each query by method and granularity, and TREC files in ``trec/``."""
    (folder / "trec").mkdir(exist_ok=True)
    frames = []
    tasks = {level.granularity: level for level in result.levels}
    for level in result.levels:
        ids = level.inputs.queries["id"], level.inputs.documents["id"]
        write_qrels(folder / "trec" / f"{level.granularity}.qrels", level.task, *ids)
    for measured in result.measured:
        level = tasks[measured.granularity]
        reports, changes = level.inputs.queries["id"], level.inputs.documents["id"]
        path = folder / "trec" / f"{measured.granularity}.{measured.method}.run"
        write_run(path, measured.ranking, reports, measured.method, changes)
        named = {"granularity": measured.granularity, "method": measured.method}
        frames.append(measured.values.assign(id=reports.to_numpy()[level.task.queries], **named))
    write_parquet(folder / "queries.parquet", pd.concat(frames, ignore_index=True))


def sections(result: LocalizationResult, tables: Mapping[str, pd.DataFrame]) -> list[Section]:
    """The sections of the page; for the tables see ``write_result``."""
    ranking = result.ranking
    first = ranking[ranking["granularity"] == result.levels[0].granularity]
    best = first.sort_values("mrr", ascending=False, kind="stable")["method"]
    curves = list(dict.fromkeys([*result.first[:2], result.baseline, *best]))
    text = PROTOCOL_TEXT.format(baseline=result.baseline.replace("_", " ")) + PART_TEXT
    mrr_figure = mrr_bars(ranking, result.first, result.baseline)
    hit_figure = hit_curves(_ranks(result.measured, curves))
    figures: list[tuple[str, str, Figure | Path]] = [
        ("mrr_by_method", "MRR of each method with its 95% interval; the line is BM25's", mrr_figure),
        ("hit_curves", "Share of reports with an inducing change among the first k", hit_figure),
    ]
    page = [Section("Methods", text, [], figures)]
    for level in result.levels:
        rows = ranking[ranking["granularity"] == level.granularity]
        text = f"{len(level.task):,} reports against the {len(level.inputs.documents):,} {level.granularity}s before."
        if level.granularity != "commit":
            text += OWN_TASK_TEXT.format(granularity=level.granularity)
        columns = [name for name in COLUMNS if name in rows]
        page.append(Section(f"{level.granularity.capitalize()}s", text, [rows[columns]]))
    by_inducing = result.known.sort_values("inducing_change", kind="stable")
    page.append(Section("Changes known from an earlier bug", KNOWN_TEXT, [by_inducing]))
    if "tables24" in tables:
        page.append(Section("Comparison with the paper", REMARK, [tables["tables24"]]))
    if len(result.epochs):
        text = "The training of HMCBL; the validation set is the latest reports of the first half."
        training = ("training", "Losses and MRR on validation by epoch", epoch_curves([result.epochs], CURVES))
        page.append(Section("Training", text, [], [training]))
    return page


def mrr_bars(table: pd.DataFrame, trained: Sequence[str], baseline: str) -> Figure:
    """MRR of every method with its interval, a panel for each granularity; a line shows the baseline."""
    tables = {f"{name}s": rows for name, rows in table.groupby("granularity", sort=False)}
    ordered = {name: rows.sort_values("mrr", kind="stable").iloc[::-1] for name, rows in tables.items()}
    lines = {name: value for name, rows in tables.items() for value in rows.loc[rows["method"] == baseline, "mrr"]}
    return bars(ordered, "mrr", "MRR", first=trained, lines=lines)


def _ranks(measured: Sequence[MeasuredMethod], methods: Sequence[str]) -> dict[str, dict[str, np.ndarray]]:
    """Ranks of the first ``MAX_CURVES`` methods by granularity and method, see ``hit_curves``."""
    ranks: dict[str, dict[str, np.ndarray]] = {f"{method.granularity}s": {} for method in measured}
    by_name = {(f"{method.granularity}s", method.method): method for method in measured}
    for granularity, curves in ranks.items():
        for name in [name for name in methods if (granularity, name) in by_name][:MAX_CURVES]:
            curves[display_name(name)] = by_name[granularity, name].ranking.queries["rank"].to_numpy()
    return ranks


def beside_published(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The paper's rows of a project and the measured ones that rank commits, by ``PUBLISHED_UNITS``.

    Columns are ``ranked`` (see ``PUBLISHED_UNITS``), ``method``, ``source`` (``Table 2``, ``Table 4`` or ``here``), the
    metrics by their published names, and ``remark`` on published numbers.
    """
    published = read_published("localization", "table2", "table4").rename(columns={"condition": "unit"})
    published = published[published["corpus"].str.lower() == name.lower()]
    commits = table[table["granularity"] == "commit"]
    values = {metric: commits[ours] for metric, ours in PUBLISHED_METRICS.items()}
    units = commits["method"].map(encoded_unit)
    measured = commits[["method"]].assign(unit=units, source="here", remark="", **values)
    combined = pd.concat([published, measured], ignore_index=True)
    combined = combined.sort_values("unit", key=lambda units: units.map(list(PUBLISHED_UNITS).index), kind="stable")
    combined = combined.assign(ranked=combined["unit"].map(PUBLISHED_UNITS))
    return combined[["ranked", "method", "source", *PUBLISHED_METRICS, "remark"]].reset_index(drop=True)


FOLDER = "pretraining"
ENCODER = "encoder"  # folder of a run that pre-trains, with its encoder
TITLE = "Localization by objectives of pre-training, with the paper's Table 3"
ROWS = {
    "data_flow": "data flow alone, as GraphCodeBERT",
    "nodes_edges": "nodes and edges",
    "all": "nodes, edges, types, roles",
}
PAPER = (
    "The paper's first row of a project has the numbers of GraphCodeBERT in its Tables 2 and 4, which was pre-trained"
    " by others on other data. Our encoders are pre-trained on the same methods for the same number of epochs."
)


@dataclass(frozen=True)
class FirstPretraining:
    """Pre-training in the folder ``pretraining`` of the run, starting from the section ``encoder`` of the run.

    Raises ValueError if the row is unknown.
    """

    methods: str  # Java sources, see ``dataset=java_sources``
    row: str  # one of ``rows``
    rows: Mapping[str, Mapping[str, Any]]  # options of ``gedbd train`` by section, for each row of the table
    options: Mapping[str, Any]  # options of all rows, likewise
    groups: Sequence[str]  # options of groups, such as ``task=pretraining``

    def __post_init__(self) -> None:
        if self.row not in self.rows:
            raise ValueError(f"task.pretraining.row={self.row} is unknown: choose from {', '.join(self.rows)}")

    def encoder(self, cfg: DictConfig, folder: Path, console: Console) -> Path:
        """Trains the encoder, unless it is finished, and returns its folder; an interrupted training is resumed.

        The options of the run are used for seed, device and cache.
        """
        subfolder = folder / FOLDER
        if not (subfolder / OWN_PAGE).is_file():
            base = compose(
                "train", overrides=[*self.groups, f"dataset.path={quoted_text(str(Path(self.methods).absolute()))}"]
            )
            composed = OmegaConf.merge(base, dict(self.options), dict(self.rows[self.row]))
            assert isinstance(composed, DictConfig)
            for name in ("accelerator", "devices", "precision", "enable_progress_bar"):
                composed.trainer[name] = cfg.trainer[name]
            for name in ("encoder", "cache_dir", "seed"):
                composed[name] = cfg[name]
            composed.ckpt_path = readable_checkpoint(subfolder)
            task: Task = instantiate(composed.task)
            subfolder.mkdir(exist_ok=True)
            task.train(composed, subfolder, console)
        return subfolder / ENCODER


def write_table3(sweep_dir: Path, options: Sequence[str] = ()) -> None:
    """Writes ``table3.csv`` and ``table3.md`` of all finished runs of a sweep, and prints the table."""
    console = open_console()
    finished = [folder for folder, status in read_jobs(sweep_dir).items() if status.state == FINISHED]
    if not finished:
        print_line(console, f"table3: no table, because no run of {sweep_dir} has finished")
        return
    table = table3(finished)
    write_csv(sweep_dir / "table3.csv", table)
    printed = readable(table)
    print_paper_table(console, printed, TITLE)
    write_paper_page(sweep_dir, "table3", TITLE, [printed], [REMARK, PAPER], console)


def table3(runs: Sequence[Path]) -> pd.DataFrame:
    """The measured rows, one for each run of ``experiment=locate_table3``, then the published ones.

    Columns are ``project``, ``pretraining`` (see ``ROWS``), ``source`` (``here`` or ``Table 3``), the metrics by their
    published names, and ``remark`` on published numbers.
    """
    measured = []
    for run in map(Run, runs):
        results = job_results(run.folder)
        row = {"project": run.corpus, "pretraining": run.config.task.pretraining.row}
        measured.append(row | {metric: results[ours] for metric, ours in PUBLISHED_METRICS.items()})
    published = read_published("localization", "table3").rename(columns={"corpus": "project", "method": "pretraining"})
    table = pd.concat([pd.DataFrame(measured).assign(source="here", remark=""), published], ignore_index=True)
    table = table.assign(pretraining=table["pretraining"].map(lambda row: ROWS.get(row, row)))
    return table[["project", "pretraining", "source", *PUBLISHED_METRICS, "remark"]]
