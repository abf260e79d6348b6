"""Screenshots attached to reports: their files, and their captions."""

import os
import struct
import warnings
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.csv_file import read_table
from gedbd.io.checksums import checksum
from gedbd.io.console import track
from gedbd.io.table_files import plain_cell, write_csv

if TYPE_CHECKING:
    from PIL import Image

MISSING = "missing"
BROKEN = "broken"
TOO_LARGE = "too large"
OUTSIDE = "outside image_dir"
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "WEBP")
# Pillow raises any of these on damaged files, depending on the format.
DAMAGED = (EOFError, IndexError, KeyError, OSError, SyntaxError, TypeError, ValueError, struct.error, zlib.error)
MEGA = 1_000_000
MAX_NAMED = 3  # images that a warning names
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp")
SEPARATOR = ";"
COLUMNS = ("image", "sha256", "caption", "status")
DESCRIBED = "described"


class ImageFile(NamedTuple):
    """An attached image."""

    name: str  # name in the report
    path: Path  # its file
    sha256: str  # of the file's bytes; empty if it was not read
    problem: str  # why it cannot be described; empty if it can


def check_images(names: Iterable[str], image_dir: Path, max_megapixels: float, max_megabytes: float) -> list[ImageFile]:
    """Checks files under a folder and their headers without decoding them; other damage shows only in ``open_image``.

    The maximum sizes of an image and of a file are in millions of pixels and of bytes.
    """
    distinct = list(dict.fromkeys(names))
    root = os.path.realpath(image_dir)
    return [_check(name, root, max_megapixels, max_megabytes) for name in track(distinct, "check images")]


def open_image(path: Path) -> "Image.Image":
    """The pixels of an image as RGB: the first frame, rotated upright, with a white background.

    Raises:
        ValueError: The image cannot be decoded.
    """
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings(action="ignore"), Image.open(path, formats=FORMATS) as opened:
            image: Image.Image = ImageOps.exif_transpose(opened)
            if image.mode.startswith("I"):
                # Pillow clips 16-bit grey at 255 instead of scaling it.
                image = image.convert("I").point(lambda value: value / 256).convert("L")
            if not image.has_transparency_data:
                return image.convert("RGB")
            white = Image.new("RGBA", image.size, "white")
            return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    except (*DAMAGED, Image.DecompressionBombError) as error:
        raise ValueError(f"{path}: the image cannot be decoded ({error}); save it again") from error


def problem_warnings(images: Iterable[ImageFile], owner: Mapping[str, str]) -> list[str]:
    """Counts the images that cannot be described by reason, and names the first few."""
    by_problem: dict[str, list[str]] = {}
    for image in images:
        if image.problem:
            by_problem.setdefault(image.problem, []).append(image.name)
    warnings = []
    for problem, names in by_problem.items():
        examples = ", ".join(f"{name} of report {owner[name]}" for name in names[:MAX_NAMED])
        warnings.append(f"images not described: {len(names):,} ({problem}; first: {examples})")
    return warnings


def _check(name: str, root: str, max_megapixels: float, max_megabytes: float) -> ImageFile:
    from PIL import Image

    path = Path(root, name)
    # Older Pythons refuse to resolve a name with a zero byte; no file has one.
    if "\0" in name:
        return ImageFile(name, path, "", MISSING)
    if not Path(os.path.realpath(path)).is_relative_to(root):
        return ImageFile(name, path, "", OUTSIDE)
    if not os.path.isfile(path):
        return ImageFile(name, path, "", MISSING)
    if path.stat().st_size > max_megabytes * MEGA:
        return ImageFile(name, path, "", TOO_LARGE)
    try:
        sha256 = checksum(path)
    except OSError:
        return ImageFile(name, path, "", BROKEN)
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(path, formats=FORMATS) as image:
            problem = TOO_LARGE if image.width * image.height > max_megapixels * MEGA else ""
    except Image.DecompressionBombError:
        problem = TOO_LARGE
    except DAMAGED:
        problem = BROKEN
    return ImageFile(name, path, sha256, problem)


def attached_images(attachments: pd.Series) -> list[list[str]]:
    """Names of the attached files that are images by their ending.

    Returns:
        N lists of names in the order of the text, stripped, without duplicates.
    """
    return [list(filter(is_image, names)) for names in attached_files(attachments)]


def is_image(name: str) -> bool:
    """Whether a file is an image by its ending."""
    return name.lower().endswith(IMAGE_ENDINGS)


def attached_files(attachments: pd.Series) -> list[list[str]]:
    """Names of all attached files, see ``attached_images``."""
    files = []
    for text in attachments:
        names = [name.strip() for name in str(text).split(SEPARATOR)]
        # A dict keeps the order and drops duplicates.
        files.append(list(dict.fromkeys(filter(None, names))))
    return files


def images_in(corpus: Corpus) -> tuple[Path, dict[str, str], list[str]]:
    """The images attached to the reports of a corpus.

    Returns:
        Their folder, image name to the id of the first report that attaches it, and warnings about attached files of
        other kinds.

    Raises:
        ValueError: There is no folder of images, no report attaches a file, or none attaches an image.
    """
    if corpus.image_dir is None:
        raise ValueError(
            f"{corpus.name} has no image folder: set dataset.image_dir=, which dataset=csv and tracker exports have"
        )
    report_of: dict[str, str] = {}
    files = attached_files(corpus.reports["attachments"])
    for names, report in zip(files, corpus.documents.ids, strict=True):
        for name in names:
            report_of.setdefault(name, str(report))
    if not report_of:
        raise ValueError(
            f"{corpus.name}: no report attaches a file; set dataset.columns.attachments= to the column"
            " that names the files, separated by ;"
        )
    images = {name: report for name, report in report_of.items() if is_image(name)}
    not_images = [f"{name} of report {report}" for name, report in report_of.items() if not is_image(name)]
    if not images:
        raise ValueError(
            f"{corpus.name}: none of the {len(not_images):,} attached files is an image (first: {not_images[0]})"
        )
    warnings = []
    if not_images:
        warnings.append(f"attached files that are not images: {len(not_images):,}, left out (first: {not_images[0]})")
    return corpus.image_dir, images, warnings


def read_captions(path: str | Path) -> dict[str, str]:
    """Reads a table of captions.

    Args:
        path: CSV file, plain or packed, with at least the columns ``image`` and ``caption``.

    Returns:
        Image name to caption. Rows with an empty caption are left out.

    Raises:
        ValueError: The file or one of the columns is missing, an image has no name or two captions.
    """
    file = Path(path).expanduser()
    table, _ = read_table(file)
    for column in ("image", "caption"):
        if column not in table.columns:
            columns = ", ".join(table.columns)
            raise ValueError(f"{file}, row 1: no column {column!r}; the columns are {columns}. Add it or rename one")
    captions: dict[str, str] = {}
    # ``plain_cell`` removes the sign that keeps spreadsheets from reading a cell as a formula.
    images = table["image"].str.strip().map(plain_cell)
    texts = table["caption"].str.strip().map(plain_cell)
    for row, image, caption in zip(table.index, images, texts, strict=True):
        if not image:
            raise ValueError(f"{file}, row {row}, column 'image': the cell is empty; enter the file name of the image")
        if caption and captions.setdefault(image, caption) != caption:
            raise ValueError(
                f"{file}, row {row}, column 'image': {image!r} has another caption in an earlier row; keep one of them"
            )
    return captions


def write_captions(path: str | Path, rows: Iterable[tuple[str, str, str, str]]) -> None:
    """Writes a table of captions atomically.

    Args:
        path: The file.
        rows: Image name, SHA-256 of its file (empty if it was not read), caption, and ``described`` or the reason
            why it is not.
    """
    write_csv(Path(path).expanduser(), pd.DataFrame(rows, columns=list(COLUMNS), dtype=str))
