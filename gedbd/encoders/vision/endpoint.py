"""Captions from a model behind an OpenAI-compatible endpoint, by its chat completions."""

import base64
import hashlib
import io
import json
import logging
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from PIL import Image

from gedbd.corpora.clients.credentials import read_secret
from gedbd.corpora.clients.http_errors import server_message
from gedbd.encoders.vision.caption_cache import Caption

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
ADVICE = {
    401: f"is {KEY_VARIABLE} right?",
    402: "the account cannot pay",
    403: f"may the owner of {KEY_VARIABLE} use this model?",
    404: "are captioner.base_url (often with /v1 at its end) and captioner.model right?",
}
NO_QUOTA = "insufficient_quota"
LOG = logging.getLogger(__name__)


class Question(NamedTuple):
    """Everything but the image that an answer depends on.

    Attributes:
        base_url: Address of the endpoint.
        model: Name of the model at the endpoint.
        prompt: The question about each image.
        max_side: Pixels; larger images are scaled down.
        fields: Further fields of each request.
    """

    base_url: str
    model: str
    prompt: str
    max_side: int
    fields: Mapping[str, Any]


class EndpointCaptioner:
    """Sends each image in a request of its own, several at a time; see ``load_endpoint_captioner``.

    An image that the endpoint refuses or does not answer gets no caption; the first problem of each kind is logged with
    the endpoint's message. A refusal that concerns all images ends the run.
    """

    def __init__(self, client: "OpenAI", question: Question, concurrency: int) -> None:
        self.client = client
        self.question = question
        self.concurrency = concurrency
        self._logged: set[str] = set()

    @property
    def key(self) -> str:
        """A hash of the question; captions are stored under it."""
        about = json.dumps(self.question._asdict(), sort_keys=True)
        return hashlib.blake2b(about.encode(), digest_size=16).hexdigest()

    def announce(self, count: int) -> str:
        """The number of images and the address that they are sent to."""
        plain = " (unencrypted)" if self.question.base_url.startswith("http:") else ""
        where = f"{self.question.base_url}{plain}, model {self.question.model}"
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
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        content = [
            {"type": "text", "text": self.question.prompt},
            {"type": "image_url", "image_url": {"url": data_url(image, self.question.max_side)}},
        ]
        messages: Any = [{"role": "user", "content": content}]
        request = self.client.chat.completions.with_raw_response.create
        try:
            answer = request(model=self.question.model, messages=messages, extra_body=dict(self.question.fields))
        except APITimeoutError:
            return self._failed("the endpoint gives no answer in time")
        except APIConnectionError as error:
            return self._failed("the connection to the endpoint fails", str(error.__cause__ or ""))
        except APIStatusError as error:
            return self._refused(error)
        return self._read(answer.content)

    def _read(self, body: bytes) -> Caption:
        """The caption in a chat completion."""
        try:
            text = json.loads(body)["choices"][0]["message"]["content"]
        except (ValueError, RecursionError, LookupError, TypeError):
            return self._failed("the answer is not a chat completion", body[:200].decode("utf-8", "replace"))
        if not isinstance(text, str) or not text.strip():
            return Caption("", "the answer has no text")
        printable = "".join(sign if sign.isprintable() else " " for sign in text)
        return Caption(" ".join(printable.split()))

    def _refused(self, error: "APIStatusError") -> Caption:
        """What a status above 299 means for this image; raises ValueError where it means the same for all."""
        status = error.status_code
        url = self.question.base_url
        said = self._hide_key(server_message(error.response.content))
        if status < 400:
            place = urlsplit(urljoin(str(error.response.url), error.response.headers.get("Location", "")))
            raise ValueError(
                f"{url}: the endpoint redirects to {place.scheme}://{place.hostname}: it is sent nothing;"
                f" if it is the right one, set {URL_VARIABLE} to its address"
            )
        # A used-up quota has the status of a rate limit, 429, but waiting does not help.
        advice = "the quota is used up" if error.code == NO_QUOTA else ADVICE.get(status)
        if advice:
            raise ValueError(f"{url}: the endpoint answers {status}{f' ({said})' if said else ''}; {advice}")
        may_pass = status == 429 or status >= 500
        return self._failed(f"the endpoint answers {status}", said, may_pass)

    def _failed(self, problem: str, detail: str = "", may_pass: bool = True) -> Caption:
        if problem not in self._logged:
            self._logged.add(problem)
            LOG.warning("%s: %s%s", self.question.base_url, problem, f": {self._hide_key(detail)}" if detail else "")
        return Caption("", problem, may_pass)

    def _hide_key(self, text: str) -> str:
        clean = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
        # Some endpoints repeat the key in their error messages.
        return clean.replace(self.client.api_key, "***")


def load_endpoint_captioner(
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
) -> EndpointCaptioner:
    """Prepares requests to an endpoint, without sending anything.

    The key is read from ``OPENAI_API_KEY`` only. Redirects are not followed, so that neither images nor the key reach
    another host. Retries wait as long as ``Retry-After`` says, up to two minutes, or else longer each time.

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
        ValueError: If the key, the address or the package ``openai`` is missing, or a setting is out of range.
    """
    url = check_url(base_url or os.environ.get(URL_VARIABLE, "").strip())
    _check_settings(prompt, max_side, concurrency, timeout, max_retries)
    client = _open_client(name, url, timeout, max_retries)
    optional = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
    fields = {option: value for option, value in optional.items() if value is not None} | dict(extra_body)
    return EndpointCaptioner(client, Question(url, model, prompt, max_side, fields), concurrency)


def _open_client(name: str, url: str, timeout: float, max_retries: int) -> "OpenAI":
    """A client of an endpoint. Raises ValueError if the key or the package ``openai`` is missing."""
    key = read_secret(KEY_VARIABLE)
    if not key:
        raise ValueError(f"captioner={name}: set {KEY_VARIABLE} to the key of {url}, or to any word if it needs none")
    try:
        from openai import DefaultHttpxClient, OpenAI
    except ImportError as error:
        raise ValueError(f"captioner={name} needs the package openai: pip install 'gedbd[captions]'") from error
    # The client of openai follows redirects by default, and would send the key along.
    http_client = DefaultHttpxClient(follow_redirects=False, timeout=timeout)
    return OpenAI(api_key=key, base_url=url, timeout=timeout, max_retries=max_retries, http_client=http_client)


def _check_settings(prompt: str, max_side: int, concurrency: int, timeout: float, max_retries: int) -> None:
    """Raises ValueError for the first setting that is out of range."""
    if not prompt.strip():
        raise ValueError("captioner.prompt is empty: give a question about an image")
    for option, value, minimum in (
        ("max_side", max_side, 1),
        ("concurrency", concurrency, 1),
        ("max_retries", max_retries, 0),
    ):
        if value < minimum:
            raise ValueError(f"captioner.{option}={value} must be {minimum} or more")
    if timeout <= 0:
        raise ValueError(f"captioner.timeout={timeout} must be above 0")


def check_url(base_url: str) -> str:
    """The address without a slash at its end.

    Raises:
        ValueError: If it is missing, is no HTTP address, or contains a password.
    """
    if not base_url:
        raise ValueError(
            f"captioner.base_url is not set: set it or {URL_VARIABLE}, such as {URL_VARIABLE}=https://api.openai.com/v1"
        )
    parts = urlsplit(base_url)
    if "@" in parts.netloc:
        raise ValueError(f"captioner.base_url holds a name or password: the key is taken from {KEY_VARIABLE} only")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"captioner.base_url={base_url} is no address such as https://api.openai.com/v1")
    return base_url.rstrip("/")


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
