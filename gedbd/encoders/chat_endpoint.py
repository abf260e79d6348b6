"""Requests to the chat completions of an OpenAI-compatible endpoint (OpenAI, vLLM, llama.cpp, Ollama, ...)."""

import json
import logging
import os
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import requests

from gedbd.io.console import printable_line
from gedbd.io.http import HttpSession, check_base_url, is_timeout, read_secret, server_message

KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
EXAMPLE = "https://api.openai.com/v1"  # of a base address
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
    """Sends requests to one endpoint, and distinguishes a failed request from a refusal that concerns all of them.

    The key is read from ``OPENAI_API_KEY`` only. Redirects are not followed. The first failure of each kind is logged
    with the endpoint's message, never with the key. Nothing is sent before ``complete``.

    Args:
        section: The section of the configuration that the endpoint is set in, for messages.
        name: The choice in that section, for messages.
        base_url: Address of the endpoint; None takes ``OPENAI_BASE_URL``.
        timeout: Seconds to wait for data from the endpoint.
        max_retries: Further attempts after a temporary refusal, a failure or a time-out, see ``HttpSession``.

    Raises:
        ValueError: If the key or the address is missing, or the address is invalid.
    """

    def __init__(self, section: str, name: str, base_url: str | None, timeout: float, max_retries: int) -> None:
        address = base_url or os.environ.get(URL_VARIABLE, "").strip()
        if not address:
            raise ValueError(
                f"{section}.base_url is not set: set it or {URL_VARIABLE}, such as {URL_VARIABLE}={EXAMPLE}"
            )
        self.base_url = check_base_url(address, f"{section}.base_url", EXAMPLE)
        self.section = section
        key = read_secret(KEY_VARIABLE)
        if not key:
            raise ValueError(
                f"{section}={name}: set {KEY_VARIABLE} to the API key of {self.base_url}, or to any word if it needs"
                " none"
            )
        secrets = {"Authorization": f"Bearer {key}"}
        option = f"{section}.base_url"
        self._session = HttpSession(self.base_url, option, secrets, timeout_s=timeout, retries=max_retries)
        self._logged: set[str] = set()

    @property
    def address(self) -> str:
        """The address, marked where it is not encrypted."""
        return f"{self.base_url}{' (unencrypted)' if self.base_url.startswith('http:') else ''}"

    def complete(
        self, model: str, messages: list[dict[str, Any]], fields: Mapping[str, Any]
    ) -> dict[str, Any] | ChatFailure:
        """The first choice of a chat completion.

        Raises:
            ValueError: If the endpoint refuses the key, the model or the address, or redirects elsewhere.
        """
        request = {"model": model, "messages": messages} | dict(fields)
        url = f"{self.base_url}/chat/completions"
        try:
            response, body = self._session.read("POST", url, follow=False, json=request)
        except requests.RequestException as error:
            if is_timeout(error):
                return self.failed("the endpoint did not answer in time")
            return self.failed("the connection to the endpoint failed", str(error))
        if response.status_code >= 300:
            return self._refused(response, body)
        try:
            choice: dict[str, Any] = json.loads(body)["choices"][0]
            if "content" in choice["message"]:
                return choice
        except (ValueError, RecursionError, LookupError, TypeError):
            pass
        return self.failed("the answer is not a chat completion", body[:200].decode("utf-8", "replace"))

    def failed(self, problem: str, detail: str = "", may_pass: bool = True) -> ChatFailure:
        """A failure, logged if it is the first of its kind."""
        if problem not in self._logged:
            self._logged.add(problem)
            masked = self._session.masked(printable_line(detail))
            LOG.warning("%s: %s%s", self.base_url, problem, f": {masked}" if detail else "")
        return ChatFailure(problem, may_pass)

    def _refused(self, response: requests.Response, body: bytes) -> ChatFailure:
        """The failure that a status above 299 means; raises ValueError if it concerns all requests."""
        status = response.status_code
        reason = self._session.masked(server_message(body))
        if status < 400:
            target = urlsplit(urljoin(response.url, response.headers.get("Location", "")))
            raise ValueError(
                f"{self.base_url}: the endpoint redirects to {target.scheme}://{target.hostname}: nothing was sent"
                f" there; if it is the right one, set {URL_VARIABLE} to its address"
            )
        refusals = {
            401: f"is {KEY_VARIABLE} right?",
            402: "the account has no credit",
            403: f"is the owner of {KEY_VARIABLE} allowed to use this model?",
            404: f"are {self.section}.base_url (often with /v1 at its end) and {self.section}.model right?",
        }
        # A used-up quota has the status of a rate limit, 429, but waiting does not help.
        advice = "the quota is used up" if NO_QUOTA.encode() in body else refusals.get(status)
        if advice:
            raise ValueError(
                f"{self.base_url}: the endpoint returned {status}{f' ({reason})' if reason else ''}; {advice}"
            )
        may_pass = status == 429 or status >= 500
        return self.failed(f"the endpoint returned {status}", reason, may_pass)


def optional_fields(
    max_tokens: int | None, temperature: float | None, seed: int | None, extra_body: Mapping[str, Any]
) -> dict[str, Any]:
    """Fields of a request: the options that are not None, and ``extra_body``."""
    optional = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
    return {option: value for option, value in optional.items() if value is not None} | dict(extra_body)
