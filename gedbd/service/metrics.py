"""Counts and times of one service, as Prometheus reads them."""

import time
from collections.abc import Sized

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gedbd.service.webhook.inbox import Inbox

QUICK = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """The numbers of one service, in a registry of its own.

    Args:
        index: What counts the stored reports.
    """

    def __init__(self, index: Sized) -> None:
        self.registry = CollectorRegistry()
        own = self.registry
        self.requests = Counter("gedbd_requests", "Requests answered", ["path", "status"], registry=own)
        self.seconds = Histogram("gedbd_request_seconds", "Time to answer", ["path"], buckets=QUICK, registry=own)
        self.search = Histogram("gedbd_search_seconds", "Time of a search alone", buckets=QUICK, registry=own)
        self.feedback = Counter("gedbd_feedback", "Verdicts recorded", ["verdict"], registry=own)
        self.webhook = Counter("gedbd_webhook", "Webhook deliveries", ["outcome"], registry=own)
        self.comments = Counter("gedbd_comments", "Comments on GitHub", ["outcome"], registry=own)
        self.closed = Counter("gedbd_connections_closed", "Connections the server closed", ["reason"], registry=own)
        reports = Gauge("gedbd_reports", "Reports in the index", registry=own)
        reports.set_function(lambda: len(index))

    def watch_backlog(self, inbox: Inbox) -> None:
        """Shows how many deliveries of the webhook wait to be worked."""
        backlog = Gauge("gedbd_webhook_waiting", "Webhook deliveries that wait to be worked", registry=self.registry)
        backlog.set_function(lambda: inbox.waiting)


class Measured:
    """Counts every request by the route that answered it; whatever no route knows is "other"."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, started = 500, time.perf_counter()

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watch)
        finally:
            path = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - started)
