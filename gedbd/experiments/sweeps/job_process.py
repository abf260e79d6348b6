"""Jobs of a sweep in processes of their own, for those in which Lightning starts further processes."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_original_cwd
from omegaconf import DictConfig

from gedbd.configuration.command import Terminated
from gedbd.experiments.sweeps.job_status import FAILED, JobStatus, read_status, write_status
from gedbd.io.printing import open_console, print_line

LOG_FILE = "log.txt"
OWN_PROCESS = "GEDBD_JOB_FOLDER"  # environment variable: folder of the job that a process was started for
ERROR_LINE = re.compile(r"^(\[rank\d+\]: )?(?P<reason>error: .+|[\w.]*(Error|Exception)\b.*)")


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
