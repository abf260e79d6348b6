"""The deliveries that wait to be worked, in their order."""

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
    """Keeps deliveries on the disk until they are worked.

    Args:
        file: Where they are kept.
        max_waiting: More than so many are refused.

    Attributes:
        waiting: How many wait, for the metrics.
    """

    def __init__(self, file: WebhookFile, max_waiting: int = MAX_WAITING) -> None:
        self.file, self.max_waiting = file, max_waiting
        self.waiting = self._count()

    def put(self, delivery: str, kind: str, event: str) -> str:
        """Stores a delivery.

        Args:
            delivery: Its id, by which it is known again; empty if it has none.
            kind: Name of the event.
            event: The event as JSON.

        Returns:
            "accepted" once it is on the disk, "repeated" if one of this id was accepted before, or "full".
        """
        known = "SELECT 1 FROM deliveries WHERE delivery = ?"
        with self.file.change():
            if delivery and self.file.ask(known, delivery):
                return "repeated"
            waiting = self._count()
            if waiting >= self.max_waiting:
                return "full"
            if delivery:
                self.file.ask("INSERT INTO deliveries VALUES (?, ?)", delivery, _now())
            self.file.ask("INSERT INTO inbox (delivery, kind, event) VALUES (?, ?, ?)", delivery, kind, event)
        self.waiting = waiting + 1
        return "accepted"

    def first(self) -> Delivery | None:
        """The delivery that has waited longest."""
        rows = self.file.ask("SELECT number, delivery, kind, event FROM inbox ORDER BY number LIMIT 1")
        if not rows:
            return None
        return Delivery(*rows[0])

    def remove(self, delivery: Delivery, known: bool) -> None:
        """Forgets a delivery that was worked.

        Args:
            delivery: What was worked.
            known: Whether it is refused when it comes again; one that failed may come again by hand.
        """
        with self.file.change():
            self.file.ask("DELETE FROM inbox WHERE number = ?", delivery.number)
            if not known:
                self.file.ask("DELETE FROM deliveries WHERE delivery = ?", delivery.delivery)

    def recount(self) -> None:
        """Counts those that wait; ``waiting`` shows a removal only then."""
        self.waiting = self._count()

    def _count(self) -> int:
        """How many wait: as the first is always worked first, their numbers have no gaps."""
        ((first,),) = self.file.ask("SELECT min(number) FROM inbox")
        ((last,),) = self.file.ask("SELECT max(number) FROM inbox")
        return 0 if first is None else last - first + 1


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
