"""Values that the configuration computes: the folder of a new run or sweep, and the precision of this machine.

There is one folder per command, shared by all processes of that command.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf

from gedbd.io.files import corpus_name

SWEEPS = "outputs/sweeps"

# The folder created for the running command, by its parent. None: no command is running, so none is created.
_created: dict[Path, Path] | None = None


def register_resolvers() -> None:
    """Lets interpolations of configurations call the functions of this module, such as ``${started:}``."""
    for resolver in (run_dir, sweep_dir, started, auto_precision, encoding_precision):
        OmegaConf.register_new_resolver(resolver.__name__, resolver, use_cache=True, replace=True)


@contextmanager
def own_folders() -> Iterator[None]:
    """Lets ``run_dir`` and ``sweep_dir`` create folders while a command runs; one that stays empty is deleted."""
    global _created
    _created = {}
    try:
        yield
    finally:
        created = _created
        _created = None
        for folder in created.values():
            with suppress(OSError):  # not empty, or already deleted
                folder.rmdir()


def is_own(folder: Path) -> bool:
    """Whether the running command has created this folder."""
    return _created is not None and folder.absolute() in {path.absolute() for path in _created.values()}


def run_dir(ckpt_path: str | None, dataset: str | None, path: str | None, encoder: str) -> str:
    """Folder of a new run, or of the run that continues from a checkpoint."""
    if ckpt_path:
        return str(Path(ckpt_path).parent.parent)
    name = dataset or corpus_name(Path(str(path)))
    above = Path("outputs") / str(name) / encoder
    in_sweep = HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN
    # In a sweep, Lightning passes this folder to the processes of a job, which write nothing there.
    return str(above / started() if in_sweep else _own(above))


def sweep_dir() -> str:
    """Folder of a new sweep."""
    return str(_own(Path(SWEEPS)))


def started() -> str:
    """When a run started, in UTC: the name of its folder, the same in all of its processes.

    UTC, since local times repeat for an hour when daylight saving ends. Under torchrun, the first process that asks
    shares the time through torchrun's store, as the clocks of machines differ. Tasks of a SLURM job step use the name
    of the step instead, so that a requeued job finds its folder with Lightning's checkpoint.
    """
    now = f"{datetime.now(UTC):%Y-%m-%d_%H-%M-%SZ}"
    store = _torchrun_store()
    if store is not None:
        return str(store.compare_set("gedbd/started", "", now).decode())
    return _slurm_step() or now


def _own(above: Path) -> Path:
    """A folder named after the start; while a command runs, one that the command has created.

    Under torchrun the first process creates it and shares its name.
    """
    if _created is None:
        return above / started()
    if above in _created:
        return _created[above]
    if _slurm_step():
        _created[above] = above / _slurm_step()
    elif (store := _torchrun_store()) is None:
        _created[above] = _create(above, started())
    else:
        if os.environ["RANK"] == "0":
            store.set(f"gedbd/{above}", _create(above, started()).name)
        _created[above] = above / str(store.get(f"gedbd/{above}").decode())
    return _created[above]


def _create(above: Path, name: str) -> Path:
    """Creates a folder that did not exist, with this name or with the suffix -2, -3, ...

    The file system decides between two commands: only one of them can create a folder.
    """
    number = 1
    while True:
        folder = above / (name if number == 1 else f"{name}-{number}")
        above.mkdir(parents=True, exist_ok=True)
        try:
            folder.mkdir()
        except (FileExistsError, FileNotFoundError):  # another command created it, or deleted its parent
            number += 1
        else:
            return folder


def _torchrun_store() -> Any | None:
    """The store that the processes of torchrun share; None outside of torchrun."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    from torch.distributed.rendezvous import rendezvous

    store, _, _ = next(rendezvous("env://"))
    return store


def _slurm_step() -> str:
    """Name of the SLURM job step of this process; empty outside of SLURM and for a step with one task."""
    interactive = os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive")
    if os.environ.get("SLURM_NTASKS", "1") == "1" or "SLURM_STEP_ID" not in os.environ or interactive:
        return ""
    return f"slurm_{os.environ['SLURM_JOB_ID']}.{os.environ['SLURM_STEP_ID']}"


def auto_precision() -> str:
    """Bfloat16 on a GPU that supports it, else float32: CPUs without matrix units are slower in bfloat16."""
    import torch

    return "bf16-mixed" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "32-true"


def encoding_precision() -> str:
    """Bfloat16 on a GPU that supports it, else float32; of ``backend=auto``."""
    return "bfloat16" if auto_precision() == "bf16-mixed" else "float32"
