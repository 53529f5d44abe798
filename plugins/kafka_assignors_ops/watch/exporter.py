"""Serves the metrics to Prometheus, with prometheus_client.

The library negotiates the format (text or OpenMetrics), compresses and escapes. This module gives it the
samples, and bounds the server: a few scrapes at a time, and ten seconds for a client that stops midway.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kafka_assignors.arguments import UserError
from kafka_assignors_ops.watch.metric_table import GROUP_METRICS, WATCH_METRICS, Sample, Scrape, WatchedMetric

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""The application that answers a request (PEP 3333)."""

_MOST_SCRAPES = 8
"""The most scrapes at one time; further connections are closed at once."""

_CLIENT_TIMEOUT_S = 10.0


class _WatchCollector(Collector):
    """Shows no group before the watch has caught up, so that no counter decreases after a restart."""

    def __init__(self, scrape: Callable[[], Scrape]) -> None:
        self._scrape = scrape

    def describe(self) -> Iterable[Metric]:
        return [_family(metric) for metric in WATCH_METRICS]

    def collect(self) -> Iterator[Metric]:
        scrape = self._scrape()
        for metric in WATCH_METRICS:
            yield _family(metric, metric.labels, metric.samples(scrape))
        groups = scrape.fleet.groups if scrape.status.caught_up else ()
        for of_group in GROUP_METRICS:
            samples = (
                ((group.group, *labels), value)
                for group in groups
                for labels, value in of_group.samples(group)
            )
            yield _family(of_group, ("group", *of_group.labels), samples)


def _family(metric: WatchedMetric[Any], labels: Iterable[str] = (), samples: Iterable[Sample] = ()) -> Metric:
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=list(labels))
    for values, value in samples:
        family.add_metric(values, value)
    return family


def registry(scrape: Callable[[], Scrape]) -> CollectorRegistry:
    """The metrics of the watch, and those of this process: its memory, its processor time."""
    found = CollectorRegistry()
    found.register(_WatchCollector(scrape))
    ProcessCollector(registry=found)
    return found


class _Handler(WSGIRequestHandler):
    timeout = _CLIENT_TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:
        """Log no request."""

    def get_stderr(self) -> Any:
        """Discard the traceback of a request that the library cannot read; the client gets status 500."""
        return io.StringIO()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 16

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._free = threading.BoundedSemaphore(_MOST_SCRAPES)
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        # The base class looks up the host's name, which may take a minute.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a scraper that closes its connection in the middle."""


@contextlib.contextmanager
def serving(host: str, port: int, app: WsgiApp) -> Iterator[int]:
    """Serve `app` on a port, a free one for 0, until the block ends; the port is yielded.

    `UserError` if the port is not available.
    """
    try:
        server = _Server(host, port)
    except OSError as error:
        raise UserError(f"cannot serve metrics on {host}:{port}: {error.strerror or error}") from None
    server.set_app(app)
    thread = threading.Thread(target=server.serve_forever, name="prometheus", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
