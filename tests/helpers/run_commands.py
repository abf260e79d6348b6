"""Composes options and runs commands in this process, for tests of whole commands."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from gedbd.__main__ import module_of
from gedbd.io.files import CONF_DIR


def composed(config_name: str, *words: str, **more: bool) -> DictConfig:
    """The options of a command line, with Hydra's own where ``return_hydra_config`` says so."""
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        return compose(config_name, list(words), **more)


@contextmanager
def commands_in(folder: Path) -> Iterator[Callable[..., str]]:
    """Enters a folder, and gives what runs a command there by its name and options, and returns what it prints.

    What a command prints before an error goes to standard output.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEDBD_CACHE", str(folder / "cache"))
        patch.chdir(folder)

        def run(name: str, *options: str) -> str:
            patch.setattr(sys, "argv", ["gedbd", *options])
            told = io.StringIO()
            try:
                with redirect_stdout(told):
                    import_module(module_of(name)).main()
            except SystemExit:
                print(told.getvalue(), end="")
                raise
            return told.getvalue()

        yield run
