"""A server that ends in time when the system says so, whatever clients, threads and files do."""

import asyncio
import errno
import math
import os
import sys
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.config import Config

from gedbd.service.connections import OpenConnections

if TYPE_CHECKING:
    from socket import socket

    from gedbd.service.thread_pool import Pool

ANSWER_S = 0.5  # for the answers that say that the service ends
CANCEL_S = 1.0  # after which uvicorn cancels what still runs
EXIT_S = 3.0  # after which the process ends by force
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Server(uvicorn.Server):
    """Serves until a signal; requests in flight are answered for a while, and then the process ends.

    Args:
        config: What uvicorn needs to know.
        state: Its connections.
        pools: What carries requests out; they are told to send away those who wait.
    """

    def __init__(self, config: Config, state: OpenConnections, pools: tuple["Pool", ...]) -> None:
        grace_s = state.limits.shutdown_grace_s
        config.timeout_graceful_shutdown = math.ceil(grace_s + CANCEL_S)
        super().__init__(config)
        self.server_state = self.state = state
        self.pools, self.grace_s = pools, grace_s
        self.signal, self.told = 0, threading.Event()

    async def serve(self, sockets: "list[socket] | None" = None) -> None:
        """Serves until a signal."""
        if threading.current_thread() is threading.main_thread():  # no other gets signals
            # Begun here, for a handler of signals may come at a moment at which no thread can be started.
            threading.Thread(target=self._exit_at_last, name="gedbd-ending", daemon=True).start()
        await super().serve(sockets)

    async def startup(self, sockets: "list[socket] | None" = None) -> None:
        """Begins to listen."""
        asyncio.get_running_loop().set_exception_handler(self._say)
        await super().startup(sockets)

    async def shutdown(self, sockets: "list[socket] | None" = None) -> None:
        """Lets requests in flight end, then sends them away, then closes all connections."""
        sending_away = asyncio.create_task(self._send_away())
        await super().shutdown(sockets)
        sending_away.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Notes a signal; the process then ends in time, even if a thread never does."""
        first = not self.should_exit
        super().handle_exit(sig, frame)
        if first:
            self.signal = sig
            self.told.set()

    def exit_if_unfinished(self) -> None:
        """Ends the process after a signal if a thread still works, as the interpreter would wait for it for ever."""
        if self.signal and any(pool.taken for pool in self.pools):
            self._exit()

    def _exit_at_last(self) -> None:
        self.told.wait()
        time.sleep(self.grace_s + EXIT_S)
        self._exit()

    def _exit(self) -> None:
        print("gedbd: work still runs and is left; what was acknowledged is on the disk", file=sys.stderr, flush=True)
        os._exit(128 + self.signal)

    async def _send_away(self) -> None:
        await asyncio.sleep(self.grace_s)
        for pool in self.pools:
            pool.send_away()
        await asyncio.sleep(ANSWER_S)
        for connection in list(self.state.connections):
            if connection.transport is not None:
                connection.transport.abort()  # a closed connection ends its request without a traceback

    def _say(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS and "socket" in context:
            # asyncio tries again each second
            self.state.closed("not accepted", f"the system refuses more: {error}")
        else:
            loop.default_exception_handler(context)
