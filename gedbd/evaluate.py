"""Score a part of a trained run's pairs: ``python -m gedbd.evaluate run=outputs/... part=val``."""

from pathlib import Path

import pytorch_lightning as pl
from omegaconf import DictConfig
from rich.console import Console

from gedbd.checkpoint import load_run
from gedbd.config import door
from gedbd.data.splits import PARTS
from gedbd.results import report


@door("evaluate")
def main(cfg: DictConfig) -> float:
    """Loads a run, scores one part with the threshold as trained, writes ``evaluation/<part>/``, returns F1."""
    console, folder = Console(), Path(cfg.run)
    if cfg.part not in PARTS:
        raise ValueError(f"part={cfg.part} is unknown: choose {', '.join(PARTS)}")
    _, data, system = load_run(folder, cfg.checkpoint, cfg.part, cfg.cache_dir, console)
    data.evaluated = tuple(dict.fromkeys(("val", cfg.part)))
    trainer = pl.Trainer(logger=False, devices=1, enable_checkpointing=False)
    trainer.test(system, data, verbose=False)
    methods = report(folder / "evaluation" / cfg.part, trainer, system, data, console)
    return float(methods["f1"].iloc[0])


if __name__ == "__main__":
    main()
