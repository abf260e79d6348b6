"""Score and rank with a baseline, such as BM25 or the encoder without fine-tuning."""

from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from gedbd.configuration.command import command, gc_paused
from gedbd.experiments.run_folder import check_corpus, check_run_folder, use_run
from gedbd.experiments.sweep_jobs import resumable_job
from gedbd.io.console import open_console, silence_library_logs


@command("baseline")
@resumable_job
def main(cfg: DictConfig) -> float:
    """Fits the baseline on the training pairs, writes a run folder, and returns F1 on the split's pairs."""
    if cfg.run:
        check_run_folder(Path(cfg.run))
    with gc_paused():
        from gedbd.experiments.baseline_run import check_baseline, run_baseline
        from gedbd.experiments.loggers import check_loggers
        from gedbd.experiments.prepare import prepare_data

    console = open_console()
    check_baseline(cfg)
    check_loggers(cfg.logger)
    if cfg.run:
        cfg.baselines.frozen.checkpoint = str(use_run(cfg, Path(cfg.run)))
    silence_library_logs()
    prepared = prepare_data(cfg, console)
    if cfg.run:
        check_corpus(Path(cfg.run), prepared.corpus)
    return run_baseline(cfg, prepared, Path(HydraConfig.get().runtime.output_dir), console)


if __name__ == "__main__":
    main()
