"""The webhook: stores GitHub's events on arrival and processes them one at a time in a background thread."""

import hashlib
import hmac
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Request
from starlette.responses import JSONResponse, Response

from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import FeedbackStore
from gedbd.evaluation.thresholds import LIST_LENGTH, TargetResult, find_target, met_targets
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.service.duplicate_suggestions import Suggestion, SuggestionLog, suggest_duplicates, summary_text
from gedbd.service.event_table import MAX_WAITING, WEBHOOK_FILE, Delivery, EventTable
from gedbd.service.github_comments import CommentClient, CommentPoster, Outbox, OutboxComment
from gedbd.service.issue_events import (
    COMMENT_ACTIONS,
    ISSUE_ACTIONS,
    Event,
    EventResult,
    IndexUpdater,
    ignored,
    read_event,
)
from gedbd.service.schemas import ERROR_RESPONSES, ErrorResponse, Responses
from gedbd.service.server import check_repository
from gedbd.service.thread_pool import BackgroundWorker, BoundedThreadPool
from gedbd.triage.stored_index import StoredIndex

SHADOW = "shadow"
COMMENT = "comment"
MODES = (SHADOW, COMMENT)
log = logging.getLogger("gedbd")
ACTIONS = {"issues": ISSUE_ACTIONS, "issue_comment": COMMENT_ACTIONS}
DEFAULT_API_URL = "https://api.github.com"
UNCHANGED = ("ignored", "outdated", "unchanged", "unread")  # results that leave outcomes as they are
IDLE_S = 60.0  # pause of the idle worker; a new delivery wakes it
STOP_S = 2.0  # for work in flight at shutdown
CANCEL_AFTER_S = 1.0
STORING_TIMEOUT_S = 10.0  # GitHub gives up after this time
MAX_STORING = 256  # deliveries that wait to be stored
FULL_RETRY_S = 60
IN_AN_ACTION = "set webhook.suggest=comment, or the input suggest of the GitHub Action"
ANSWERS: Responses = {
    202: {"model": ErrorResponse, "description": "The event is on disk and will be processed"},
    403: {"model": ErrorResponse, "description": "The event belongs to another repository"},
}
webhook_router = APIRouter(responses=ERROR_RESPONSES | ANSWERS)


class Webhook:
    """Keeps an index up to date with the issues of one repository.

    Args:
        index: The stored reports.
        repository: "owner/name"; events of other repositories are refused.
        github: Client that posts comments; None to post none.
        secret: The secret with which GitHub signs its events.
        target_precision: The precision target; None for the target of the index. Nothing is suggested unless the
            backtest met it.
        suggestions: Maximum number of issues that one comment names.
        max_waiting: Maximum number of deliveries that wait to be processed; more are refused.
        suggest: "shadow" records suggestions and writes nothing to GitHub, "comment" posts them as comments.
        log_file: Another file that records suggestions; None for the one in the index folder.
        lists: Whether to suggest the three best matches as a list, by the targets measured for lists.

    Attributes:
        turn: Lock that is held while an event is processed.
        record: The suggestions and their outcomes.

    Raises:
        ValueError: If the repository is not "owner/name", a number or ``suggest`` is out of range, the backtest did not
            measure the target, or a file in the index folder is damaged.
    """

    def __init__(
        self,
        index: StoredIndex,
        repository: str | None,
        github: CommentClient | None = None,
        secret: str = "",
        target_precision: float | None = None,
        suggestions: int = 3,
        max_waiting: int = MAX_WAITING,
        suggest: str = SHADOW,
        log_file: Path | None = None,
        lists: bool = False,
    ) -> None:
        check_repository(repository)
        if suggest not in MODES:
            raise ValueError(f"webhook.suggest={suggest} is unknown: choose {', '.join(MODES)}")
        if lists and suggestions != LIST_LENGTH:
            raise ValueError(f"webhook.lists=true needs webhook.suggestions={LIST_LENGTH}")
        self.index = index
        self.repository = str(repository)
        self.suggest = suggest
        self.github = github if suggest != SHADOW else None
        self.secret = secret
        self.target_precision = target_precision
        self.suggestions = suggestions
        self.max_waiting = max_waiting
        self.lists = lists
        if self.target.suggest_from is None:
            # The command prints the statement of the target itself.
            reason = "the webhook posts no comments, since its precision target was not met"
            log.warning(
                "%s: %s. %s", index.name, reason, met_targets(index.matching.targets, index.matching.list_targets)
            )
        self.feedback = FeedbackStore(index.folder)
        self.table = EventTable(index.folder / WEBHOOK_FILE)
        self.outbox = Outbox(self.table)
        self.record = SuggestionLog(self.table if log_file is None else EventTable(log_file))
        api_url = github.api_url if github else DEFAULT_API_URL
        self.updater = IndexUpdater(index, self.feedback, self.table, api_url)
        self.poster = CommentPoster(self.github, self.outbox) if self.github else None
        self.storing = BoundedThreadPool(1, MAX_STORING, STORING_TIMEOUT_S, "deliveries")
        self.workers = [BackgroundWorker("webhook", self.process_next)]
        if self.poster:
            self.workers.append(BackgroundWorker("comments", self.poster.post_next))
        self.count: Callable[[str], object] = lambda code: None
        self.turn = threading.Lock()

    @property
    def target(self) -> TargetResult:
        """The target in use, read from the index each time. Raises ValueError if the backtest did not measure it."""
        if self.target_precision is None:
            return self.index.matching.list_target if self.lists else self.index.matching.target
        measured = self.index.matching.list_targets if self.lists else self.index.matching.targets
        return find_target(measured, self.target_precision, "webhook.target_precision")

    def how_to_write(self, how: str = "set webhook.suggest=comment") -> str:
        """In shadow mode, a line that says so and how to post comments; else empty."""
        if self.suggest != SHADOW:
            return ""
        return f"Shadow mode: nothing is written to GitHub, suggestions are only recorded. To post them, {how}."

    def start(self, count_event: Callable[[str], object], count_comment: Callable[[str], object]) -> None:
        """Starts the background threads, which call the functions with the result of each delivery and each comment."""
        self.count = count_event
        if self.poster:
            self.poster.count = count_comment
        for worker in self.workers:
            worker.start()

    def accept(self, kind: str, delivery: str, payload: object) -> EventResult:
        """Stores an event to process it later; ignored events are answered at once.

        Raises:
            ValueError: If an event of issues or comments is invalid.
            StoreUnavailable: If it cannot be stored at the moment.
        """
        event = self._screen(kind, payload)
        if isinstance(event, EventResult):
            return event
        result = self.table.put(delivery[:1000], event.model_dump_json(), self.max_waiting)
        if result == "repeated":
            return EventResult(200, "repeated", "already accepted")
        if result == "full":
            return EventResult(503, "full", f"{self.max_waiting:,} deliveries are waiting: try again later")
        self.workers[0].wake()
        return EventResult(202, "accepted", "accepted")

    def receive(self, kind: str, payload: object) -> EventResult:
        """Processes an event at once; a comment stays in the outbox until ``post_comments``.

        Raises:
            ValueError: If an event of issues or comments is invalid.
        """
        event = self._screen(kind, payload)
        return event if isinstance(event, EventResult) else self._process(event)

    def process_next(self) -> float:
        """Processes the oldest delivery, and returns the seconds until the next call.

        A delivery that cannot be processed is logged and dropped.

        Raises:
            StoreUnavailable: If a file cannot be used at the moment; the delivery keeps waiting.
        """
        delivery = self.table.first()
        if delivery is None:
            return IDLE_S
        try:
            result = self._process(Event.model_validate_json(delivery.event))
        except Exception as error:  # of any kind, as later deliveries must not wait forever
            unavailable = as_unavailable(error)
            if unavailable is not None:
                raise unavailable from error
            result = dropped(delivery, error)
        # Removed after processing: after a crash the delivery is repeated, which is idempotent.
        self.table.remove(delivery, remember=result.code != "dropped")
        log.info("delivery %s: %s", delivery.delivery or "without id", result.detail)
        self.count(result.code)
        self.table.recount()
        return 0.0

    def post_comments(self) -> list[str]:
        """Tries to post each comment that is due, and returns the results."""
        return self.poster.post_all_due() if self.poster else []

    def close(self) -> bool:
        """Stops the threads, and closes the files once they have finished; returns whether they have.

        Unfinished work is repeated after the next start.
        """
        finished = self.storing.close()
        started = time.monotonic()
        for worker in self.workers:
            worker.stop()
        if self.github and not self.workers[-1].join(CANCEL_AFTER_S):
            self.github.cancel()
        # A list, not a generator, so that all threads are joined.
        finished &= all([worker.join(started + STOP_S - time.monotonic()) for worker in self.workers])
        if finished:
            self.table.close()
            self.record.table.close()
            self.feedback.close()
        else:
            log.warning("a delivery is still being processed: it is processed again after the next start")
        return finished

    def _screen(self, kind: str, payload: object) -> Event | EventResult:
        """Parses an event; returns the result at once if the event is ignored or refused."""
        if kind == "ping":
            return EventResult(200, "ping", "pong")
        if kind not in ACTIONS:
            return ignored(f"events of kind {kind[:100]} are ignored")
        event = read_event(payload, kind)
        if event.repository.full_name.lower() != self.repository.lower():
            return EventResult(403, "refused", f"only events of {self.repository} are accepted")
        if event.issue.pull_request is not None:
            return ignored("this is a pull request")
        if event.action not in ACTIONS[kind]:
            return ignored(f"action {event.action[:100]} changes no text")
        return event

    def _process(self, event: Event) -> EventResult:
        with self.turn:
            if event.comment is not None:
                result = self.updater.update_links(event)
            else:
                result = self.updater.update_issue(event)
                # Also if a later state of the issue arrived first: the comment depends on the stored report.
                report = self.index.get(str(event.issue.number)) if event.action == "opened" else None
                if report is not None:
                    result = replace(result, no_comment=self._suggest(report))
            if result.code not in UNCHANGED:
                self.record.judge(self.index, self.feedback)
        return result

    def _suggest(self, report: Report) -> str:
        """Records the suggestion for a new report and adds its comment to the outbox; returns why there is none."""
        try:
            target = self.target
        except ValueError as error:  # the index was rebuilt with a backtest that did not measure this target
            suggestion = Suggestion(report.issue_id, reason=str(error))
        else:
            find_duplicates = self.table.called_duplicates
            suggestion = suggest_duplicates(self.index, report, self.suggestions, target, find_duplicates)
        reason = suggestion.reason
        if suggestion.named and self.poster is not None:
            self.outbox.put(OutboxComment(self.repository, report.issue_id, suggestion.comment))
            self.workers[-1].wake()
        elif suggestion.named and self.suggest == SHADOW:
            reason = f"shadow mode: {suggestion.sentence}"
        elif suggestion.named:
            reason = "there is no token to post it with"
        self.record.add(suggestion, self.suggest)
        if reason:
            log.info("no comment on issue %s: %s", report.issue_id, reason)
        return reason


def as_unavailable(error: Exception) -> StoreUnavailable | None:
    """Returns the error as StoreUnavailable if it is temporary, such as a locked file or a full disk; else None."""
    if isinstance(error, StoreUnavailable):
        return error
    is_temporary = isinstance(error, OSError | MemoryError)
    # Not subclasses such as IntegrityError, which would occur again.
    if is_temporary or type(error) in (sqlite3.OperationalError, sqlite3.DatabaseError):
        return StoreUnavailable(f"{type(error).__name__}: {error}")
    return None


def dropped(delivery: Delivery, error: Exception) -> EventResult:
    """Logs a delivery that would fail again, with a traceback unless its content is invalid; returns the result."""
    message = f"delivery {delivery.delivery or 'without id'} is dropped: {error}"
    if isinstance(error, ValueError):
        log.warning(message)
    else:
        log.error(message, exc_info=error)
    return EventResult(422, "dropped", message)


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
    # Checked before parsing, so that unsigned bodies never reach the parser.
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
    """Processes one event of GitHub from a JSON file without a server, and returns the result in one line.

    Raises:
        ValueError: If the file does not contain an event of this repository.
    """
    try:
        payload = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not an event: {error}") from error
    result = webhook.receive(kind, payload)
    if result.status >= 400:
        raise ValueError(f"{file}: {result.detail}")
    comments = ", ".join(webhook.post_comments()) or "none"
    reason = f" ({result.no_comment})" if result.no_comment else ""
    return f"{result.detail}; comments: {comments}{reason}"


def append_summary(file: Path, webhook: Webhook, result: str) -> None:
    """Appends the result and the outcomes of suggestions to a Markdown file, such as the summary of a job."""
    suggestions = webhook.record.judge(webhook.index, webhook.feedback)
    with file.open("a", encoding="utf-8") as stream:
        stream.write(summary_text(suggestions, result, webhook.how_to_write(IN_AN_ACTION)))


def build_webhook(options: Any, index: StoredIndex, secret: str) -> Webhook:
    """Builds the webhook from the section ``webhook`` of ``conf/serve.yaml``; it posts comments if there is a token."""
    token = os.environ.get(options.token_env)
    github = CommentClient(token, options.api_url, options.timeout_s, options.deadline_s) if token else None
    log_file = Path(options.log_file).expanduser() if options.log_file else None
    chosen = {name: options[name] for name in ("target_precision", "suggestions", "max_waiting", "suggest", "lists")}
    return Webhook(index, options.repository, github, secret, log_file=log_file, **chosen)
