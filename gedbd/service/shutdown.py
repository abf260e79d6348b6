"""A server that exits in time after a signal, even if clients, threads or files hang."""

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

    from gedbd.service.thread_pool import BoundedThreadPool

# All after the grace period of requests in flight:
ANSWER_S = 0.5  # to send the answers to requests that are given up
CANCEL_S = 1.0  # until uvicorn cancels what still runs
EXIT_S = 3.0  # until the process exits by force
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Server(uvicorn.Server):
    """Serves until a signal, answers requests in flight for a grace period, and exits.

    Args:
        config: Configuration of uvicorn.
        state: The open connections.
        pools: The thread pools of the service; after the grace period they reject waiting requests.
    """

    def __init__(self, config: Config, state: OpenConnections, pools: tuple["BoundedThreadPool", ...]) -> None:
        grace_s = state.limits.shutdown_grace_s
        config.timeout_graceful_shutdown = math.ceil(grace_s + CANCEL_S)
        super().__init__(config)
        self.server_state = self.state = state
        self.pools = pools
        self.grace_s = grace_s
        self.signal = 0
        self.signalled = threading.Event()

    async def serve(self, sockets: "list[socket] | None" = None) -> None:
        """Serves until a signal."""
        if threading.current_thread() is threading.main_thread():  # only the main thread receives signals
            # Started here: a signal handler may run at a moment when no thread can be started.
            threading.Thread(target=self._exit_after_grace, name="gedbd-shutdown", daemon=True).start()
        await super().serve(sockets)

    async def startup(self, sockets: "list[socket] | None" = None) -> None:
        """Starts to listen."""
        asyncio.get_running_loop().set_exception_handler(self._handle_loop_error)
        await super().startup(sockets)

    async def shutdown(self, sockets: "list[socket] | None" = None) -> None:
        """Waits for requests in flight, then rejects those that remain, then closes all connections."""
        rejecting = asyncio.create_task(self._reject_after_grace())
        await super().shutdown(sockets)
        rejecting.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handles a signal: the process exits in time, even if a thread never finishes."""
        is_first = not self.should_exit
        super().handle_exit(sig, frame)
        if is_first:
            self.signal = sig
            self.signalled.set()

    def exit_if_unfinished(self) -> None:
        """Exits after a signal if a thread still works; the interpreter would wait for it forever."""
        if self.signal and any(pool.slots_in_use for pool in self.pools):
            self._exit()

    def _exit_after_grace(self) -> None:
        self.signalled.wait()
        time.sleep(self.grace_s + EXIT_S)
        self._exit()

    def _exit(self) -> None:
        print("gedbd: exits while work still runs; acknowledged changes are on disk", file=sys.stderr, flush=True)
        os._exit(128 + self.signal)  # the exit status by which shells tell a signal

    async def _reject_after_grace(self) -> None:
        await asyncio.sleep(self.grace_s)
        for pool in self.pools:
            pool.reject_waiting()
        await asyncio.sleep(ANSWER_S)
        for connection in list(self.state.connections):
            if connection.transport is not None:
                connection.transport.abort()  # ends its request without a traceback

    def _handle_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS and "socket" in context:
            # asyncio tries to accept the connection again each second.
            self.state.count_closed("not accepted", f"the system refuses more: {error}")
        else:
            loop.default_exception_handler(context)
