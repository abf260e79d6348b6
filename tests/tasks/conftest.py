"""Commands that run in folders of their own, and figures that are not rendered."""

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import IO

import pytest


@pytest.fixture(scope="session")
def command() -> Callable[..., Path]:
    """Runs the command of a module in a folder, with its caches there, and gives the folder."""

    def run(module: ModuleType, folder: Path, *words: str) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("GEDBD_CACHE", str(folder / "cache"))
            patch.setattr(sys, "argv", ["gedbd", *words])
            module.main()
        return folder

    return run


@pytest.fixture(scope="module")
def blank_figures() -> Iterator[None]:
    """Figures are made, but their files are blank: to render them takes most of the time of a small run."""
    from matplotlib.figure import Figure
    from PIL import Image

    def save(figure: Figure, file: str | Path | IO[bytes], format: str, **_: object) -> None:
        if format == "png":
            Image.new("L", (1, 1)).save(file, "png")
        else:
            with nullcontext(file) if hasattr(file, "write") else open(file, "wb") as stream:
                stream.write(b"<svg></svg>")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", save)
        yield
