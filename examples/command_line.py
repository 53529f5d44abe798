"""The arguments that all examples share."""

from __future__ import annotations

import argparse
import logging
import os

__all__ = ["parser", "start_logging"]


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


def start_logging() -> None:
    """Log to standard error: the messages of examples and assignors, and the clients' warnings.

    `LOG_LEVEL=DEBUG` adds a line for each batch.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for client in ("aiokafka", "kafka"):  # Their messages about connections would hide the rebalances.
        logging.getLogger(client).setLevel(logging.WARNING)
    logging.getLogger("examples").setLevel(os.environ.get("LOG_LEVEL", "INFO"))
