"""The webhook: stores GitHub's signed events at once, and works them one after the other beside the requests."""

import logging
import re
import time
from collections.abc import Callable
from dataclasses import replace

from gedbd.service.background_worker import Worker
from gedbd.service.index_interface import Index
from gedbd.service.thread_pool import Pool
from gedbd.service.webhook.comment_worker import Poster
from gedbd.service.webhook.comments import GitHub
from gedbd.service.webhook.database import WebhookFile
from gedbd.service.webhook.events import COMMENT_ACTIONS, ISSUE_ACTIONS, Follower, Outcome, ignored, read_event
from gedbd.service.webhook.failures import as_unavailable, dropped
from gedbd.service.webhook.history import History
from gedbd.service.webhook.inbox import MAX_WAITING, Inbox
from gedbd.service.webhook.outbox import Comment, Outbox
from gedbd.service.webhook.payloads import Event
from gedbd.service.webhook.suggestion import Suggestion, suggestion
from gedbd.triage.backtesting.targets import TargetResult, find_target, met_targets
from gedbd.triage.feedback import Feedback
from gedbd.triage.report import Report

log = logging.getLogger("gedbd")
ACTIONS = {"issues": ISSUE_ACTIONS, "issue_comment": COMMENT_ACTIONS}
DEFAULT_API_URL = "https://api.github.com"
NOTHING_WAITS_S = 60.0
STOP_S = 2.0  # for work in flight when the service ends
CANCEL_AFTER_S = 1.0
STORING_TIMEOUT_S = 10.0  # GitHub gives up after this time
MAX_STORING = 256  # deliveries that come at once and wait to be written


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
        max_waiting: The most deliveries that wait to be worked; more are refused until there is room.

    Raises:
        ValueError: If the repository is no "owner/name", a number makes no sense, the index knows no such target, or a
            file in its folder is damaged.
    """

    def __init__(
        self,
        index: Index,
        repository: str | None,
        github: GitHub | None = None,
        secret: str = "",
        target_precision: float | None = None,
        suggestions: int = 3,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository or "", re.ASCII):
            raise ValueError(f"webhook.repository={repository} must be owner/name, as GitHub spells it")
        for name, value in (("suggestions", suggestions), ("max_waiting", max_waiting)):
            if value < 1:
                raise ValueError(f"webhook.{name}={value} must be 1 or more")
        self.index, self.repository, self.github, self.secret = index, str(repository), github, secret
        self.target_precision, self.suggestions = target_precision, suggestions
        if self.target.suggest_from is None:
            log.warning("%s: %s %s", index.name, self.target.statement, met_targets(index.targets))
        self.feedback, self.file = Feedback(index.folder), WebhookFile(index.folder)
        self.inbox, self.outbox = Inbox(self.file, max_waiting), Outbox(self.file)
        api_url = github.api_url if github else DEFAULT_API_URL
        self.follower = Follower(index, self.feedback, History(self.file), api_url)
        self.poster = Poster(github, self.outbox) if github else None
        self.storing = Pool(1, MAX_STORING, STORING_TIMEOUT_S, "deliveries")
        self.workers = [Worker("webhook", self.work_first)]
        if self.poster:
            self.workers.append(Worker("comments", self.poster.step))
        self.count: Callable[[str], object] = lambda word: None

    @property
    def target(self) -> TargetResult:
        """The target that counts, as the index knows it now. Raises ValueError if it knows no such target."""
        asked = self.target_precision
        if asked is None:
            return self.index.target
        if not (isinstance(asked, float | int) and 0 < asked < 1):
            raise ValueError(f"webhook.target_precision={asked} must be above 0 and below 1, or null")
        return find_target(self.index.targets, asked, "webhook.target_precision")

    def start(self, count_event: Callable[[str], object], count_comment: Callable[[str], object]) -> None:
        """Begins to work what waits and what comes, in threads of their own.

        Args:
            count_event: Takes the word of the outcome of each delivery.
            count_comment: Takes the word for each try of a comment.
        """
        self.count = count_event
        if self.poster:
            self.poster.count = count_comment
        for worker in self.workers:
            worker.start()

    def accept(self, kind: str, delivery: str, payload: object) -> Outcome:
        """Stores an event that is to be worked; what needs no work is answered at once.

        Args:
            kind: Name of the event.
            delivery: Its id, by which it is known again; empty if it has none.
            payload: What came.

        Raises:
            ValueError: If an event of issues or comments has another shape.
            StoreUnavailable: If it cannot be stored at the moment.
        """
        event = self._screened(kind, payload)
        if isinstance(event, Outcome):
            return event
        word = self.inbox.put(delivery[:1000], kind, event.model_dump_json())
        if word == "repeated":
            return Outcome(200, "repeated", "already accepted")
        if word == "full":
            return Outcome(503, "full", f"{self.inbox.max_waiting:,} deliveries wait to be worked: try again later")
        self.workers[0].wake()
        return Outcome(202, "accepted", "accepted")

    def receive(self, kind: str, payload: object) -> Outcome:
        """Does what an event asks for, now; a comment waits in the outbox until ``post_comments``.

        Raises:
            ValueError: If an event of issues or comments has another shape.
        """
        event = self._screened(kind, payload)
        return event if isinstance(event, Outcome) else self._work(kind, event)

    def work_first(self) -> float:
        """Works the delivery that has waited longest; gives the seconds until there may be more to do.

        One that cannot be worked, now or later, is dropped with a line in the log.

        Raises:
            StoreUnavailable: If a file cannot be used at the moment; the delivery waits on.
        """
        delivery = self.inbox.first()
        if delivery is None:
            return NOTHING_WAITS_S
        try:
            outcome = self._work(delivery.kind, Event.model_validate_json(delivery.event))
        except Exception as error:
            unavailable = as_unavailable(error)
            if unavailable is not None:
                raise unavailable from error
            outcome = dropped(delivery, error)
        self.inbox.remove(delivery, known=outcome.word != "dropped")
        log.info("delivery %s: %s", delivery.delivery or "without id", outcome.detail)
        self.count(outcome.word)
        self.inbox.recount()
        return 0.0

    def post_comments(self) -> list[str]:
        """Tries all comments that are due once, and tells what became of each: posted, there, postponed, failed."""
        return self.poster.post_due() if self.poster else []

    def stop(self) -> bool:
        """Begins no further work, and lets what runs end; what is undone then is done after the next start.

        Returns:
            Whether all has ended.
        """
        begun = time.monotonic()
        for worker in self.workers:
            worker.stop()
        if self.github and not self.workers[-1].join(CANCEL_AFTER_S):
            self.github.cancel()
        return all([worker.join(begun + STOP_S - time.monotonic()) for worker in self.workers])

    def close(self) -> bool:
        """Stops, and closes the files unless work goes on that uses them; gives whether none does."""
        ended = all([self.storing.close(), self.stop()])
        if ended:
            self.file.close()
            self.feedback.close()
        else:
            log.warning("a delivery is still being worked: it is worked again after the next start")
        return ended

    def _screened(self, kind: str, payload: object) -> Event | Outcome:
        """The event, or the answer to one that asks for nothing."""
        if kind == "ping":
            return Outcome(200, "ping", "pong")
        if kind not in ACTIONS:
            return ignored(f"events of kind {kind[:100]} are not read")
        event = read_event(payload, kind)
        if event.repository.full_name.lower() != self.repository.lower():
            return Outcome(403, "refused", f"events of {self.repository} are taken, no others")
        if event.issue.pull_request is not None:
            return ignored("this is a pull request")
        if event.action not in ACTIONS[kind]:
            return ignored(f"action {event.action[:100]} changes no text")
        return event

    def _work(self, kind: str, event: Event) -> Outcome:
        if kind == "issue_comment":
            return self.follower.follow_comment(event)
        outcome = self.follower.keep_issue(event)
        # Also where a later state of the issue came first: its comment depends on what is stored now.
        report = self.index.get(str(event.issue.number)) if event.action == "opened" else None
        return outcome if report is None else replace(outcome, no_comment=self._suggest(report))

    def _suggest(self, report: Report) -> str:
        """Lets a comment on a new report wait; otherwise logs and gives the reason why there is none."""
        try:
            target = self.target
        except ValueError as error:  # the index was built again from a backtest that has not measured this target
            found = Suggestion(None, str(error))
        else:
            found = suggestion(self.index, report, self.suggestions, target)
        if found.body is not None and self.poster is not None:
            self.outbox.put(Comment(self.repository, report.issue_id, found.body))
            self.workers[-1].wake()
            return ""
        reason = found.reason or "there is no token to post it with"
        log.info("no comment on issue %s: %s", report.issue_id, reason)
        return reason
