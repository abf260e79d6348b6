"""Score and rank a part with a trained run: ``python -m gedbd.evaluate run=outputs/... part=val``."""

from pathlib import Path

import pytorch_lightning as pl
from omegaconf import DictConfig
from rich.console import Console

from gedbd.configuration.command import command
from gedbd.corpora.splits import PARTS
from gedbd.experiments.checkpoint import load_run
from gedbd.experiments.results import report, show_verdict


@command("evaluate")
def main(cfg: DictConfig) -> float:
    """Loads a run, scores and ranks one part with the threshold as trained, returns its F1."""
    console, folder = Console(), Path(cfg.run)
    if cfg.part not in PARTS:
        raise ValueError(f"part={cfg.part} is unknown: choose {', '.join(PARTS)}")
    task, setup = load_run(folder, cfg.checkpoint, cfg.part, cfg.cache_dir, console)
    trainer = pl.Trainer(logger=False, devices=1, enable_checkpointing=False)
    trainer.test(setup.system, setup.data, verbose=False)
    result = task.result(setup)
    tables = report(folder / "evaluation" / cfg.part, result, console, [])
    show_verdict(console, result, tables)
    return float(tables["results"]["f1"].iloc[0])


if __name__ == "__main__":
    main()
