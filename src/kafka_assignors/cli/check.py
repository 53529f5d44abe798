"""`kafka-assignors check`: whether an assignment, whoever made it, is the best there is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, Any

import typer

from kafka_assignors.certificate import Certificate, CertificateError, check, prove
from kafka_assignors.cli.console import ProgressReport, emit
from kafka_assignors.cli.errors import CannotRun, ExitCode
from kafka_assignors.cli.jsontext import Form, opened, read_forms, read_groups
from kafka_assignors.cli.named import load_named_strategy, split_names
from kafka_assignors.criteria import AnyCriterion, named_criterion, require_criteria
from kafka_assignors.group import Assignment, Group
from kafka_assignors.jsonform import parse_assignment, parse_certificate, proof_to_json
from kafka_assignors.leader import InvalidAssignmentError
from kafka_assignors.scale import PLAIN, Scale
from kafka_assignors.strategies import Strategy

__all__ = ["EPILOG", "check_assignments"]

EPILOG = """Examples:

kafka-assignors check group.json answer.json     (an answer of `assign --certify` brings its certificate)

kafka-assignors check group.json assignment.json --criteria balance,racks,movement

kafka-assignors check group.json answer.json --strategy capacity     (by the capacities members announce)

An assignment in JSON:  {"m1": {"orders": [0, 1]}, "m2": {"orders": [2]}}

The verdict, a line for each group:  {"optimal": true, "certificate": {…}}, or {"optimal": false, \
"improvement": {"change": {"balance": -2, …}, "steps": [{"topic": "orders", "partition": 1, "from": "m1", \
"to": "m2"}]}}

Exit codes: 0 every assignment is the best, and every certificate given proves it; 1 one is not, or does \
not; 2 it cannot be judged.
"""

DEFAULT_CRITERIA = "balance,movement,racks"


_ANSWER = frozenset({"quality", "certificate"})
"""What an answer of `assign` has beside the assignment, which an assignment alone has not."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """An assignment, and the certificate that came with it."""

    assignment: Assignment
    certificate: Certificate | None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What to judge by: what `strategy` promises, if one is named; else what a certificate says, or
    `criteria`.
    """

    criteria: tuple[AnyCriterion, ...]
    strategy: Strategy | None = None

    @property
    def name(self) -> str:
        return "the criteria" if self.strategy is None else f"strategy {self.strategy.name!r}"

    def by(self, group: Group, given: Certificate | None) -> tuple[tuple[AnyCriterion, ...], Scale]:
        """The criteria, and what balance is measured by."""
        if self.strategy is not None:
            try:
                return self.criteria, self.strategy.balance_scale(group).among(group.members)
            except Exception as error:  # it may be anybody's code
                raise CannotRun(f"{self.name} raised {type(error).__name__}: {error}") from error
        if given is not None:
            return given.criteria, given.scale.among(group.members)
        return self.criteria, PLAIN


def check_assignments(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="A group in JSON, or many as JSON lines.")],
    assignment: Annotated[
        str,
        typer.Argument(metavar="ASSIGNMENT", help="Its assignment, or what `assign` answered; - is stdin."),
    ],
    certificate: Annotated[
        str | None,
        typer.Argument(metavar="[CERTIFICATE]", help="A certificate to verify, if not in the answer."),
    ] = None,
    criteria: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="What matters, the most important first, where no certificate says: balance, then movement "
            "and racks in either order, or fewer; trade=3 where one rack miss is worth 3 moves.",
        ),
    ] = DEFAULT_CRITERIA,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
            "-s",
            metavar="NAME",
            help="Judge by what this strategy promises: its criteria, and the capacities that it reads from "
            "the group. A certificate that judges by anything else is refused.",
        ),
    ] = None,
) -> None:
    """Judge assignments: is there a better one, and is the certificate right?

    The judge shares no code with the solver. A wrong certificate is refused with the rule it breaks, and an
    assignment that is not the best with partitions that members could pass on to make it better.
    """
    wanted = _Wanted(_criteria(criteria)) if strategy is None else _promised(strategy)
    verdict = ExitCode.OK
    with (
        opened(group) as (group_lines, group_source),
        opened(assignment) as (answer_lines, answer_source),
        ProgressReport("checking: groups done") as progress,
    ):
        groups = read_groups(group_lines, group_source)
        answers = read_forms(Form("assignment", _parse_answer), answer_lines, answer_source)
        certificates = _certificates(certificate)
        for done, (one, answered) in enumerate(zip_longest(groups, answers), 1):
            if one is None or answered is None:
                more, fewer = (group_source, answer_source) if one else (answer_source, group_source)
                raise CannotRun(f"{more} has more in it than {fewer}: give one assignment for each group")
            where, answer = answered
            given = answer.certificate if certificate is None else next(certificates, None)
            if certificate is not None and given is None:
                raise CannotRun(f"{certificate}: there is no certificate for {where}")
            found = _judge(one[1], answer.assignment, given, wanted, where)
            if not found["optimal"] or "refused" in found:
                verdict = ExitCode.VERDICT_FAILED
            emit(json.dumps(found))
            progress.update("checking: groups done", done)
    if verdict:
        raise typer.Exit(verdict)


def _judge(
    group: Group, assignment: Assignment, given: Certificate | None, wanted: _Wanted, where: str
) -> dict[str, Any]:
    refusal: dict[str, Any] = {}
    criteria, scale = wanted.by(group, given)
    try:
        if given is not None:
            try:
                if (given.criteria, given.scale.among(group.members)) != (criteria, scale):
                    raise CertificateError(f"it judges by other criteria or capacities than {wanted.name}")
                check(group, assignment, given)
                return {"optimal": True, **proof_to_json(given)}
            except CertificateError as error:
                refusal = {"refused": str(error)}
        proof = prove(group, assignment, criteria, scale=scale)
    except InvalidAssignmentError as error:
        raise CannotRun(f"{where}: this is no assignment of the group: {error}") from None
    if isinstance(proof, Certificate):
        check(group, assignment, proof)
    return {"optimal": isinstance(proof, Certificate), **refusal, **proof_to_json(proof)}


def _parse_answer(obj: object) -> _Answer:
    if isinstance(obj, dict) and isinstance(obj.get("assignment"), dict) and _ANSWER & obj.keys():
        given = obj.get("certificate")
        return _Answer(
            parse_assignment(obj["assignment"], ("assignment",)),
            None if given is None else parse_certificate(given, ("certificate",)),
        )
    return _Answer(parse_assignment(obj), None)


def _certificates(file: str | None) -> Iterator[Certificate]:
    if file is not None:
        with opened(file) as (lines, source):
            for _, certificate in read_forms(Form("certificate", parse_certificate), lines, source):
                yield certificate


def _promised(name: str) -> _Wanted:
    strategy = load_named_strategy(name)
    criteria = strategy.criteria
    if criteria is None:
        raise CannotRun(f"--strategy {name}: it declares no criteria: say with --criteria what to judge by")
    return _Wanted(criteria, strategy)


def _criteria(text: str) -> tuple[AnyCriterion, ...]:
    try:
        return require_criteria([named_criterion(name) for name in split_names([text])])
    except ValueError as error:
        raise CannotRun(f"--criteria {text}: {error}") from None
