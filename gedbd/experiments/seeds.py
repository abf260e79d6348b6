"""Trains several seeds of one configuration, and writes the table of their results."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import rich
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console
from scipy.stats import t

from gedbd.experiments.callbacks import value_of_best
from gedbd.experiments.distributed import is_first
from gedbd.experiments.resuming import check_resumable, readable_checkpoint
from gedbd.experiments.run_folder import read_config
from gedbd.experiments.sweep_jobs import FINISHED, JobStatus, read_status, write_status
from gedbd.experiments.training_task import Task
from gedbd.io.command_output import print_table, record, recorded_part
from gedbd.io.console import open_console
from gedbd.io.locks import only_writer
from gedbd.io.table_files import read_csv, write_csv


def first_process_console() -> Console:
    """The console, which prints only in the first process; progress bars share it."""
    rich.reconfigure(quiet=not is_first())
    shared = rich.get_console()
    return shared if shared.is_terminal else open_console(quiet=shared.quiet)


def check_device(trainer: DictConfig) -> None:
    """Raises ValueError if the trainer asks for a GPU that PyTorch does not find."""
    if trainer.accelerator == "gpu" and not torch.accelerator.is_available():
        raise ValueError("trainer.accelerator=gpu, but torch finds no GPU on this machine: choose trainer=default")


def train_seeds(cfg: DictConfig, folder: Path, console: Console) -> float:
    """Trains one seed in the run folder, or each of several in its own folder below it.

    Returns:
        The value on validation, see ``Task.train``; with several seeds, their mean.
    """
    if cfg.seeds == 1:
        task: Task = instantiate(cfg.task)
        return task.train(cfg, folder, console)
    if cfg.ckpt_path:
        raise ValueError(
            f"seeds={cfg.seeds} does not work with ckpt_path=: resume several seeds with hydra.run.dir= instead"
        )
    for seed in range(cfg.seed, cfg.seed + cfg.seeds):
        with recorded_part("runs", seed=seed):
            train_seed(cfg, seed, folder / f"seed_{seed}", console)
    seeds = summarise_seeds(folder, console)
    return float(seeds["val_f1" if "val_f1" in seeds else "val_value"].mean())


def train_seed(cfg: DictConfig, seed: int, folder: Path, console: Console) -> None:
    """Trains one of several seeds unless it has finished, from its last checkpoint if there is one."""
    single = cfg.copy()
    single.seed = seed
    single.seeds = 1
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder) if is_first() else nullcontext():
        single.ckpt_path = readable_checkpoint(folder)
        if single.ckpt_path:
            check_resumable(single)
        status = read_status(folder)
        if status is None or not status.done:
            task: Task = instantiate(single.task)
            value = task.train(single, folder, console)
            if is_first():
                write_status(folder, JobStatus(FINISHED, (f"seed={seed}",), value))


def summarise_seeds(folder: Path, console: Console) -> pd.DataFrame:
    """Writes ``seeds.csv``, each method's metrics in each seed's run, and shows their means over seeds.

    The interval is Student's t over seeds: it covers the choice of the seed, not of the test reports.

    Returns:
        The table of ``seeds.csv``; ``val_f1`` is F1 of the best checkpoint, ``val_value`` the value that a task without
        F1 returns.
    """
    from gedbd.experiments.report.sweep_table import shown_metrics

    frames = []
    for run in sorted(folder.glob("seed_*"), key=lambda path: int(path.name.removeprefix("seed_"))):
        table = read_csv(run / "results.csv")
        if (run / "ranking.csv").is_file():
            table = table.merge(read_csv(run / "ranking.csv", "mrr"), on="method", how="left")
        epochs = run / "metrics.csv"
        if epochs.is_file() and "val/f1" in read_csv(epochs):
            measured = {"val_f1": value_of_best(run, read_config(run).monitor, "val/f1")}
        else:
            status = read_status(run)
            measured = {"val_value": float("nan") if status is None or status.value is None else status.value}
        frames.append(table.assign(seed=int(run.name.removeprefix("seed_")), **measured))
    seeds = pd.concat(frames, ignore_index=True)
    if is_first():
        write_csv(folder / "seeds.csv", seeds)
    record(folder=folder, seeds=seeds)
    metrics = shown_metrics(seeds.drop(columns="seed").iloc[0].to_dict())
    means = seeds.groupby("method", sort=False)[metrics].agg(mean_and_half).reset_index()
    print_table(console, means, f"mean ± 95% over {seeds['seed'].nunique()} seeds: {folder}")
    return seeds


def mean_and_half(values: pd.Series) -> str:
    """Mean and half its 95% interval by Student's t, for reading; a single value has no interval."""
    mean = values.to_numpy().mean()
    half_width = t.ppf(0.975, len(values) - 1) * values.to_numpy().std(ddof=1) / np.sqrt(len(values))
    return f"{mean:.3f}" if np.isnan(half_width) else f"{mean:.3f} ± {half_width:.3f}"
