"""Connections to a PostgreSQL server: its address, transactions, and its errors in one line."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeGuard

from gedbd.io.sqlite_file import StoreUnavailable

if TYPE_CHECKING:
    from psycopg import Connection, Error

SCHEMES = ("postgresql://", "postgres://")
EXAMPLE = "postgresql://user@host:5432/database"
# Defaults that the address may override. A server that stops responding is given up after half a minute.
DEFAULTS = {"connect_timeout": "5", "tcp_user_timeout": "30000", "application_name": "gedbd"}
MAX_REASON = 200  # characters of a message of the server
RETRY_S = 5
NUL = "\ufffd"  # replaces NUL characters, which PostgreSQL cannot store
# What to do, by the beginning of a SQLSTATE; the first match counts.
CURES = {
    "0A": "install pgvector on the server, on Debian with apt-get install postgresql-16-pgvector",
    "58P01": "install pgvector on the server, on Debian with apt-get install postgresql-16-pgvector",
    "42501": "let the owner of the database run CREATE EXTENSION vector, and grant this user CREATE on the database",
    "42P01": "build an index with gedbd index store=... dataset=...",
    "3F": "build an index with gedbd index store=... dataset=...",
    "28": "correct the user, and set PGPASSWORD or write the password to ~/.pgpass",
    "55P03": "another process is changing the index: try again in a moment",
    "40": "another process is changing the index: try again in a moment",
    "53": "free space, memory or connections of the server",
}
UNREACHABLE = "start the server, or correct the address"


class ServerConnections:
    """A pool of connections to one database, shared by threads.

    Args:
        url: The address, ``postgresql://user@host:port/database``, with the parameters of libpq.

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
            parameters = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        except (ProgrammingError, ValueError):
            # Without the reason and the cause, which may quote the password.
            raise ValueError(f"store= is not an address that PostgreSQL can read: write it like {EXAMPLE}") from None
        self._parameters: dict[str, Any] = DEFAULTS | parameters
        self._password = parameters.get("password", "")
        user = f"{parameters['user']}@" if parameters.get("user") else ""
        port = f":{parameters['port']}" if parameters.get("port") else ""
        # the address without the password
        self.public_url = f"postgresql://{user}{parameters.get('host', '')}{port}/{parameters.get('dbname', '')}"
        self._idle: deque[Connection[Any]] = deque()
        self._thread = threading.local()

    def close(self) -> None:
        """Closes the connections that no thread is using."""
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def transaction(self, *first: str) -> Iterator[None]:
        """Runs a transaction of this thread, which begins with the statements ``first``, or joins a running one.

        Raises:
            StoreUnavailable: If the server cannot be used.
        """
        if getattr(self._thread, "connection", None) is not None:
            yield
            return
        with self.connection() as connection, connection.transaction():
            self._thread.connection = connection
            try:
                if first:
                    connection.execute(";".join(first))  # in one round trip
                yield
            finally:
                self._thread.connection = None

    @contextmanager
    def connection(self) -> Iterator["Connection[Any]"]:
        """A connection that no other thread uses meanwhile; each statement is a separate transaction."""
        from psycopg import Error

        try:
            connection = self._take()
            yield connection
            self._idle.append(connection)  # after an error it is closed with its last reference
        except Error as error:
            raise self._unavailable(error) from error

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement, in the transaction of this thread or in a separate one."""
        with self.transaction():
            cursor = self._thread.connection.execute(statement, list(map(without_nul, values)), binary=True)
            return cursor.fetchall() if cursor.description else []

    def copy(self, table: str, types: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Adds rows with columns of ``types`` to a table, in the transaction of this thread."""
        with (
            self._thread.connection.cursor() as cursor,
            cursor.copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy,
        ):
            copy.set_types(types)
            for row in rows:
                copy.write_row([without_nul(value) for value in row])

    def _take(self) -> "Connection[Any]":
        import psycopg

        while self._idle:
            try:
                connection = self._idle.pop()
                connection.execute("")
                return connection
            except (IndexError, psycopg.OperationalError):
                continue  # another thread was quicker, or the server has been restarted since
        connection = psycopg.connect(**self._parameters, autocommit=True)
        connection.execute("SET client_encoding = 'UTF8'")
        return connection

    def _unavailable(self, error: "Error") -> StoreUnavailable:
        """Converts an error of the server to one line that says what to do."""
        reason = " ".join(str(error).split()).partition(" Is the server running")[0]
        if self._password:
            reason = reason.replace(self._password, "***")
        state = error.sqlstate or ""
        cure = next((cure for code, cure in CURES.items() if state.startswith(code)), "")
        if not state:  # there was no connection
            cure = CURES["28"] if "password" in reason else UNREACHABLE
        return StoreUnavailable(f"{self.public_url}: {reason[:MAX_REASON]}" + (f": {cure}" if cure else ""), RETRY_S)


def is_server(location: object) -> TypeGuard[str]:
    """Whether the location of an index is the address of a server, not a folder."""
    return isinstance(location, str) and location.startswith(SCHEMES)


def server_of(url: str) -> str:
    """An address without its password. Raises ValueError if it is invalid."""
    return ServerConnections(url).public_url


def without_nul(value: Any) -> Any:
    """A value, or a list of texts, without NUL characters, as PostgreSQL can store it."""
    if isinstance(value, str):
        return value.replace("\0", NUL) if "\0" in value else value
    return list(map(without_nul, value)) if isinstance(value, list) and value and isinstance(value[0], str) else value
