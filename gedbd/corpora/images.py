"""Attached image files: checks and decoding.

The files are untrusted: their sizes are checked before they are decoded, only the formats of the web are, and no name
leads out of the folder of images.
"""

import hashlib
import os
import struct
import warnings
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageOps

from gedbd.io.console import track

MISSING = "missing"
BROKEN = "broken"
TOO_LARGE = "too large"
OUTSIDE = "outside image_dir"
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "WEBP")
# Pillow raises any of these on damaged files, depending on the format.
DAMAGED = (EOFError, IndexError, KeyError, OSError, SyntaxError, TypeError, ValueError, struct.error, zlib.error)
MEGA = 1_000_000
MAX_NAMED = 3  # images that a warning names
MIN_PROGRESS_IMAGES = 65  # fewer are checked without a progress bar


class ImageFile(NamedTuple):
    """An attached image.

    Attributes:
        name: Name in the report.
        path: Its file.
        sha256: Of the file's bytes; empty if it was not read.
        problem: Why it cannot be described; empty if it can.
    """

    name: str
    path: Path
    sha256: str
    problem: str


def check_images(names: Iterable[str], image_dir: Path, max_megapixels: float, max_megabytes: float) -> list[ImageFile]:
    """Checks files and their headers without decoding them; other damage shows only in ``open_image``.

    Args:
        names: Names of files under ``image_dir``.
        image_dir: Folder of the images.
        max_megapixels: Maximum size of an image, in millions of pixels.
        max_megabytes: Maximum size of a file, in millions of bytes.
    """
    distinct = list(dict.fromkeys(names))
    home = os.path.realpath(image_dir)
    shown = track(distinct, "check images", disable=len(distinct) < MIN_PROGRESS_IMAGES)
    return [_check(name, home, max_megapixels, max_megabytes) for name in shown]


def open_image(path: Path) -> Image.Image:
    """The pixels of an image as RGB: the first frame, rotated upright, with a white background.

    Raises:
        ValueError: The image cannot be decoded.
    """
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(path, formats=FORMATS) as image:
            return _as_rgb(ImageOps.exif_transpose(image))
    except (*DAMAGED, Image.DecompressionBombError) as error:
        raise ValueError(f"{path}: the image cannot be decoded ({error}); save it again") from error


def problem_warnings(images: Iterable[ImageFile], owner: Mapping[str, str]) -> list[str]:
    """Counts the images that cannot be described by reason, and names the first few.

    Args:
        images: See ``check_images``.
        owner: Image name to the id of a report that attaches it.
    """
    by_problem: dict[str, list[str]] = {}
    for image in images:
        if image.problem:
            by_problem.setdefault(image.problem, []).append(image.name)
    warnings = []
    for problem, names in by_problem.items():
        some = ", ".join(f"{name} of report {owner[name]}" for name in names[:MAX_NAMED])
        warnings.append(f"images not described: {len(names):,} ({problem}; first: {some})")
    return warnings


def _check(name: str, home: str, max_megapixels: float, max_megabytes: float) -> ImageFile:
    path = Path(home, name)
    # Older Pythons refuse to resolve a name with a zero byte; no file has one.
    if "\0" in name:
        return ImageFile(name, path, "", MISSING)
    if not Path(os.path.realpath(path)).is_relative_to(home):
        return ImageFile(name, path, "", OUTSIDE)
    if not os.path.isfile(path):
        return ImageFile(name, path, "", MISSING)
    if path.stat().st_size > max_megabytes * MEGA:
        return ImageFile(name, path, "", TOO_LARGE)
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
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


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        # Pillow clips 16-bit grey at 255 instead of scaling it.
        image = image.convert("I").point(lambda value: value / 256).convert("L")
    if not image.has_transparency_data:
        return image.convert("RGB")
    image = image.convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image).convert("RGB")
