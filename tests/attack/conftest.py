from collections.abc import Iterator

import pytest
from local_server import FixedServer, running
from served import client_of, hook, hook_of, hub, index, listening, send, stored_folder, stored_index
from small_tracker import reader

__all__ = ["client_of", "hook", "hook_of", "hub", "index", "listening", "reader", "send", "stored_folder"]
__all__ += ["stored_index"]


@pytest.fixture
def server() -> Iterator[FixedServer]:
    """A server that gives the same answer to every request."""
    with running(FixedServer()) as started:
        yield started
