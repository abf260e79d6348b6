"""Ctrl-C and SIGTERM during training: exit status, and the command that continues the run."""

import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytorch_lightning as pl
from hydra.core.hydra_config import HydraConfig
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from pytorch_lightning.callbacks import Callback

from gedbd.configuration.command import exit_status, raise_terminated
from gedbd.configuration.command_words import quoted_text
from gedbd.experiments.distributed import is_first
from gedbd.experiments.sweeps.jobs import JOB_FOLDER

# Options that a run's folder does not say, or is not trusted to say: code, addresses and files beside those of conf/.
NOT_SAVED = re.compile(r"-|.*(_target_|address|base_url|searchpath)(=|:)|.*=pkg://")
CALL_OPTION = re.compile(r"(cache_dir|json)=|\+*logger\b")  # belongs to this call, not to the run
PLAIN_VALUE = re.compile(r"[\w./:@%+-]+")  # what Hydra reads without quotes


@contextmanager
def keyboard_interrupts() -> Iterator[None]:
    """Raises KeyboardInterrupt where Lightning would exit with status 1, and makes Ctrl-C work again."""
    try:
        yield
    except SystemExit as ending:
        if not isinstance(ending.__context__, KeyboardInterrupt):
            raise
        # Lightning has set SIGINT to be ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        raise ending.__context__ from None


class TerminationHandler(Callback):
    """Lets SIGTERM end the training at once.

    Lightning's own handler waits for the end of a batch, ends the process with status 0 and, in a distributed run,
    waits for processes that may have ended. Under SLURM it stays, as it belongs to requeueing.
    """

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Replaces Lightning's handler."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and not SLURMEnvironment.detect():
            signal.signal(signal.SIGTERM, raise_terminated)

    on_test_start = on_train_start


@contextmanager
def exit_when_interrupted(seeds: int) -> Iterator[None]:
    """Ends the process with status 130 on Ctrl-C, 143 on SIGTERM, and prints how to continue the training."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if is_first() and JOB_FOLDER not in os.environ:  # the sweep of a job says how to continue it
            several = "hydra.run.dir" if seeds > 1 else None
            folder = Path(HydraConfig.get().runtime.output_dir)
            print(continuation_message(sys.argv[1:], folder, several), flush=True)
        raise SystemExit(exit_status(interrupt)) from None


def continuation_message(arguments: list[str], folder: Path, several: str | None = None) -> str:
    """What an interrupted training has saved, and the command that continues it.

    A single run continues by its checkpoint alone, as its options are in its folder.

    Args:
        arguments: The command's options as given.
        folder: The run folder, or the folder of several runs.
        several: The option that names the folder of several runs, such as ``hydra.run.dir`` with ``seeds=``: these
            continue with the same command. None for a single run.
    """
    if folder.is_relative_to(Path.cwd()):
        folder = folder.relative_to(Path.cwd())
    if several:
        kept = [word for word in arguments if not word.startswith(f"{several}=")]
        saved = f"interrupted; finished runs and the last epoch of the others are saved in {folder}; resume with:"
        return f"{saved}\n  {_command([*kept, _option(several, folder)])}"
    kept = [word for word in arguments if not word.startswith("ckpt_path=")]
    checkpoint = folder / "checkpoints" / "last.ckpt"
    if not checkpoint.is_file():
        saved = "interrupted before the end of the first epoch, so there is no checkpoint; start again with:"
        return f"{saved}\n  {_command(kept)}"
    # The other options are read from the folder.
    if not any(NOT_SAVED.match(word) for word in kept):
        kept = [word for word in kept if CALL_OPTION.match(word)]
    saved = f"interrupted; the last finished epoch is saved in {checkpoint}; resume with:"
    return f"{saved}\n  {_command([*kept, _option('ckpt_path', checkpoint)])}"


def _option(key: str, value: Path) -> str:
    text = str(value)
    return f"{key}={text}" if PLAIN_VALUE.fullmatch(text) else f"{key}={quoted_text(text)}"


def _command(words: list[str]) -> str:
    """The command line, with the folders of Python modules where it may name code of one's own."""
    path = os.environ.get("PYTHONPATH")
    before = f"PYTHONPATH={shlex.quote(path)} " if path and any(NOT_SAVED.match(word) for word in words) else ""
    return before + shlex.join(["gedbd", "train", *words])
