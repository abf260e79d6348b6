"""Captions of all images that a corpus attaches: each distinct image is described once."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gedbd.corpora.captions import DESCRIBED
from gedbd.corpora.images import ImageFile
from gedbd.encoders.vision.caption_cache import Caption, Captioner, describe, kept_captions

NO_CAPTION = Caption("")


def check_limits(batch_size: int, max_megapixels: float, max_megabytes: float) -> None:
    """Raises ValueError if one of the options is not above 0."""
    limits = {"batch_size": batch_size, "max_megapixels": max_megapixels, "max_megabytes": max_megabytes}
    for name, value in limits.items():
        if not value > 0:
            raise ValueError(f"{name}={value} must be above 0")


class CaptionedImages(NamedTuple):
    """Images and their captions.

    Attributes:
        images: The images; ``problem`` also says why the captioner could not describe one.
        rows: Name, SHA-256, caption and status of each image.
        distinct: Number of images with different content that can be read.
        new: Those of them that were described now.
        cached: Those of them whose captions were in the cache.
        seconds: How long the new ones took.
    """

    images: list[ImageFile]
    rows: list[tuple[str, str, str, str]]
    distinct: int
    new: int
    cached: int
    seconds: float

    def summary(self, cache_dir: str) -> str:
        """One line of counts."""
        failed = sum(bool(image.problem) for image in self.images)
        return (
            f"{len(self.images):,} images; of {self.distinct:,} different ones {self.new:,} newly described"
            f" in {self.seconds:.1f} s, {self.cached:,} from {cache_dir}; {failed:,} not described"
        )


def caption_images(
    images: Sequence[ImageFile], captioner: Captioner, cache_dir: str, batch_size: int, say: Callable[[str], None]
) -> CaptionedImages:
    """Describes the images whose captions are not in the cache.

    Args:
        images: The attached images, at least one of them without a problem.
        captioner: Describes a batch of images.
        cache_dir: Folder of the cache of captions.
        batch_size: Images per batch.
        say: Prints a line, such as how many images leave this machine.
    """
    cached = kept_captions(captioner, cache_dir)
    readable = {image.sha256: image.path for image in images if not image.problem}
    captions = {sha256: Caption(cached[sha256]) for sha256 in readable.keys() & cached.keys()}
    waiting = {sha256: path for sha256, path in readable.items() if sha256 not in cached}
    if waiting and (announced := captioner.announce(len(waiting))):
        say(announced)
    started = time.perf_counter()
    for batch in describe(waiting, captioner, cache_dir, batch_size):
        captions |= batch
    seconds = time.perf_counter() - started
    checked = [image._replace(problem=image.problem or captions[image.sha256].problem) for image in images]
    rows = []
    for image in checked:
        text = captions.get(image.sha256, NO_CAPTION).text
        rows.append((image.name, image.sha256, text, image.problem or DESCRIBED))
    new = sum(not captions[sha256].problem for sha256 in waiting)
    return CaptionedImages(checked, rows, len(readable), new, len(readable) - len(waiting), seconds)
