"""Captions from a model behind an OpenAI-compatible endpoint, by its chat completions."""

import base64
import hashlib
import io
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from PIL import Image

from gedbd.encoders.chat_endpoint import ChatEndpoint, ChatFailure, optional_fields
from gedbd.encoders.vision.corpus_captions import Caption
from gedbd.io.console import printable_line


class EndpointCaptioner:
    """Sends each image in a request of its own, several at a time.

    An image that the endpoint refuses or does not answer gets no caption; the first problem of each kind is logged with
    the endpoint's message. A refusal that concerns all images ends the run.
    For the key, redirects and retries see ``ChatEndpoint``.

    Args:
        name: Short name, for messages.
        base_url: Address of the endpoint; None takes ``OPENAI_BASE_URL``.
        model: Name of the model there.
        prompt: The question about each image.
        max_tokens: Length of an answer; None takes the endpoint's default, as for the next two.
        temperature: 0 for the most likely answer.
        seed: Seed of endpoints that sample even so.
        extra_body: Further fields of each request.
        max_side: Pixels; larger images are scaled down before they are sent.
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
        if not prompt.strip():
            raise ValueError("captioner.prompt is empty: give a question about an image")
        self.model = model
        self.prompt = prompt
        self.max_side = max_side
        self.fields = optional_fields(max_tokens, temperature, seed, extra_body)
        self.concurrency = concurrency

    @property
    def key(self) -> str:
        """A hash of everything but the image that an answer depends on; captions are stored under it."""
        question = {"base_url": self.endpoint.base_url, "model": self.model, "prompt": self.prompt}
        about = json.dumps(question | {"max_side": self.max_side, "fields": self.fields}, sort_keys=True)
        return hashlib.blake2b(about.encode(), digest_size=16).hexdigest()

    def announce(self, count: int) -> str:
        """The number of images and the address that they are sent to."""
        where = f"{self.endpoint.address}, model {self.model}"
        return (
            f"{count:,} images will be sent to {where}; dataset images leave this machine unless that address is local"
        )

    def describe(self, images: list[Image.Image]) -> list[Caption]:
        """One caption for each RGB image.

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
    """An RGB image as a PNG in a data URL, without the metadata of its file, such as the location."""
    if max(image.size) > max_side:
        image = image.copy()
        image.thumbnail((max_side, max_side))
    buffer = io.BytesIO()
    # Pasting copies pixels only; saving the image itself would keep its metadata.
    clean = Image.new("RGB", image.size)
    clean.paste(image)
    clean.save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
