"""Prometheus metrics of the service, and the middleware that counts and times requests."""

import time
from collections.abc import Sized

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gedbd.service.webhook.event_table import Inbox

LATENCY_BUCKETS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """The metrics of one service, in their own registry.

    Args:
        index: The stored reports; their number is a metric.
    """

    def __init__(self, index: Sized) -> None:
        # A registry of its own: two services in one process, as in tests, do not add up.
        self.registry = CollectorRegistry()
        own = self.registry
        buckets = LATENCY_BUCKETS_S
        self.requests = Counter("gedbd_requests", "Requests answered", ["path", "status"], registry=own)
        self.seconds = Histogram("gedbd_request_seconds", "Time to answer", ["path"], buckets=buckets, registry=own)
        self.search = Histogram(
            "gedbd_search_seconds", "Time spent in the search itself", buckets=buckets, registry=own
        )
        self.feedback = Counter("gedbd_feedback", "Feedback recorded", ["verdict"], registry=own)
        self.webhook = Counter("gedbd_webhook", "Webhook deliveries", ["result"], registry=own)
        self.comments = Counter("gedbd_comments", "Comments on GitHub", ["result"], registry=own)
        reports = Gauge("gedbd_reports", "Reports in the index", registry=own)
        reports.set_function(lambda: len(index))

    def watch_backlog(self, inbox: Inbox) -> None:
        """Adds the number of deliveries that wait to be processed."""
        backlog = Gauge("gedbd_webhook_waiting", "Webhook deliveries waiting to be processed", registry=self.registry)
        backlog.set_function(lambda: inbox.waiting)


class MetricsMiddleware:
    """Counts and times requests by the route that answered them; requests without a route count as ``other``."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 500  # of an application that fails before it answers
        started = time.perf_counter()

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watch)
        finally:
            # The route's pattern, not the path: a label for each address would grow without bound.
            path = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - started)
