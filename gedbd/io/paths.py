"""Paths of corpora: files in a Python package, and the name that a corpus takes from its file."""

from importlib import resources
from pathlib import Path

GENERIC_STEMS = ("reports", "bugs", "issues")
IN_PACKAGE = "pkg://"


def locate(path: str) -> Path:
    """The file that ``path`` names.

    Raises:
        ValueError: There is none.
    """
    package, _, inside = path.removeprefix(IN_PACKAGE).partition("/")
    file = Path(str(resources.files(package) / inside)) if path.startswith(IN_PACKAGE) else Path(path).expanduser()
    if not file.is_file():
        raise ValueError(f"{file}: no such file; name an existing one with dataset.path=...")
    return file


def corpus_name(file: Path) -> str:
    """The file's name without endings, or its folder's where the name could be any tracker's (``reports.csv``)."""
    stem = file.name.split(".")[0]
    return file.absolute().parent.name if stem.lower() in GENERIC_STEMS else stem
