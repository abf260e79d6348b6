"""Run folders: checkpoints with weights and plain numbers, the resolved configuration, and versions."""

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any, NamedTuple

import pytorch_lightning as pl
import torch
from hydra.utils import get_class, instantiate
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from gedbd.configuration.allowed_targets import keep_local
from gedbd.configuration.saved_options import (
    CONFIG,
    NOT_ENCODING,
    SCHEMA,
    TRAINING_ONLY,
    VERSIONS,
    read_saved,
    saved_options,
)
from gedbd.corpora.changes import ChangeCorpus
from gedbd.corpora.corpus import Corpus
from gedbd.encoders.encoder_weights import load_state, read_state
from gedbd.experiments.training_task import SystemTask, TrainingSetup
from gedbd.io.checksums import check_whole, checksum, note_checksums, noted_checksums
from gedbd.io.console import first_line, open_console, print_line, stage
from gedbd.io.files import read_object, replacing, write_text

PACKAGES = ("gedbd", "torch", "pytorch-lightning", "torch-geometric", "transformers", "numpy", "pandas")
# What a checkpoint holds besides the weights, unless it was saved for its weights only.
TRAINING_STATE = ("pytorch-lightning_version", "optimizer_states", "lr_schedulers", "loops", "callbacks")


def save_run(folder: Path, cfg: DictConfig, corpus: Corpus | ChangeCorpus) -> None:
    """Writes ``config.yaml``, resolved and with absolute paths, and ``versions.json`` with the corpus' fingerprint."""
    folder.mkdir(0o700, parents=True, exist_ok=True)
    write_text(folder / CONFIG, OmegaConf.to_yaml(OmegaConf.create(saved_options(cfg))))
    packages = {name: version(name) for name in PACKAGES}
    about = {"schema": SCHEMA, "corpus": corpus.fingerprint, "packages": packages, "folder": str(folder.absolute())}
    write_text(folder / VERSIONS, json.dumps(about, indent=2) + "\n")


def readable_checkpoint(folder: Path) -> str | None:
    """The last checkpoint of a run, to resume from; None if there is none, or if it is damaged, which is printed."""
    path = folder / "checkpoints" / "last.ckpt"
    if not path.is_file():
        return None
    try:
        check_whole(path)
        # mmap reads the structure of the archive, not the weights, which the checksum has covered.
        torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (OSError, EOFError, RuntimeError, UnpicklingError, ValueError) as error:
        print_line(open_console(), f"{path} cannot be read, so this run starts over: {first_line(error)}")
        return None
    return str(path)


def check_continues(checkpoint: Path, system: pl.LightningModule, corpus: Corpus | ChangeCorpus) -> None:
    """Checks that a training can continue from a checkpoint.

    Args:
        checkpoint: A checkpoint in a run folder.
        system: The system to train, as built by the run's options.
        corpus: What it is trained on.

    Raises:
        ValueError: If the checkpoint holds only weights, or those of another model, or the corpus has changed.
    """
    check_corpus(checkpoint.parent.parent, corpus)
    found = {name: tuple(value.shape) for name, value in read_state(checkpoint).items()}
    wanted = {name: tuple(value.shape) for name, value in system.state_dict().items()}
    different = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    if different:
        raise ValueError(
            f"ckpt_path={checkpoint} holds the weights of another model than its config.yaml describes"
            f" ({different[0]}): give the checkpoint that was written with that config.yaml, or start a new run"
        )
    content = torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)
    absent = [name for name in TRAINING_STATE if name not in content]
    if absent:
        raise ValueError(f"ckpt_path={checkpoint} has no {absent[0]} to continue from: give last.ckpt of a run folder")


def trained_epochs(checkpoint: Path) -> int:
    """After how many epochs a checkpoint was written."""
    check_whole(checkpoint)
    return int(torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)["epoch"])


@stage("open the run")
def load_run(
    folder: Path, checkpoint: str, part: str, cache_dir: str, console: Console
) -> tuple[SystemTask, TrainingSetup]:
    """Restores a trained run from its folder.

    Args:
        folder: The run folder.
        checkpoint: ``best`` or ``last``.
        part: The part to score.
        cache_dir: Folder of the caches of tokens and vectors.
        console: Where warnings go.

    Raises:
        ValueError: If the folder is no run, or its corpus has changed.
    """
    cfg, path = find_run(folder, checkpoint, cache_dir, TRAINING_ONLY)
    cfg.ranking.parts = [part]  # validation is scored for the thresholds of the other methods, not ranked
    task: SystemTask = instantiate(cfg.task)
    setup = task.build(cfg, console, ("val", part))
    check_corpus(folder, setup.corpus)
    load_state(setup.system, read_state(path), str(path))
    return task, setup


def find_run(
    folder: Path, checkpoint: str, cache_dir: str | None = None, left_out: Sequence[str] = NOT_ENCODING
) -> tuple[DictConfig, Path]:
    """A run's resolved configuration and the file of its ``best``, ``last`` or ``refit`` checkpoint.

    Args:
        folder: The run folder.
        checkpoint: Name of the checkpoint.
        cache_dir: Folder of the caches, see ``keep_local``.
        left_out: See ``read_saved``.

    Raises:
        ValueError: If the folder is no run, or has no such checkpoint, or a damaged one.
    """
    cfg = read_saved(folder, left_out=left_out)
    _check_trains_system(cfg, folder)
    path = folder / "checkpoints" / f"{checkpoint}.ckpt"
    if not path.is_file():
        raise ValueError(f"run={folder}: there is no {path.name} in its checkpoints")
    check_whole(path)
    keep_local(cfg, str(folder / CONFIG), cache_dir)
    return cfg, path


def _check_trains_system(cfg: DictConfig, folder: Path) -> None:
    """Raises ValueError if a run's task trains no system whose checkpoint encodes reports."""
    target = OmegaConf.select(cfg, "task._target_")
    if target is None or issubclass(get_class(target), SystemTask):
        return
    own = folder / "encoder"
    use = f"use its weights with encoder=codebert encoder.model={own}" if own.is_dir() else "give a run of another task"
    raise ValueError(f"run={folder}: its task, {target}, trains no encoder of reports: {use}")


def check_corpus(folder: Path, corpus: Corpus | ChangeCorpus) -> None:
    """Raises ValueError if a corpus is not the one that a run was trained on."""
    if corpus.fingerprint != read_object(folder / VERSIONS, "corpus")["corpus"]:
        raise ValueError(f"run={folder}: the corpus {corpus.name} has changed since the run was trained")


def use_run(cfg: DictConfig, folder: Path, checkpoint: str = "best") -> Path:
    """Replaces encoder and text of a configuration by those of a run; returns the file of its trained weights.

    Args:
        cfg: The configuration to change.
        folder: The run folder.
        checkpoint: Name of the weights, see ``find_run``.

    Raises:
        ValueError: If the folder is no run, or was trained on other parts of the corpus or other labels.
    """
    saved, path = find_run(folder, checkpoint)
    # With another split or other labels, the run may have been trained on pairs that are tested here.
    for key in ("split", "labels"):
        here = OmegaConf.to_container(cfg[key], resolve=True)
        if here != OmegaConf.to_container(saved[key], resolve=True):
            raise ValueError(
                f"run={folder} was trained with {key}={saved[key]}, but here it is {here}: set the same value"
            )
    cfg.encoder = saved.encoder
    cfg.text = saved.text
    return path


class RunWeights(NamedTuple):
    """The weights of a trained encoder.

    Attributes:
        test: Encode the test part, and an index.
        val: Encode the validation part: weights that have not learned from it.
    """

    test: Path
    val: Path


def run_weights(cfg: DictConfig) -> RunWeights:
    """The weights of ``cfg.run``, whose encoder and text replace those of the configuration; see ``use_run``."""
    folder = Path(cfg.run)
    return RunWeights(use_run(cfg, folder, cfg.weights), use_run(cfg, folder, "best"))


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
            digest = _write(checkpoint, unfinished)
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


class _Hashing:
    """A file to write to that computes the checksum of its content."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.digest = hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        return self.file.write(content)

    def flush(self) -> None:
        self.file.flush()


def _write(checkpoint: dict[str, Any], path: Path) -> str:
    """Writes a checkpoint into a new file and returns its checksum."""
    with path.open("wb") as file:
        hashing = _Hashing(file)
        try:
            torch.save(checkpoint, hashing)  # type: ignore[arg-type]
        except RuntimeError as error:
            # After an error of the disk, or Ctrl-C, PyTorch closes its archive, which fails too, and raises only the
            # second error.
            if isinstance(error.__context__, OSError | KeyboardInterrupt):
                raise error.__context__ from None
            raise
    return hashing.digest.hexdigest()
