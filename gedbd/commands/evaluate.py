"""Score and rank the train, validation or test part with a trained run."""

from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.command import command, gc_paused
from gedbd.experiments.run_folder import check_run_folder, load_run, read_config
from gedbd.io.console import open_console


@command("evaluate")
def main(cfg: DictConfig) -> float:
    """Loads a run, scores and ranks one part with the run's threshold, and returns its F1."""
    check_run_folder(Path(cfg.run))
    with gc_paused():
        import pytorch_lightning as pl

        from gedbd.corpora.corpus import PARTS
        from gedbd.experiments.run_results import report, show_verdict

    folder = Path(cfg.run)
    console = open_console()
    if cfg.part not in PARTS:
        raise ValueError(f"part={cfg.part} is unknown: choose {', '.join(PARTS)}")
    task, setup = load_run(folder, cfg.checkpoint, cfg.part, cfg.cache_dir, console)
    trainer = pl.Trainer(logger=False, devices=1, enable_checkpointing=False)
    trainer.test(setup.system, setup.data, verbose=False)
    result = task.result(setup)
    tables = report(folder / "evaluation" / cfg.part, result, console, [], read_config(folder).encoder.name)
    show_verdict(console, result, tables)
    return float(tables["results"]["f1"].iloc[0])
