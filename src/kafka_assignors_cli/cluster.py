"""The options that name a running cluster, the same for every command that reads one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_assignors_cli.errors import CannotRun
from kafka_assignors_cli.properties import read_properties

if TYPE_CHECKING:
    from kafka_assignors_confluent import Cluster

__all__ = ["BootstrapServer", "ClusterOptions", "CommandConfig", "Timeout", "cluster_errors", "connected"]

_PANEL = "Cluster"
_TIMEOUT_S = 10.0

BootstrapServer = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT,…", help="Brokers to ask first.", rich_help_panel=_PANEL),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="librdkafka's properties, one name=value per line: security.protocol, sasl.password and so on.",
        rich_help_panel=_PANEL,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=0.1,
        help="The longest wait for an answer.",
        show_default=f"{_TIMEOUT_S:g}",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What was said of the cluster, before or after the name of a subcommand."""

    bootstrap_server: str | None = None
    command_config: Path | None = None
    timeout_s: float | None = None

    def or_else(self, outer: object) -> ClusterOptions:
        """These options, and those of the outer command where they say nothing."""
        if not isinstance(outer, ClusterOptions):
            return self
        return ClusterOptions(
            self.bootstrap_server or outer.bootstrap_server,
            self.command_config or outer.command_config,
            self.timeout_s or outer.timeout_s,
        )


@contextlib.contextmanager
def connected(options: ClusterOptions) -> Iterator[Cluster]:
    """A connection. What goes wrong with it, inside the block too, becomes `CannotRun`."""
    config = read_properties(options.command_config) if options.command_config is not None else {}
    servers = options.bootstrap_server or config.get("bootstrap.servers")
    if not servers:
        raise CannotRun(
            "give --bootstrap-server HOST:PORT, or bootstrap.servers in the file of --command-config"
        )
    try:
        import confluent_kafka  # noqa: F401

        from kafka_assignors_confluent import Cluster
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "confluent_kafka":
            raise
        raise CannotRun(
            'a running cluster is read with confluent-kafka: pip install "kafka-assignors[cli,admin]"'
        ) from None
    with cluster_errors(), Cluster(servers, config, timeout_s=options.timeout_s or _TIMEOUT_S) as cluster:
        yield cluster


@contextlib.contextmanager
def cluster_errors() -> Iterator[None]:
    """What a cluster refuses, or does not answer, becomes `CannotRun`."""
    from kafka_assignors_confluent import ClusterError

    try:
        yield
    except ClusterError as error:
        raise CannotRun(str(error)) from error
