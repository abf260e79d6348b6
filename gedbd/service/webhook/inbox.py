"""The queue of deliveries that wait to be processed, in order of arrival."""

from datetime import UTC, datetime
from typing import NamedTuple

from gedbd.service.webhook.database import WebhookFile

MAX_WAITING = 5000


class Delivery(NamedTuple):
    """An event that waits; ``event`` is JSON."""

    number: int
    delivery: str
    kind: str
    event: str


class Inbox:
    """Keeps deliveries on disk until they are processed.

    Args:
        file: The open file of the webhook.
        max_waiting: Maximum number of deliveries that wait; more are refused.

    Attributes:
        waiting: How many wait, for the metrics.
    """

    def __init__(self, file: WebhookFile, max_waiting: int = MAX_WAITING) -> None:
        self.file = file
        self.max_waiting = max_waiting
        self.waiting = self._count()

    def put(self, delivery: str, kind: str, event: str) -> str:
        """Stores a delivery.

        Args:
            delivery: Its id, by which a repeated delivery is recognised; empty if it has none.
            kind: Name of the event.
            event: The event as JSON.

        Returns:
            "accepted" once it is on disk, "repeated" if one with this id was accepted before, or "full".
        """
        accepted_before = "SELECT 1 FROM deliveries WHERE delivery = ?"
        with self.file.transaction():
            if delivery and self.file.query(accepted_before, delivery):
                return "repeated"
            waiting = self._count()
            if waiting >= self.max_waiting:
                return "full"
            if delivery:
                now = datetime.now(UTC).isoformat(timespec="microseconds")
                self.file.query("INSERT INTO deliveries VALUES (?, ?)", delivery, now)
            self.file.query("INSERT INTO inbox (delivery, kind, event) VALUES (?, ?, ?)", delivery, kind, event)
        self.waiting = waiting + 1
        return "accepted"

    def first(self) -> Delivery | None:
        """The delivery that has waited longest."""
        rows = self.file.query("SELECT number, delivery, kind, event FROM inbox ORDER BY number LIMIT 1")
        if not rows:
            return None
        return Delivery(*rows[0])

    def remove(self, delivery: Delivery, remember: bool) -> None:
        """Removes a processed delivery.

        Args:
            delivery: What was processed.
            remember: Whether it is refused when it arrives again. One that failed may be delivered again by hand.
        """
        with self.file.transaction():
            self.file.query("DELETE FROM inbox WHERE number = ?", delivery.number)
            if not remember:
                self.file.query("DELETE FROM deliveries WHERE delivery = ?", delivery.delivery)

    def recount(self) -> None:
        """Updates ``waiting``. A removal does not: whoever sees it fall may rely on all effects of the delivery."""
        self.waiting = self._count()

    def _count(self) -> int:
        ((count,),) = self.file.query("SELECT count(*) FROM inbox")
        return int(count)
