"""Options that the commands of the replay share, and the functions that read them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from kafka_assignors.arguments import UserError
from kafka_assignors_cli.options import TIMEOUT_S, client_config, refuse, require_extra

if TYPE_CHECKING:
    from kafka_assignors_replay.result import Mode, ReplayOptions

T = TypeVar("T")

spark_option = functools.partial(typer.Option, rich_help_panel="Spark")
model_option = functools.partial(typer.Option, rich_help_panel="Models and thresholds")
"""An option in this panel of `--help`."""

GroupIds = Annotated[
    list[str] | None,
    typer.Option("--group", "-g", metavar="ID", help="Replay only these groups; may be repeated."),
]


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


def replay_options(
    context: typer.Context, strategies: tuple[str, ...], modes: tuple[Mode, ...]
) -> ReplayOptions:
    """The options of a replay under these strategies, from the parameters that `replay` and `validate` share.

    It reads them from the `context` of the command, whose function does not use them itself.
    """
    given = context.params
    on_disk, server, engine = given["history"], given["bootstrap_server"], given["engine"]
    if (on_disk is None) == (server is None):
        raise UserError("give either a history or --bootstrap-server")
    if on_disk is not None:
        refuse(context, ("command_config", "timeout"), "on a history")
    if engine == "local":
        refuse(context, ("master", "spark_config"), "with --engine local")
    properties_of_client = client_config(_path(given["command_config"]))
    properties = spark_properties(_path(given["spark_config"]))
    with require_replay_extra(str(context.info_name), spark=engine == "spark"):
        from kafka_assignors_replay.result import ReplayOptions
    return ReplayOptions(
        path=on_disk,
        bootstrap_servers=server,
        strategies=strategies,
        modes=modes,
        groups=tuple(given["group"]) if given["group"] else None,
        strict=given["strict"],
        skip_corrupt=given["skip_corrupt"],
        client_config=properties_of_client,
        timeout_seconds=given["timeout"] or TIMEOUT_S,
        master=given["master"],
        spark_config=properties,
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
        raise UserError(f"{file}: there is no such file")
    return str(file.absolute())


# ---- parameters given as NAME=VALUE


def parse_parameters(option: str, given: Iterable[str] | None, default: T) -> T:
    """`default`, a dataclass of numbers and booleans, changed by the NAME=VALUE pairs of `option`."""
    known = {each.name: getattr(default, each.name) for each in dataclasses.fields(default)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for each in given or ():
        name, _, text = (part.strip() for part in each.partition("="))
        if name not in known:
            raise UserError(f"{option} {each}: expected NAME=VALUE, with one of {', '.join(known)}")
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
        if isinstance(values[name], bool) != isinstance(known[name], bool):
            what = "true or false" if isinstance(known[name], bool) else "a number"
            raise UserError(f"{option} {each}: {name} has to be {what}")
    try:
        return dataclasses.replace(default, **values)  # type: ignore[type-var]
    except (TypeError, ValueError) as error:
        raise UserError(f"{option}: {error}") from None
