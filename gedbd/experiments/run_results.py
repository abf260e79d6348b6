"""Writes, prints and logs the results of a run: tables, figures, predictions, or a page of its own."""

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
from hydra.core.hydra_config import HydraConfig
from matplotlib.figure import Figure
from pytorch_lightning.loggers import Logger, WandbLogger
from rich.cells import cell_len, set_cell_size
from rich.console import Console

from gedbd.configuration.command import typed_words
from gedbd.corpora.urls import URL_OF, with_urls
from gedbd.evaluation.display_names import display_name, with_display_names
from gedbd.evaluation.figures import name_subject, rank_curves, save_figure, title_cosines, training_curves
from gedbd.evaluation.pairwise import audit_leak, leak_warning
from gedbd.evaluation.result_tables import (
    compare_methods,
    compare_rankings,
    draw_figures,
    example_pairs,
    verdict_on_pairs,
    verdict_on_queries,
)
from gedbd.evaluation.trec import GUIDE, write_qrels, write_run
from gedbd.experiments.report.report_page import Section, write_report
from gedbd.experiments.run_folder import CAPTIONS, OWN_PAGE, PREDICTIONS, PROTOCOLS, TSNE
from gedbd.experiments.training_task import EvaluationResult
from gedbd.io.command_output import is_json_asked, print_table, record
from gedbd.io.console import print_hanging, print_line, print_path, printable, stage
from gedbd.io.files import write_text
from gedbd.io.table_files import read_csv, write_csv, write_parquet
from gedbd.retrieval.ranking_tasks import EARLIER, file_suffix

CLASSES = ("other pair", "duplicate")
SHOWN_RANKING = ("method", "rr@1", "rr@10", "rr@10_low", "rr@10_high", "rr@100", "mrr", "mrr_low", "mrr_high")
PREDICTION_COLUMNS = (
    "id_1",
    "id_2",
    "group",
    "label",
    "score",
    "score_text",
    "score_frozen",
    "predicted",
    "kind",
    "part",
)


@stage("write tables and figures")
def report(
    folder: Path, result: EvaluationResult, console: Console, loggers: list[Logger], encoder: str | None = None
) -> dict[str, pd.DataFrame]:
    """Writes, shows and logs a result; returns its tables.

    ``encoder`` names the run's encoder in figures; None for a baseline.
    """
    predictions = _with_groups(result)
    tables = {"results": compare_methods(predictions, result.part, result.methods, result.threshold)}
    for protocol, rankings in result.rankings.items():
        tables[f"ranking{file_suffix(protocol)}"] = compare_rankings(rankings, result.corpus.group)
    examples = example_pairs(predictions, result.part)
    tables["examples"] = with_urls(examples, result.corpus.reports, ("id_1", "id_2"))
    audit = audit_leak(result.pairs, result.parts, result.corpus.group)
    model = ", ".join(filter(None, (encoder, result.name_of(next(iter(result.methods))))))
    figures = result_figures(result, predictions, folder / "metrics.csv", model)
    write_results(folder, result, predictions, tables, audit, figures)
    show_results(console, result, predictions, tables, audit)
    record(folder=folder, corpus=result.corpus.name, part=result.part, **tables, leak=audit)
    print_path(console, "predictions, tables and figures:", folder)
    log_files(loggers, folder, tables, figures)
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.log_metrics({f"leak/{name}": value for name, value in audit.items()})
    return tables


def result_figures(result: EvaluationResult, predictions: pd.DataFrame, metrics: Path, model: str) -> dict[str, Figure]:
    """Draws the figures of a result, by name, each with its corpus and model."""
    figures = draw_figures(predictions, result.part, result.methods, result.threshold)
    for protocol, rankings in result.rankings.items():
        unit = result.queries[protocol].words.unit
        queries = {display_name(method): ranking.queries for method, ranking in rankings.items()}
        figures[f"rank_curves{file_suffix(protocol)}"] = rank_curves(queries, unit)
    if metrics.exists():
        figures["training_curves"] = training_curves([read_csv(metrics)])
    if result.title_cosines is not None:
        figures["title_cosines"] = title_cosines(*result.title_cosines)
    figures |= {name: figure for name, (_, figure) in result.figures.items()}
    subject = f"{result.corpus.name}, {result.part} part: {model}"
    return {name: name_subject(figure, subject) for name, figure in figures.items()}


def write_results(
    folder: Path,
    result: EvaluationResult,
    predictions: pd.DataFrame,
    tables: Mapping[str, pd.DataFrame],
    audit: Mapping[str, float],
    figures: Mapping[str, Figure],
) -> None:
    """Writes tables, figures, rankings, the t-SNE projection and predictions into a run folder."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", table)
    write_text(folder / "results.json", json.dumps(tables["results"].to_dict("records"), indent=2) + "\n")
    write_text(folder / "leak.json", json.dumps(audit, indent=2) + "\n")
    for name, figure in figures.items():
        # ``gedbd evaluate`` writes into the folder of a finished run: each figure is replaced atomically.
        save_figure(figure, folder / "figures" / name)
    if result.figures:
        captions = {name: caption for name, (caption, _) in result.figures.items()}
        write_text(folder / CAPTIONS, json.dumps(captions, indent=2) + "\n")
    if result.queries:
        write_rankings(folder, result)
    if result.tsne is not None:
        write_parquet(folder / TSNE, result.tsne)
    # The predictions come last: a run counts as finished as soon as they exist.
    columns = [name for name in PREDICTION_COLUMNS if name in predictions]
    write_parquet(folder / PREDICTIONS, predictions[columns])


def show_results(
    console: Console,
    result: EvaluationResult,
    predictions: pd.DataFrame,
    tables: Mapping[str, pd.DataFrame],
    audit: Mapping[str, float],
) -> None:
    """Prints the tables of a result and its leak audit."""
    labels = predictions.loc[predictions["part"] == result.part, "label"]
    title = f"{result.corpus.name}, {result.part}"
    pairs = f"{title}: {labels.sum()} duplicate and {(labels == 0).sum()} other pairs"
    print_table(console, with_intervals(result.with_names(tables["results"])), pairs)
    for protocol, queries in result.queries.items():
        ranking = tables[f"ranking{file_suffix(protocol)}"]
        ceiling = (
            f"{title}: {len(queries)} queries against {queries.against}, {ranking['reachable'][0]:.1%} can be found"
        )
        shown = ranking[[name for name in SHOWN_RANKING if name in ranking]]
        print_table(console, with_intervals(result.with_names(shown)), ceiling)
    print_example_pairs(console, tables["examples"])
    values = [str(value) if isinstance(value, int) else f"{value:.3f}" for value in audit.values()]
    audit_table = pd.DataFrame({"": [name.replace("_", " ") for name in audit], "value": values})
    print_table(console, audit_table, "leak audit: what test shares with training")
    warning = leak_warning(audit)
    if warning:
        print_line(console, warning, style="bold red")


def show_verdict(console: Console, result: EvaluationResult, tables: dict[str, pd.DataFrame]) -> None:
    """Prints whether the run is better than simple methods, on pairs and among all earlier reports."""
    lines = [verdict_on_pairs(_with_groups(result), result.part, result.methods, tables["results"])]
    if EARLIER in result.rankings:
        rankings = result.rankings[EARLIER]
        lines.append(verdict_on_queries(result.part, rankings, result.corpus.group, tables["ranking"]))
    sentences = [line for line in lines if line]
    for line in sentences:
        print_line(console, line)
    record(conclusions=sentences)


def first_row(tables: dict[str, pd.DataFrame], part: str) -> dict[str, float]:
    """The metrics of a run's own method on pairs and on queries, named as training logs them: ``test/f1``."""
    metrics: dict[str, float] = {}
    for name in ("results", "ranking"):
        if name in tables:
            numbers = tables[name].iloc[0].drop("method")
            metrics |= {f"{part}/{metric}": float(value) for metric, value in numbers.items()}
    return metrics


def log_files(
    loggers: Iterable[Logger], folder: Path, tables: Mapping[str, pd.DataFrame], figures: Iterable[str]
) -> None:
    """Logs tables, and figures of the run folder by name, to Weights & Biases; titles only with ``upload_titles``."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            for name in figures:
                logger.log_image(f"figures/{name}", [str(folder / "figures" / f"{name}.png")])
            options = logger.experiment.config.get("logger")  # as ``open_loggers`` logged them
            sections = options.values() if isinstance(options, dict) else ()
            titles = any(isinstance(section, dict) and section.get("upload_titles") for section in sections)
            for name, table in tables.items():
                shown = table if titles else table.drop(columns=["title", "title_1", "title_2"], errors="ignore")
                readable = shown.map(lambda cell: printable(cell, keep="\n") if isinstance(cell, str) else cell)
                logger.log_table(name, dataframe=readable)


def with_intervals(frame: pd.DataFrame, decimals: int = 2) -> pd.DataFrame:
    """Joins each ``<name>_low`` and ``<name>_high`` into one column after ``<name>``, for reading."""
    joined = with_display_names(frame)
    for low in [name for name in frame.columns if str(name).endswith("_low")]:
        name = str(low).removesuffix("_low")
        bounds = zip(joined.pop(low), joined.pop(f"{name}_high"), strict=True)
        intervals = [f"{a:.{decimals}f} to {b:.{decimals}f}" for a, b in bounds]
        joined.insert(list(joined.columns).index(name) + 1, f"{name} 95%", intervals)
    return joined


def _with_groups(result: EvaluationResult) -> pd.DataFrame:
    """Scored pairs with the prediction and the later report's duplicate group."""
    ids = result.corpus.reports["id"].to_numpy(dtype=object)
    return result.predictions.assign(
        predicted=(result.predictions["score"] >= result.threshold).astype(int),
        group=ids[result.corpus.group[result.predictions["later"]]],
    )


def print_example_pairs(console: Console, examples: pd.DataFrame) -> None:
    """Prints the example pairs, unless the output is JSON."""
    if is_json_asked():
        return
    print_line(console, "\nexample pairs", style="italic")
    width = max((cell_len(str(issue_id)) for name in ("id_1", "id_2") for issue_id in examples[name]), default=0)
    for row in examples.to_dict("records"):
        kind, predicted = CLASSES[row["label"]], CLASSES[row["predicted"]]
        print_line(console, f"{kind}, {row['example']}: score {row['score']:.3f}, predicted {predicted}")
        for side in ("1", "2"):
            issue_id = set_cell_size(str(row[f"id_{side}"]), width)
            print_hanging(console, f"  {issue_id}  ", row[f"title_{side}"])
            url = row.get(f"{URL_OF}id_{side}")
            if url:
                print_path(console, f"  {'':<{width}} ", url)


def write_rankings(folder: Path, result: EvaluationResult) -> None:
    """Writes ``queries.parquet``, TREC files of the rankings, and the wording for each protocol."""
    document_ids = result.corpus.reports["id"]
    ids = document_ids.to_numpy(dtype=object)
    frames = []
    (folder / "trec").mkdir(exist_ok=True)
    write_text(folder / "trec" / "README.txt", GUIDE)
    for protocol, rankings in result.rankings.items():
        stem = f"{result.part}{file_suffix(protocol)}"
        write_qrels(folder / "trec" / f"{stem}.qrels", result.queries[protocol], document_ids)
        for method, ranking in rankings.items():
            write_run(folder / "trec" / f"{stem}.{method}.run", ranking, document_ids, method)
            table = ranking.queries
            rows = table["query"].to_numpy()
            query_table = table.drop(columns=["query", "found"]).assign(
                protocol=protocol,
                method=method,
                part=result.part,
                id=ids[rows],
                group=ids[result.corpus.group[rows]],
                found=np.where(table["found"] >= 0, ids[table["found"]], ""),
            )
            frames.append(query_table)
    write_parquet(folder / "queries.parquet", pd.concat(frames, ignore_index=True))
    words = {name: {**asdict(task.words), "against": task.against} for name, task in result.queries.items()}
    write_text(folder / PROTOCOLS, json.dumps(words, indent=2) + "\n")


def write_run_page(
    folder: Path,
    title: str,
    corpus: str,
    summary: str,
    tables: Mapping[str, pd.DataFrame],
    shown: Mapping[str, pd.DataFrame],
    sections: list[Section],
    loggers: list[Logger],
    console: Console,
    metrics: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Writes CSV files, figures and the page into a run folder, prints tables and logs; the run is then finished.

    Tables become CSV files and the figures of sections image files of their names; ``shown`` are tables for the
    terminal by their titles, and ``metrics`` numbers for the loggers.
    """
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", table)
    figures = [(name, figure) for section in sections for name, _, figure in section.figures]
    (folder / "figures").mkdir(exist_ok=True)
    for name, figure in figures:
        assert isinstance(figure, Figure)
        save_figure(name_subject(figure, corpus), folder / "figures" / name)
    # Outside of Hydra there is no command line.
    typed = typed_words() if HydraConfig.initialized() else None
    page = write_report(
        folder,
        f"{title}: {corpus}",
        summary,
        sections,
        command=None if typed is None else shlex.join(["gedbd", "train", *typed]),
        date=datetime.now().astimezone(),
    )
    record(folder=folder, corpus=corpus, page=page, summary=summary, **tables)
    for heading, table in shown.items():
        print_table(console, table, heading)
    print_line(console, summary)
    print_path(console, "page:", page)
    for logger in loggers if metrics else ():
        logger.log_metrics(dict(metrics))
    log_files(loggers, folder, tables, [name for name, _ in figures])
    mark_finished(folder, summary)


def mark_finished(folder: Path, summary: str) -> None:
    """Writes the last file of the run, which marks it as finished; ``summary`` is shown in lists of runs."""
    write_text(folder / OWN_PAGE, json.dumps({"summary": summary}) + "\n")
