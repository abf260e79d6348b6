"""Output of a sweep: a line for each job, and a table at the end. Hydra loads this module at every start."""

from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import pandas as pd
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob
from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, open_dict, read_write

from gedbd.configuration.command import plain_words
from gedbd.configuration.command_words import quoted_text
from gedbd.experiments.sweep_jobs import FAILED, FINISHED, LOG_FILE, PRUNED, JobStatus, read_jobs, read_status
from gedbd.io.command_output import finish_document, print_table, record
from gedbd.io.console import is_first_process, is_quiet, open_console, print_detail, print_line, print_path, say_once
from gedbd.io.table_files import read_csv, write_csv

SUMMARY_METRICS = ("f1", "average_precision", "rr@10", "mrr", "spearman", "rmse", "mean_accuracy")


class SweepTable(Callback):
    """Prints a line for each job of a sweep and a table of all test results, which it also writes as ``summary.csv``.

    A sweep with failed jobs ends with their reasons and exit status 1.
    """

    def __init__(self) -> None:
        self.jobs: list[tuple[str, ...]] | None = None  # overrides of all jobs, if known in advance
        self.total: int | None = None
        self.varied: set[str] = set()
        self.before: dict[Path, JobStatus] = {}

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Fixes the name of the sweep's folder, which may contain the time, for the processes of all jobs."""
        folder = str(config.hydra.sweep.dir)
        # Each job composes its configuration again, and a name with the time would differ.
        with read_write(config.hydra), open_dict(config.hydra):
            config.hydra.sweep.dir = folder
            config.hydra.overrides.hydra.append(f"hydra.sweep.dir={quoted_text(folder)}")
        if not is_first_process():
            return
        self._find_jobs(config)
        self.before = read_jobs(Path(folder).absolute())
        count = "jobs" if self.total is None else "1 job" if self.total == 1 else f"{self.total} jobs"
        if not is_quiet():
            print_path(open_console(), f"sweep of {count} in", folder)
            print_path(open_console(), "continue it with the same command and", f"hydra.sweep.dir={folder}")

    def _find_jobs(self, config: DictConfig) -> None:
        """Counts the jobs and finds the options that vary."""
        params = [f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()]
        overrides = OverridesParser.create().parse_overrides([*params, *plain_words(config.hydra.overrides.task)])
        self.varied = {str(item.get_key_element()) for item in overrides if item.is_sweep_override()}
        has_glob = any(isinstance(item.value(), Glob) for item in overrides)  # Hydra finds the files it names later
        if config.hydra.sweeper._target_.endswith(".BasicSweeper") and not has_glob:
            (batch,) = BasicSweeper.split_arguments(overrides, None)
            self.jobs = [tuple(job) for job in batch]
            self.total = len(self.jobs)
        else:
            self.total = config.hydra.sweeper.get("n_trials")

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Prints the job's line."""
        folder = Path(config.hydra.runtime.output_dir)
        status = read_status(folder) if config.hydra.mode == RunMode.MULTIRUN else None
        if status is not None and is_first_process():
            self._show_job(config.hydra.job.num + 1, folder, status)

    def _show_job(self, number: int, folder: Path, status: JobStatus) -> None:
        counter = f"[{number}/{self.total}]" if self.total else f"[{number}]"
        varied = [item for item in status.overrides if item.partition("=")[0] in self.varied]
        skipped = status.done and status == self.before.get(folder)
        print_detail(open_console(), "  ".join([counter, *varied, *_ending(folder, status, skipped)]))

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Prints and writes the table; exits with status 1 if jobs have failed."""
        if not is_first_process():
            return
        console = open_console()
        folder = Path(config.hydra.sweep.dir)
        all_jobs = read_jobs(folder)
        jobs = all_jobs
        if self.jobs is not None:
            expected = {tuple(sorted(job)) for job in self.jobs}
            jobs = {job: status for job, status in all_jobs.items() if tuple(sorted(status.overrides)) in expected}
        if "submitit" in config.hydra.launcher._target_:  # its jobs print to files of their own
            for number, (job, status) in enumerate(jobs.items(), start=1):
                self._show_job(number, job.absolute(), status)
        if len(jobs) < len(all_jobs):
            print_line(
                console, f"left out: {len(all_jobs) - len(jobs)} jobs in {folder} that are not part of this command"
            )
        show_jobs(folder, jobs)
        failed = {job: status for job, status in jobs.items() if not status.done}
        for job, status in failed.items():
            reason = status.reason or "it has not finished: it was killed, or another process is still running it"
            print_line(console, f"{status.state}: {job}: {reason} (see its {LOG_FILE})")
        finish_document()
        if failed:
            raise SystemExit(1)


def show_jobs(folder: Path, jobs: dict[Path, JobStatus]) -> None:
    """Prints and writes ``summary.csv``: a row for each job, with its state if not all have finished."""
    if not jobs:
        return
    all_finished = all(status.state == FINISHED for status in jobs.values())
    rows = []
    measured: dict[str, Any] = {}
    for job, status in jobs.items():
        options = dict(item.split("=", 1) for item in status.overrides)
        state = {} if all_finished else {"state": status.state}
        results = _results(job) if status.state == FINISHED else {}
        rows.append({"run": job.name} | options | state | results)
        measured |= results
    summary = pd.DataFrame(rows)
    write_csv(folder / "summary.csv", summary)
    record(sweep=folder, summary=summary)
    typed = {item.partition("=")[0] for status in jobs.values() for item in status.overrides}
    varied = [name for name in summary if name in typed and summary[name].nunique(dropna=False) > 1]
    columns = ["run", *varied, *([] if all_finished else ["state"]), *shown_metrics(measured)]
    # The last name of each option, ``pca_dim`` for ``graph.pca_dim``, unless two of these are equal.
    short = {name: name.rpartition(".")[2] for name in varied}
    printed = summary[columns].astype(object).where(summary[columns].notna(), "")
    if len(set(short.values())) == len(short):
        printed = printed.rename(columns=short)
    finished = sum(status.state == FINISHED for status in jobs.values())
    print_table(open_console(), printed, f"{finished} of {len(jobs)} runs in {folder}")


def shown_metrics(results: Mapping[Any, Any]) -> list[str]:
    """The metrics that tables of runs show: those in ``SUMMARISED``, or all numbers of a task without these."""
    numbers = [name for name, value in results.items() if isinstance(value, Real)]
    values = [name for name in numbers if not name.endswith(("_low", "_high"))]
    return [name for name in SUMMARY_METRICS if name in results] or values


def job_results(folder: Path) -> dict[str, Any]:
    """Test results of a finished job's first method; means over its seeds, without intervals, if it has several."""
    if (folder / "seeds.csv").is_file():
        seeds = read_csv(folder / "seeds.csv", "seed")
        first = seeds[seeds["method"] == seeds["method"][0]]
        # The means of interval ends are not the ends of an interval.
        means = first.mean(numeric_only=True).drop("seed").filter(regex="(?<!_low)(?<!_high)$")
        return {str(name): value for name, value in means.items()}
    tables = [folder / name for name in ("results.csv", "ranking.csv") if (folder / name).is_file()]
    rows = [read_csv(table).iloc[0].drop(["method"]) for table in tables]
    return {str(name): value for row in rows for name, value in row.items()}


def _results(folder: Path) -> dict[str, Any]:
    """The results of a finished job; empty, with a printed reason, if their file is damaged or missing."""
    try:
        return job_results(folder)
    except (ValueError, OSError) as error:
        say_once(f"no results of {folder}: {error}")
        return {}


def _ending(folder: Path, status: JobStatus, skipped: bool) -> list[str]:
    """The end of a job's line: duration and results, or why it did not finish."""
    if status.state == FAILED:
        return [f"failed: {status.reason}"]
    if not status.done:
        return [status.state]
    time = ["finished before"] if skipped else [f"{status.seconds:.0f} s"]
    if status.state == PRUNED:
        return [*time, f"pruned at {status.value:.3f}"]
    results = _results(folder)
    shown_results = [("F1", "f1"), ("RR@10", "rr@10"), ("rho", "spearman"), ("mean accuracy", "mean_accuracy")]
    if not any(name in results for name in SUMMARY_METRICS):
        shown_results = [(name, name) for name in shown_metrics(results)]
    return [*time, *(f"{name} {results[key]:.3f}" for name, key in shown_results if key in results)]
