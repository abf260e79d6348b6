"""Posts the comments that wait, one after the other, when they are due."""

import logging
import time
from collections.abc import Callable

from gedbd.service.webhook.comments import GitHub, Unposted
from gedbd.service.webhook.outbox import MAX_TRIES, Comment, Outbox

log = logging.getLogger("gedbd")
MAX_PAUSE_S = 60.0  # the clock is looked at again: it may have been set back


class Poster:
    """Posts comments.

    Args:
        github: Where.
        outbox: Those that wait.
    """

    def __init__(self, github: GitHub, outbox: Outbox) -> None:
        self.github, self.outbox = github, outbox
        self.count: Callable[[str], object] = lambda word: None

    def step(self) -> float:
        """Tries the most urgent comment that is due; gives the seconds until the next one is."""
        now = time.time()
        due = self.outbox.due(now)
        if due:
            self.post(due[0])
            return 0.0
        next_due = self.outbox.next_due()
        return MAX_PAUSE_S if next_due is None else min(max(next_due - now, 0.0), MAX_PAUSE_S)

    def post_due(self) -> list[str]:
        """Tries every comment that is due once, and tells what became of each; after a passing failure it ends."""
        words = []
        for comment in self.outbox.due(time.time()):
            words.append(self.post(comment))
            if words[-1] == "postponed":
                break
        return words

    def post(self, comment: Comment) -> str:
        """Tries to post a comment.

        Returns:
            "posted", "there" if the issue had one already, "postponed" until a later try, or "failed" for good.
        """
        try:
            word = "posted" if self.github.comment_once(*comment) else "there"
        except Unposted as unposted:
            return self._failed(comment, unposted)
        self.outbox.settle(comment, "posted")
        self.count(word)
        return word

    def _failed(self, comment: Comment, unposted: Unposted) -> str:
        if not unposted.again:
            log.warning("no comment on issue %s: %s", comment.issue_id, unposted)
            self.outbox.settle(comment, "failed")
            self.count("failed")
            return "failed"
        now = time.time()
        # Where GitHub cannot be reached, the others that are due would fail as this one did: each counts it as a try.
        others = [one for one in self.outbox.due(now) if one != comment]
        given_up = self.outbox.postpone([comment, *others], now, unposted.wait_s)
        for one in given_up:
            log.warning("no comment on issue %s: given up after %d tries: %s", one.issue_id, MAX_TRIES, unposted)
            self.count("failed")
        if comment in given_up:
            return "failed"
        log.warning("no comment on issue %s yet, it is tried again: %s", comment.issue_id, unposted)
        self.count("postponed")
        return "postponed"
