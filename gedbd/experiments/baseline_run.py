"""One run of a baseline: fit it, score a part's pairs and queries, and write the run folder."""

from pathlib import Path
from typing import Any

from hydra.utils import get_class, instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.experiments.checkpoint import save_run
from gedbd.experiments.evaluation_result import evaluate_baseline
from gedbd.experiments.prepare import PreparedData, check_ranking, ranks_later
from gedbd.experiments.results import first_row, report, show_verdict
from gedbd.experiments.tracking.runs import open_loggers


def check_baseline(cfg: DictConfig) -> None:
    """Raises ValueError if there is no such baseline or part, or the baseline cannot rank as configured."""
    if cfg.name not in cfg.baselines:
        raise ValueError(f"name={cfg.name} is not a baseline: choose one of {', '.join(map(str, cfg.baselines))}")
    if cfg.part not in ("val", "test"):
        raise ValueError(f"part={cfg.part} is unknown: choose val or test")
    scorer: Any = get_class(cfg.baselines[cfg.name]._target_)
    check_ranking(cfg.ranking)
    if scorer.earlier_only and any(ranks_later(finder) for finder in cfg.ranking.protocols.values()):
        raise ValueError(f"name={cfg.name} scores earlier reports only, and a pool holds later ones: protocol=earlier")


def run_baseline(cfg: DictConfig, prepared: PreparedData, folder: Path, console: Console) -> float:
    """Fits the configured baseline on prepared data, and writes and prints its results.

    Args:
        cfg: The composed configuration of ``conf/baseline.yaml``.
        prepared: Reports, parts, pairs and queries.
        folder: The run folder.
        console: Where results and warnings go.

    Returns:
        F1 on the part's pairs.
    """
    baseline = instantiate(cfg.baselines[cfg.name], _convert_="object")
    result = evaluate_baseline(baseline, cfg.name, prepared, cfg.part)
    for warning in baseline.warnings_:
        console.print(f"{prepared.corpus.name}: {warning}", markup=False, highlight=False)
    save_run(folder, cfg, prepared.corpus)
    with open_loggers(cfg, folder, "baseline") as loggers:
        tables = report(folder, result, console, loggers)
        for logger in loggers:
            logger.log_metrics(first_row(tables, cfg.part))
    show_verdict(console, result, tables)
    return float(tables["results"]["f1"].iloc[0])
