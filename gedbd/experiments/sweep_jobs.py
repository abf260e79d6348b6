"""Jobs of a sweep: each records its state in its folder, so that the same command continues an interrupted sweep.

Each job runs in a process of its own: libraries, environment variables and signals of one job do not affect the others.
Hydra loads this module at every start, so it imports little.
"""

import functools
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import get_original_cwd
from omegaconf import DictConfig, OmegaConf, open_dict

from gedbd.configuration.command import Terminated, exit_status, plain_words, sigterm_as_interrupt, typed_words
from gedbd.configuration.command_words import quoted_text
from gedbd.configuration.errors import error_line, output_paths
from gedbd.io.console import first_line, is_first_process, open_console, print_line, say_once
from gedbd.io.files import read_object, write_text
from gedbd.io.locks import LockedError, only_writer

LOG_FILE = "log.txt"
STUDY = "sweep"  # name of a search with Optuna in its database
TRIAL = "GEDBD_TRIAL"  # environment variable of its jobs: the trial's id, "@" and the study's storage
JOB_FOLDER = "GEDBD_JOB_FOLDER"  # environment variable: folder of the job that a process was started for
ERROR_LINE = re.compile(r"^(\[rank\d+\]: )?(?P<reason>error: .+|[\w.]*(Error|Exception)\b.*)")
NOT_COMPARED = ("ckpt_path", "logger", "cache_dir", "data_dir")  # may differ when a job continues
ATTEMPT = "TORCHELASTIC_RESTART_COUNT"  # torchrun's processes find each other by it, so it must differ between jobs
Task = Callable[[DictConfig], float]
STATUS_FILE = "status.json"

WAITING = "waiting"
RUNNING = "running"  # or killed while running
FINISHED = "finished"
PRUNED = "pruned"
FAILED = "failed"
INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class JobStatus:
    """The state of a job."""

    # ``waiting``, ``running`` (or killed while running), ``finished``, ``pruned``, ``failed`` or ``interrupted``
    state: str
    overrides: tuple[str, ...]  # the options of the job, which identify it
    value: float | None = None  # the value that the job returned
    seconds: float | None = None  # duration of its last start
    reason: str | None = None  # why it failed
    settings: str | None = None  # a checksum of its resolved configuration

    @property
    def done(self) -> bool:
        """Whether the job does not need to run again."""
        return self.state in (FINISHED, PRUNED)


def write_status(folder: Path, status: JobStatus) -> None:
    """Replaces the status of a job; a reader always finds the old or the new one, even after a kill."""
    write_text(folder / STATUS_FILE, json.dumps(asdict(status), indent=2) + "\n")


def read_status(folder: Path) -> JobStatus | None:
    """The status of a job; None if the folder has none. Raises ValueError, naming the file, if it is damaged."""
    path = folder / STATUS_FILE
    try:
        content = read_object(path, "state", "overrides")
    except FileNotFoundError:
        return None
    known = {field.name: content[field.name] for field in fields(JobStatus) if field.name in content}
    if not isinstance(known["overrides"], list):
        raise ValueError(f"{path} is damaged: its overrides are not a list; delete it to run this job again")
    return JobStatus(**known | {"overrides": tuple(map(str, known["overrides"]))})


def read_jobs(sweep_dir: Path) -> dict[Path, JobStatus]:
    """All jobs in a sweep's folder, in the order of their numbers; damaged ones are printed and left out."""
    folders = [path.parent for path in sweep_dir.glob(f"*/{STATUS_FILE}")]
    folders.sort(key=lambda path: (int(path.name) if path.name.isdigit() else math.inf, path.name))
    jobs = {}
    for folder in folders:
        try:
            status = read_status(folder)
        except ValueError as error:
            say_once(f"left out: {error}")
            continue
        if status is not None:
            jobs[folder] = status
    return jobs


def find_job(sweep_dir: Path, overrides: tuple[str, ...]) -> str | None:
    """Name of the folder of the job with these overrides, in any order."""
    for folder, status in read_jobs(sweep_dir).items():
        if sorted(status.overrides) == sorted(overrides):
            return folder.name
    return None


def reserve_job(sweep_dir: Path, number: int, overrides: tuple[str, ...]) -> str:
    """Makes the folder of a new job, with its status in it, and returns the folder's name.

    The name is the job's number, or the number after the highest one that is taken.
    """
    sweep_dir.mkdir(parents=True, exist_ok=True)
    while True:
        taken = {int(path.name) for path in sweep_dir.iterdir() if path.name.isdigit() and any(path.iterdir())}
        free = number if number not in taken else max(taken) + 1
        # Prepared under another name and renamed: no process finds a job's folder without a status.
        new_folder = sweep_dir / f".new_{uuid4().hex}"
        new_folder.mkdir()
        write_status(new_folder, JobStatus(WAITING, overrides))
        try:
            new_folder.rename(sweep_dir / str(free))  # fails if another process was faster
        except OSError:
            shutil.rmtree(new_folder)
            folder = find_job(sweep_dir, overrides)
            if folder:
                return folder
        else:
            return str(free)


def job_folder(sweep_dir: str, number: int, overrides: Any) -> str:
    """Resolver of ``hydra.sweep.subdir``: the folder in which a job with these overrides has run, or a new one.

    A new folder is named by the job's number, or, if other overrides use it, by the next free number. Several
    processes may call this at the same time.
    """
    words = tuple(plain_words(overrides))
    return find_job(Path(sweep_dir), words) or reserve_job(Path(sweep_dir), int(number), words)


class Pruned(Exception):  # noqa: N818 - an ending, not an error
    """Ends a job that the sweeper stops before its last epoch."""

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
    OmegaConf.register_new_resolver("job_folder", job_folder, replace=True)
    spec = sys.modules["__main__"].__spec__
    module = spec.name if task.__module__ == "__main__" and spec else task.__module__

    @functools.wraps(task)
    def recorded(cfg: DictConfig) -> float:
        folder = Path(HydraConfig.get().runtime.output_dir)
        with sigterm_as_interrupt():
            if HydraConfig.get().mode == RunMode.MULTIRUN:
                try:
                    return _run_job(cfg, folder, module)
                except KeyboardInterrupt as interrupt:
                    raise SystemExit(exit_status(interrupt)) from None
            if os.environ.get(JOB_FOLDER) == str(folder):
                return _record(task, cfg, folder)
            with only_writer(folder) if is_first_process() else nullcontext():
                return task(cfg)

    return recorded


def _run_job(cfg: DictConfig, folder: Path, module: str) -> float:
    """Runs a job unless it has finished; returns its value, NaN if it has none."""
    previous = read_status(folder) or JobStatus(RUNNING, tuple(typed_words()))
    settings = _fingerprint(cfg)
    if previous.settings not in (None, settings) and (previous.done or any(folder.rglob("*.ckpt"))):
        changed = f"its configuration has changed since it ran in {folder}: set another hydra.sweep.dir"
        status = replace(previous, state=FAILED, reason=changed)
        if is_first_process():
            write_status(folder, status)
    elif previous.done and previous.settings == settings:
        status = previous
    elif is_first_process():
        status = _run_as_process(module, folder, previous)
    else:  # only the first process records the status and writes the log
        _run_process(module, folder, None)
        status = previous
    return math.nan if status.value is None else status.value


def _run_as_process(module: str, folder: Path, previous: JobStatus) -> JobStatus:
    """Runs a job in a process of its own and returns how it has ended."""
    with (folder / LOG_FILE).open("ab") as log:
        start = log.tell()
        returncode = _run_process(module, folder, log)
    status = read_status(folder) or previous
    # The process has recorded its own end, unless it was killed.
    if returncode == 0 or (status.state == FAILED and status != previous):
        return status
    with (folder / LOG_FILE).open("rb") as log:
        log.seek(start)
        log_lines = log.read().decode(errors="replace").splitlines()
    # The last error printed is the one that ended the process.
    matches = [match for line in log_lines if (match := ERROR_LINE.match(line))]
    reason = matches[-1]["reason"] if matches else f"its process ended with status {returncode}"
    status = replace(status, state=FAILED, reason=reason)
    write_status(folder, status)
    return status


def _run_process(module: str, folder: Path, log: BinaryIO | None) -> int:
    """Runs the command of a job and returns its exit status; after Ctrl-C or SIGTERM, waits for its end.

    Its output goes to ``log``, or to that of this process if ``log`` is None.
    """
    hydra = HydraConfig.get()
    command = [sys.executable, "-m", module, f"--config-name={hydra.job.config_name}"]
    command += [*typed_words("hydra"), *typed_words(), "hydra.mode=RUN", f"hydra.run.dir={quoted_text(str(folder))}"]
    command += ["hydra.output_subdir=null", *(f"~hydra.callbacks.{name}" for name in hydra.callbacks)]
    environment = os.environ | {JOB_FOLDER: str(folder)}
    if ATTEMPT in environment:
        environment[ATTEMPT] += f".{folder.name}"
    with subprocess.Popen(command, stdout=log, stderr=log, cwd=get_original_cwd(), env=environment) as process:
        try:
            return process.wait()
        except KeyboardInterrupt as interrupt:
            if isinstance(interrupt, Terminated):  # Ctrl-C reaches both processes
                process.terminate()
            process.wait()
            print_line(
                open_console(),
                f"interrupted in {folder}: the same command with hydra.sweep.dir={folder.parent} continues the sweep",
            )
            raise


def _record(task: Task, cfg: DictConfig, folder: Path) -> float:
    """Runs a job in this process, which was started for it, and records how it ends."""
    previous = read_status(folder) or JobStatus(RUNNING, tuple(typed_words()))
    running = replace(previous, state=RUNNING, value=None, reason=None, settings=_fingerprint(cfg))
    if "trainer" in cfg:
        cfg.trainer.enable_progress_bar = False  # it would fill the log
    if not is_first_process():
        return task(cfg)
    started = time.perf_counter()
    with ExitStack() as held:
        try:
            held.enter_context(only_writer(folder))
        except LockedError as error:
            print(f"another process is running this job: {error}")
            return math.nan
        write_status(folder, running)
        try:
            status = replace(running, state=FINISHED, value=task(cfg))
        except Pruned as pruned:
            status = replace(running, state=PRUNED, value=pruned.value)
        except Exception as error:  # of any kind: the other jobs continue
            traceback.print_exc()
            outputs = {"hydra.sweep.dir": folder.parent} | output_paths(cfg, run_folder=None)
            # In one line, also for an error that the user cannot correct.
            reason = error_line(error, outputs) or f"{type(error).__name__}: {first_line(error)}"
            status = replace(running, state=FAILED, reason=reason)
        except BaseException:
            write_status(folder, replace(running, state=INTERRUPTED))
            raise
        status = replace(status, seconds=round(time.perf_counter() - started, 1))
        write_status(folder, status)
    return math.nan if status.value is None else status.value


def _fingerprint(cfg: DictConfig) -> str:
    """A checksum of all settings that a job's numbers may depend on."""
    settings = cfg.copy()
    for key in NOT_COMPARED:
        if key in settings:
            settings[key] = None
    with open_dict(settings):
        settings.pop("json", None)  # says how results are printed
    return sha256(OmegaConf.to_yaml(settings, resolve=True).encode()).hexdigest()[:16]
