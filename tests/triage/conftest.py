import numpy as np
import pytest
from postgres_server import running_server
from small_tracker import as_corpus, fill, open_folder, reader, some_report

__all__ = ["index", "reader"]


@pytest.fixture(scope="session")
def twenty():
    """Twenty reports; 3, 13 and 7 are duplicates, and so are 5 and 15."""
    group = np.arange(20)
    group[[13, 7]], group[15] = 3, 5
    return as_corpus([some_report(number) for number in range(20)], group)


@pytest.fixture
def index(tmp_path, reader, twenty):
    """These reports in a folder."""
    fill(tmp_path, twenty, reader)
    opened = open_folder(tmp_path, reader)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server, started once."""
    with running_server() as started:
        yield started


@pytest.fixture
def url(server):
    """The address of an empty database."""
    return server.new_database()
