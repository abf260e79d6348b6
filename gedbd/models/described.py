"""Captions of images by content, kept on disk: an image that was described before is not described again.

One SQLite file for all captioners. Each batch is stored before the next one is read, so that a run that was killed
loses the batch in work at most, and concurrent runs may share the file.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gedbd.data.images import open_image
from gedbd.data.token_cache import cache_folder
from gedbd.models.captioner import Captioner

TABLE = "captions (captioner TEXT, sha256 TEXT, caption TEXT NOT NULL, PRIMARY KEY (captioner, sha256))"


def kept_captions(captioner: Captioner, cache_dir: str | Path) -> dict[str, str]:
    """Captions that this captioner has given before, by SHA-256 of the image file.

    Args:
        captioner: See ``describe``.
        cache_dir: Folder of the cache file, made if absent.

    Raises:
        ValueError: If the cache cannot be used.
    """
    with _open_cache(cache_dir) as cache:
        return dict(cache.execute("SELECT sha256, caption FROM captions WHERE captioner = ?", (captioner.key,)))


def describe(
    images: Mapping[str, Path], captioner: Captioner, cache_dir: str | Path, batch_size: int
) -> Iterator[dict[str, str | None]]:
    """Describes images and keeps the captions, and shows a progress bar with rate and time to go.

    Args:
        images: SHA-256 of the image file to where it lies.
        captioner: Describes one batch after the other.
        cache_dir: Folder of the cache file, made if absent.
        batch_size: Images a batch.

    Yields:
        SHA-256 to caption for each batch, as soon as it is stored; None where the image cannot be decoded.

    Raises:
        ValueError: If the cache cannot be used.
    """
    columns = (TextColumn("describe images"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    waiting = list(images.items())
    with _open_cache(cache_dir) as cache, Progress(*columns, TimeRemainingColumn(), disable=not waiting) as progress:
        task = progress.add_task("describe", total=len(waiting), rate="")
        for start in range(0, len(waiting), batch_size):
            batch = dict(waiting[start : start + batch_size])
            captions = _describe_batch(batch, captioner)
            fresh = [(captioner.key, sha256, caption) for sha256, caption in captions.items() if caption is not None]
            cache.executemany("INSERT OR IGNORE INTO captions VALUES (?, ?, ?)", fresh)
            cache.commit()
            yield captions
            progress.update(task, advance=len(batch), rate=f"{progress.tasks[0].speed or 0:.2f} images/s")


def _describe_batch(batch: Mapping[str, Path], captioner: Captioner) -> dict[str, str | None]:
    captions: dict[str, str | None] = dict.fromkeys(batch)
    pixels = {}
    for sha256, path in batch.items():
        try:
            pixels[sha256] = open_image(path)
        except ValueError:
            continue  # stays None, which the caller counts and names
    if pixels:
        captions |= dict(zip(pixels, captioner.describe(list(pixels.values())), strict=True))
    return captions


@contextmanager
def _open_cache(cache_dir: str | Path) -> Iterator[sqlite3.Connection]:
    file = cache_folder(cache_dir) / "captions.sqlite"
    try:
        with closing(sqlite3.connect(file, timeout=60)) as cache:
            cache.execute(f"CREATE TABLE IF NOT EXISTS {TABLE}")
            yield cache
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{file} cannot be used ({error}): remove it, or name another folder as cache_dir") from error
