"""Attached image files: which of them can be described, and their pixels.

Files come from strangers: sizes are looked at before anything is decoded, only formats of the web are, and no name
leads out of the folder of images.
"""

import hashlib
import os
import struct
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageOps
from rich.progress import track

MISSING, BROKEN, TOO_LARGE, OUTSIDE = "missing", "broken", "too large", "outside image_dir"
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "WEBP")
# What Pillow raises on damaged files, depending on the format.
DAMAGED = (EOFError, IndexError, KeyError, OSError, SyntaxError, TypeError, ValueError, struct.error, zlib.error)
MEGA = 1_000_000
NAMED = 3
SHOWN_FROM = 65


class ImageFile(NamedTuple):
    """An attached image.

    Attributes:
        name: As the report names it.
        path: Where it lies.
        sha256: Of the file's bytes; empty if it was not read.
        problem: Why it cannot be described; empty if it can.
    """

    name: str
    path: Path
    sha256: str
    problem: str


def check_images(names: Iterable[str], image_dir: Path, max_megapixels: float, max_megabytes: float) -> list[ImageFile]:
    """Looks at files and their headers; nothing is decoded, so that damage further on shows only in ``open_image``.

    Args:
        names: Names of files under ``image_dir``.
        image_dir: Folder of the images.
        max_megapixels: Images of more millions of pixels are too large.
        max_megabytes: So are files of more millions of bytes.
    """
    distinct = list(dict.fromkeys(names))
    home = os.path.realpath(image_dir)
    shown = track(distinct, "look at images", disable=len(distinct) < SHOWN_FROM)
    return [_check(name, home, max_megapixels, max_megabytes) for name in shown]


def open_image(path: Path) -> Image.Image:
    """The pixels of an image as RGB: the first frame, upright, on white where it is transparent.

    Raises:
        ValueError: It cannot be decoded.
    """
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(path, formats=FORMATS) as image:
            return _as_rgb(ImageOps.exif_transpose(image))
    except (*DAMAGED, Image.DecompressionBombError) as error:
        raise ValueError(f"{path}: the image cannot be decoded ({error}); save it anew") from error


def problem_notices(images: Iterable[ImageFile], owner: Mapping[str, str]) -> list[str]:
    """Counts what cannot be described by reason, and names the first few.

    Args:
        images: See ``check_images``.
        owner: Image name to the id of a report that attaches it.
    """
    found = [image for image in images if image.problem]
    notices = []
    for problem, count in Counter(image.problem for image in found).items():
        some = [f"{image.name} of report {owner[image.name]}" for image in found if image.problem == problem][:NAMED]
        notices.append(f"images {problem}: {count:,}, not described (first: {', '.join(some)})")
    return notices


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
    return ImageFile(name, path, sha256, _header_problem(path, max_megapixels))


def _header_problem(path: Path, max_megapixels: float) -> str:
    """What the size and format that a file declares are against it."""
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(path, formats=FORMATS) as image:
            return TOO_LARGE if image.width * image.height > max_megapixels * MEGA else ""
    except Image.DecompressionBombError:
        return TOO_LARGE
    except DAMAGED:
        return BROKEN


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        # Pillow cuts 16-bit grey off at 255 instead of scaling it.
        image = image.convert("I").point(lambda value: value / 256).convert("L")
    if not image.has_transparency_data:
        return image.convert("RGB")
    image = image.convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image).convert("RGB")
