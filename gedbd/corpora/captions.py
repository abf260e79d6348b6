"""Names of the images that reports attach, and the table of what those images show."""

import os
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.csv_file import read_table
from gedbd.io.spreadsheet import plain_cell, safe_cells
from gedbd.io.tables import write_csv

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp")
SEPARATOR = ";"
COLUMNS = ("image", "sha256", "caption", "status")
DESCRIBED = "described"


def attached_images(attachments: pd.Series) -> list[list[str]]:
    """Names of the attached files that are images by their ending.

    Args:
        attachments: N texts, names of files separated by ``;``.

    Returns:
        N lists of names in the order of the text, stripped, without repeats.
    """
    return [list(filter(is_image, names)) for names in attached_files(attachments)]


def is_image(name: str) -> bool:
    """Whether a file is an image by its ending."""
    return name.lower().endswith(IMAGE_ENDINGS)


def attached_files(attachments: pd.Series) -> list[list[str]]:
    """As ``attached_images``, but all files."""
    split = ((name.strip() for name in str(text).split(SEPARATOR)) for text in attachments)
    return [list(dict.fromkeys(filter(None, names))) for names in split]


def images_in(corpus: Corpus) -> tuple[Path, dict[str, str], list[str]]:
    """The images that a corpus attaches.

    Returns:
        The folder that they lie in, image name to the id of the first report that attaches it, and notices about
        attached files of other kinds.

    Raises:
        ValueError: There is no folder of images, no report attaches a file, or none attaches an image.
    """
    if corpus.image_dir is None:
        raise ValueError(f"{corpus.name} has no folder of images: use dataset=csv dataset.image_dir=...")
    named: dict[str, str] = {}
    for names, report in zip(attached_files(corpus.reports["attachments"]), corpus.reports["id"], strict=True):
        for name in names:
            named.setdefault(name, str(report))
    if not named:
        raise ValueError(
            f"{corpus.name}: no report attaches a file; say which column names them with"
            " dataset.columns.attachments=..., separated by ;"
        )
    images = {name: report for name, report in named.items() if is_image(name)}
    others = [f"{name} of report {report}" for name, report in named.items() if not is_image(name)]
    if not images:
        raise ValueError(f"{corpus.name}: none of {len(others):,} attached files is an image (first: {others[0]})")
    notices = [f"attached files that are no images: {len(others):,}, left out (first: {others[0]})"] if others else []
    return corpus.image_dir, images, notices


def read_captions(path: str | Path) -> dict[str, str]:
    """Reads a table of captions.

    Args:
        path: CSV file, plain or packed, with the columns ``image`` and ``caption``, and perhaps more.

    Returns:
        Image name to caption. Rows with an empty caption are left out.

    Raises:
        ValueError: The file or one of the columns is missing, an image has no name or two captions.
    """
    file = Path(path).expanduser()
    table, _ = read_table(file)
    for column in ("image", "caption"):
        if column not in table.columns:
            known = ", ".join(table.columns)
            raise ValueError(f"{file}, row 1: no column {column!r}; the columns are {known}. Add it or rename one")
    captions: dict[str, str] = {}
    images = table["image"].str.strip().map(plain_cell)
    texts = table["caption"].str.strip().map(plain_cell)
    for row, image, caption in zip(table.index, images, texts, strict=True):
        if not image:
            raise ValueError(f"{file}, row {row}, column 'image': no name; say which image the caption is of")
        if caption and captions.setdefault(image, caption) != caption:
            raise ValueError(f"{file}, row {row}, column 'image': {image!r} has another caption above; keep one row")
    return captions


def write_captions(path: str | Path, rows: Iterable[tuple[str, str, str, str]]) -> None:
    """Writes a table of captions, whole or not at all.

    Args:
        path: See ``check_writable``.
        rows: Image name, SHA-256 of its file (empty if it was not read), caption, and ``described`` or the reason why
            it was not.
    """
    write_csv(Path(path).expanduser(), safe_cells(pd.DataFrame(rows, columns=list(COLUMNS), dtype=str)))


def check_writable(path: str | Path) -> None:
    """Raises ValueError if captions cannot be written there: another ending than .csv, no folder, no permission."""
    place = Path(path).expanduser()
    if place.suffix != ".csv":
        raise ValueError(f"out={path} must end in .csv: a table of images and their captions")
    if place.is_dir() or not (place.parent.is_dir() and os.access(place.parent, os.W_OK)):
        raise ValueError(f"out={path} cannot be written: give a file in an existing folder that you may write to")
