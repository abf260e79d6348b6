"""What all commands share: where the configuration lies, and how a user's mistake is reported."""

import functools
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from gedbd.configuration.errors import CommandError, error_line, written_places
from gedbd.configuration.help import command_help
from gedbd.configuration.options import check_command_line, delete_unused
from gedbd.configuration.run_folder import is_own, own_folders

PACKAGE_DIR = Path(__file__).resolve().parents[1]
INSTALLED_CONF = PACKAGE_DIR / "conf"
CONF_DIR = str(INSTALLED_CONF if INSTALLED_CONF.is_dir() else PACKAGE_DIR.parent / "conf")

Task = Callable[[DictConfig], Any]


def command(config_name: str) -> Callable[[Task], Callable[..., Any]]:
    """Make a function of the composed configuration a command.

    Options are checked before Hydra makes the run folder. A mistake of the user ends the process with one line and exit
    status 1, and a run folder that holds nothing yet is deleted again; ``HYDRA_FULL_ERROR=1`` shows where the mistake
    came from. A sweep ends with the first one, unless the function is a ``resumable_job``. What the function returns
    goes to Hydra's sweeper.
    ``--help`` prints what ``gedbd.configuration.help`` finds in ``conf/``.

    Args:
        config_name: File in ``conf/`` to start from, without its ending.
    """

    def decorate(task: Task) -> Any:
        @functools.wraps(task)
        def guarded(cfg: DictConfig) -> Any:
            with told_in_one_line(cfg):
                return task(cfg)

        run = hydra.main(version_base="1.3", config_path=CONF_DIR, config_name=config_name)(guarded)

        @functools.wraps(task)
        def started(*cfg: DictConfig) -> Any:
            if not cfg and {"-h", "--help"} & set(sys.argv[1:]):
                print(command_help(Path(CONF_DIR), config_name))
                return None
            if cfg:
                return run(*cfg)
            with told_in_one_line():
                new = check_command_line(CONF_DIR, config_name, sys.argv[1:])
            with own_folders(), deleted_if_empty(new):
                return run()

        return started

    return decorate


@contextmanager
def told_in_one_line(cfg: DictConfig | None = None) -> Iterator[None]:
    """Ends the process with one line where the user has made a mistake, and lets other errors pass.

    Args:
        cfg: The composed configuration, if there is one.
    """
    try:
        yield
    except Exception as error:  # those that are no user's mistake go on
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        line = error_line(error, written_places(cfg or OmegaConf.create(), _run_folder()))
        if line is None:
            raise
        raise CommandError(f"error: {line}", _run_folder()) from error


@contextmanager
def deleted_if_empty(new: Sequence[Path]) -> Iterator[None]:
    """Deletes the folder of a run that has failed before it wrote anything.

    Args:
        new: The folder, and those above it, that did not exist before. Its name may hold another second by now.
    """
    try:
        yield
    except CommandError as error:
        if error.folder is not None and (new or is_own(error.folder)):
            delete_unused(error.folder, above=new[1:])
        raise


def _run_folder() -> Path | None:
    """The folder that Hydra has made for the running command, if it makes one."""
    if not HydraConfig.initialized() or HydraConfig.get().output_subdir is None:
        return None
    return Path(HydraConfig.get().runtime.output_dir)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Imports large libraries in a fifth less time: what they make stays for good, so it is not searched for garbage.

    The collector passes over it later too. Only the first call sets it aside, as after an earlier run of a sweep there
    is garbage about that must go.
    """
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
        gc.enable()


def auto_precision() -> str:
    """Bfloat16 on a GPU that has it; CPUs without matrix units are slower in it."""
    import torch

    return "bf16-mixed" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "32-true"


OmegaConf.register_new_resolver("auto_precision", auto_precision)
