"""Score and rank with a baseline: ``python -m gedbd.baseline name=bm25 dataset=...``."""

from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_class, instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.configuration.command import command
from gedbd.experiments.checkpoint import check_corpus, save_run, use_run
from gedbd.experiments.evaluation_result import evaluate_baseline
from gedbd.experiments.results import first_row, report, show_verdict
from gedbd.experiments.sweeps.jobs import resumable_job
from gedbd.experiments.tracking.runs import check_login, open_loggers
from gedbd.io.library_logs import silence_library_logs
from gedbd.retrieval.tasks import TEST_POOL
from gedbd.tasks.duplicates.factory import prepare_data


@command("baseline")
@resumable_job
def main(cfg: DictConfig) -> float:
    """Fits the baseline on the training pairs, leaves a run folder, and returns F1 on the part's pairs."""
    console, folder = Console(), Path(HydraConfig.get().runtime.output_dir)
    if cfg.name not in cfg.baselines:
        raise ValueError(f"name={cfg.name} is no baseline: choose one of {', '.join(map(str, cfg.baselines))}")
    if cfg.part not in ("val", "test"):
        raise ValueError(f"part={cfg.part} is unknown: choose val or test")
    check_login(cfg.logger)
    if cfg.run:
        cfg.baselines.frozen.checkpoint = str(use_run(cfg, Path(cfg.run)))
    silence_library_logs()
    looks_back = getattr(get_class(cfg.baselines[cfg.name]._target_), "looks_back", False)
    if looks_back and TEST_POOL in cfg.ranking.protocols:
        raise ValueError(f"name={cfg.name} scores earlier reports only, and a pool holds later ones: protocol=earlier")
    prepared = prepare_data(cfg, console)
    if cfg.run:
        check_corpus(Path(cfg.run), prepared.corpus)
    baseline = instantiate(cfg.baselines[cfg.name], _convert_="object")
    outcome = evaluate_baseline(baseline, cfg.name, prepared, cfg.part)
    for notice in getattr(baseline, "notices_", ()):
        console.print(f"{prepared.corpus.name}: {notice}", markup=False, highlight=False)
    save_run(folder, cfg, prepared.corpus)
    with open_loggers(cfg, folder, "baseline") as loggers:
        tables = report(folder, outcome, console, loggers)
        for logger in loggers:
            logger.log_metrics(first_row(tables, cfg.part))
    show_verdict(console, outcome, tables)
    return float(tables["results"]["f1"].iloc[0])


if __name__ == "__main__":
    main()
