"""The folder of a new run or sweep: made for one command alone, and shared by all processes of that command."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf

from gedbd.io.paths import corpus_name

SWEEPS = "outputs/sweeps"

_made: dict[Path, Path] | None = None  # by what is above it; None: no command is running, and none is made


@contextmanager
def own_folders() -> Iterator[None]:
    """While a command runs, ``run_dir`` and ``sweep_dir`` make the folder that they name; one that stays empty goes."""
    global _made
    _made = {}
    try:
        yield
    finally:
        made = _made
        _made = None
        for folder in made.values():
            with suppress(OSError):  # it is not empty, or gone
                folder.rmdir()


def is_own(folder: Path) -> bool:
    """Whether the running command has made a folder of its own there."""
    return _made is not None and folder.absolute() in {path.absolute() for path in _made.values()}


def run_dir(ckpt_path: str | None, dataset: str | None, path: str | None, encoder: str) -> str:
    """Folder of a new run, or of the run whose checkpoint is taken up."""
    if ckpt_path:
        return str(Path(ckpt_path).parent.parent)
    name = dataset or corpus_name(Path(str(path)))
    above = Path("outputs") / str(name) / encoder
    in_sweep = HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN
    # Lightning asks for this folder in each job of a sweep, to name it to its processes, and nothing is put there.
    return str(above / started() if in_sweep else _own(above))


def sweep_dir() -> str:
    """Folder of a new sweep."""
    return str(_own(Path(SWEEPS)))


def started() -> str:
    """When a run began, in UTC, which names its folder: one answer for all of its processes, whose clocks differ.

    Local time would not do: its hour before the end of daylight saving comes twice. Under torchrun, the first process
    to ask tells the others by torchrun's own store. The tasks of a SLURM job step take the step's name: a job that was
    queued again finds its folder, where Lightning has left a checkpoint.
    """
    now = f"{datetime.now(UTC):%Y-%m-%d_%H-%M-%SZ}"
    store = _torchrun_store()
    if store is not None:
        return str(store.compare_set("gedbd/started", "", now).decode())
    return _slurm_step() or now


def _own(above: Path) -> Path:
    """A folder named by the start; while a command runs, one that it has made itself."""
    if _made is None:
        return above / started()
    if above not in _made:
        _made[above] = above / _slurm_step() if _slurm_step() else _agreed(above)
    return _made[above]


def _agreed(above: Path) -> Path:
    """A folder that this command has made; under torchrun the first process makes it and tells the others."""
    store = _torchrun_store()
    if store is None:
        return _make(above, started())
    key = f"gedbd/{above}"
    if os.environ["RANK"] == "0":
        store.set(key, _make(above, started()).name)
    return above / str(store.get(key).decode())


def _make(above: Path, name: str) -> Path:
    """Makes a folder that did not exist: of this name, or else with -2, -3, ... after it.

    The file system decides who is first: of two commands only one can make a folder.
    """
    number = 1
    while True:
        folder = above / (name if number == 1 else f"{name}-{number}")
        above.mkdir(parents=True, exist_ok=True)
        try:
            folder.mkdir()
        except (FileExistsError, FileNotFoundError):  # another command has made it, or removed what is above it
            number += 1
        else:
            return folder


def _torchrun_store() -> Any | None:
    """What the processes that torchrun has started share; None outside of it."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    from torch.distributed.rendezvous import rendezvous

    store, _, _ = next(rendezvous("env://"))
    return store


def _slurm_step() -> str:
    """Name of the SLURM job step whose task this process is; empty if it is none, or the only one."""
    interactive = os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive")
    if os.environ.get("SLURM_NTASKS", "1") == "1" or "SLURM_STEP_ID" not in os.environ or interactive:
        return ""
    return f"slurm_{os.environ['SLURM_JOB_ID']}.{os.environ['SLURM_STEP_ID']}"


OmegaConf.register_new_resolver("run_dir", run_dir, use_cache=True)
OmegaConf.register_new_resolver("sweep_dir", sweep_dir, use_cache=True)
OmegaConf.register_new_resolver("started", started, use_cache=True)
