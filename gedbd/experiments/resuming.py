"""Interrupts and resumes training: checkpoints, signals, and the options of the run.

A run continues with its saved options, except trainer, callbacks, logger and patience, which the command line may set.
If it sets any other option, the command line must compose all options of the run again.
"""

import os
import shlex
import signal
import sys
import threading
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.core.hydra_config import HydraConfig
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import Callback

from gedbd.configuration.allowed_targets import named_addresses
from gedbd.configuration.command import exit_status, raise_terminated
from gedbd.configuration.command_words import option_of, path_value, section_of
from gedbd.configuration.option_types import plain_options, written_value
from gedbd.corpora.corpus import ChangeCorpus, Corpus
from gedbd.encoders.encoder_weights import read_state, read_tensors
from gedbd.experiments.distributed import is_first
from gedbd.experiments.run_folder import check_corpus, read_saved, saved_options
from gedbd.experiments.sweep_jobs import JOB_FOLDER
from gedbd.io.checksums import check_whole, checksum, note_checksums, noted_checksums
from gedbd.io.console import first_line, open_console, print_line
from gedbd.io.files import replacing

# What a checkpoint holds besides the weights, unless it was saved for its weights only.
TRAINING_STATE = ("pytorch-lightning_version", "optimizer_states", "lr_schedulers", "loops", "callbacks")
MAY_DIFFER = ("ckpt_path", "seeds", "trainer", "callbacks", "logger", "patience", "cache_dir", "json")
NOT_COMPARED = (*MAY_DIFFER, "data_dir")  # by default a folder of the working directory
CHOSEN_NAMES = ("ranking.protocols",)  # sections whose names the user chooses, so that a further one is a difference


def resumed_options(cfg: DictConfig, given: Sequence[str], choices: Container[str]) -> DictConfig:
    """The options of the run to resume, with those of the command line that may differ.

    A chosen file, such as ``trainer=gpu``, replaces the section of the run, except its number of epochs. Options that
    the run does not have keep their defaults.

    Raises:
        ValueError: If the command line sets an option that must not differ, and its options are not those of the run.
    """
    now, saved = OmegaConf.create(saved_options(cfg)), _options_of_run(cfg)
    changed_sections = {section_of(word) for word in given} - set(MAY_DIFFER)
    if changed_sections:
        _check_equal(now, saved, changed_sections)
    resumed = OmegaConf.create({**now, **saved})
    chosen = {section_of(word) for word in given if option_of(word) in choices}
    # A file does not decide where metrics are sent.
    for name in {"ckpt_path", "seeds", "cache_dir", "logger"} | (chosen & {"trainer", "callbacks"}):
        resumed[name] = now[name]
    if "trainer" in chosen:
        resumed.trainer.max_epochs = saved.trainer.max_epochs
    for word in given:
        option = option_of(word)
        if section_of(word) in ("trainer", "callbacks", "patience") and option not in choices:
            OmegaConf.update(resumed, option, OmegaConf.select(now, option), force_add=True)
    if OmegaConf.select(resumed, "callbacks.early_stopping.patience") == saved.patience:
        resumed.callbacks.early_stopping.patience = resumed.patience
    if saved.get("logger") and not now.logger and "logger" not in chosen:
        raise ValueError(
            f"ckpt_path={now.ckpt_path}: its run had a logger, which sends options and metrics: to send them again, set"
            " logger=wandb, otherwise logger=csv"
        )
    for key, address in named_addresses(plain_options(resumed)):
        if address != OmegaConf.select(now, key):
            again = f"{'backend=ray ' if key == 'backend.address' else ''}{key}={address}"
            raise ValueError(f"ckpt_path={now.ckpt_path}: its run used {address}; to use it again, set {again}")
    return resumed


def check_resumable(cfg: DictConfig) -> None:
    """Checks that a checkpoint's run had the same options.

    Raises:
        ValueError: If an option that affects the model or its data differs.
    """
    _check_equal(OmegaConf.create(saved_options(cfg)), _options_of_run(cfg))


def _options_of_run(cfg: DictConfig) -> DictConfig:
    """The options of the run whose checkpoint a configuration names; they may name its targets and models."""
    path = Path(cfg.ckpt_path)
    saved = read_saved(path.parent.parent, left_out=(), cache_dir=cfg.cache_dir, given=plain_options(cfg))
    check_whole(path)
    return OmegaConf.create(saved_options(saved))


def _check_equal(now: DictConfig, saved: DictConfig, typed: Container[str] = ()) -> None:
    """Raises ValueError for the first option that differs from the run's, of the sections ``typed`` first.

    Options that the run does not have are not compared.
    """
    compared = [name for name in map(str, now) if name in saved and (name in typed or name not in NOT_COMPARED)]
    for name in sorted(compared, key=lambda name: name not in typed):
        for option, asked, saved_value in _differences(name, now[name], saved[name]):
            raise ValueError(
                f"ckpt_path={now.ckpt_path}: its run had {option}={written_value(saved_value)}, this one has"
                f" {written_value(asked)}: give ckpt_path= alone, or with trainer, callbacks, logger and patience, or"
                " start a new run"
            )


def _differences(name: str, new_value: Any, saved_value: Any) -> Iterator[tuple[str, Any, Any]]:
    """Names of options that differ, with both values; the option ``name`` of a section comes first."""
    if not (OmegaConf.is_dict(new_value) and OmegaConf.is_dict(saved_value)):
        if new_value != saved_value:
            yield name, new_value, saved_value
        return
    if name in CHOSEN_NAMES and list(new_value) != list(saved_value):
        yield name, list(new_value), list(saved_value)
        return
    for key in sorted(saved_value, key=lambda key: key != "name"):
        yield from _differences(f"{name}.{key}", new_value.get(key), saved_value[key])


def readable_checkpoint(folder: Path) -> str | None:
    """The last checkpoint of a run, to resume from; None if there is none, or if it is damaged, which is printed."""
    path = folder / "checkpoints" / "last.ckpt"
    if not path.is_file():
        return None
    try:
        check_whole(path)
        # mmap reads the structure of the archive, not the weights, which the checksum covers.
        read_tensors(path, mmap=True)
    except (OSError, ValueError) as error:
        print_line(open_console(), f"{path} cannot be read, so this run starts over: {first_line(error)}")
        return None
    return str(path)


def check_continues(checkpoint: Path, system: pl.LightningModule, corpus: Corpus | ChangeCorpus) -> None:
    """Checks that a training can continue from a checkpoint.

    Raises:
        ValueError: If the checkpoint holds only weights, or those of another model, or the corpus has changed.
    """
    check_corpus(checkpoint.parent.parent, corpus)
    stored = {name: tuple(value.shape) for name, value in read_state(checkpoint).items()}
    expected = {name: tuple(value.shape) for name, value in system.state_dict().items()}
    different = sorted(name for name in stored.keys() | expected.keys() if stored.get(name) != expected.get(name))
    if different:
        raise ValueError(
            f"ckpt_path={checkpoint} holds the weights of another model than its config.yaml describes"
            f" ({different[0]}): give the checkpoint that was written with that config.yaml, or start a new run"
        )
    content = read_tensors(checkpoint, mmap=True)
    absent = [name for name in TRAINING_STATE if name not in content]
    if absent:
        raise ValueError(f"ckpt_path={checkpoint} has no {absent[0]} to continue from: give last.ckpt of a run folder")


def trained_epochs(checkpoint: Path) -> int:
    """Number of epochs after which a checkpoint was written."""
    check_whole(checkpoint)
    return int(read_tensors(checkpoint, mmap=True)["epoch"])


class WholeCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint next to its final path, flushes it to the disk, renames it, and records its checksum.

    Lightning's class writes into the folder of temporary files. If that is on another file system, the checkpoint is
    then copied over the previous one, and a kill during the copy destroys both.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
        """Replaces a checkpoint. Raises OSError if the disk is full or fails; the previous one then still exists."""
        if storage_options is not None:
            raise TypeError("storage_options is not supported: checkpoints are local files")
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        before = noted_checksums(path) or ([checksum(path)] if path.is_file() else [])
        with replacing(path) as unfinished:
            try:
                with unfinished.open("wb") as file:
                    torch.save(checkpoint, file)
            except RuntimeError as error:
                # After an error of the disk, or Ctrl-C, PyTorch closes its archive, which fails too, and raises only
                # the second error.
                if isinstance(error.__context__, OSError | KeyboardInterrupt):
                    raise error.__context__ from None
                raise
            digest = checksum(unfinished)
            # Both checksums are valid until the rename: a kill around it leaves either content.
            note_checksums(path, [*before, digest])
        note_checksums(path, [digest])

    def load_checkpoint(self, path: str | Path, *arguments: Any, **options: Any) -> dict[str, Any]:
        """Loads a checkpoint, see ``TorchCheckpointIO``. Raises ValueError if it is damaged."""
        if Path(path).is_file():
            check_whole(Path(path))
        return super().load_checkpoint(path, *arguments, **options)

    def remove_checkpoint(self, path: str | Path) -> None:
        """Removes a checkpoint and its checksum."""
        super().remove_checkpoint(path)
        if noted_checksums(Path(path)):
            note_checksums(Path(path), [])


def save_whole(trainer: pl.Trainer) -> None:
    """Makes a trainer write its checkpoints with ``WholeCheckpointIO``, unless it has a custom ``CheckpointIO``."""
    if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:
        trainer.strategy.checkpoint_io = WholeCheckpointIO()


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
    waits for processes that may have ended. Under SLURM it stays, because it requeues the job.
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
            folder_option = "hydra.run.dir" if seeds > 1 else None
            folder = Path(HydraConfig.get().runtime.output_dir)
            print(continuation_message(sys.argv[1:], folder, folder_option), flush=True)
        raise SystemExit(exit_status(interrupt)) from None


def continuation_message(arguments: list[str], folder: Path, several: str | None = None) -> str:
    """What an interrupted training has saved, and the command that continues it.

    ``several`` is the option that names the folder of several runs: these continue with the same command.
    """
    if folder.is_relative_to(Path.cwd()):
        folder = folder.relative_to(Path.cwd())
    checkpoint = folder / "checkpoints" / "last.ckpt"
    option, path = (several, folder) if several else ("ckpt_path", checkpoint)
    command = ["gedbd", "train", *(word for word in arguments if not word.startswith(f"{option}="))]
    if several:
        saved = f"finished runs and the last epoch of the others are saved in {folder}; resume with:"
    elif checkpoint.is_file():
        saved = f"the last finished epoch is saved in {checkpoint}; resume with:"
    else:
        return (
            "interrupted before the end of the first epoch, so there is no checkpoint; start again with:\n "
            f" {shlex.join(command)}"
        )
    return f"interrupted; {saved}\n  {shlex.join([*command, f'{option}={path_value(path)}'])}"
