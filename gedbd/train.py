"""Train, validate and test an encoder, with or without the graph."""

import os
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from gedbd.configuration.command import command, gc_paused, typed_words
from gedbd.configuration.option_types import check_trainer
from gedbd.experiments.sweep_jobs import JOB_FOLDER, resumable_job
from gedbd.io.console import print_detail


@command("train")
@resumable_job
def main(cfg: DictConfig) -> float:
    """Trains, tests the best checkpoint, writes a run folder, and returns that checkpoint's validation F1.

    With ``seeds=5`` it trains five seeds, each in its own folder, and returns the mean; with the ``hydra.run.dir`` of
    interrupted seeds it continues there. A single run continues from its ``ckpt_path=``.
    """
    check_trainer(cfg.trainer)
    with gc_paused():
        from gedbd.experiments.loggers import check_loggers
        from gedbd.experiments.resuming import exit_when_interrupted, readable_checkpoint, resumed_options
        from gedbd.experiments.run_folder import Run
        from gedbd.experiments.seeds import check_device, first_process_console, train_seeds
        from gedbd.experiments.training_summary import preset_line
        from gedbd.experiments.training_task import check_sections

        console = first_process_console()
        check_loggers(cfg.logger)
        hydra = HydraConfig.get()
        words = typed_words()
        check_sections(cfg, words, hydra.runtime.choices)  # imports the task
    folder = Path(hydra.runtime.output_dir)
    if JOB_FOLDER in os.environ and cfg.ckpt_path is None and cfg.seeds == 1:  # a job of a sweep continues
        cfg.ckpt_path = readable_checkpoint(folder)
    if cfg.ckpt_path:
        cfg = resumed_options(cfg, words, hydra.runtime.choices)
        words = [*Run(Path(cfg.ckpt_path).parent.parent).overrides, *words]
        check_trainer(cfg.trainer)
    check_device(cfg.trainer)
    print_detail(console, preset_line(words))
    with exit_when_interrupted(cfg.seeds):
        return train_seeds(cfg, folder, console)


if __name__ == "__main__":
    main()
