"""`kafka-assignors assign`: assigns the partitions of a group and measures the result."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from kafka_assignors.arguments import UserError
from kafka_assignors.group import Assignment, Group, InvalidGroupError, quoted, some_of
from kafka_assignors.group_json import parse_group
from kafka_assignors.leader import InvalidAssignmentError, lead
from kafka_assignors.quality import measure
from kafka_assignors.strategy import RebalanceProtocol, Strategy, lent
from kafka_assignors_cli.assign_text import answer_renderables
from kafka_assignors_cli.console import ExitCode, ProgressReport, emit_renderable, note
from kafka_assignors_cli.files import open_lines, read_forms
from kafka_assignors_cli.group_form import assignment_to_json
from kafka_assignors_cli.load_report import measure_loads
from kafka_assignors_cli.options import JsonFile, load_named_strategy, strategy_option
from kafka_assignors_cli.output_files import is_stdout, json_lines, json_unless_terminal

EPILOG = """Examples:

kafka-assignors assign group.json --strategy range

generate-groups | kafka-assignors assign - > assignments.jsonl

kafka-assignors assign group.json --strategy my_package.strategies:Mine

kafka-assignors assign group.json --strategy mine.py:Mine --settle   (runs the code in mine.py)

kafka-assignors assign group.json --strategy weighted   (topics with "weights", a number for each partition: \
the answer has "loads")

A group in JSON:  {"topics": {"orders": {"partitions": 3}}, "members": [{"id": "m1", "topics": ["orders"], \
"owned": {"orders": [0, 1]}, "generation": 7}, {"id": "m2", "topics": ["orders"]}]}

A terminal shows a table for each group. Where stdout is a pipe or a file, and with --json -, the answer for \
each group is a line of JSON:  {"assignment": {"m1": {"orders": [0, 1]}, "m2": {"orders": [2]}}, \
"quality": …}

Exit codes: 0 done; 1 a second run changes an assignment (--settle); 2 bad input, or the strategy cannot be \
loaded or fails.
"""


@dataclass(frozen=True, slots=True)
class _Request:
    """The same for each group of the input."""

    strategy: Strategy
    protocol: RebalanceProtocol
    settle: bool


def assign(
    *,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE|-", help="A group as a JSON object, or many as JSON lines; - is stdin."),
    ],
    strategy: Annotated[str, strategy_option("The strategy that assigns.")] = "cooperative-sticky",
    protocol: Annotated[
        RebalanceProtocol | None,
        typer.Option(
            help="The rebalance protocol of the group; by default the one the strategy prefers. Under "
            "cooperative, 'withheld' lists the partitions that wait until their owner has revoked them."
        ),
    ] = None,
    settle: Annotated[
        bool,
        typer.Option(
            "--settle",
            help="Assign a second time, from the result, and add whether this run moves anything. If it "
            "does, exit with 1.",
        ),
    ] = False,
    json_file: JsonFile = None,
) -> int:
    """Assign the partitions of groups given in JSON, and measure the result."""
    chosen = load_named_strategy(strategy)
    request = _Request(chosen, _protocol(chosen, strategy, protocol), settle=settle)
    return _assign_all(request, file, json_unless_terminal(json_file))


def _protocol(strategy: Strategy, name: str, asked: RebalanceProtocol | None) -> RebalanceProtocol:
    if asked is None:
        return strategy.protocols[0]
    if asked not in strategy.protocols:
        can = " and ".join(each.value for each in strategy.protocols)
        raise UserError(f"strategy {name!r} does not run under {asked.value}, only under {can}")
    return asked


def _assign_all(request: _Request, file: str, json_file: Path | None) -> ExitCode:
    """Answer each group in the file; the exit code fails if a second run changes an assignment."""
    verdict = ExitCode.OK
    # A note that many groups may cause, with and without members: the first one, and how many are like it.
    repeated: dict[bool, tuple[str, int]] = {}
    with (
        open_lines(file) as (lines, source),
        json_lines(json_file) as write,
        ProgressReport("assigning: groups done") as progress,
    ):
        for done, (where, group) in enumerate(read_forms("group", parse_group, lines, source), 1):
            _require_topics(group, where)
            with contextlib.redirect_stdout(sys.stderr):  # What a strategy prints is no data.
                answer = _answer(request, group, where)
            if not answer.get("settle", {}).get("settled", True):
                verdict = ExitCode.VERDICT_FAILED
            if lacking := _without_partitions(group):
                first, others = repeated.get(bool(group.members), (f"{where}: {lacking}", -1))
                repeated[bool(group.members)] = (first, others + 1)
            if sys.stdout.isatty():
                progress.close()  # From here on the answers themselves are the progress.
            write(answer)
            if not is_stdout(json_file):
                emit_renderable(*answer_renderables(where, request.strategy.name, group, answer))
            progress.update("assigning: groups done", done)
    for _, (first, others) in sorted(repeated.items()):
        note(f"{first} ({others} more like it)" if others else first)
    return verdict


def _require_topics(group: Group, where: str) -> None:
    if group.members and not group.topics:
        raise UserError(
            f"{where}: topics: the group has members and no topic, so there is nothing to assign: add each "
            'topic with its number of partitions, as in "topics": {"orders": {"partitions": 3}}'
        )


_SHOWN_TOPICS = 3


def _without_partitions(group: Group) -> str | None:
    """A sentence about members, or about topics that they subscribe to, that lack a partition to assign."""
    if not group.members:
        return "the group has no members, so nothing is assigned"
    subscribed = set[str]().union(*(member.topics for member in group.members.values()))
    if not subscribed:
        return "no member subscribes to a topic, so nothing is assigned"
    lacking = sorted(
        name for name in subscribed if name not in group.topics or not group.topics[name].partitions
    )
    if not lacking:
        return None
    names = some_of([*map(quoted, lacking)], _SHOWN_TOPICS)
    return (
        f"members subscribe to topics without partitions in the group: {names}: correct the names, or add "
        "the topics with their partitions under topics"
    )


def _answer(request: _Request, group: Group, where: str) -> dict[str, Any]:
    """The answer for one group, `where` in the input."""
    strategy = request.strategy
    try:
        result = lead(strategy, group, request.protocol)
        answer: dict[str, Any] = {
            "assignment": assignment_to_json(result.target),
            "quality": dataclasses.asdict(
                measure(group, result.target, scale=strategy.balance_scale(lent(strategy, group)))
            ),
        }
        if any(topic.weights for topic in group.topics.values()):
            loads = measure_loads(group, result.target)
            answer["loads"] = {**dataclasses.asdict(loads), "ratio": loads.ratio}
        if findings := strategy.findings(lent(strategy, group)):
            answer["findings"] = list(findings)
        if request.settle:
            answer["settle"] = _settle(request, group, result.target)
    except (InvalidAssignmentError, InvalidGroupError) as error:
        raise UserError(f"{where}: {error}") from error
    except Exception as error:
        # The strategy may be third-party code; an error in ours is as fatal to the answer.
        raise UserError(
            f"{where}: strategy {strategy.name!r} raised {type(error).__name__}: {error}"
        ) from error
    if request.protocol is RebalanceProtocol.COOPERATIVE:
        answer["withheld"] = assignment_to_json(Assignment(result.withheld))
    if dropped := group.claims.dropped:
        answer["dropped_claims"] = [dataclasses.asdict(claim) for claim in dropped]
    return answer


_FIRST_GENERATION = 1


def _settle(request: _Request, group: Group, target: Assignment) -> dict[str, Any]:
    """What a second assignment changes if every member owns its partitions of `target`.

    The facts and other data of the members are those of the first assignment.
    """
    members = {
        member.id: dataclasses.replace(
            member,
            owned=target.members[member.id],
            generation=_FIRST_GENERATION,
            revoked=request.protocol is RebalanceProtocol.EAGER,
        )
        for member in group.members.values()
    }
    again = Group(group.topics, members, _FIRST_GENERATION + 1)
    owners, new_owners = _owners(target), _owners(lead(request.strategy, again, request.protocol).target)
    moves = [
        {"topic": topic, "partition": partition, "from": owners.get((topic, partition)), "to": member}
        for (topic, partition), member in sorted(new_owners.items())
        if owners.get((topic, partition)) != member
    ]
    return {"settled": not moves, "moves": moves}


def _owners(assignment: Assignment) -> dict[tuple[str, int], str]:
    return {
        (topic, partition): member_id
        for member_id, topics in assignment.members.items()
        for topic, partitions in topics.items()
        for partition in partitions
    }


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(assign)
