"""The end of a run: predictions, tables and figures, on disk, on screen and on the dashboard."""

import json
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pytorch_lightning.loggers import Logger, WandbLogger
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gedbd.corpora.documents import Corpus
from gedbd.corpora.urls import with_urls
from gedbd.evaluation.conclusions import verdict_on_pairs, verdict_on_queries
from gedbd.evaluation.figures import rank_curves, title_cosines, training_curves
from gedbd.evaluation.leakage import audit_leak, leak_warning
from gedbd.evaluation.names import with_display_names
from gedbd.evaluation.result_tables import compare_methods, compare_rankings, draw_figures, example_pairs
from gedbd.evaluation.run_folders import PREDICTIONS, TSNE
from gedbd.evaluation.trec import write_qrels, write_run
from gedbd.experiments.evaluation_result import EvaluationResult
from gedbd.io.files import replacing, write_text
from gedbd.io.spreadsheet import safe_cells
from gedbd.io.tables import read_csv, write_csv, write_parquet
from gedbd.retrieval.tasks import EARLIER, TEST_POOL

LONGEST_WHOLE = 26
ENDING = {EARLIER: "", TEST_POOL: f"_{TEST_POOL}"}  # of the names of tables, figures and files
SHOWN_RANKING = ("method", "rr@1", "rr@10", "rr@10_low", "rr@10_high", "rr@100", "mrr", "mrr_low", "mrr_high")
SAVED = (
    "issue_id_1",
    "issue_id_2",
    "group",
    "label",
    "score",
    "score_text",
    "score_frozen",
    "predicted",
    "kind",
    "part",
)


def report(folder: Path, outcome: EvaluationResult, console: Console, loggers: list[Logger]) -> dict[str, pd.DataFrame]:
    """Writes and shows the results of what was just scored; gives its tables."""
    predictions = _with_groups(outcome)
    part = outcome.part
    tables: dict[str, pd.DataFrame] = {
        "results": compare_methods(predictions, part, outcome.methods, outcome.threshold)
    }
    drawn = draw_figures(predictions, part, outcome.methods, outcome.threshold)
    for protocol, rankings in outcome.rankings.items():
        tables[f"ranking{ENDING[protocol]}"] = compare_rankings(rankings, outcome.corpus.group)
        counted = "groups" if protocol == EARLIER else "reports of the pool"
        curves = rank_curves({name: value.queries for name, value in rankings.items()}, counted)
        drawn[f"rank_curves{ENDING[protocol]}"] = curves
    if (folder / "metrics.csv").exists():
        drawn["training_curves"] = training_curves(read_csv(folder / "metrics.csv"))
    if outcome.title_cosines is not None:
        drawn["title_cosines"] = title_cosines(*outcome.title_cosines)
    tables["examples"] = example_pairs(predictions, part)
    audit = audit_leak(outcome.pairs, outcome.parts, outcome.corpus.group)
    tables["examples"] = with_urls(tables["examples"], outcome.corpus.reports, ("issue_id_1", "issue_id_2"))
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", safe_cells(table))
    write_text(folder / "results.json", json.dumps(tables["results"].to_dict("records"), indent=2) + "\n")
    write_text(folder / "leak.json", json.dumps(audit, indent=2) + "\n")
    for name, figure in drawn.items():
        with replacing(folder / "figures" / f"{name}.png") as unfinished:
            figure.savefig(unfinished, dpi=120)
    _write_rankings(folder, outcome)
    if outcome.tsne is not None:
        write_parquet(folder / TSNE, outcome.tsne)
    # The last one: whoever finds it takes the run for finished.
    write_parquet(folder / PREDICTIONS, predictions[[name for name in SAVED if name in predictions]])
    _show(console, outcome, predictions, tables, audit)
    console.print(f"predictions, tables and figures: {folder}", markup=False, highlight=False, soft_wrap=True)
    _log(loggers, folder, tables, list(drawn), audit)
    return tables


def show_verdict(console: Console, outcome: EvaluationResult, tables: dict[str, pd.DataFrame]) -> None:
    """Says against which simple methods the run was better, on pairs and among all earlier reports."""
    lines = [verdict_on_pairs(_with_groups(outcome), outcome.part, outcome.methods, tables["results"])]
    if EARLIER in outcome.rankings:
        ranked = outcome.rankings[EARLIER]
        lines.append(verdict_on_queries(outcome.part, ranked, outcome.corpus.group, tables["ranking"]))
    for line in filter(None, lines):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _with_groups(outcome: EvaluationResult) -> pd.DataFrame:
    """Scored pairs with the verdict and the later report's duplicate group."""
    return outcome.predictions.assign(
        predicted=(outcome.predictions["score"] >= outcome.threshold).astype(int),
        group=_ids(outcome.corpus)[outcome.corpus.group[outcome.predictions["later"]]],
    )


def _ids(corpus: Corpus) -> np.ndarray:
    return corpus.reports["issue_id"].to_numpy(dtype=object)


def _write_rankings(folder: Path, outcome: EvaluationResult) -> None:
    """Writes ``queries.parquet`` and the TREC files, where there was something to rank."""
    if not outcome.queries:
        return
    ids, part, frames = _ids(outcome.corpus), outcome.part, []
    issue_id = outcome.corpus.reports["issue_id"]
    (folder / "trec").mkdir(exist_ok=True)
    for protocol, rankings in outcome.rankings.items():
        stem = f"{part}{ENDING[protocol]}"
        write_qrels(folder / "trec" / f"{stem}.qrels", outcome.queries[protocol], issue_id)
        for name, ranking in rankings.items():
            write_run(folder / "trec" / f"{stem}.{'_'.join(name.split())}.run", ranking, issue_id, name)
            table, row = ranking.queries, ranking.queries["query"].to_numpy()
            named = {"protocol": protocol, "method": name, "part": part}
            named |= {"issue_id": ids[row], "group": ids[outcome.corpus.group[row]]}
            found = np.where(table["found"] >= 0, ids[table["found"]], "")
            frames.append(table.drop(columns=["query", "found"]).assign(**named, found=found))
    write_parquet(folder / "queries.parquet", pd.concat(frames, ignore_index=True))


def _show(
    console: Console,
    outcome: EvaluationResult,
    predictions: pd.DataFrame,
    tables: dict[str, pd.DataFrame],
    audit: dict[str, float],
) -> None:
    chosen = predictions[predictions["part"] == outcome.part]["label"]
    title = f"{outcome.corpus.name}, {outcome.part}"
    pairs = f"{title}: {chosen.sum()} duplicate and {(chosen == 0).sum()} other pairs"
    console.print(as_table(with_intervals(tables["results"]), pairs))
    for protocol, queries in outcome.queries.items():
        ranking = tables[f"ranking{ENDING[protocol]}"]
        against = "all earlier reports" if queries.pool is None else f"the {len(queries.pool):,} of this part"
        ceiling = f"{title}: {len(queries)} queries against {against}, {ranking['reachable'][0]:.1%} can be found"
        shown = ranking[[name for name in SHOWN_RANKING if name in ranking]]
        console.print(as_table(with_intervals(shown), ceiling))
    console.print(as_table(tables["examples"], "example pairs"))
    values = [str(value) if isinstance(value, int) else f"{value:.3f}" for value in audit.values()]
    audited = pd.DataFrame({"": [name.replace("_", " ") for name in audit], "value": values})
    console.print(as_table(audited, "leak audit: what test shares with training"))
    warning = leak_warning(audit)
    if warning:
        console.print(warning, style="bold red", markup=False, highlight=False)


def _log(
    loggers: list[Logger], folder: Path, tables: dict[str, pd.DataFrame], drawn: list[str], audit: dict[str, float]
) -> None:
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            for name in drawn:
                logger.log_image(f"figures/{name}", [str(folder / "figures" / f"{name}.png")])
            for name, table in tables.items():
                logger.log_table(name, dataframe=table)
            logger.log_metrics({f"leak/{name}": value for name, value in audit.items()})


def first_row(tables: dict[str, pd.DataFrame], part: str) -> dict[str, float]:
    """The metrics of a run's own method on pairs and on queries, named as training logs them: ``test/f1``."""
    found: dict[str, float] = {}
    for name in ("results", "ranking"):
        if name in tables:
            numbers = tables[name].iloc[0].drop("method")
            found |= {f"{part}/{metric}": float(value) for metric, value in numbers.items()}
    return found


def with_intervals(frame: pd.DataFrame, decimals: int = 2) -> pd.DataFrame:
    """Puts each ``<name>_low`` and ``<name>_high`` into one column after ``<name>``, for reading."""
    shown = with_display_names(frame)
    for low in [name for name in frame.columns if str(name).endswith("_low")]:
        name = str(low).removesuffix("_low")
        ends = [
            f"{a:.{decimals}f} to {b:.{decimals}f}"
            for a, b in zip(shown.pop(low), shown.pop(f"{name}_high"), strict=True)
        ]
        shown.insert(list(shown.columns).index(name) + 1, f"{name} 95%", ends)
    return shown


def as_table(frame: pd.DataFrame, title: str) -> Table:
    """A table for the terminal: numbers with three decimals; only long texts such as titles give way to fit."""
    table = Table(title=title, box=SIMPLE_HEAD, padding=0)
    cells = [[f"{value:.3f}" if isinstance(value, float) else str(value) for value in row] for row in frame.to_numpy()]
    for place, name in enumerate(frame.columns):
        heading = str(name).replace("_", " ")
        widest = max([0, *(len(text) for text in [*heading.split(), *(row[place] for row in cells)])])
        justify: Literal["left", "right"] = "right" if pd.api.types.is_numeric_dtype(frame[name]) else "left"
        table.add_column(heading, justify=justify, width=widest if widest <= LONGEST_WHOLE else None)
    for row in cells:
        table.add_row(*map(escape, row))
    return table
