"""The arguments that all examples share."""

from __future__ import annotations

import argparse
import logging
import os
import time

__all__ = ["parser", "release_and_share", "start_logging"]

CLIENTS = ("aiokafka", "kafka")
"""The names of the clients' loggers."""


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the arguments of every consumer; `description` is the docstring of the example."""
    arguments = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--bootstrap-server",
        default=os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"),
        help="host:port of a broker, or several with commas (KAFKA_BOOTSTRAP_SERVERS)",
    )
    arguments.add_argument("--topic", default="orders")
    arguments.add_argument("--group", default="billing")
    return arguments


def release_and_share(arguments: argparse.ArgumentParser) -> tuple[str, float | None]:
    """What a pod of a deployment announces, from the environment: RELEASE, and the SHARE of a canary."""
    release, share = os.environ.get("RELEASE"), os.environ.get("SHARE")
    if not release:
        arguments.error("set RELEASE in the environment, and for a canary SHARE: RELEASE=1.8 SHARE=0.1")
    return release, float(share) if share else None


class SometimesRepeated(logging.Filter):
    """Passes each message of a client once in ten seconds.

    While a broker is down, the clients repeat the same messages at each attempt, several times a second.
    """

    _PERIOD_S = 10.0
    _MOST = 100

    def __init__(self) -> None:
        super().__init__()
        self._passed_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] not in CLIENTS:
            return True
        message, now = str(record.msg), time.monotonic()
        if now - self._passed_at.get(message, -self._PERIOD_S) < self._PERIOD_S:
            return False
        if len(self._passed_at) == self._MOST:
            self._passed_at.clear()
        self._passed_at[message] = now
        return True


def start_logging() -> None:
    """Log to standard error: the messages of examples and assignors, and the clients' warnings.

    `LOG_LEVEL=DEBUG` adds a line for each batch.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for client in CLIENTS:  # Their messages about connections would hide the rebalances.
        logging.getLogger(client).setLevel(logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.addFilter(SometimesRepeated())
    logging.getLogger("examples").setLevel(os.environ.get("LOG_LEVEL", "INFO"))
