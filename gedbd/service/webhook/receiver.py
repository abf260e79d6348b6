"""The webhook: stores GitHub's events on arrival and processes them one at a time in a background thread."""

import logging
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import FeedbackStore
from gedbd.evaluation.thresholds import LIST_LENGTH, TargetResult, find_target, met_targets
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.service.thread_pool import BackgroundWorker, BoundedThreadPool
from gedbd.service.webhook.database import (
    MAX_TRIES,
    MAX_WAITING,
    Delivery,
    EventHistory,
    Inbox,
    Outbox,
    OutboxComment,
    WebhookFile,
)
from gedbd.service.webhook.github_comments import CommentClient, CommentError
from gedbd.service.webhook.index_updater import (
    COMMENT_ACTIONS,
    ISSUE_ACTIONS,
    EventResult,
    IndexUpdater,
    ignored,
    read_event,
)
from gedbd.service.webhook.native_proposals import (
    REFUSED,
    REOPENED,
    UNFINISHED,
    Proposal,
    ProposalStore,
    propose,
    record_decision,
)
from gedbd.service.webhook.payloads import Event
from gedbd.service.webhook.suggestion import Suggestion, suggest_duplicates
from gedbd.service.webhook.suggestion_log import LOG_FILE, SuggestionEntry, SuggestionLog
from gedbd.triage.stored_index import StoredIndex

MAX_PAUSE_S = 60.0  # then the clock is read again: it may have been set back
SHADOW = "shadow"
COMMENT = "comment"
NATIVE = "native"
MODES = (SHADOW, COMMENT, NATIVE)
log = logging.getLogger("gedbd")
ACTIONS = {"issues": ISSUE_ACTIONS, "issue_comment": COMMENT_ACTIONS}
DEFAULT_API_URL = "https://api.github.com"
UNCHANGED = ("ignored", "outdated", "unchanged", "unread")  # results of events that change no outcome
IDLE_S = 60.0  # pause of the worker while nothing waits; a new delivery wakes it
STOP_S = 2.0  # for work in flight at shutdown
CANCEL_AFTER_S = 1.0
STORING_TIMEOUT_S = 10.0  # GitHub gives up after this time
MAX_STORING = 256  # deliveries that arrive at once and wait to be written


class Webhook:
    """Keeps an index up to date with the issues of one repository.

    Args:
        index: The stored reports.
        repository: "owner/name"; events of other repositories are refused.
        github: Where comments are posted; None posts none.
        secret: The secret by which GitHub signs its events.
        target_precision: The precision target whose threshold is used; None uses that of the index. Nothing is
            suggested unless the backtest met it.
        suggestions: Maximum number of issues that one comment names.
        max_waiting: Maximum number of deliveries that wait to be processed; more are refused.
        suggest: "shadow" records suggestions and writes nothing to GitHub, "comment" posts them as comments, and
            "native" also proposes to close the issue as a duplicate.
        log_file: The file that records suggestions; None for one in the index folder.
        lists: Whether the three best matches are suggested together, by the targets that were measured for lists.

    Attributes:
        turn: Held while an event is processed.
        record: What was suggested, with the outcomes.

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
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository or "", re.ASCII):
            raise ValueError(f"webhook.repository={repository} must be owner/name, as GitHub spells it")
        if suggest not in MODES:
            raise ValueError(f"webhook.suggest={suggest} is unknown: choose {', '.join(MODES)}")
        if lists and suggest == NATIVE:
            raise ValueError("webhook.lists=true: a proposal to close names one issue; set webhook.suggest=comment")
        if lists and suggestions != LIST_LENGTH:
            raise ValueError(f"webhook.lists=true names {LIST_LENGTH} issues: leave webhook.suggestions at that")
        self.index = index
        self.repository = str(repository)
        self.suggest = suggest
        self.github = github if suggest != SHADOW else None
        self.secret = secret
        self.target_precision = target_precision
        self.suggestions = suggestions
        self.lists = lists
        if self.target.suggest_from is None:
            # Not the statement of the target: the command prints it, or gives it as the reason for no comment.
            reason = "the webhook posts no comments, since its precision target was not met"
            log.warning("%s: %s. %s", index.name, reason, met_targets(index.targets, index.list_targets))
        self.feedback = FeedbackStore(index.folder)
        self.file = WebhookFile(index.folder)
        self.inbox = Inbox(self.file, max_waiting)
        self.outbox = Outbox(self.file)
        self.proposals = ProposalStore(self.file)
        self.record = SuggestionLog(log_file or index.folder / LOG_FILE)
        try:
            self.record.judge(index, self.feedback)
        except StoreUnavailable as error:  # later, deliveries wait until the file can be used
            raise ValueError(str(error)) from error
        api_url = github.api_url if github else DEFAULT_API_URL
        self.history = EventHistory(self.file)
        self.updater = IndexUpdater(index, self.feedback, self.history, api_url)
        self.poster = CommentPoster(self.github, self.outbox, self.proposals, self.record) if self.github else None
        self.storing = BoundedThreadPool(1, MAX_STORING, STORING_TIMEOUT_S, "deliveries")
        self.workers = [BackgroundWorker("webhook", self.process_next)]
        if self.poster:
            self.workers.append(BackgroundWorker("comments", self.poster.step))
        self.count: Callable[[str], object] = lambda code: None
        self.turn = threading.Lock()

    @property
    def target(self) -> TargetResult:
        """The target in use, read from the index each time. Raises ValueError if the backtest did not measure it."""
        wanted = self.target_precision
        if wanted is None:
            return self.index.list_target if self.lists else self.index.target
        measured = self.index.list_targets if self.lists else self.index.targets
        return find_target(measured, wanted, "webhook.target_precision")

    def how_to_write(self, how: str = "set webhook.suggest=comment") -> str:
        """In shadow mode a line that says so and how to switch writing on, else nothing."""
        if self.suggest != SHADOW:
            return ""
        return f"Shadow mode: nothing is written to GitHub, suggestions are only recorded. To post them, {how}."

    def start(self, count_event: Callable[[str], object], count_comment: Callable[[str], object]) -> None:
        """Starts to process deliveries and to post comments, in background threads.

        Args:
            count_event: Called with the code of the result of each delivery.
            count_comment: Called with the result of each try to post a comment.
        """
        self.count = count_event
        if self.poster:
            self.poster.count = count_comment
        for worker in self.workers:
            worker.start()

    def accept(self, kind: str, delivery: str, payload: object) -> EventResult:
        """Stores an event to process it later; an event that changes nothing is answered at once.

        Args:
            kind: Name of the event.
            delivery: Its id, by which a repeated delivery is recognised; empty if it has none.
            payload: The parsed JSON.

        Raises:
            ValueError: If an event of issues or comments is invalid.
            StoreUnavailable: If it cannot be stored at the moment.
        """
        event = self._screen(kind, payload)
        if isinstance(event, EventResult):
            return event
        result = self.inbox.put(delivery[:1000], kind, event.model_dump_json())
        if result == "repeated":
            return EventResult(200, "repeated", "already accepted")
        if result == "full":
            return EventResult(503, "full", f"{self.inbox.max_waiting:,} deliveries are waiting: try again later")
        self.workers[0].wake()
        return EventResult(202, "accepted", "accepted")

    def receive(self, kind: str, payload: object) -> EventResult:
        """Processes an event now; a comment waits in the outbox until ``post_comments``.

        Raises:
            ValueError: If an event of issues or comments is invalid.
        """
        event = self._screen(kind, payload)
        return event if isinstance(event, EventResult) else self._process(kind, event)

    def process_next(self) -> float:
        """Processes the delivery that has waited longest; returns the seconds until the next call.

        A delivery that can never be processed is dropped with a line in the log.

        Raises:
            StoreUnavailable: If a file cannot be used at the moment; the delivery keeps waiting.
        """
        delivery = self.inbox.first()
        if delivery is None:
            return IDLE_S
        try:
            result = self._process(delivery.kind, Event.model_validate_json(delivery.event))
        except Exception as error:  # of any kind: the deliveries behind it must not wait for ever
            unavailable = as_unavailable(error)
            if unavailable is not None:
                raise unavailable from error
            result = dropped(delivery, error)
        # Removed after processing: a crash in between repeats the delivery, which changes nothing the second time.
        self.inbox.remove(delivery, remember=result.code != "dropped")
        log.info("delivery %s: %s", delivery.delivery or "without id", result.detail)
        self.count(result.code)
        self.inbox.recount()
        return 0.0

    def post_comments(self) -> list[str]:
        """Tries each comment that is due, and returns the results; see ``CommentPoster.post_all_due``."""
        return self.poster.post_all_due() if self.poster else []

    def close(self) -> bool:
        """Starts no further work, waits for what runs, and closes the files unless it still runs.

        Returns:
            Whether all work has finished; the rest is done after the next start.
        """
        finished = self.storing.close()
        started = time.monotonic()
        for worker in self.workers:
            worker.stop()
        if self.github and not self.workers[-1].join(CANCEL_AFTER_S):
            self.github.cancel()
        # A list, not a generator: each of them gets its time.
        finished &= all([worker.join(started + STOP_S - time.monotonic()) for worker in self.workers])
        if finished:
            self.file.close()
            self.feedback.close()
        else:
            log.warning("a delivery is still being processed: it is processed again after the next start")
        return finished

    def _screen(self, kind: str, payload: object) -> Event | EventResult:
        """The event, or the result of one that changes nothing."""
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

    def _process(self, kind: str, event: Event) -> EventResult:
        with self.turn:
            if kind == "issue_comment":
                result = self.updater.update_links(event)
            else:
                result = self.updater.update_issue(event)
                # Also if a later state of the issue arrived first: the comment depends on what is stored now.
                report = self.index.get(str(event.issue.number)) if event.action == "opened" else None
                if report is not None:
                    result = replace(result, no_comment=self._suggest(report))
            decision = record_decision(self.proposals, self.feedback, self.index, self.repository, event, result)
            if decision:
                self.record.set_proposal(str(event.issue.number), decision)
            if result.code not in UNCHANGED:
                self.record.judge(self.index, self.feedback)
        return result

    def _suggest(self, report: Report) -> str:
        """Records what is said of a new report and adds a comment to the outbox; returns why there is no comment."""
        try:
            target = self.target
        except ValueError as error:  # the index was built again from a backtest that did not measure this target
            found = Suggestion((), "", str(error))
        else:
            called = self.history.called_duplicates
            found = suggest_duplicates(self.index, report, self.suggestions, target, called)
        reason = found.reason
        if found.named and self.poster is not None:
            self._send(report, found)
        elif found.named and self.suggest == SHADOW:
            reason = f"shadow mode: {found.in_words}"
        elif found.named:
            reason = "there is no token to post it with"
        named = [
            {"issue": one.issue_id, "probability": one.probability, "state": one.state, "reasons": one.reasons}
            for one in found.named
        ]
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        entry = SuggestionEntry(report.issue_id, moment, self.suggest, named, found.body, found.reason)
        self.record.add(replace(entry, is_list=found.is_list))
        if reason:
            log.info("no comment on issue %s: %s", report.issue_id, reason)
        return reason

    def _send(self, report: Report, found: Suggestion) -> None:
        """Adds the comment to the outbox, and the proposal unless GitHub has closed an issue for one."""
        if self.suggest == NATIVE and not any(one.proposal == REOPENED for one in self.record.read()):
            self.proposals.put(Proposal.of(self.repository, report.issue_id, found))
        self.outbox.put(OutboxComment(self.repository, report.issue_id, found.body))
        self.workers[-1].wake()


class CommentPoster:
    """Posts comments, and after each one the proposal to close its issue, if there is one.

    Args:
        github: Where they are posted.
        outbox: The comments that wait.
        proposals: The proposals.
        record: Where the result of each proposal is recorded.
    """

    def __init__(self, github: CommentClient, outbox: Outbox, proposals: ProposalStore, record: SuggestionLog) -> None:
        self.github = github
        self.outbox = outbox
        self.proposals = proposals
        self.record = record
        self.count: Callable[[str], object] = lambda result: None

    def step(self) -> float:
        """Tries the most urgent comment that is due; returns the seconds until the next one is due."""
        now = time.time()
        due = self.outbox.due(now)
        if due:
            self.post(due[0])
            return 0.0
        next_due = self.outbox.next_due()
        return MAX_PAUSE_S if next_due is None else min(max(next_due - now, 0.0), MAX_PAUSE_S)

    def post_due(self) -> list[str]:
        """Tries each comment that is due once, and stops after a temporary failure; returns the result of each."""
        results = []
        for comment in self.outbox.due(time.time()):
            results.append(self.post(comment))
            if results[-1] in ("postponed", "unknown"):
                break
        return results

    def post_all_due(self) -> list[str]:
        """Likewise, for a process that ends afterwards: it waits for comments that rest, and tries them once more."""
        results = self.post_due()
        rest_s = self.outbox.rest_s()
        if rest_s > 0 or "unknown" in results:
            time.sleep(max(rest_s, 0.0))
            results += self.post_due()
        return results

    def post(self, comment: OutboxComment) -> str:
        """Tries to post a comment.

        Returns:
            "posted", "exists" if the issue had one already, "postponed" until a later try, "unknown" if GitHub may
            have created the comment, so that a later try looks for it, or "failed" for good.
        """

        def before_post() -> None:
            self.outbox.record_post(comment, time.time())

        try:
            result = "posted" if self.github.comment_once(*comment, before_post) else "exists"
        except CommentError as error:
            return self._handle_failure(comment, error, f"comment on issue {comment.issue_id}")
        try:
            self._propose(comment)
        except CommentError as error:
            return self._handle_failure(comment, error, f"proposal to close issue {comment.issue_id}")
        self.outbox.settle(comment, "posted")
        self.count(result)
        return result

    def _propose(self, comment: OutboxComment) -> None:
        """Proposes to close the issue of a comment. Raises CommentError if that has to be tried again."""
        proposal = self.proposals.get(comment.repository, comment.issue_id)
        if proposal is None or proposal.state not in UNFINISHED:
            return
        try:
            state = propose(self.github, self.proposals, proposal)
        except CommentError as error:
            if error.is_temporary:
                raise
            log.warning("no proposal to close issue %s: %s", comment.issue_id, error)
            state = REFUSED
        self.proposals.set_state(proposal, state)
        self.record.set_proposal(comment.issue_id, state)

    def _handle_failure(self, comment: OutboxComment, error: CommentError, missing: str) -> str:
        now = time.time()
        if error.is_unknown:
            self.outbox.record_post(comment, now)
        else:
            self.outbox.record_refusal(comment)
        if not error.is_temporary:
            log.warning("no %s: %s", missing, error)
            self.outbox.settle(comment, "failed")
            self.count("failed")
            return "failed"
        tried = [comment]
        if not error.is_unknown:
            # GitHub cannot be reached, so the other comments that are due would fail too: this try counts for each.
            tried += [one for one in self.outbox.due(now) if one != comment]
        given_up = self.outbox.postpone(tried, now, error.wait_s)
        for one in given_up:
            log.warning("no comment on issue %s: given up after %d tries: %s", one.issue_id, MAX_TRIES, error)
            self.count("failed")
        if comment in given_up:
            return "failed"
        result = "unknown" if error.is_unknown else "postponed"
        log.warning("no %s yet, it will be tried again: %s", missing, error)
        self.count(result)
        return result


def as_unavailable(error: Exception) -> StoreUnavailable | None:
    """The error if it is temporary: a locked, replaced or damaged file, a full disk, too little memory; else None."""
    if isinstance(error, StoreUnavailable):
        return error
    is_temporary = isinstance(error, OSError | MemoryError)
    # Their subclasses, such as IntegrityError, mean that the same would happen again.
    if is_temporary or type(error) in (sqlite3.OperationalError, sqlite3.DatabaseError):
        return StoreUnavailable(f"{type(error).__name__}: {error}")
    return None


def dropped(delivery: Delivery, error: Exception) -> EventResult:
    """The result of a delivery that would fail again. It is logged, with a traceback unless the content is invalid."""
    message = f"delivery {delivery.delivery or 'without id'} is dropped: {error}"
    if isinstance(error, ValueError):
        log.warning(message)
    else:
        log.error(message, exc_info=error)
    return EventResult(422, "dropped", message)
