"""Options that several commands share, and the functions that read them.

A command names the type of an option as its parameter's annotation: `group: Groups = None`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from kafka_assignors.group import quoted
from kafka_assignors.strategies import Strategy, StrategyError, load_strategy, strategy_names
from kafka_assignors_cli.console import CannotRun, cannot_run_on
from kafka_assignors_cli.files import read_client_properties

if TYPE_CHECKING:
    from kafka_assignors.live_group import LiveGroup
    from kafka_assignors_confluent import Cluster
    from kafka_assignors_spark.result import Mode, ReplayOptions

T = TypeVar("T")

cluster_option = functools.partial(typer.Option, rich_help_panel="Cluster")
output_option = functools.partial(typer.Option, rich_help_panel="Output")
spark_option = functools.partial(typer.Option, rich_help_panel="Spark")
model_option = functools.partial(typer.Option, rich_help_panel="Models and thresholds")
"""An option in this panel of `--help`."""

_TIMEOUT_S = 10.0

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
        raise CannotRun(f"{', '.join(given)}: no effect {where}")


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


GroupIds = Annotated[
    list[str] | None,
    typer.Option("--group", "-g", metavar="ID", help="Replay only these groups; may be repeated."),
]


def load_named_strategy(spec: str, option: str | None = None) -> Strategy:
    """Load the strategy called `spec`; an error begins with the `option` that names it."""
    try:
        return load_strategy(spec)
    except StrategyError as error:
        raise CannotRun(f"{option}: {error}" if option else str(error)) from error


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
        metavar="SECONDS",
        min=0.1,
        help="The longest wait for a response of a broker.",
        show_default=f"{_TIMEOUT_S:g}",
    ),
]


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """Bootstrap servers, librdkafka's properties, and the longest wait for a response."""

    bootstrap_servers: str
    config: Mapping[str, str]
    timeout_s: float

    @contextlib.contextmanager
    def connected(self) -> Iterator[Cluster]:
        """Connect. Errors of the cluster, also those inside the `with` block, become `CannotRun`."""
        with require_extra("a running cluster", "admin"):
            import confluent_kafka  # noqa: F401

            from kafka_assignors_confluent import Cluster
        with (
            cluster_errors(),
            Cluster(self.bootstrap_servers, self.config, timeout_s=self.timeout_s) as cluster,
        ):
            yield cluster


def cluster_address(
    bootstrap_server: str | None, command_config: Path | None, timeout_s: float | None
) -> ClusterAddress:
    """The cluster that the options name, or the properties if they have `bootstrap.servers`."""
    config = _client_config(command_config)
    servers = bootstrap_server or config.get("bootstrap.servers")
    if not servers:
        raise CannotRun(
            "give --bootstrap-server HOST:PORT, or bootstrap.servers in the file of --command-config"
        )
    return ClusterAddress(servers, config, timeout_s or _TIMEOUT_S)


def _client_config(file: Path | None) -> dict[str, str]:
    return {} if file is None else read_client_properties(file)


def cluster_errors() -> contextlib.AbstractContextManager[None]:
    """Turn an error response, or no response, of the cluster into `CannotRun`."""
    from kafka_assignors_confluent import ClusterError

    return cannot_run_on(ClusterError)


def require_existing(cluster: Cluster, found: Sequence[LiveGroup]) -> None:
    """Refuse groups that the cluster does not have, or does not describe."""
    if problem := unreadable(cluster, found):
        raise CannotRun(problem)


def unreadable(cluster: Cluster, found: Sequence[LiveGroup]) -> str | None:
    """What is wrong with groups that the cluster does not describe, or does not have: the nearest name."""
    errors = [live.error for live in found if live.error is not None]
    dead = [live for live in found if live.state == "Dead"]
    errors += [f"group {quoted(live.id)} {problem}" for live in dead for problem in live.problems]
    unknown = [live.id for live in dead if not live.problems]
    if unknown:
        known = [group.id for group in cluster.list_groups().groups]
        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = (
            f"did you mean {near[0]!r}?" if near else "'kafka-assignors groups' lists those that you may see"
        )
        errors.append(f"there is no group {', '.join(map(quoted, unknown))}: {hint}")
    return "; ".join(errors) or None


def parse_endpoint(option: str, text: str, default_host: str = "0.0.0.0") -> tuple[str, int]:
    """The host and the port in `[HOST]:PORT`, the value of `option`; an IPv6 address is in brackets."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise CannotRun(f"{option} {text}: expected [HOST]:PORT, such as :9308 or 127.0.0.1:9308")
    return host or default_host, int(port)


# ---- packages of extras

_EXTRAS = {
    "admin": ("confluent_kafka",),
    "watch": ("confluent_kafka", "prometheus_client"),
    "replay": ("pyarrow", "jinja2"),
    "spark": ("pyspark", "confluent_kafka", "pyarrow", "jinja2"),
}


@contextlib.contextmanager
def require_extra(what: str, *extras: str) -> Iterator[None]:
    """Turn a failed import of a package of these extras into `CannotRun`: `what` needs it, and the remedy."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        for extra in extras:
            if package in _EXTRAS[extra]:
                raise CannotRun(
                    f'{what} needs {package}: pip install "kafka-assignors[cli,{extra}]"'
                ) from None
        raise


def require_replay_extra(command: str, *, spark: bool) -> contextlib.AbstractContextManager[None]:
    """`require_extra` for a replay: the extra `replay`, or the extra `spark` if it runs on Spark.

    The extra `spark` contains `replay`, so the first remedy suffices.
    """
    return require_extra(command, *(("spark",) if spark else ("replay", "spark")))


# ---- Spark

EngineName = Annotated[
    Literal["spark", "local"] | None,
    typer.Option(
        "--engine",
        metavar="spark|local",
        help="What runs the replay. local needs neither Spark nor Java: this process and a few workers read "
        "a history from a disk. Both give the same figures.",
        show_default="local where PySpark is not installed or the history is small, otherwise spark",
    ),
]

Master = Annotated[str | None, spark_option(metavar="URL", help="Spark's master.", show_default="local[*]")]
SparkConfig = Annotated[
    Path | None,
    spark_option(
        metavar="FILE",
        help="Properties of Spark, as for spark-submit --properties-file: jars, credentials and so on.",
    ),
]
Checkpoint = Annotated[
    str | None,
    spark_option(
        metavar="DIR",
        help="Keep finished work here: after an interruption, give the same directory to continue. A path or "
        "URL that Spark can write.",
    ),
]
StrategyTimeout = Annotated[
    float,
    model_option(
        metavar="SECONDS",
        min=0.001,
        help="The longest time that a strategy may take for one rebalance; after it, the strategy has failed "
        "there.",
    ),
]
StrictDecoding = Annotated[bool, typer.Option("--strict", help="Fail if a record does not decode.")]
SkipCorrupt = Annotated[
    bool,
    typer.Option(
        "--skip-corrupt",
        help="Leave out damaged files of a history on a disk, and name them. Every file is read once more.",
    ),
]
PauseParameters = Annotated[
    list[str] | None,
    model_option(
        metavar="NAME=VALUE",
        help="A parameter of the pause model, such as heartbeat_interval_s=5; may be repeated.",
    ),
]


def needs_spark(bootstrap_servers: str | None, engine: str | None) -> bool:
    """Whether this replay runs on Spark regardless of what is installed."""
    return bootstrap_servers is not None or engine == "spark"


def replay_options(
    context: typer.Context, strategies: tuple[str, ...], modes: tuple[Mode, ...]
) -> ReplayOptions:
    """The options of a replay under these strategies, from the parameters that `replay` and `validate` share.

    It reads them from the `context` of the command, whose function does not use them itself.
    """
    given = context.params
    on_disk, server, engine = given["history"], given["bootstrap_server"], given["engine"]
    if (on_disk is None) == (server is None):
        raise CannotRun("give either a history or --bootstrap-server")
    if on_disk is not None:
        refuse(context, ("command_config", "timeout"), "on a history")
    if engine == "local":
        refuse(context, ("master", "spark_config"), "with --engine local")
    client_config = _client_config(_path(given["command_config"]))
    properties = spark_properties(_path(given["spark_config"]))
    with require_replay_extra(str(context.info_name), spark=needs_spark(server, engine)):
        from kafka_assignors_spark.result import ReplayOptions
    return ReplayOptions(
        path=on_disk,
        bootstrap_servers=server,
        strategies=strategies,
        modes=modes,
        groups=tuple(given["group"]) if given["group"] else None,
        strict=given["strict"],
        skip_corrupt=given["skip_corrupt"],
        client_config=client_config,
        timeout_seconds=given["timeout"] or _TIMEOUT_S,
        master=given["master"],
        spark_config=properties,
        checkpoint=given["checkpoint"],
        pauses=parse_parameters("--pause", given["pause"], ReplayOptions().pauses),
        strategy_timeout_s=given["strategy_timeout"],
    )


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)


def spark_properties(file: Path | None) -> str | None:
    """The path of the properties file to pass to Spark, if one is given."""
    if file is None:
        return None
    if not file.is_file():
        raise CannotRun(f"{file}: there is no such file")
    return str(file.absolute())


# ---- parameters given as NAME=VALUE

_BOOLEANS = {"true": True, "false": False}


def parse_parameters(option: str, given: Iterable[str] | None, default: T) -> T:
    """`default`, a dataclass of numbers and booleans, changed by the NAME=VALUE pairs of `option`."""
    known = {each.name: getattr(default, each.name) for each in dataclasses.fields(default)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for each in given or ():
        name, equals, text = (part.strip() for part in each.partition("="))
        if not equals:
            raise CannotRun(f"{option} {each}: expected NAME=VALUE, with one of {', '.join(known)}")
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
            raise CannotRun(f"{option}: there is no parameter {name!r}: {hint}")
        if name in values:
            raise CannotRun(f"{option}: {name} is given twice")
        values[name] = _parse_value(option, name, text, known[name])
    try:
        return dataclasses.replace(default, **values)  # type: ignore[type-var]
    except ValueError as error:
        raise CannotRun(f"{option}: {error}") from None


def _parse_value(option: str, name: str, text: str, default: object) -> bool | int | float:
    if isinstance(default, bool):
        if text not in _BOOLEANS:
            raise CannotRun(f"{option}: {name} is true or false, found {text!r}")
        return _BOOLEANS[text]
    kind = int if isinstance(default, int) else float
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise CannotRun(f"{option}: {name} has to be {what}, found {text!r}") from None
