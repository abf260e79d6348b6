"""The endpoint for GitHub's events, and processing of a single event from a file."""

import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Request
from starlette.responses import JSONResponse, Response

from gedbd.service.routes import ERROR_RESPONSES, Responses
from gedbd.service.schemas import ErrorResponse
from gedbd.service.webhook.github_comments import CommentClient
from gedbd.service.webhook.receiver import Webhook
from gedbd.service.webhook.suggestion_log import summary_text
from gedbd.triage.stored_index import StoredIndex

FULL_RETRY_S = 60
IN_AN_ACTION = "set webhook.suggest=comment, or the input suggest of the GitHub Action"
ANSWERS: Responses = {
    202: {"model": ErrorResponse, "description": "The event is on disk and will be processed"},
    403: {"model": ErrorResponse, "description": "The event is one of another repository"},
}
webhook_router = APIRouter(responses=ERROR_RESPONSES | ANSWERS)


@webhook_router.post("/webhooks/github")
async def github_event(
    request: Request,
    x_hub_signature_256: Annotated[str, Header()] = "",
    x_github_event: Annotated[str, Header()] = "",
    x_github_delivery: Annotated[str, Header()] = "",
) -> Response:
    """Receives events of issues and comments, signed by GitHub. 202: the event is on disk and will be processed."""
    service = request.app.state.service
    webhook: Webhook = service.webhook
    body = await request.body()
    count = service.metrics.webhook.labels
    # Before the body is parsed: nothing that anybody else sends reaches the parser.
    if not is_signed(webhook.secret, body, x_hub_signature_256):
        count("refused").inc()
        raise HTTPException(401, "the signature is missing or wrong: X-Hub-Signature-256")
    try:
        payload: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        count("refused").inc()
        raise HTTPException(400, "the body is not JSON") from error
    result = await webhook.storing.run(webhook.accept, x_github_event, x_github_delivery, payload)
    if result.code != "accepted":  # an accepted event is counted by its result, once it is processed
        count(result.code).inc()
    headers = {"Retry-After": str(FULL_RETRY_S)} if result.status == 503 else None
    return JSONResponse({"detail": result.detail}, result.status, headers)


def is_signed(secret: str, body: bytes, signature: str) -> bool:
    """Whether the sender of a body knows the secret; always False if the secret is empty."""
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return bool(secret) and hmac.compare_digest(expected.encode(), signature.encode())


def run_event(webhook: Webhook, file: Path, kind: str) -> str:
    """Processes one event, without a server; returns a line that says what was done.

    Args:
        webhook: What processes it.
        file: A JSON file with the event's payload.
        kind: What GitHub calls the event, such as ``issues``.

    Raises:
        ValueError: If the file holds no event of this repository.
    """
    try:
        payload = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not an event: {error}") from error
    before = webhook.record.read()
    result = webhook.receive(kind, payload)
    if result.status >= 400:
        raise ValueError(f"{file}: {result.detail}")
    comments = ", ".join(webhook.post_comments()) or "none"
    reason = f" ({result.no_comment})" if result.no_comment else ""
    proposals = [one.proposal for one in webhook.record.read() if one.proposal and one not in before]
    proposed = f"; proposal to close it: {proposals[0]}" if proposals else ""
    return f"{result.detail}; comments: {comments}{reason}{proposed}"


def append_summary(file: Path, webhook: Webhook, result: str) -> None:
    """Appends to a Markdown file, such as the summary of a job, what was done and how suggestions turned out so far."""
    entries = webhook.record.judge(webhook.index, webhook.feedback)
    with file.open("a", encoding="utf-8") as stream:
        stream.write(summary_text(entries, result, webhook.how_to_write(IN_AN_ACTION)))


def build_webhook(options: Any, index: StoredIndex, secret: str) -> Webhook:
    """The webhook; it posts comments if the environment holds a token for them.

    Args:
        options: The section ``webhook`` of ``conf/serve.yaml``.
        index: The index that events change and search.
        secret: Signs GitHub's events.
    """
    token = os.environ.get(options.token_env)
    github = CommentClient(token, options.api_url, options.timeout_s, options.deadline_s) if token else None
    return Webhook(
        index,
        options.repository,
        github,
        secret,
        options.target_precision,
        options.suggestions,
        options.max_waiting,
        options.suggest,
        Path(options.log_file).expanduser() if options.log_file else None,
        options.lists,
    )
