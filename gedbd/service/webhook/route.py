"""The address that GitHub sends events to, and events from a file."""

import hashlib
import hmac
import json
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Request
from starlette.responses import JSONResponse, Response

from gedbd.service.webhook.receiver import Webhook

FULL_RETRY_S = 60
webhook_router = APIRouter()


@webhook_router.post("/webhooks/github")
async def github_event(
    request: Request,
    x_hub_signature_256: Annotated[str, Header()] = "",
    x_github_event: Annotated[str, Header()] = "",
    x_github_delivery: Annotated[str, Header()] = "",
) -> Response:
    """Events of issues and comments, as GitHub sends and signs them; 202 says that one is stored and will be worked."""
    service = request.app.state.service
    webhook: Webhook = service.webhook
    body = await request.body()
    counted = service.metrics.webhook.labels
    if not is_signed(webhook.secret, body, x_hub_signature_256):
        counted("refused").inc()
        raise HTTPException(401, "the signature is missing or wrong: X-Hub-Signature-256")
    try:
        payload: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        counted("refused").inc()
        raise HTTPException(400, "this is not JSON") from error
    outcome = await webhook.storing.run(webhook.accept, x_github_event, x_github_delivery, payload)
    if outcome.word != "accepted":  # that one is counted by its outcome once it is worked
        counted(outcome.word).inc()
    headers = {"Retry-After": str(FULL_RETRY_S)} if outcome.status == 503 else None
    return JSONResponse({"detail": outcome.detail}, outcome.status, headers)


def is_signed(secret: str, body: bytes, signature: str) -> bool:
    """Whether a body comes from who knows the secret; never without a secret."""
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return bool(secret) and hmac.compare_digest(expected.encode(), signature.encode())


def run_event(webhook: Webhook, file: Path, kind: str) -> str:
    """Does once, without a server, what an event in a file asks for; gives a sentence about it.

    Raises:
        ValueError: If the file holds no event of this repository.
    """
    try:
        payload = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{file}: this is no event: {error}") from error
    outcome = webhook.receive(kind, payload)
    if outcome.status >= 400:
        raise ValueError(f"{file}: {outcome.detail}")
    posted = webhook.post_comments()
    comments = ", ".join(posted) or "none"
    return f"{outcome.detail}; comments: {comments}" + (f" ({outcome.no_comment})" if outcome.no_comment else "")
