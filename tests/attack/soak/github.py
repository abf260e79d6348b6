"""A GitHub on this machine that can hang or fail."""

import threading

from small_github import Answers, SmallGitHub

MODES = ("answers", "hangs", "fails", "limits")


class FaultyAnswers(Answers):
    """Answers as the mode of its server says."""

    server: "FaultyGitHub"

    def do_GET(self) -> None:  # noqa: N802 - so http.server calls it
        if self._goes_on():
            super().do_GET()

    def do_POST(self) -> None:  # noqa: N802 - so http.server calls it
        if self._goes_on():
            super().do_POST()

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
            self.answer(403, {"message": "rate limit"}, **{"Retry-After": "1"})
            return False
        return True


class FaultyGitHub(SmallGitHub):
    """A GitHub with a mode: it answers, hangs, fails with status 500, or refuses by its rate limit."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, count: int) -> None:
        super().__init__(count=count)
        self.RequestHandlerClass = FaultyAnswers
        self.mode = "answers"
        self.released = threading.Event()

    def set_mode(self, mode: str) -> None:
        """Changes how requests are answered from now on; requests that hang are broken off."""
        assert mode in MODES
        self.mode = mode
        self.released.set()
        self.released = threading.Event()

    def comments(self) -> dict[str, list[str]]:
        """Comments that were posted, by path."""
        return dict(self.posted)
