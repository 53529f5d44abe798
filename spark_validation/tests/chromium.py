"""A page in headless Chromium, driven over the DevTools protocol: its errors, dialogs and requests.

Protocol: https://chromedevtools.github.io/devtools-protocol/. It uses two pipes and JSON, and needs no driver
binary that has to match the browser's version.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from typing import Any

from compat_tests.support.hang_limit import HANG_S

__all__ = ["Page", "find_chromium"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

Message = dict[str, Any]


def find_chromium() -> str | None:
    """The browser in the environment variable CHROMIUM, or the first one on the path."""
    return os.environ.get("CHROMIUM") or next((path for name in _NAMES if (path := shutil.which(name))), None)


class Page:
    """One page of its own browser process, until `close`."""

    def __init__(self, executable: str) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        reads, commands = os.pipe()
        replies, writes = os.pipe()

        def descriptors() -> None:
            """Those from which the browser reads commands, and to which it writes."""
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        self._process = subprocess.Popen(
            [
                executable,
                "--headless=new",
                "--no-sandbox",  # There is no sandbox for root, as which CI runs; the page is ours.
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--no-first-run",
                "--window-size=1280,900",
                "--remote-debugging-pipe",
                f"--user-data-dir={self._profile.name}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,  # only what can be inherited
            preexec_fn=descriptors,
        )
        os.close(reads)
        os.close(writes)
        self._commands, self._replies = os.fdopen(commands, "wb", buffering=0), os.fdopen(replies, "rb")
        self.events: list[Message] = []
        self._sent = 0
        self._session: str | None = None
        target = self.command("Target.createTarget", url="about:blank")
        attached = self.command("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(f"{domain}.enable")

    def close(self) -> None:
        """End the browser, and remove its profile."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._commands.close()
        self._replies.close()
        self._profile.cleanup()

    def command(self, method: str, **parameters: Any) -> Message:
        """Send one command of the protocol and return its result; keep the events that arrive meanwhile."""
        self._sent += 1
        message: Message = {"id": self._sent, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        while (reply := self._receive()).get("id") != self._sent:
            pass
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']}")
        result: Message = reply["result"]
        return result

    def open(self, url: str) -> None:
        """Load `url` and wait for its load event."""
        self.events.clear()
        self.command("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._receive()

    def evaluate(self, javascript: str) -> Any:
        """The value of an expression; a promise is awaited."""
        reply = self.command("Runtime.evaluate", expression=javascript, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in reply:
            raise RuntimeError(str(reply["exceptionDetails"]))
        return reply["result"].get("value")

    def wait_until(self, condition: str) -> None:
        """Wait until the JavaScript expression `condition` is true."""
        end = time.monotonic() + HANG_S
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"not true within {HANG_S:g} s: {condition}")
            time.sleep(0.05)

    def errors(self) -> list[str]:
        """The errors of the page: exceptions, console.error, and errors that the browser logged."""
        self.evaluate("0")  # All events before this reply have been received.
        found = []
        for event in self.events:
            method, parameters = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(str(parameters["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
                found.append(str([argument.get("value") for argument in parameters["args"]]))
            elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
                found.append(str(parameters["entry"]["text"]))
        return found

    def dialogs(self) -> int:
        """How often the page opened an alert or another dialog."""
        return sum(event["method"] == "Page.javascriptDialogOpening" for event in self.events)

    def requests(self) -> list[str]:
        """The addresses of all requests of the page, including the page itself, which comes first."""
        self.evaluate("0")
        sent = (event for event in self.events if event["method"] == "Network.requestWillBeSent")
        return [str(event["params"]["request"]["url"]) for event in sent]

    def _receive(self) -> Message:
        text = bytearray()
        while (byte := self._replies.read(1)) != b"\0":
            if not byte:
                raise RuntimeError(f"chromium ended with exit code {self._process.wait()}")
            text += byte
        message: Message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message
