"""Jobs of a sweep: each records its state in its folder, so that the same command continues an interrupted sweep.

Hydra loads this module at every start, so it imports little.
"""

import functools
import math
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import get_original_cwd
from omegaconf import DictConfig, OmegaConf, open_dict

from gedbd.configuration.command import Terminated, exit_status, sigterm_as_interrupt
from gedbd.configuration.errors import error_line, written_places
from gedbd.experiments.sweeps.job_status import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    PRUNED,
    RUNNING,
    JobStatus,
    read_status,
    write_status,
)
from gedbd.io.console import is_first_process, open_console, print_line
from gedbd.io.locks import LockedError, only_writer

LOG_FILE = "log.txt"
OWN_PROCESS = "GEDBD_JOB_FOLDER"  # environment variable: folder of the job that a process was started for
ERROR_LINE = re.compile(r"^(\[rank\d+\]: )?(?P<reason>error: .+|[\w.]*(Error|Exception)\b.*)")
NOT_COMPARED = ("ckpt_path", "logger", "cache_dir", "data_dir")  # may differ when a job continues
Task = Callable[[DictConfig], float]


def job_folder(sweep_dir: str, number: int, overrides: Any) -> str:
    """Resolver of ``hydra.sweep.subdir``: the folder in which a job with these overrides has run, or a new one.

    A new folder is named by the job's number, or by the next free number if other overrides have used it. Several
    processes may call this at the same time.
    """
    from gedbd.experiments.sweeps.job_status import find_job, reserve_job

    wanted = tuple(map(str, overrides))
    found = find_job(Path(sweep_dir), wanted)
    return found or reserve_job(Path(sweep_dir), int(number), wanted)


OmegaConf.register_new_resolver("job_folder", job_folder)


class Pruned(Exception):  # noqa: N818 - an ending, not an error
    """Ends a job that the sweeper stops before its last epoch.

    Args:
        value: The job's value so far.
    """

    def __init__(self, value: float) -> None:
        super().__init__(f"pruned at {value:.3f}")
        self.value = value


def resumable_job(task: Task) -> Task:
    """Makes a command's function a job that a sweep may run again; outside sweeps only its signals and lock change.

    SIGTERM ends it as Ctrl-C does. Outside sweeps too, a second process with the same folder is refused.

    In a sweep, a finished job returns its stored value, and an interrupted or failed one continues from
    ``checkpoints/last.ckpt``. After an error the job has the state ``failed`` and the value NaN, and the other jobs
    still run. Output of a job goes to ``log.txt`` in its folder.
    """
    spec = sys.modules["__main__"].__spec__
    module = spec.name if task.__module__ == "__main__" and spec else task.__module__

    @functools.wraps(task)
    def recorded(cfg: DictConfig) -> float:
        with sigterm_as_interrupt():
            if HydraConfig.get().mode != RunMode.MULTIRUN:
                with only_writer(Path(HydraConfig.get().runtime.output_dir)) if is_first_process() else nullcontext():
                    return task(cfg)
            try:
                return _run_job(task, cfg, module)
            except KeyboardInterrupt as interrupt:
                raise SystemExit(exit_status(interrupt)) from None

    return recorded


def _run_job(task: Task, cfg: DictConfig, module: str) -> float:
    """Runs a job unless it has finished; returns its value, NaN if it has none."""
    folder = Path(HydraConfig.get().runtime.output_dir)
    before = read_status(folder) or JobStatus(RUNNING, tuple(HydraConfig.get().overrides.task))
    settings = _fingerprint(cfg)
    if before.done and before.settings == settings:
        return math.nan if before.value is None else before.value

    from gedbd.experiments.distributed import is_first

    if not is_first():  # the first process records
        _prepare(cfg, folder)
        return task(cfg)
    if before.settings not in (None, settings) and (before.done or any(folder.rglob("*.ckpt"))):
        changed = f"its configuration has changed since it ran in {folder}: set another hydra.sweep.dir"
        status = replace(before, state=FAILED, reason=changed)
        write_status(folder, status)
    elif os.environ.get(OWN_PROCESS) != str(folder) and starts_processes(cfg):
        status = run_as_process(module, folder, before)
    else:
        status = _run_here(task, cfg, folder, replace(before, value=None, reason=None, settings=settings))
    return math.nan if status.value is None else status.value


def _run_here(task: Task, cfg: DictConfig, folder: Path, status: JobStatus) -> JobStatus:
    """Runs a job in this process and records how it ends, unless another process is running it."""
    started = time.perf_counter()
    with ExitStack() as held:
        try:
            held.enter_context(only_writer(folder))
        except LockedError as error:
            print(f"another process is running this job: {error}")
            return status
        write_status(folder, replace(status, state=RUNNING))
        try:
            value = _logged(task, cfg, folder)
            status = replace(status, state=FINISHED, value=value)
        except Pruned as pruned:
            status = replace(status, state=PRUNED, value=pruned.value)
        except Exception as error:  # of any kind: the other jobs continue
            status = replace(status, state=FAILED, reason=_reason(error, cfg, folder))
        except BaseException:
            write_status(folder, replace(status, state=INTERRUPTED))
            print_continuation(folder)
            raise
        status = replace(status, seconds=round(time.perf_counter() - started, 1))
        write_status(folder, status)
    return status


def _logged(task: Task, cfg: DictConfig, folder: Path) -> float:
    with _output_to(folder / LOG_FILE):
        try:
            _prepare(cfg, folder)
            return task(cfg)
        except Exception as error:
            if not isinstance(error, Pruned):
                traceback.print_exc()
            raise


def _prepare(cfg: DictConfig, folder: Path) -> None:
    """Resumes from the last checkpoint, and hides progress bars, which would fill the log."""
    if "trainer" in cfg:
        cfg.trainer.enable_progress_bar = False
    if "ckpt_path" in cfg and cfg.ckpt_path is None and cfg.seeds == 1:
        from gedbd.experiments.checkpoint import readable_checkpoint

        cfg.ckpt_path = readable_checkpoint(folder)


def _fingerprint(cfg: DictConfig) -> str:
    """A checksum of all settings that a job's numbers may depend on."""
    settings = cfg.copy()
    for key in NOT_COMPARED:
        if key in settings:
            settings[key] = None
    with open_dict(settings):
        settings.pop("json", None)  # says how results are printed
    return sha256(OmegaConf.to_yaml(settings, resolve=True).encode()).hexdigest()[:16]


def _reason(error: Exception, cfg: DictConfig, folder: Path) -> str:
    """The error that ended a job, in one line."""
    places = {"hydra.sweep.dir": folder.parent} | written_places(cfg, run_folder=None)
    return error_line(error, places) or f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Appends everything that this process prints to a file.

    It replaces the file descriptors of the standard streams, because libraries keep the stream objects that they find
    when they are imported.
    """
    streams = (sys.stdout, sys.stderr)
    for stream in streams:
        stream.flush()
    kept = [os.dup(1), os.dup(2)]
    with path.open("ab") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    try:
        yield
    finally:
        for stream in streams:
            stream.flush()
        for descriptor, original in zip((1, 2), kept, strict=True):
            os.dup2(original, descriptor)
            os.close(original)


def starts_processes(cfg: DictConfig) -> bool:
    """Whether Lightning is going to start further processes for this job."""
    if "trainer" not in cfg or "LOCAL_RANK" in os.environ:
        return False
    if cfg.trainer.get("strategy", "auto") == "auto" and cfg.trainer.get("devices", 1) == 1:
        return False
    from lightning_fabric.plugins.environments.slurm import SLURMEnvironment

    return not SLURMEnvironment.detect()


def run_as_process(module: str, folder: Path, before: JobStatus) -> JobStatus:
    """Runs a job as a command of its own, a sweep with a single job.

    Lightning starts a job's further processes by the command line of the first one, leaves environment variables
    behind, and kills the first process if another one fails. None of this may affect the other jobs. The job's folder
    is the folder of that sweep, because Hydra writes ``multirun.yaml`` into the folder of each sweep.
    """
    hydra = HydraConfig.get()
    # --config-dir of the command line is no override, so it is passed on separately.
    searched = [source.path for source in hydra.runtime.config_sources if source.provider == "command-line"]
    command = [sys.executable, "-m", module, "-m", f"--config-name={hydra.job.config_name}"]
    command += [f"--config-dir={path}" for path in searched]
    command += [*hydra.overrides.task, f"hydra.sweep.dir={quoted(folder)}", "hydra.sweep.subdir=."]
    command += ["hydra.output_subdir=null", *(f"~hydra.callbacks.{name}" for name in hydra.callbacks)]
    with (folder / LOG_FILE).open("ab") as log:
        start = log.tell()
        returncode = _run_process(command, log, folder)
    status = read_status(folder) or before
    # The process has recorded its own end, unless it was killed.
    if returncode == 0 or (status.state == FAILED and status != before):
        return status
    with (folder / LOG_FILE).open("rb") as log:
        log.seek(start)
        printed = log.read().decode(errors="replace").splitlines()
    # The last error printed is the one that ended the process.
    matches = [found for line in printed if (found := ERROR_LINE.match(line))]
    reason = matches[-1]["reason"] if matches else f"its process ended with status {returncode}"
    status = replace(status, state=FAILED, reason=reason)
    write_status(folder, status)
    return status


def _run_process(command: list[str], log: BinaryIO, folder: Path) -> int:
    """Runs a job's command and returns its exit status; after Ctrl-C or SIGTERM, waits for its end."""
    environment = os.environ | {OWN_PROCESS: str(folder)}
    with subprocess.Popen(command, stdout=log, stderr=log, cwd=get_original_cwd(), env=environment) as process:
        try:
            return process.wait()
        except KeyboardInterrupt as interrupt:
            if isinstance(interrupt, Terminated):  # Ctrl-C reaches both processes
                process.terminate()
            process.wait()
            print_continuation(folder)
            raise


def print_continuation(folder: Path) -> None:
    """Prints how to continue a sweep after Ctrl-C has ended the job in a folder."""
    print_line(
        open_console(),
        f"interrupted in {folder}: the same command with hydra.sweep.dir={folder.parent} continues the sweep",
    )


def quoted(text: object) -> str:
    """A value in quotes for Hydra's command line."""
    return "'" + str(text).replace("'", "\\'") + "'"
