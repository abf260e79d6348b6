"""Posts the comments that wait in the outbox, one at a time, when they are due."""

import logging
import time
from collections.abc import Callable

from gedbd.service.webhook.comments import CommentError, GitHub
from gedbd.service.webhook.outbox import MAX_TRIES, Comment, Outbox

log = logging.getLogger("gedbd")
MAX_PAUSE_S = 60.0  # then the clock is read again: it may have been set back


class CommentPoster:
    """Posts comments.

    Args:
        github: Where they are posted.
        outbox: The comments that wait.
    """

    def __init__(self, github: GitHub, outbox: Outbox) -> None:
        self.github = github
        self.outbox = outbox
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

    def post(self, comment: Comment) -> str:
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
            return self._handle_failure(comment, error)
        self.outbox.settle(comment, "posted")
        self.count(result)
        return result

    def _handle_failure(self, comment: Comment, error: CommentError) -> str:
        now = time.time()
        if error.is_unknown:
            self.outbox.record_post(comment, now)
        else:
            self.outbox.record_refusal(comment)
        if not error.is_temporary:
            log.warning("no comment on issue %s: %s", comment.issue_id, error)
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
        log.warning("no comment on issue %s yet, it will be tried again: %s", comment.issue_id, error)
        self.count(result)
        return result
