"""One training run: train, test the best checkpoint, leave a run folder."""

from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.experiments.callbacks import check_monitor, training_callbacks
from gedbd.experiments.prepare import check_ranking
from gedbd.experiments.results import report, show_verdict
from gedbd.experiments.training import trained, value_of_best
from gedbd.experiments.training_task import SystemTask, Task
from gedbd.retrieval.ranking import metric_names
from gedbd.retrieval.reports.on_top import METRICS


def train_once(cfg: DictConfig, folder: Path, console: Console) -> float:
    """Trains the configured task, see ``Task.train``."""
    task: Task = instantiate(cfg.task)
    return task.train(cfg, folder, console)


def train_system(task: SystemTask, cfg: DictConfig, folder: Path, console: Console) -> float:
    """Trains a task's system, writes the run folder, and returns the best checkpoint's validation F1.

    Raises:
        KeyboardInterrupt: If Ctrl-C was pressed; the last finished epoch is saved in ``checkpoints/last.ckpt``.
    """
    check_ranking(cfg.ranking)
    # Once before the data is read, and again when it is known what there is to rank.
    on_top = METRICS if cfg.ranking.ranker else ()
    check_monitor(cfg.monitor, (*metric_names(cfg.ranking.top_k, cfg.ranking.protocols), *on_top))
    callbacks = training_callbacks(folder, cfg.monitor, cfg.patience, console)
    setup = task.build(cfg, console)
    check_monitor(cfg.monitor, (*metric_names(cfg.ranking.top_k, setup.ranked_protocols), *on_top))
    with trained(setup.system, setup.data, setup.corpus, cfg, folder, callbacks, console) as training:
        if training.is_first:
            result = task.result(setup)
            tables = report(folder, result, console, training.loggers, cfg.encoder.name)
    if training.is_first:
        show_verdict(console, result, tables)
    return best_f1(folder, cfg.monitor)


def best_f1(folder: Path, monitor: str) -> float:
    """Validation F1 of a run's best checkpoint."""
    return value_of_best(folder, monitor, "val/f1")
