"""Runs a baseline: fits it, scores the pairs and queries of a split, and writes the run folder."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.utils import get_class, instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.evaluation.display_names import with_trained_encoder
from gedbd.evaluation.pairwise import GRID, best_threshold, score_grid
from gedbd.experiments.loggers import open_loggers
from gedbd.experiments.prepare import PreparedData, check_ranking, ranks_later
from gedbd.experiments.run_folder import save_run
from gedbd.experiments.run_results import first_row, report, show_verdict
from gedbd.experiments.training_task import EvaluationResult, name_reports
from gedbd.io.command_output import record
from gedbd.io.console import print_line, stage
from gedbd.io.table_files import write_csv
from gedbd.retrieval.ranking_tasks import RankingTask, rank_all
from gedbd.retrieval.report_ranking.report_scorer import LearntReports
from gedbd.retrieval.scorers.scorer_contract import Scorer, pair_scores

FIRST_STAGE_DEPTHS = (100, 300)


def check_baseline(cfg: DictConfig) -> None:
    """Raises ValueError if there is no such baseline or split, or the baseline cannot rank as configured."""
    if cfg.name not in cfg.baselines:
        raise ValueError(f"name={cfg.name} is not a baseline: choose one of {', '.join(map(str, cfg.baselines))}")
    if cfg.part not in ("val", "test"):
        raise ValueError(f"part={cfg.part} is unknown: choose val or test")
    if cfg.get("llm") is not None and "llm" not in cfg.baselines[cfg.name]:
        raise ValueError(f"name={cfg.name} does not use scores of llm: choose name=boosted, or leave llm out")
    scorer: Any = get_class(cfg.baselines[cfg.name]._target_)
    check_ranking(cfg.ranking)
    if scorer.earlier_only and any(ranks_later(finder) for finder in cfg.ranking.protocols.values()):
        raise ValueError(
            f"name={cfg.name} scores earlier reports only, but a pool holds later ones: set protocol=earlier"
        )


def run_baseline(cfg: DictConfig, prepared: PreparedData, folder: Path, console: Console) -> float:
    """Fits the configured baseline on prepared data, and writes and prints its results."""
    baseline = instantiate(cfg.baselines[cfg.name], _convert_="object")
    result = evaluate_baseline(baseline, cfg.name, prepared, cfg.part)
    if cfg.run:
        result = replace(result, own_name=with_trained_encoder(cfg.name))
    for warning in baseline.warnings_:
        print_line(console, f"{prepared.corpus.name}: {warning}")
    save_run(folder, cfg, prepared.corpus)
    with open_loggers(cfg, folder, "baseline") as loggers:
        tables = report(folder, result, console, loggers)
        for logger in loggers:
            logger.log_metrics(first_row(tables, cfg.part))
    show_verdict(console, result, tables)
    if isinstance(baseline, LearntReports):
        _report_first_stage(baseline, result.queries, folder, console)
    return float(tables["results"]["f1"].iloc[0])


@stage("fit, score and rank")
def evaluate_baseline(baseline: Scorer, name: str, prepared: PreparedData, part: str) -> EvaluationResult:
    """Fits a baseline, scores the pairs of ``val`` and of a split, and ranks the split's queries.

    A baseline without a threshold of its own gets the one with the best F1 on the validation pairs.
    """
    corpus = prepared.corpus
    pairs = prepared.pairs
    baseline.fit(prepared.scorer_inputs(part))
    chosen = pairs[pairs["part"].isin(("val", part))]
    scores = pair_scores(baseline, chosen["later"].to_numpy(), chosen["earlier"].to_numpy())
    predictions = name_reports(chosen.assign(score=scores), corpus, "earlier", "later")
    val = predictions[predictions["part"] == "val"]
    threshold = baseline.threshold
    if threshold is None:
        scores = val["score"].to_numpy()
        grid = GRID if baseline.on_training_grid else score_grid(scores)
        threshold = best_threshold(scores, val["label"].to_numpy(), grid)
    queries = prepared.queries.get(part, {})
    return EvaluationResult(
        corpus=corpus,
        parts=prepared.parts,
        pairs=pairs,
        predictions=predictions,
        part=part,
        methods={name: "score"},
        threshold=threshold,
        queries=queries,
        rankings=rank_all(queries, {name: baseline}),
    )


def _report_first_stage(
    baseline: LearntReports, queries: Mapping[str, RankingTask], folder: Path, console: Console
) -> None:
    """Writes ``first_stage.csv``: shares of queries with a relevant document among the first candidates."""
    rows = []
    for protocol, task in queries.items():
        relevant = [task.relevant(index) for index in range(len(task))]
        ranks = baseline.first_stage_ranks(task.queries, relevant)
        shares = {depth: float(((ranks > 0) & (ranks <= depth)).mean()) for depth in FIRST_STAGE_DEPTHS}
        rows.append({"protocol": protocol} | {f"recall@{depth}": share for depth, share in shares.items()})
        words = ", ".join(f"{share:.3f} among the first {depth}" for depth, share in shares.items())
        print_line(console, f"first stage, share of queries with a duplicate among the candidates: {words}")
    first_stage = pd.DataFrame(rows)
    write_csv(folder / "first_stage.csv", first_stage)
    record(first_stage=first_stage)
