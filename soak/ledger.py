"""What the clients did, and what the service acknowledged."""

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple


class Answered(NamedTuple):
    """One request.

    Attributes:
        moment: When it was sent, in seconds of the monotonic clock.
        kind: What was asked.
        status: Status of the answer; 0 if the connection broke.
        seconds: How long the answer took.
        has_retry_after: Whether the answer told when to try again.
    """

    moment: float
    kind: str
    status: int
    seconds: float
    has_retry_after: bool


@dataclass
class Ledger:
    """Requests, acknowledged writes and faults; it may be used from several threads.

    A write whose answer was lost is in doubt: its id is not used again and is not checked.

    Attributes:
        reports: Title of each report whose last write was acknowledged, by id; None for a deleted one.
        issues: The same for issues that came by the webhook.
        verdicts: Acknowledged feedback by report and candidate.
        windows: Start and end of injected faults, and whether the server was down.
    """

    answers: list[Answered] = field(default_factory=list)
    reports: dict[str, str | None] = field(default_factory=dict)
    issues: dict[str, str | None] = field(default_factory=dict)
    verdicts: dict[tuple[str, str], str] = field(default_factory=dict)
    windows: list[tuple[float, float, str]] = field(default_factory=list)
    probes: list[tuple[float, float | None]] = field(default_factory=list)
    writes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answered(self, answer: Answered) -> None:
        """Keeps one request."""
        with self.lock:
            self.answers.append(answer)

    def acknowledge(self, kind: str, key: str, title: str | None) -> None:
        """Keeps that a report or an issue now has a title, or is deleted."""
        with self.lock:
            self.writes += 1
            (self.issues if kind == "webhook" else self.reports)[key] = title

    def doubt(self, kind: str, key: str) -> None:
        """Leaves a report or an issue out of what is checked: nobody knows whether the last write arrived."""
        with self.lock:
            (self.issues if kind == "webhook" else self.reports).pop(key, None)

    def acknowledge_verdict(self, report: str, candidate: str, verdict: str) -> None:
        """Keeps acknowledged feedback."""
        with self.lock:
            self.writes += 1
            self.verdicts[report, candidate] = verdict

    def within_fault(self, start: float, end: float) -> bool:
        """Whether a fault was injected at some time between two moments."""
        return any(begun <= end and start <= ended for begun, ended, _ in self.windows)

    def outside(self) -> list[Answered]:
        """Answers of 500 and above, and broken connections, while no fault was injected."""
        failed = [answer for answer in self.answers if answer.status >= 500 or answer.status == 0]
        return [answer for answer in failed if not self.within_fault(answer.moment, answer.moment + answer.seconds)]

    def failures(self) -> Counter[int]:
        """Answers of 500 and above that are not a 503 with the time of the next try, whenever they came."""
        failed = [answer for answer in self.answers if answer.status >= 500]
        return Counter(answer.status for answer in failed if answer.status != 503 or not answer.has_retry_after)

    def slow_probes(self, limit_s: float) -> list[float]:
        """Moments of health checks that took longer, or failed, while the server was up."""
        down = [(start, end) for start, end, kind in self.windows if kind.startswith("down")]
        slow = []
        for moment, seconds in self.probes:
            late = seconds is None or seconds > limit_s
            last = moment + (limit_s if seconds is None else seconds)
            if late and not any(start <= last and moment <= end for start, end in down):
                slow.append(moment)
        return slow


def now() -> float:
    """Seconds of the monotonic clock."""
    return time.monotonic()
