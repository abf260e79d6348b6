"""Paths of corpora: files inside Python packages, and the name of a corpus."""

from importlib import resources
from pathlib import Path

GENERIC_STEMS = ("reports", "bugs", "issues")
IN_PACKAGE = "pkg://"


def locate(path: str) -> Path:
    """The file that ``path`` names, such as ``bugs.csv`` or ``pkg://gedbd.corpora/demo.csv``.

    Raises:
        ValueError: If it does not exist.
    """
    package, _, inside = path.removeprefix(IN_PACKAGE).partition("/")
    file = Path(str(resources.files(package) / inside)) if path.startswith(IN_PACKAGE) else Path(path).expanduser()
    if not file.is_file():
        raise ValueError(f"{file}: no such file; set dataset.path= to an existing one")
    return file


def corpus_name(file: Path) -> str:
    """The file's name without suffixes; its folder's if that is one of ``GENERIC_STEMS`` or empty, as of ``.git``."""
    stem = file.name.split(".")[0]
    return file.absolute().parent.name if stem.lower() in {"", *GENERIC_STEMS} else stem
