"""A GitHub on this machine that can hang or fail, or create a comment although its answer says nothing of it."""

import json
import random
import threading
from collections import Counter

from small_github import Answers, SmallGitHub

MODES = ("answers", "hangs", "fails", "limits")
LATE_S = 12.0  # longer than the service waits for an answer
CREATED_AFTER_S = 1.0  # from an answer of 502
LATE_SHARE, GATEWAY_SHARE = 0.02, 0.1  # of the comments that are posted


class FaultyAnswers(Answers):
    """Answers as the mode of its server says."""

    server: "FaultyGitHub"

    def get(self) -> None:
        if self._goes_on():
            super().get()

    def post(self) -> None:
        if not self._goes_on():
            return
        hub = self.server
        with hub.turn:
            chance = hub.random.random()
        if chance < LATE_SHARE:
            hub.unclear["late"] += 1
            threading.Event().wait(LATE_S)
        elif chance < LATE_SHARE + GATEWAY_SHARE:
            hub.unclear["502"] += 1
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
            threading.Timer(CREATED_AFTER_S, hub.create, (self.path, body)).start()
            self.answer(502, {"message": "bad gateway"})
            return
        super().post()

    def _goes_on(self) -> bool:
        mode = self.server.mode
        if mode == "hangs":
            self.server.released.wait()
            self.close_connection = True
            return False
        if mode == "fails":
            self.answer(500, {"message": "out of order"})
            return False
        if mode == "limits":
            self.answer(403, {"message": "rate limit"}, {"Retry-After": "1"})
            return False
        return True


class FaultyGitHub(SmallGitHub):
    """A GitHub with a mode: it answers, hangs, fails with status 500, or refuses by its rate limit.

    While it answers, it is late with some comments, and creates others a second after a status of 502.

    Attributes:
        unclear: How many comments were created so.
    """

    handler = FaultyAnswers
    daemon_threads = True
    block_on_close = False

    def __init__(self, count: int) -> None:
        super().__init__(count=count)
        self.mode = "answers"
        self.random = random.Random(0)
        self.turn = threading.Lock()
        self.unclear: Counter[str] = Counter()
        self.released = threading.Event()

    def set_mode(self, mode: str) -> None:
        """Changes how requests are answered from now on; requests that hang are broken off."""
        assert mode in MODES
        self.mode = mode
        self.released.set()
        self.released = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """The service has closed its connection: it was killed, or does not wait any longer."""

    def comments(self) -> dict[str, list[str]]:
        """Comments that were posted, by path."""
        return dict(self.posted)
