"""Health endpoints for Kubernetes: three probes and a request to stop, in a thread beside the event loop.

| path | 200 if | else |
|---|---|---|
| `/startup`, `/ready` | the member has joined its group and is not stopping | 503 |
| `/live` | the loop has run within `LIVE_S` | 503: Kubernetes restarts the container |
| `/stop` | the consumer has stopped within `STOP_S` | 503 after that |

No endpoint contacts a broker: if a broker is down for a minute, restarting all members would not help, and
would cost a rebalance for each of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

__all__ = ["LIVE_S", "STOP_S", "Health"]

LIVE_S = 60.0
"""More than the duration of the longest batch."""

STOP_S = 30.0
"""The time for the longest batch, saving, committing and leaving; less than
`terminationGracePeriodSeconds`."""


class Health:
    """Answers on `port` while the `with` block runs; port 0 selects a free one.

    `stop` is called in another thread.
    """

    def __init__(self, port: int, stop: Callable[[], object]) -> None:
        self.ready = False
        self.stopped = threading.Event()
        self._stop = stop
        self._last_turn = time.monotonic()
        self._server = ThreadingHTTPServer(("", port), self._handler())
        # `server_close` waits for pending responses, so `/stop` is answered before the end.
        self._server.daemon_threads = False

    @property
    def port(self) -> int:
        return self._server.server_port

    def beat(self) -> None:
        """Record that the loop has run."""
        self._last_turn = time.monotonic()

    def __enter__(self) -> Health:
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, path: str) -> bool | None:
        """Whether the response to `path` is 200; None if the path does not exist."""
        if path in ("/startup", "/ready"):
            return self.ready
        if path == "/live":
            return time.monotonic() - self._last_turn < LIVE_S
        if path == "/stop":
            self._stop()
            return self.stopped.wait(STOP_S)
        return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        health = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 5.0
            """The timeout of a request, in seconds."""

            def do_GET(self) -> None:
                answer = health._answer(self.path)
                self.send_response(404 if answer is None else 200 if answer else 503)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                """Log nothing: probes come every few seconds."""

        return Handler
