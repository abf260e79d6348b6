"""Requests to the chat completions of an OpenAI-compatible endpoint (OpenAI, vLLM, llama.cpp, Ollama, ...)."""

import json
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from gedbd.corpora.clients.credentials import read_secret
from gedbd.corpora.clients.http import server_message
from gedbd.io.console import printable_line

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
NO_QUOTA = "insufficient_quota"
LOG = logging.getLogger(__name__)


class ChatFailure(NamedTuple):
    """Why a request has no answer.

    Attributes:
        problem: The reason, in a few words that other requests may share.
        may_pass: Whether the same request could succeed later.
    """

    problem: str
    may_pass: bool = True


class ChatEndpoint:
    """Sends requests to one endpoint, and tells a failed request from a refusal that concerns all of them.

    The first failure of each kind is logged with the endpoint's message, never with the key.

    Args:
        client: The client of the endpoint.
        base_url: Its address.
        section: The section of the configuration that the endpoint is set in, for messages.
    """

    def __init__(self, client: "OpenAI", base_url: str, section: str) -> None:
        self.client = client
        self.base_url = base_url
        self.section = section
        self._logged: set[str] = set()

    @property
    def address(self) -> str:
        """The address, marked where it is not encrypted."""
        return f"{self.base_url}{' (unencrypted)' if self.base_url.startswith('http:') else ''}"

    def complete(
        self, model: str, messages: list[dict[str, Any]], fields: Mapping[str, Any]
    ) -> dict[str, Any] | ChatFailure:
        """The first choice of a chat completion.

        Args:
            model: Name of the model at the endpoint.
            messages: The conversation.
            fields: Further fields of the request.

        Raises:
            ValueError: If the endpoint refuses the key, the model or the address, or redirects elsewhere.
        """
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        request: Any = self.client.chat.completions.with_raw_response.create
        try:
            answer = request(model=model, messages=messages, extra_body=dict(fields))
        except APITimeoutError:
            return self.failed("the endpoint did not answer in time")
        except APIConnectionError as error:
            return self.failed("the connection to the endpoint failed", str(error.__cause__ or ""))
        except APIStatusError as error:
            return self._refused(error)
        return self._read(answer.content)

    def failed(self, problem: str, detail: str = "", may_pass: bool = True) -> ChatFailure:
        """A failure, logged if it is the first of its kind."""
        if problem not in self._logged:
            self._logged.add(problem)
            LOG.warning("%s: %s%s", self.base_url, problem, f": {self._hide_key(detail)}" if detail else "")
        return ChatFailure(problem, may_pass)

    def _read(self, body: bytes) -> dict[str, Any] | ChatFailure:
        try:
            choice: dict[str, Any] = json.loads(body)["choices"][0]
            if "content" in choice["message"]:
                return choice
        except (ValueError, RecursionError, LookupError, TypeError):
            pass
        return self.failed("the answer is not a chat completion", body[:200].decode("utf-8", "replace"))

    def _refused(self, error: "APIStatusError") -> ChatFailure:
        """What a status above 299 means for this request; raises ValueError where it means the same for all."""
        status = error.status_code
        reason = self._hide_key(server_message(error.response.content))
        if status < 400:
            place = urlsplit(urljoin(str(error.response.url), error.response.headers.get("Location", "")))
            raise ValueError(
                f"{self.base_url}: the endpoint redirects to {place.scheme}://{place.hostname}: nothing was sent there;"
                f" if it is the right one, set {URL_VARIABLE} to its address"
            )
        # A used-up quota has the status of a rate limit, 429, but waiting does not help.
        refusals = {
            401: f"is {KEY_VARIABLE} right?",
            402: "the account has no credit",
            403: f"is the owner of {KEY_VARIABLE} allowed to use this model?",
            404: f"are {self.section}.base_url (often with /v1 at its end) and {self.section}.model right?",
        }
        advice = "the quota is used up" if error.code == NO_QUOTA else refusals.get(status)
        if advice:
            raise ValueError(
                f"{self.base_url}: the endpoint returned {status}{f' ({reason})' if reason else ''}; {advice}"
            )
        may_pass = status == 429 or status >= 500
        return self.failed(f"the endpoint returned {status}", reason, may_pass)

    def _hide_key(self, text: str) -> str:
        # Some endpoints repeat the key in their error messages.
        return printable_line(text).replace(self.client.api_key, "***")


def open_endpoint(section: str, name: str, base_url: str | None, timeout: float, max_retries: int) -> ChatEndpoint:
    """Prepares requests to an endpoint, without sending anything.

    The key is read from ``OPENAI_API_KEY`` only. Redirects are not followed, so that neither content nor the key
    reaches another host. Retries wait as long as ``Retry-After`` says, up to two minutes, or else longer each time.

    Args:
        section: See ``ChatEndpoint``.
        name: The choice in that section, for messages.
        base_url: Address of the endpoint; None takes ``OPENAI_BASE_URL``.
        timeout: Seconds to wait for data from the endpoint.
        max_retries: Further attempts after a temporary refusal, a failure or a time-out.

    Raises:
        ValueError: If the key, the address or the package ``openai`` is missing.
    """
    url = check_url(base_url or os.environ.get(URL_VARIABLE, "").strip(), section)
    key = read_secret(KEY_VARIABLE)
    if not key:
        raise ValueError(
            f"{section}={name}: set {KEY_VARIABLE} to the API key of {url}, or to any word if it needs none"
        )
    try:
        from openai import DefaultHttpxClient, OpenAI
    except ImportError as error:
        raise ValueError(f"{section}={name} needs the package openai: pip install 'gedbd[captions]'") from error
    # The client of openai follows redirects by default, and would send the key along.
    http_client = DefaultHttpxClient(follow_redirects=False, timeout=timeout)
    client = OpenAI(api_key=key, base_url=url, timeout=timeout, max_retries=max_retries, http_client=http_client)
    return ChatEndpoint(client, url, section)


def check_url(base_url: str, section: str) -> str:
    """The address without a slash at its end.

    Raises:
        ValueError: If it is missing, is no HTTP address, or contains a password.
    """
    if not base_url:
        raise ValueError(
            f"{section}.base_url is not set: set it or {URL_VARIABLE}, such as {URL_VARIABLE}=https://api.openai.com/v1"
        )
    parts = urlsplit(base_url)
    if "@" in parts.netloc:
        raise ValueError(f"{section}.base_url holds a name or password: the key is taken from {KEY_VARIABLE} only")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{section}.base_url={base_url} is not an address such as https://api.openai.com/v1")
    return base_url.rstrip("/")


def optional_fields(
    max_tokens: int | None, temperature: float | None, seed: int | None, extra_body: Mapping[str, Any]
) -> dict[str, Any]:
    """Fields of a request: those that are not None, and further ones."""
    optional = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
    return {option: value for option, value in optional.items() if value is not None} | dict(extra_body)
