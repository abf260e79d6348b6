"""Tells temporary failures of a delivery, which is then processed again, from permanent ones, which drop it."""

import logging
import sqlite3

from gedbd.service.webhook.events import EventResult
from gedbd.service.webhook.inbox import Delivery
from gedbd.triage.storage.connection import StoreUnavailable

log = logging.getLogger("gedbd")


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
