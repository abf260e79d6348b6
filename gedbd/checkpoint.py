"""A run on disk: checkpoints hold weights and plain numbers; resolved configuration and versions lie beside them."""

import json
from importlib.metadata import version
from pathlib import Path
from pickle import UnpicklingError

import torch
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from gedbd.build import build
from gedbd.data.corpus import Corpus
from gedbd.data.datamodule import DuplicateDataModule
from gedbd.systems.duplicate import DuplicateSystem

PACKAGES = ("gedbd", "torch", "pytorch-lightning", "torch-geometric", "transformers", "numpy", "pandas")
MAY_DIFFER = ("ckpt_path", "seeds", "trainer", "logger", "patience", "cache_dir", "data_dir")


def save_run(folder: Path, cfg: DictConfig, corpus: Corpus) -> None:
    """Writes ``config.yaml``, resolved, and ``versions.json`` with the corpus' fingerprint."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(cfg, resolve=True))
    about = {"corpus": corpus.fingerprint, "packages": {name: version(name) for name in PACKAGES}}
    (folder / "versions.json").write_text(json.dumps(about, indent=2) + "\n")


def check_resumable(cfg: DictConfig) -> None:
    """Refuses to go on from a checkpoint whose run was configured otherwise.

    Raises:
        ValueError: If there is no such checkpoint, or a setting that shapes the model or its data differs.
    """
    path = Path(cfg.ckpt_path)
    if not path.is_file():
        raise ValueError(f"ckpt_path={path}: there is no such file; a run keeps checkpoints/last.ckpt in its folder")
    saved = _read_config(path.parent.parent)
    now = OmegaConf.create(OmegaConf.to_container(cfg, resolve=True))
    assert isinstance(now, DictConfig)
    for key in map(str, now):
        if key not in MAY_DIFFER and saved.get(key) != now[key]:
            raise ValueError(
                f"ckpt_path={path}: its run had {key}={saved.get(key)}, this one has {now[key]}: give the same options"
            )


def readable_checkpoint(folder: Path) -> str | None:
    """A run's last checkpoint, to go on from; none, with a notice, if a kill has left half of it."""
    path = folder / "checkpoints" / "last.ckpt"
    if not path.is_file():
        return None
    try:
        torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (OSError, EOFError, RuntimeError, UnpicklingError) as error:
        print(f"{path} cannot be read, so this run starts over: {str(error).partition(chr(10))[0]}")
        return None
    return str(path)


def load_run(
    folder: Path, checkpoint: str, part: str, cache_dir: str, console: Console
) -> tuple[DictConfig, DuplicateDataModule, DuplicateSystem]:
    """Rebuilds a trained run from its folder.

    Args:
        folder: The run folder.
        checkpoint: ``best`` or ``last``.
        part: The part whose pairs are to be scored.
        cache_dir: Where token numbers and vectors of frozen encoders are kept.
        console: Where notices go.

    Raises:
        ValueError: If the folder is no run, or the corpus is not the one it was trained on.
    """
    cfg, path = find_run(folder, checkpoint)
    cfg.cache_dir, cfg.ranking.parts = cache_dir, [part]
    data, system = build(cfg, console, ("val", part))
    check_corpus(folder, data.corpus)
    system.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["state_dict"])
    return cfg, data, system


def find_run(folder: Path, checkpoint: str) -> tuple[DictConfig, Path]:
    """A run's resolved configuration and the file of its ``best`` or ``last`` checkpoint.

    Raises:
        ValueError: If the folder is no run, or has no such checkpoint.
    """
    cfg, path = _read_config(folder), folder / "checkpoints" / f"{checkpoint}.ckpt"
    if not path.is_file():
        raise ValueError(f"run={folder}: there is no {path.name} in its checkpoints")
    return cfg, path


def check_corpus(folder: Path, corpus: Corpus) -> None:
    """Raises ValueError if a corpus is not the one that a run was trained on."""
    if corpus.fingerprint != json.loads((folder / "versions.json").read_text())["corpus"]:
        raise ValueError(f"run={folder}: the corpus {corpus.name} has changed since the run was trained")


def use_run(cfg: DictConfig, folder: Path) -> Path:
    """Takes a run's encoder and text in a configuration; gives the file of its trained weights.

    Raises:
        ValueError: If the folder is no run, or was trained on other parts of the corpus or other labels.
    """
    saved, path = find_run(folder, "best")
    for key in ("split", "labels"):
        here = OmegaConf.to_container(cfg[key], resolve=True)
        if here != OmegaConf.to_container(saved[key], resolve=True):
            raise ValueError(f"run={folder} was trained with {key}={saved[key]}, here it is {here}: give the same")
    cfg.encoder, cfg.text = saved.encoder, saved.text
    return path


def _read_config(folder: Path) -> DictConfig:
    if not (folder / "config.yaml").is_file():
        raise ValueError(f"{folder} is not the folder of a run: it has no config.yaml")
    cfg = OmegaConf.load(folder / "config.yaml")
    assert isinstance(cfg, DictConfig)
    return cfg
