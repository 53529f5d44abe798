"""Options that several commands share, and what the commands make of them.

A command names the type of an option as its parameter's annotation: `group: Groups = None`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from kafka_assignors.strategies import Strategy, StrategyError, load_strategy, strategy_names
from kafka_assignors_cli.console import CannotRun
from kafka_assignors_cli.files import read_client_properties

if TYPE_CHECKING:
    from kafka_assignors_confluent import Cluster
    from kafka_assignors_spark.result import Mode, ReplayOptions

__all__ = [
    "CONFIG_EPILOG",
    "MODELS",
    "STRATEGY_FORMS",
    "BootstrapServer",
    "Checkpoint",
    "ClusterAddress",
    "ClusterOptions",
    "CommandConfig",
    "EngineName",
    "Github",
    "GroupIds",
    "JsonFile",
    "JunitFile",
    "Master",
    "PauseParameters",
    "ReplayInput",
    "SkipCorrupt",
    "SparkConfig",
    "StrategyTimeout",
    "StrictDecoding",
    "Timeout",
    "cluster_errors",
    "complete_strategy",
    "load_named_strategy",
    "parse_parameters",
    "require_admin_extra",
    "require_spark_extra",
    "require_watch_extra",
    "spark_properties",
    "split_names",
    "strategies_option",
    "strategy_option",
]

T = TypeVar("T")

_CLUSTER, _OUTPUT, _SPARK, MODELS = "Cluster", "Output", "Spark", "Models and thresholds"
"""The panels of `--help`."""

_TIMEOUT_S = 10.0

# ---- strategies and groups

STRATEGY_FORMS = (
    "module:attribute (of an installed package), FILE.py:attribute (the file is run as Python code), or "
    "FILE.toml (rules)"
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


def load_named_strategy(spec: str) -> Strategy:
    """Load the strategy called `spec`."""
    try:
        return load_strategy(spec)
    except StrategyError as error:
        raise CannotRun(str(error)) from error


def split_names(values: Iterable[str]) -> tuple[str, ...]:
    """The names in the values of a repeated option with comma-separated names, each name once."""
    return tuple(dict.fromkeys(name.strip() for value in values for name in value.split(",") if name.strip()))


# ---- output

JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write the result as JSON to FILE; - is stdout, which then shows no text.",
        rich_help_panel=_OUTPUT,
    ),
]

JunitFile = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Write the verdicts as JUnit XML.", rich_help_panel=_OUTPUT),
]
Github = Annotated[
    bool,
    typer.Option(
        "--github",
        help="Print the verdicts as annotations of GitHub Actions, after the text.",
        rich_help_panel=_OUTPUT,
    ),
]

# ---- a running cluster

CONFIG_EPILOG = (
    "client.properties holds librdkafka's properties, one name=value per line: passwords have no place on a "
    "command line."
)
"""A paragraph about the file of `--command-config`, for the end of a command's help."""

BootstrapServer = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT,…", help="The brokers to connect to first.", rich_help_panel=_CLUSTER),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="librdkafka's properties, one name=value per line: security.protocol, sasl.password and so on.",
        rich_help_panel=_CLUSTER,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=0.1,
        help="The longest wait for a response of a broker.",
        show_default=f"{_TIMEOUT_S:g}",
        rich_help_panel=_CLUSTER,
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
        with require_admin_extra():
            import confluent_kafka  # noqa: F401

            from kafka_assignors_confluent import Cluster
        with (
            cluster_errors(),
            Cluster(self.bootstrap_servers, self.config, timeout_s=self.timeout_s) as cluster,
        ):
            yield cluster


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The values of the options that name a cluster; a subcommand has them before or after its name."""

    bootstrap_server: str | None = None
    command_config: Path | None = None
    given_timeout_s: float | None = None

    def or_else(self, outer: object) -> ClusterOptions:
        """These options, completed by those of the outer command."""
        if not isinstance(outer, ClusterOptions):
            return self
        return ClusterOptions(
            self.bootstrap_server or outer.bootstrap_server,
            self.command_config or outer.command_config,
            self.given_timeout_s or outer.given_timeout_s,
        )

    @property
    def timeout_s(self) -> float:
        return self.given_timeout_s or _TIMEOUT_S

    def read_config(self) -> dict[str, str]:
        """librdkafka's properties from the file of `--command-config`, if it is given."""
        return read_client_properties(self.command_config) if self.command_config is not None else {}

    def address(self) -> ClusterAddress:
        """The cluster that the options name, or the properties if they have `bootstrap.servers`."""
        config = self.read_config()
        servers = self.bootstrap_server or config.get("bootstrap.servers")
        if not servers:
            raise CannotRun(
                "give --bootstrap-server HOST:PORT, or bootstrap.servers in the file of --command-config"
            )
        return ClusterAddress(servers, config, self.timeout_s)


@contextlib.contextmanager
def cluster_errors() -> Iterator[None]:
    """Turn an error response, or no response, of the cluster into `CannotRun`."""
    from kafka_assignors_confluent import ClusterError

    try:
        yield
    except ClusterError as error:
        raise CannotRun(str(error)) from error


@contextlib.contextmanager
def require_admin_extra() -> Iterator[None]:
    """Turn a failed import of confluent-kafka into `CannotRun`, which tells the remedy."""
    try:
        yield
    except ModuleNotFoundError as error:
        if _package(error) != "confluent_kafka":
            raise
        raise CannotRun(
            'a running cluster is read with confluent-kafka: pip install "kafka-assignors[cli,admin]"'
        ) from None


@contextlib.contextmanager
def require_watch_extra(*, prometheus: bool) -> Iterator[None]:
    """Turn a failed import of a package of the extra `watch` into `CannotRun`, which tells the remedy."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = _package(error)
        if package not in ("confluent_kafka", "prometheus_client"):
            raise
        what = "watch --prometheus" if prometheus else "watch"
        raise CannotRun(f'{what} needs {package}: pip install "kafka-assignors[cli,watch]"') from None


# ---- Spark

_SPARK_EXTRA = {"pyspark", "pyarrow", "confluent_kafka", "jinja2"}

EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="spark|local",
        help="What runs the replay. local needs neither Spark nor Java: this process and a few workers read "
        "a history from a disk. Both give the same figures.",
        show_default="local where PySpark is not installed or the history is small, otherwise spark",
    ),
]

Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Spark's master.", show_default="local[*]", rich_help_panel=_SPARK),
]
SparkConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Properties of Spark, as for spark-submit --properties-file: jars, credentials and so on.",
        rich_help_panel=_SPARK,
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Keep finished work here: after an interruption, give the same directory to continue. A path or "
        "URL that Spark can write.",
        rich_help_panel=_SPARK,
    ),
]
StrategyTimeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0.001,
        help="The longest time that a strategy may take for one rebalance; after it, the strategy has failed "
        "there.",
        rich_help_panel=MODELS,
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
    typer.Option(
        metavar="NAME=VALUE",
        help="A parameter of the pause model, such as heartbeat_interval_s=5; may be repeated.",
        rich_help_panel=MODELS,
    ),
]


@dataclass(frozen=True, slots=True)
class ReplayInput:
    """The values of the options that `replay` and `validate` share: what is replayed, and where."""

    history: str | None
    cluster: ClusterOptions
    group: list[str] | None
    strict: bool
    skip_corrupt: bool
    pause: list[str] | None
    master: str | None
    spark_config: Path | None
    checkpoint: str | None
    strategy_timeout: float

    def options(self, command: str, strategies: tuple[str, ...], modes: tuple[Mode, ...]) -> ReplayOptions:
        """What to replay, for `command`, under these strategies and in these modes."""
        if (self.history is None) == (self.cluster.bootstrap_server is None):
            raise CannotRun("give either a history or --bootstrap-server")
        client_config, properties = self.cluster.read_config(), spark_properties(self.spark_config)
        with require_spark_extra(command):
            from kafka_assignors_spark.result import ReplayOptions
        return ReplayOptions(
            path=self.history,
            bootstrap_servers=self.cluster.bootstrap_server,
            strategies=strategies,
            modes=modes,
            groups=tuple(self.group) if self.group else None,
            strict=self.strict,
            skip_corrupt=self.skip_corrupt,
            client_config=client_config,
            timeout_seconds=self.cluster.timeout_s,
            master=self.master,
            spark_config=properties,
            checkpoint=self.checkpoint,
            pauses=parse_parameters("--pause", self.pause, ReplayOptions().pauses),
            strategy_timeout_s=self.strategy_timeout,
        )


def spark_properties(file: Path | None) -> str | None:
    """The path of the properties file to pass to Spark, if one is given."""
    if file is None:
        return None
    if not file.is_file():
        raise CannotRun(f"{file}: there is no such file")
    return str(file.absolute())


@contextlib.contextmanager
def require_spark_extra(command: str) -> Iterator[None]:
    """Turn a failed import of a package of the extra `spark` (or of `replay`, which is a part of it) into
    `CannotRun`, which tells the remedy."""
    try:
        yield
    except ModuleNotFoundError as error:
        if _package(error) not in _SPARK_EXTRA:
            raise
        package = _package(error)
        extra = "spark" if package in ("pyspark", "confluent_kafka") else "replay"
        raise CannotRun(f'{command} needs {package}: pip install "kafka-assignors[cli,{extra}]"') from None


def _package(error: ModuleNotFoundError) -> str:
    return (error.name or "").partition(".")[0]


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
