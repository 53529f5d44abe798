"""`kafka-assignors check`: is an assignment from any source optimal?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, Any

import typer

from kafka_assignors.certificate import Certificate, CertificateError, check, prove
from kafka_assignors.criteria import PLAIN, AnyCriterion, Scale, named_criterion, require_criteria
from kafka_assignors.group import Assignment, Group
from kafka_assignors.group_json import parse_assignment, parse_certificate, proof_to_json
from kafka_assignors.leader import InvalidAssignmentError
from kafka_assignors.strategies import Strategy
from kafka_assignors_cli import options
from kafka_assignors_cli.console import CannotRun, ExitCode, ProgressReport, counted, emit, printable
from kafka_assignors_cli.files import open_lines, read_forms, read_groups
from kafka_assignors_cli.output_files import (
    CiCase,
    CiFormats,
    CiOutcome,
    is_stdout,
    json_lines,
    json_unless_terminal,
)

EPILOG = """Examples:

kafka-assignors check group.json answer.json     (an answer of `assign --certify` brings its certificate)

kafka-assignors check group.json assignment.json --criteria balance,racks,movement

kafka-assignors check group.json answer.json --strategy capacity     (by the capacities members announce)

An assignment in JSON:  {"m1": {"orders": [0, 1]}, "m2": {"orders": [2]}}

A terminal shows a line of text for each group. Where stdout is a pipe or a file, and with --json -, the \
verdict on each group is a line of JSON:  {"optimal": true, "certificate": {…}}, or {"optimal": false, \
"improvement": {"change": {"balance": -2, …}, "steps": [{"topic": "orders", "partition": 1, "from": "m1", \
"to": "m2"}]}}

Exit codes: 0 every assignment is optimal, and every given certificate proves it; 1 an assignment can be \
improved, or a certificate is wrong; 2 the check cannot run.
"""

DEFAULT_CRITERIA = "balance,movement,racks"


_ANSWER = frozenset({"quality", "certificate"})
"""The keys by which an answer of `assign` differs from an assignment alone."""


@dataclass(frozen=True, slots=True)
class _Standard:
    """The criteria to judge by: those of `strategy` if it is given, else those of the certificate, else
    `criteria`.
    """

    criteria: tuple[AnyCriterion, ...]
    strategy: Strategy | None = None

    @property
    def name(self) -> str:
        return "the criteria" if self.strategy is None else f"strategy {self.strategy.name!r}"

    def by(self, group: Group, given: Certificate | None) -> tuple[tuple[AnyCriterion, ...], Scale]:
        """The criteria, and the scale on which balance is measured."""
        if self.strategy is not None:
            try:
                return self.criteria, self.strategy.balance_scale(group).among(group.members)
            except Exception as error:  # The strategy may be third-party code.
                raise CannotRun(f"{self.name} raised {type(error).__name__}: {error}") from error
        if given is not None:
            return given.criteria, given.scale.among(group.members)
        return self.criteria, PLAIN


GroupFile = Annotated[str, typer.Argument(metavar="GROUP", help="A group in JSON, or many as JSON lines.")]
AssignmentFile = Annotated[
    str, typer.Argument(metavar="ASSIGNMENT", help="Its assignment, or what `assign` answered; - is stdin.")
]
CertificateFile = Annotated[
    str | None,
    typer.Argument(metavar="[CERTIFICATE]", help="A certificate to verify, if not in the answer."),
]
CriteriaList = Annotated[
    str,
    typer.Option(
        metavar="LIST",
        help="What matters, the most important first, where no certificate says: balance, then movement "
        "and racks in either order, or fewer; trade=3 where one rack miss is worth 3 moves.",
    ),
]
Promising = Annotated[
    str | None,
    options.strategy_option(
        "Judge by what this strategy promises: its criteria, and the capacities that it reads from the "
        "group. A certificate that judges by anything else is refused."
    ),
]


def check_assignments(
    *,
    context: typer.Context,
    group: GroupFile,
    assignment: AssignmentFile,
    certificate: CertificateFile = None,
    criteria: CriteriaList = DEFAULT_CRITERIA,
    strategy: Promising = None,
    json_file: options.JsonFile = None,
    junit: options.JunitFile = None,
    github: options.Github = False,
) -> int:
    """Judge assignments: is there a better one, and is the certificate right?

    The judge shares no code with the solver. It refuses a wrong certificate with the rule that it breaks. For
    an assignment that is not optimal it names partitions that members can pass on to improve it.
    """
    if certificate is not None or strategy is not None:
        options.refuse(context, ("criteria",), "beside --strategy or a certificate, which has criteria")
    standard = _Standard(_criteria(criteria)) if strategy is None else _promised(strategy)
    if not github:  # The annotations go to stdout, and so does the text beside them.
        json_file = json_unless_terminal(json_file)
    ci = CiFormats(junit, github, json_file)
    ci.require()
    verdicts = []
    failed = False
    with (
        json_lines(json_file) as write,
        ci.text(),
        ProgressReport("checking: groups done") as progress,
    ):
        for done, (where, found) in enumerate(_judge_all(group, assignment, certificate, standard), 1):
            verdict = _ci_case(where, found)
            failed |= verdict.outcome is CiOutcome.FAILED
            write(found)
            if not is_stdout(json_file):
                progress.close()
                emit(printable(f"{where}: {verdict.message}"))
            if ci.asked:
                verdicts.append(verdict)
            progress.update("checking: groups done", done)
    ci.write("check", verdicts)
    return ExitCode.VERDICT_FAILED if failed else ExitCode.OK


def _ci_case(where: str, found: Mapping[str, Any]) -> CiCase:
    """The verdict on one assignment, which `where` names as file and line, given its JSON form."""
    if found["optimal"]:
        message = "optimal"
    else:
        improvement = found["improvement"]
        change = ", ".join(f"{name} {value}" for name, value in improvement["change"].items())
        message = f"not optimal: {counted(len(improvement['steps']), 'step')} would change {change}"
    if "refused" in found:
        message += f"; the certificate is refused: {found['refused']}"
    failed = not found["optimal"] or "refused" in found
    file, _, line = where.rpartition(":")
    return CiCase(file, where, CiOutcome.FAILED if failed else CiOutcome.PASSED, message, file, int(line))


def _judge_all(
    group_file: str, assignment_file: str, certificate_file: str | None, standard: _Standard
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The place of each assignment in its file, and the verdict on it in JSON form."""
    with (
        open_lines(group_file) as (group_lines, group_source),
        open_lines(assignment_file) as (assignment_lines, assignment_source),
    ):
        groups = read_groups(group_lines, group_source)
        submissions = read_forms("assignment", _parse_submission, assignment_lines, assignment_source)
        certificates = _certificates(certificate_file)
        for group, submitted in zip_longest(groups, submissions):
            if group is None or submitted is None:
                sources = (group_source, assignment_source)
                more, fewer = sources if group else reversed(sources)
                raise CannotRun(f"{more} has more in it than {fewer}: give one assignment for each group")
            where, (found, certificate) = submitted
            given = certificate if certificate_file is None else next(certificates, None)
            if certificate_file is not None and given is None:
                raise CannotRun(f"{certificate_file}: there is no certificate for {where}")
            yield where, _judge(group[1], found, given, standard, where)


def _judge(
    group: Group, assignment: Assignment, given: Certificate | None, standard: _Standard, where: str
) -> dict[str, Any]:
    refusal: dict[str, Any] = {}
    criteria, scale = standard.by(group, given)
    try:
        if given is not None:
            try:
                if (given.criteria, given.scale.among(group.members)) != (criteria, scale):
                    raise CertificateError(f"it judges by other criteria or capacities than {standard.name}")
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


def _parse_submission(obj: object) -> tuple[Assignment, Certificate | None]:
    """An assignment, and the certificate that came with it, if any."""
    if not (isinstance(obj, dict) and isinstance(obj.get("assignment"), dict) and _ANSWER & obj.keys()):
        return parse_assignment(obj), None
    given = obj.get("certificate")
    certificate = None if given is None else parse_certificate(given, ("certificate",))
    return parse_assignment(obj["assignment"], ("assignment",)), certificate


def _certificates(file: str | None) -> Iterator[Certificate]:
    if file is not None:
        with open_lines(file) as (lines, source):
            for _, certificate in read_forms("certificate", parse_certificate, lines, source):
                yield certificate


def _promised(name: str) -> _Standard:
    strategy = options.load_named_strategy(name)
    criteria = strategy.criteria
    if criteria is None:
        raise CannotRun(f"--strategy {name}: it declares no criteria: say with --criteria what to judge by")
    return _Standard(criteria, strategy)


def _criteria(text: str) -> tuple[AnyCriterion, ...]:
    try:
        return require_criteria([named_criterion(name) for name in options.split_names([text])])
    except ValueError as error:
        raise CannotRun(f"--criteria {text}: {error}") from None
