import pytest
from postgres_server import running_server
from small_tracker import reader

__all__ = ["reader"]


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server, started once."""
    with running_server() as started:
        yield started


@pytest.fixture
def url(server):
    """The address of an empty database."""
    return server.new_database()
