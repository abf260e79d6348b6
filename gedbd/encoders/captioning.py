"""Cached captions of attached images, and a captioner that calls an endpoint."""

import base64
import hashlib
import io
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from PIL import Image

from gedbd.corpora.screenshots import BROKEN, DESCRIBED, ImageFile, open_image
from gedbd.encoders.chat_endpoint import ChatEndpoint, ChatFailure, optional_fields
from gedbd.io.console import item_progress, printable_line
from gedbd.io.files import cache_folder
from gedbd.io.sqlite_file import CacheFile

TABLE = "captions (captioner TEXT, sha256 TEXT, caption TEXT NOT NULL, PRIMARY KEY (captioner, sha256))"
MAX_FAILED_BATCHES = 5


class Caption(NamedTuple):
    """The caption of an image, or the reason why there is none.

    Attributes:
        text: The caption in one line; empty if there is none.
        problem: The reason, without details of the image; empty if there is a caption.
        may_pass: Whether the request may succeed later.
    """

    text: str
    problem: str = ""
    may_pass: bool = False


class Captioner(Protocol):
    """Describes images."""

    @property
    def key(self) -> str:
        """A hash of the captioner and its settings, under which captions are cached."""
        ...

    def announce(self, count: int) -> str:
        """A message for the user before ``count`` images are described; may be empty."""
        ...

    def describe(self, images: list[Image.Image]) -> list[Caption]:
        """Returns a caption for each RGB image. Raises ValueError if no image can be described."""
        ...


def check_prompt(prompt: str) -> None:
    """Raises ValueError if a prompt is empty."""
    if not prompt.strip():
        raise ValueError("captioner.prompt is empty: give a question about an image")


def caption_images(
    images: Sequence[ImageFile],
    captioner: Captioner,
    cache_dir: str,
    batch_size: int,
    print_notice: Callable[[str], None],
) -> tuple[list[ImageFile], list[tuple[str, str, str, str]], str]:
    """Describes the images whose captions are not in the cache.

    Args:
        images: The attached images, at least one of them without a problem.
        captioner: The captioner.
        cache_dir: Folder of the cache.
        batch_size: Images per batch.
        print_notice: Prints the captioner's message.

    Returns:
        The images, whose ``problem`` also says why the captioner could not describe one; name, SHA-256, caption and
        status of each; and their numbers in one line.
    """
    cached = cached_captions(captioner, cache_dir)
    readable = {image.sha256: image.path for image in images if not image.problem}
    captions = {sha256: Caption(cached[sha256]) for sha256 in readable.keys() & cached.keys()}
    uncached = {sha256: path for sha256, path in readable.items() if sha256 not in cached}
    if uncached and (notice := captioner.announce(len(uncached))):
        print_notice(notice)
    started = time.perf_counter()
    for batch in describe(uncached, captioner, cache_dir, batch_size):
        captions |= batch
    seconds = time.perf_counter() - started
    checked = [image._replace(problem=image.problem or captions[image.sha256].problem) for image in images]
    rows = []
    for image in checked:
        text = captions[image.sha256].text if image.sha256 in captions else ""
        rows.append((image.name, image.sha256, text, image.problem or DESCRIBED))
    new = sum(not captions[sha256].problem for sha256 in uncached)
    failed = sum(bool(image.problem) for image in checked)
    summary = (
        f"{len(checked):,} images, {len(readable):,} of them different: {new:,} newly described in {seconds:.1f} s,"
        f" {len(readable) - len(uncached):,} from {cache_dir}; {failed:,} not described"
    )
    return checked, rows, summary


def cached_captions(captioner: Captioner, cache_dir: str | Path) -> dict[str, str]:
    """The cached captions of a captioner, by SHA-256 of the image file.

    Raises:
        ValueError: If the folder cannot be used.
        StoreUnavailable: If the file cannot be used.
    """
    with _open_cache(cache_dir) as cache:
        return dict(cache.query("SELECT sha256, caption FROM captions WHERE captioner = ?", captioner.key))


def describe(
    images: Mapping[str, Path], captioner: Captioner, cache_dir: str | Path, batch_size: int
) -> Iterator[dict[str, Caption]]:
    """Describes images in batches and caches their captions, with a progress bar.

    Yields:
        The captions of each batch by SHA-256, as soon as they are stored.

    Raises:
        ValueError: If the cache cannot be used, the first batch fails and no caption is cached, or
            ``MAX_FAILED_BATCHES`` batches in a row fail.
    """
    waiting = list(images.items())
    bar = item_progress("images", transient=False, disable=not waiting)
    with _open_cache(cache_dir) as cache, bar as progress:
        task = progress.add_task("describe images", total=len(waiting))
        cached = cache.query("SELECT 1 FROM captions WHERE captioner = ? LIMIT 1", captioner.key)
        works, failed_batches = bool(cached), 0
        for start in range(0, len(waiting), batch_size):
            batch = dict(waiting[start : start + batch_size])
            captions = _describe_batch(batch, captioner)
            rows = [
                (captioner.key, sha256, caption.text) for sha256, caption in captions.items() if not caption.problem
            ]
            # Problems are not stored, so that the next run tries these images again.
            cache.store(rows)
            # Broken image files are not failures of the captioner.
            readable = [caption for caption in captions.values() if caption.problem != BROKEN]
            if rows:
                works, failed_batches = True, 0
            elif readable:
                problem = f"none of {len(readable):,} images could be described ({readable[0].problem})"
                if not works:
                    raise ValueError(f"{problem}: check the captioner's settings, then run the same command again")
                failed_batches = failed_batches + 1 if all(caption.may_pass for caption in readable) else 0
                if failed_batches == MAX_FAILED_BATCHES:
                    raise ValueError(
                        f"{problem}, {failed_batches} batches in a row: run the same command later to continue"
                    )
            yield captions
            progress.update(task, advance=len(batch))


def _describe_batch(batch: Mapping[str, Path], captioner: Captioner) -> dict[str, Caption]:
    captions = dict.fromkeys(batch, Caption("", BROKEN))
    pixels = {}
    for sha256, path in batch.items():
        try:
            pixels[sha256] = open_image(path)
        except ValueError:
            continue  # its caption stays BROKEN
    if pixels:
        captions |= dict(zip(pixels, captioner.describe(list(pixels.values())), strict=True))
    return captions


def _open_cache(cache_dir: str | Path) -> closing[CacheFile]:
    return closing(CacheFile(cache_folder(cache_dir) / "captions.sqlite", TABLE))


class EndpointCaptioner:
    """Sends each image to a chat endpoint in a separate request, several at a time.

    A failed image gets no caption; the first problem of each kind is logged with the endpoint's message. A refusal that
    concerns all images ends the run. For the key, redirects and retries see ``ChatEndpoint``.

    Args:
        name: Short name, for messages.
        base_url: Address of the endpoint; None for ``OPENAI_BASE_URL``.
        model: Name of the model.
        prompt: The question about each image.
        max_tokens: Maximum length of an answer; None for the endpoint's default, also for the next two.
        temperature: 0 for the most likely answer.
        seed: Seed of sampling.
        extra_body: Further fields of each request.
        max_side: Maximum side in pixels; larger images are scaled down.
        concurrency: Number of requests at a time.
        timeout: Seconds to wait for data from the endpoint.
        max_retries: Further attempts after a temporary refusal, a failure or a time-out.

    Raises:
        ValueError: If the key or the address is missing, or the prompt is empty.
    """

    def __init__(
        self,
        name: str,
        base_url: str | None,
        model: str,
        prompt: str,
        max_tokens: int | None,
        temperature: float | None,
        seed: int | None,
        extra_body: Mapping[str, Any],
        max_side: int,
        concurrency: int,
        timeout: float,
        max_retries: int,
    ) -> None:
        self.endpoint = ChatEndpoint("captioner", name, base_url, timeout, max_retries)
        check_prompt(prompt)
        self.model = model
        self.prompt = prompt
        self.max_side = max_side
        self.fields = optional_fields(max_tokens, temperature, seed, extra_body)
        self.concurrency = concurrency

    @property
    def key(self) -> str:
        """A hash of the settings that an answer depends on."""
        question = {"base_url": self.endpoint.base_url, "model": self.model, "prompt": self.prompt}
        settings = json.dumps(question | {"max_side": self.max_side, "fields": self.fields}, sort_keys=True)
        return hashlib.blake2b(settings.encode(), digest_size=16).hexdigest()

    def announce(self, count: int) -> str:
        """The number of images and the address that they are sent to."""
        target = f"{self.endpoint.address}, model {self.model}"
        return (
            f"{count:,} images will be sent to {target}; dataset images leave this machine unless that address is local"
        )

    def describe(self, images: list[Image.Image]) -> list[Caption]:
        """Returns a caption for each RGB image.

        Raises:
            ValueError: If the endpoint refuses the key, the model or the address, or redirects elsewhere.
        """
        with ThreadPoolExecutor(self.concurrency) as pool:
            return list(pool.map(self._describe, images))

    def _describe(self, image: Image.Image) -> Caption:
        content = [
            {"type": "text", "text": self.prompt},
            {"type": "image_url", "image_url": {"url": data_url(image, self.max_side)}},
        ]
        messages = [{"role": "user", "content": content}]
        answer = self.endpoint.complete(self.model, messages, self.fields)
        if isinstance(answer, ChatFailure):
            return Caption("", answer.problem, answer.may_pass)
        text = answer["message"]["content"]
        if not isinstance(text, str) or not text.strip():
            return Caption("", "the answer has no text")
        return Caption(printable_line(text))


def data_url(image: Image.Image, max_side: int) -> str:
    """Encodes an RGB image as a PNG data URL without metadata, such as the location."""
    if max(image.size) > max_side:
        image = image.copy()
        image.thumbnail((max_side, max_side))
    buffer = io.BytesIO()
    # Pasting copies pixels only; saving the image itself would keep its metadata.
    clean = Image.new("RGB", image.size)
    clean.paste(image)
    clean.save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
