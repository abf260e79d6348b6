"""Which failures of a delivery pass, so that it is worked again, and what is said about the others."""

import logging
import sqlite3

from gedbd.service.webhook.events import Outcome
from gedbd.service.webhook.inbox import Delivery
from gedbd.triage.storage.connection import StoreUnavailable

log = logging.getLogger("gedbd")


def as_unavailable(error: Exception) -> StoreUnavailable | None:
    """The error, if a locked, replaced or damaged file, a full disk or a lack of memory is behind it; else None."""
    if isinstance(error, StoreUnavailable):
        return error
    # The classes below these two, such as IntegrityError, mean that the same would happen again.
    is_passing = isinstance(error, OSError | MemoryError)
    if is_passing or type(error) in (sqlite3.OperationalError, sqlite3.DatabaseError):
        return StoreUnavailable(f"{type(error).__name__}: {error}")
    return None


def dropped(delivery: Delivery, error: Exception) -> Outcome:
    """The outcome of a delivery that would fail again; logs why, with a traceback unless its content is to blame."""
    words = f"delivery {delivery.delivery or 'without id'} is dropped: {error}"
    if isinstance(error, ValueError):
        log.warning(words)
    else:
        log.error(words, exc_info=error)
    return Outcome(422, "dropped", words)
