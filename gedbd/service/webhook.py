"""The webhook: takes GitHub's events, whoever can sign them, and posts one comment on an issue at most."""

import hashlib
import hmac
import json
import logging
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Header, HTTPException, Request
from starlette.responses import JSONResponse, Response

from gedbd.matching.feedback import Feedback
from gedbd.matching.report import Report
from gedbd.matching.targets import TargetResult, find_target, met_targets
from gedbd.service.events import Outcome, as_report, ignored, keep_issue, link_duplicate, read_event, suggestion
from gedbd.service.github import GitHub, Unposted
from gedbd.service.outbox import Comment, Outbox
from gedbd.service.store import Index

log = logging.getLogger("gedbd")


class Webhook:
    """Keeps an index up to date with one repository's issues.

    Args:
        index: The stored reports.
        repository: "owner/name" whose events are taken.
        github: Where comments are posted; None posts none.
        secret: By which GitHub signs what it sends.
        target_precision: The precision target whose threshold counts; None: that of the index. Nothing is suggested
            unless the backtest met it.
        suggestions: The most issues that one comment names.

    Raises:
        ValueError: If the repository is no "owner/name", a number makes no sense, or the index knows no such target.
    """

    def __init__(
        self,
        index: Index,
        repository: str | None,
        github: GitHub | None = None,
        secret: str = "",
        target_precision: float | None = None,
        suggestions: int = 3,
    ) -> None:
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository or "", re.ASCII):
            raise ValueError(f"webhook.repository={repository} must be owner/name, as GitHub spells it")
        if suggestions < 1:
            raise ValueError(f"webhook.suggestions={suggestions} must be 1 or more")
        self.index, self.repository, self.github, self.secret = index, str(repository), github, secret
        self.target, self.suggestions = _target(index, target_precision), suggestions
        self.feedback, self.outbox = Feedback(index.folder), Outbox(index.folder)
        self.stopping, self.posting = threading.Event(), threading.Lock()
        if self.target.suggest_from is None:
            log.warning("%s: %s %s", index.name, self.target.statement, met_targets(index.targets))

    def signed(self, body: bytes, signature: str) -> bool:
        """Whether a body comes from who knows the secret."""
        expected = "sha256=" + hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()
        return bool(self.secret) and hmac.compare_digest(expected.encode(), signature.encode())

    def receive(self, kind: str, delivery: str, payload: object) -> Outcome:
        """Does what an event asks for, once; a comment waits in the outbox until ``post_comments``.

        Args:
            kind: Name of the event.
            delivery: Its id, by which it is known again; empty if it has none.
            payload: What came.

        Raises:
            ValueError: If an event of issues or comments has another shape.
        """
        if kind == "ping":
            return Outcome(200, "ping", "pong")
        if kind not in ("issues", "issue_comment"):
            return ignored(f"events of kind {kind[:100]} are not read")
        if delivery and self.outbox.is_done(delivery):
            return Outcome(200, "repeated", "already done")
        event = read_event(payload, kind)
        if event.repository.full_name.lower() != self.repository.lower():
            return Outcome(403, "refused", f"events of {self.repository} are taken, no others")
        if event.issue.pull_request is not None:
            return ignored("this is a pull request")
        if kind == "issue_comment":
            outcome = link_duplicate(self.index, self.feedback, event)
        else:
            outcome = keep_issue(self.index, event)
            if event.action == "opened":
                outcome = replace(outcome, no_comment=self._suggest(as_report(self.index, event.issue)))
        if delivery:
            self.outbox.finish(delivery)
        return outcome

    def _suggest(self, report: Report) -> str:
        """Lets a comment on a new report wait; otherwise logs and gives the reason why there is none."""
        found = suggestion(self.index, report, self.suggestions, self.target)
        if found.body is not None and self.github is not None:
            self.outbox.put(Comment(self.repository, report.issue_id, found.body))
            return ""
        reason = found.reason or "there is no token to post it with"
        log.info("no comment on issue %s: %s", report.issue_id, reason)
        return reason

    def post_comments(self) -> list[str]:
        """Posts all comments that wait, and tells what became of each: posted, there, failed."""
        with self.posting:
            waiting = self.outbox.waiting() if self.github is not None else []
            return [
                self._post(self.github, comment) for comment in waiting if self.github and not self.stopping.is_set()
            ]

    def _post(self, github: GitHub, comment: Comment) -> str:
        try:
            posted = github.comment_once(*comment)
        except Unposted as unposted:
            log.warning("no comment on issue %s: %s", comment.issue_id, unposted)
            self.outbox.settle(comment, "pending" if unposted.again else "failed")
            return "failed"
        self.outbox.settle(comment, "posted")
        return "posted" if posted else "there"

    def close(self) -> None:
        """Closes the files, once a comment on its way has arrived."""
        with self.posting:
            self.outbox.close()
            self.feedback.close()


def _target(index: Index, target_precision: object) -> TargetResult:
    """The target that counts. Raises ValueError if it is no share, or the index does not know it."""
    if target_precision is None:
        return index.target
    if not (isinstance(target_precision, float | int) and 0 < target_precision < 1):
        raise ValueError(f"webhook.target_precision={target_precision} must be above 0 and below 1, or null")
    return find_target(index.targets, target_precision, "webhook.target_precision")


webhook_router = APIRouter()


@webhook_router.post("/webhooks/github")
async def github_event(
    request: Request,
    tasks: BackgroundTasks,
    x_hub_signature_256: Annotated[str, Header()] = "",
    x_github_event: Annotated[str, Header()] = "",
    x_github_delivery: Annotated[str, Header()] = "",
) -> Response:
    """Events of issues and comments, as GitHub sends and signs them."""
    service = request.app.state.service
    webhook: Webhook = service.webhook
    body = await request.body()
    counted = service.metrics.webhook.labels
    if not webhook.signed(body, x_hub_signature_256):
        counted("refused").inc()
        raise HTTPException(401, "the signature is missing or wrong: X-Hub-Signature-256")
    try:
        payload: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        counted("refused").inc()
        raise HTTPException(400, "this is not JSON") from error
    outcome = await service.pool.run(webhook.receive, x_github_event, x_github_delivery, payload)
    counted(outcome.word).inc()
    tasks.add_task(service.post_comments)
    return JSONResponse({"detail": outcome.detail}, outcome.status, background=tasks)


def run_event(webhook: Webhook, file: Path, kind: str) -> str:
    """Does once, without a server, what an event in a file asks for; gives a sentence about it.

    Raises:
        ValueError: If the file holds no event of this repository.
    """
    try:
        payload = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: this is no event: {error}") from error
    outcome = webhook.receive(kind, "", payload)
    if outcome.status >= 400:
        raise ValueError(f"{file}: {outcome.detail}")
    posted = webhook.post_comments()
    comments = ", ".join(posted) or "none"
    return f"{outcome.detail}; comments: {comments}" + (f" ({outcome.no_comment})" if outcome.no_comment else "")
