"""Connections to a PostgreSQL server: its address, transactions, and its errors in one line.

The password is in no message: messages name the server by user, host, port and database alone.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gedbd.io.sqlite_file import StoreUnavailable

if TYPE_CHECKING:
    from psycopg import Connection, Error

SCHEMES = ("postgresql://", "postgres://")
EXAMPLE = "postgresql://user@host:5432/database"
# What the address may set otherwise. A server that stops answering is given up after half a minute.
DEFAULTS = {"connect_timeout": "5", "tcp_user_timeout": "30000", "application_name": "gedbd"}
MAX_IDLE = 16  # connections that are kept for the next calls
MAX_REASON = 200  # characters of a message of the server
RETRY_S = 5
PASSWORD_CURE = "set PGPASSWORD, or write the password to ~/.pgpass"
LOCK_TIMEOUT_S = 5.0


class ServerConnections:
    """Connections to one database, which threads take and give back.

    Args:
        url: The address, ``postgresql://user@host:port/database``, with the parameters of libpq.

    Attributes:
        shown: The address without the password.

    Raises:
        ValueError: If the address is invalid, or psycopg is not installed.
    """

    def __init__(self, url: str) -> None:
        if not url.startswith(SCHEMES):
            raise ValueError(f"store= must be the address of a PostgreSQL database, such as {EXAMPLE}")
        if find_spec("psycopg") is None:
            raise ValueError("store= needs psycopg, which is not installed: pip install 'gedbd[postgres]'")
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict

        try:
            given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        except (ProgrammingError, ValueError):
            # Without the reason and the cause, which may quote the password.
            raise ValueError(f"store= is not an address that PostgreSQL can read: write it like {EXAMPLE}") from None
        self._parameters = DEFAULTS | given
        self._password = given.get("password", "")
        user = f"{given['user']}@" if given.get("user") else ""
        port = f":{given['port']}" if given.get("port") else ""
        self.shown = f"postgresql://{user}{given.get('host', '')}{port}/{given.get('dbname', '')}"
        self._idle: list[Connection[Any]] = []
        self._lock = threading.Lock()
        self._thread = threading.local()

    def close(self) -> None:
        """Closes the connections that no thread is using."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @property
    def is_in_transaction(self) -> bool:
        """Whether this thread is in a transaction."""
        return getattr(self._thread, "connection", None) is not None

    @contextmanager
    def transaction(self, read_only: bool, lock_timeout_s: float = LOCK_TIMEOUT_S) -> Iterator["Connection[Any]"]:
        """A transaction, in which all statements of this thread take part; one inside another is the outer one.

        Args:
            read_only: Every statement sees the state that the first one saw. Otherwise each sees what is committed.
            lock_timeout_s: How long to wait for a lock.

        Raises:
            StoreUnavailable: If the server cannot be used.
        """
        outer = getattr(self._thread, "connection", None)
        if outer is not None:
            yield outer
            return
        from psycopg import Error

        try:
            connection = self._begun(read_only, lock_timeout_s)
            self._thread.connection = connection
            try:
                with connection.transaction():
                    yield connection
            finally:
                self._thread.connection = None
                self._give_back(connection)
        except Error as error:
            raise self._unavailable(error) from error

    @contextmanager
    def alone(self) -> Iterator["Connection[Any]"]:
        """A connection without a transaction, for what PostgreSQL does outside of one."""
        from psycopg import Error

        try:
            connection = self._connect()
            try:
                yield connection
            finally:
                connection.close()
        except Error as error:
            raise self._unavailable(error) from error

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement, in the transaction of this thread or in one of its own, which only reads."""
        with self.transaction(read_only=True) as connection:
            done = connection.execute(statement, values, binary=True)  # type: ignore[call-overload]
            return done.fetchall() if done.description else []

    def write_all(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Runs a statement for each of some rows, in the transaction of this thread."""
        if rows:
            with self.transaction(read_only=False) as connection, connection.cursor() as cursor:
                cursor.executemany(statement, rows)  # type: ignore[arg-type]

    def _begun(self, read_only: bool, lock_timeout_s: float) -> "Connection[Any]":
        """A connection that answers, with the properties of the next transaction."""
        from psycopg import IsolationLevel, OperationalError

        level = IsolationLevel.REPEATABLE_READ if read_only else IsolationLevel.READ_COMMITTED
        timeout = f"SET lock_timeout = {round(1000 * lock_timeout_s)}"
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            is_new = connection is None
            if connection is None:
                connection = self._connect()
            try:
                connection.isolation_level, connection.read_only = level, read_only
                connection.execute(timeout)
            except OperationalError:
                connection.close()
                if is_new:
                    raise
                continue  # the server has been restarted since
            return connection

    def _connect(self) -> "Connection[Any]":
        import psycopg

        connection = psycopg.connect(**self._parameters, autocommit=True)  # type: ignore[arg-type]
        connection.execute("SET client_encoding = 'UTF8'")
        return connection

    def _give_back(self, connection: "Connection[Any]") -> None:
        from psycopg.pq import TransactionStatus

        with self._lock:
            if connection.info.transaction_status == TransactionStatus.IDLE and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _unavailable(self, error: "Error") -> StoreUnavailable:
        """An error of the server as one line that says what to do."""
        from psycopg import errors

        reason = " ".join(str(error).split())
        if self._password:
            reason = reason.replace(self._password, "***")
        reason = reason[:MAX_REASON]
        busy = (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure)
        if isinstance(error, busy):
            return StoreUnavailable(f"{self.shown} is being changed: try again in a moment", RETRY_S)
        if isinstance(error, errors.FeatureNotSupported | errors.UndefinedFile) and "extension" in reason:
            cure = "install pgvector on it, on Debian with apt-get install postgresql-16-pgvector"
            return StoreUnavailable(f"{self.shown}: the server lacks the extension vector: {cure}")
        if isinstance(error, errors.InsufficientPrivilege):
            cure = "let the owner of the database run CREATE EXTENSION vector, and grant this user CREATE on it"
            return StoreUnavailable(f"{self.shown}: {reason}: {cure}")
        if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
            return StoreUnavailable(f"{self.shown} holds no index: build one with gedbd index store={self.shown}")
        if error.sqlstate is None or error.sqlstate.startswith(("08", "28", "3D", "57P")):
            cure = PASSWORD_CURE if "password" in reason else "start the server, or correct the address"
            return StoreUnavailable(f"{self.shown} does not answer ({reason}): {cure}", RETRY_S)
        return StoreUnavailable(f"{self.shown}: {reason}", RETRY_S)
