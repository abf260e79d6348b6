"""Explain in one line why a tracker refuses a request, and what to do about it."""

import json
from typing import Any

from gedbd.io.plain_text import printable_line

MAX_MESSAGE_CHARACTERS = 200


class RefusedError(ValueError):
    """The tracker answered with an error; ``status`` is the HTTP status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def server_message(body: bytes) -> str:
    """The message of a JSON error, without control characters; empty if there is none."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(content, dict):
        return ""
    said: Any = next((content[key] for key in ("message", "errorMessages", "error") if content.get(key)), "")
    if isinstance(said, dict):  # {"error": {"message": ...}}
        said = said.get("message", said)
    text = "; ".join(map(str, said)) if isinstance(said, list) else str(said)
    clean = printable_line(text)  # a terminal would obey control characters
    return clean if len(clean) <= MAX_MESSAGE_CHARACTERS else clean[:MAX_MESSAGE_CHARACTERS] + "..."


def explain(status: int, token: str, has_token: bool, said: str) -> str:
    """Explain an error status and suggest a remedy.

    Args:
        status: HTTP status, 400 or above.
        token: The environment variable that holds the token.
        has_token: Whether the token was sent.
        said: The server's own message, empty for none.
    """
    private = "check project= and tracker.base_url; a private project needs a token that may read it"
    advice = {
        401: f"{token} is not accepted: has it expired, or is it mistyped?"
        if has_token
        else f"it requires a token: set {token}",
        403: f"does the owner of {token} have read access to this project?"
        if has_token
        else f"set {token} to a token with read access",
        404: private if has_token else f"{private}: set {token}",
        410: "the resource is gone: are issues disabled for this project?",
    }.get(status, "")
    return f"the server returned {status}" + (f" ({said})" if said else "") + (f"; {advice}" if advice else "")
