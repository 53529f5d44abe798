"""Options that several commands share, and the functions that read them.

A command names the type of an option as its parameter's annotation: `group: Groups = None`.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from kafka_assignors.arguments import UserError
from kafka_assignors.strategies import Strategy, StrategyError, load_strategy, strategy_names
from kafka_assignors_cli.console import note
from kafka_assignors_cli.files import read_client_properties

cluster_option = functools.partial(typer.Option, rich_help_panel="Cluster")
output_option = functools.partial(typer.Option, rich_help_panel="Output")
"""An option in this panel of `--help`."""

TIMEOUT_S = 10.0
"""The default of `--timeout`."""


def _require_finite(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):  # NaN is in every range.
        raise typer.BadParameter(f"{value} is no duration")
    return value


SECONDS: dict[str, Any] = {"metavar": "SECONDS", "callback": _require_finite}
"""The arguments of every option that is a duration."""

# ---- options that have no effect


def refuse(context: typer.Context, names: Collection[str], where: str) -> None:
    """Refuse the parameters of these names that the command line has; `where` says in which mode they have
    no effect."""
    given = [
        parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.opts[0].upper()
        for parameter in context.command.params
        if parameter.name in names
        # typer may contain a copy of click, so the enumeration has no module to import it from.
        and getattr(context.get_parameter_source(parameter.name), "name", "") == "COMMANDLINE"
    ]
    if given:
        raise UserError(f"{', '.join(given)}: no effect {where}")


def refuse_all_but(context: typer.Context, names: Collection[str], where: str) -> None:
    """Refuse all parameters that the command line has, except those of these names."""
    refuse(context, {each.name for each in context.command.params if each.name} - set(names), where)


# ---- strategies and groups

STRATEGY_FORMS = (
    "module:attribute (of an installed package), or FILE.py:attribute (the file is run as Python code)"
)
"""How a strategy without a registered name is given."""


def complete_strategy(incomplete: str) -> list[str]:
    """The registered names that complete the last of a comma-separated list."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in strategy_names() if name.startswith(last)]


def strategies_option(default: str) -> Any:
    """`--strategy` of a command that takes several. `default` is shown in its help."""
    return typer.Option(
        "--strategy",
        "-s",
        metavar="NAME,…",
        help=f"Strategies: names, {STRATEGY_FORMS}; may be repeated.",
        show_default=default,
        autocompletion=complete_strategy,
    )


def strategy_option(purpose: str) -> Any:
    """`--strategy` of a command that takes one; `purpose` is the first sentence of its help."""
    return typer.Option(
        "--strategy",
        "-s",
        metavar="NAME",
        help=f"{purpose} A name, {STRATEGY_FORMS}.",
        autocompletion=complete_strategy,
    )


def load_silently(spec: str) -> Strategy:
    """`load_strategy`, without what its code prints among the data on stdout."""
    with contextlib.redirect_stdout(sys.stderr):
        return load_strategy(spec)


def load_named_strategy(spec: str, option: str | None = None) -> Strategy:
    """Load the strategy called `spec`; an error begins with the `option` that names it."""
    try:
        return load_silently(spec)
    except StrategyError as error:
        raise UserError(f"{option}: {error}" if option else str(error)) from error


def registered_strategies() -> Iterator[tuple[str, Strategy]]:
    """The registered strategies by name; a note names each one that does not load."""
    for name in strategy_names():
        try:
            yield name, load_silently(name)
        except StrategyError as error:
            note(str(error))


def split_names(values: Iterable[str]) -> tuple[str, ...]:
    """The names in the values of a repeated option with comma-separated names, each name once."""
    return tuple(dict.fromkeys(name.strip() for value in values for name in value.split(",") if name.strip()))


# ---- output

JsonFile = Annotated[
    Path | None,
    output_option(
        "--json",
        metavar="FILE",
        help="Write the result as JSON to FILE; - is stdout, which then shows no text.",
    ),
]

JunitFile = Annotated[
    Path | None, output_option("--junit", metavar="FILE", help="Write the verdicts as JUnit XML.")
]
Github = Annotated[
    bool,
    output_option("--github", help="Print the verdicts as annotations of GitHub Actions, after the text."),
]

# ---- a running cluster

CONFIG_EPILOG = (
    "client.properties holds librdkafka's properties, one name=value per line: passwords have no place on a "
    "command line."
)
"""A paragraph about the file of `--command-config`, for the end of a command's help."""

BootstrapServer = Annotated[
    str | None, cluster_option(metavar="HOST:PORT,…", help="The brokers to connect to first.")
]
CommandConfig = Annotated[
    Path | None,
    cluster_option(
        metavar="FILE",
        help="librdkafka's properties, one name=value per line: security.protocol, sasl.password and so on.",
    ),
]
Timeout = Annotated[
    float | None,
    cluster_option(
        **SECONDS,
        min=0.1,
        max=3600.0,  # of librdkafka
        help="The longest wait for a response of a broker.",
        show_default=f"{TIMEOUT_S:g}",
    ),
]


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """Bootstrap servers, librdkafka's properties, and the longest wait for a response."""

    bootstrap_servers: str
    config: Mapping[str, str]
    timeout_s: float


def cluster_address(
    bootstrap_server: str | None, command_config: Path | None, timeout_s: float | None
) -> ClusterAddress:
    """The cluster that the options name, or the properties if they have `bootstrap.servers`."""
    config = client_config(command_config)
    servers = bootstrap_server or config.get("bootstrap.servers")
    if not servers:
        raise UserError(
            "give --bootstrap-server HOST:PORT, or bootstrap.servers in the file of --command-config"
        )
    return ClusterAddress(servers, config, timeout_s or TIMEOUT_S)


def client_config(file: Path | None) -> dict[str, str]:
    """librdkafka's properties in the file of `--command-config`, if one is given."""
    return {} if file is None else read_client_properties(file)


# ---- packages of extras

_EXTRAS = {
    "admin": ("confluent_kafka",),
    "watch": ("confluent_kafka", "prometheus_client"),
    "replay": ("confluent_kafka", "pyarrow", "jinja2"),
    "spark": ("pyspark", "confluent_kafka", "pyarrow", "jinja2"),
}


@contextlib.contextmanager
def require_extra(what: str, *extras: str) -> Iterator[None]:
    """Turn a failed import of a package of these extras into `UserError`: `what` needs it, and the remedy."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        for extra in extras:
            if package in _EXTRAS[extra]:
                raise UserError(
                    f'{what} needs {package}: pip install "kafka-assignors[cli,{extra}]"'
                ) from None
        raise
