"""`kafka-assignors assign`: what a strategy does with a group."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from kafka_assignors.cli.console import ProgressReport, emit
from kafka_assignors.cli.errors import CannotRun
from kafka_assignors.cli.jsontext import read_groups
from kafka_assignors.cli.named import load_named_strategy
from kafka_assignors.group import Group, InvalidGroupError
from kafka_assignors.jsonform import assignment_to_json
from kafka_assignors.leader import InvalidAssignmentError, lead
from kafka_assignors.quality import measure
from kafka_assignors.strategies import RebalanceProtocol, Strategy

__all__ = ["EPILOG", "assign"]

EPILOG = """Examples:

kafka-assignors assign group.json --strategy range

generate-groups | kafka-assignors assign - --time > assignments.jsonl

kafka-assignors assign group.json --strategy my_package.strategies:Weighted

A group in JSON:  {"topics": {"orders": {"partitions": 3}}, "members": [{"id": "m1", "topics": ["orders"], \
"owned": {"orders": [0, 1]}, "generation": 7}, {"id": "m2", "topics": ["orders"]}]}

The answer, a line for each group:  {"assignment": {"m1": {"orders": [0, 1]}, "m2": {"orders": [2]}}, \
"quality": …}
"""

_TIMED_RUNS = 3


def assign(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE|-", help="A group as a JSON object, or many as JSON lines; - is stdin."),
    ],
    strategy: Annotated[
        str, typer.Option("--strategy", "-s", metavar="NAME", help="A name, or module:attribute.")
    ] = "cooperative-sticky",
    protocol: Annotated[
        RebalanceProtocol | None,
        typer.Option(
            help="The rebalance protocol the group runs; by default the one the strategy prefers. Under "
            "cooperative, 'withheld' tells what waits until its owner has revoked it.",
        ),
    ] = None,
    timed: Annotated[
        bool,
        typer.Option("--time", help="Add assign_ns: CPU nanoseconds of the assign call alone."),
    ] = False,
) -> None:
    """Assign the partitions of groups given in JSON, and measure the result."""
    chosen = load_named_strategy(strategy)
    if protocol is None:
        protocol = chosen.protocols[0]
    elif protocol not in chosen.protocols:
        can = " and ".join(each.value for each in chosen.protocols)
        raise CannotRun(f"strategy {strategy!r} does not run under {protocol.value}, only under {can}")
    with _opened(file) as (lines, source), ProgressReport("assigning: groups done") as progress:
        for done, (where, group) in enumerate(read_groups(lines, source), 1):
            answer = json.dumps(_answer(chosen, group, protocol, timed, where))
            if sys.stdout.isatty():
                progress.close()  # From here on the answers themselves show how far it has come.
            emit(answer)
            progress.update("assigning: groups done", done)


def _answer(
    strategy: Strategy, group: Group, protocol: RebalanceProtocol, timed: bool, where: str
) -> dict[str, Any]:
    try:
        led = lead(strategy, group, protocol)
        answer: dict[str, Any] = {
            "assignment": assignment_to_json(led.target),
            "quality": dataclasses.asdict(measure(group, led.target)),
        }
        if timed:
            answer["assign_ns"] = _assign_ns(strategy, group)
    except (InvalidAssignmentError, InvalidGroupError) as error:
        raise CannotRun(f"{where}: {error}") from error
    except Exception as error:
        # Its strategy may be anybody's code; ours raising here is as fatal to the answer.
        raise CannotRun(
            f"{where}: strategy {strategy.name!r} raised {type(error).__name__}: {error}"
        ) from error
    if protocol is RebalanceProtocol.COOPERATIVE:
        answer["withheld"] = {
            member: {topic: list(partitions) for topic, partitions in sorted(topics.items())}
            for member, topics in sorted(led.withheld.items())
        }
    if led.dropped_claims:
        answer["dropped_claims"] = [dataclasses.asdict(claim) for claim in led.dropped_claims]
    return answer


def _assign_ns(strategy: Strategy, group: Group) -> int:
    """CPU time of this thread in `strategy.assign(group)`, in nanoseconds: the median of three runs.

    `lead` has just made the run that is not counted, the one that warms caches up.
    """
    runs = []
    for _ in range(_TIMED_RUNS):
        start = time.thread_time_ns()
        strategy.assign(group)
        runs.append(time.thread_time_ns() - start)
    return int(statistics.median(runs))


@contextlib.contextmanager
def _opened(file: str) -> Iterator[tuple[BinaryIO, str]]:
    if file == "-":
        yield sys.stdin.buffer, "stdin"
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115
    except OSError as error:
        raise CannotRun(f"{file}: {error.strerror}") from None
    with stream:
        try:
            yield stream, file
        except IsADirectoryError:
            raise CannotRun(f"{file}: is a directory") from None
