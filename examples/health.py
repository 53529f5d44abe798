"""What Kubernetes asks a consumer: three probes, and a request to stop, in a thread beside the event loop.

| path | 200 if | else |
|---|---|---|
| `/startup`, `/ready` | the member has joined its group, and does not stop | 503 |
| `/live` | the loop has turned within `LIVE_S` | 503: the container is started again |
| `/stop` | the consumer has stopped, within `STOP_S` | 503 after that |

None of them asks a broker: a broker that is down for a minute is no reason to start all members again, which
would cost a rebalance for each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

__all__ = ["LIVE_S", "STOP_S", "Health"]

LIVE_S = 60.0
"""More than the longest batch takes."""

STOP_S = 30.0
"""The longest batch, saving, committing and leaving; less than `terminationGracePeriodSeconds`."""


class Health:
    """Answers on `port` while the `with` block runs; port 0 chooses a free one. `stop` is called in another
    thread.
    """

    def __init__(self, port: int, stop: Callable[[], object]) -> None:
        self.ready = False
        self.stopped = threading.Event()
        self._stop = stop
        self._last_turn = time.monotonic()
        self._server = ThreadingHTTPServer(("", port), self._handler())
        # `server_close` waits for the answers that are under way, so that `/stop` is answered before the end.
        self._server.daemon_threads = False

    @property
    def port(self) -> int:
        return self._server.server_port

    def beat(self) -> None:
        """The loop has turned."""
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
        """Whether `path` is answered with 200; None if it does not exist."""
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
            """Seconds for a request to arrive."""

            def do_GET(self) -> None:
                answer = health._answer(self.path)
                self.send_response(404 if answer is None else 200 if answer else 503)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                """Probes come every few seconds; the log is for what happens."""

        return Handler
