"""What a tracker's refusal means and what to do about it, on one line."""

import json
from typing import Any

LONGEST_MESSAGE = 200


class RefusedError(ValueError):
    """The tracker answered with an error; ``status`` is the HTTP status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def server_message(body: bytes) -> str:
    """What the server says in a JSON error, without signs that a terminal would obey; empty where it says nothing."""
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
    clean = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return clean if len(clean) <= LONGEST_MESSAGE else clean[:LONGEST_MESSAGE] + "..."


def explain(status: int, token: str, has_token: bool, said: str) -> str:
    """What to do about an error status.

    Args:
        status: HTTP status, not below 400.
        token: Environment variable that holds the token.
        has_token: Whether it was sent.
        said: The server's own message.
    """
    private = "check project= and tracker.base_url; a private one needs a token that may read it"
    advice = {
        401: f"it does not accept {token}: expired, or mistyped?" if has_token else f"it asks for a token: set {token}",
        403: f"may the owner of {token} read this project?"
        if has_token
        else f"set {token} to a token that may read it",
        404: private if has_token else f"{private}: set {token}",
        410: "this is gone: are issues switched off for this project?",
    }.get(status, "")
    return f"the server answers {status}" + (f" ({said})" if said else "") + (f"; {advice}" if advice else "")
