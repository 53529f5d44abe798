"""The result of a replay on a terminal: the strategies over all groups first, and the verdict last, where it
is seen. The reports have the figures of each group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from kafka_assignors_cli.console import (
    Column,
    ColumnKind,
    FittedTable,
    counted,
    emit_renderable,
    indented,
    printable,
)
from kafka_assignors_replay.history.measures import COLUMNS, Mode, Verdict
from kafka_assignors_replay.report.findings import (
    find,
    headline,
    leading_mode,
    reasons_not_replayed,
    restoring,
    sentence,
    totals,
    verdicts_by_group,
)
from kafka_assignors_replay.result import RECORDED, ReplayResult, TruthCheck

_SHOWN = 5
"""The most findings, failures of a strategy, records and files that are listed."""


def print_replay(result: ReplayResult) -> None:
    """Print the figures of `result`, the data that they leave out, and the verdict to stdout."""
    emit_renderable(*replay_renderables(result))


def replay_renderables(result: ReplayResult) -> list[RenderableType]:
    restored = restoring(result, leading_mode(result))
    return [
        _strategies(result),
        *([Padding(Text(printable(restored)), (0, 0, 0, 1))] if restored else []),  # under the cells
        Text(),
        *_truth(result.truth),
        Text(_sample(result)),
        *_assigned_by_broker(result),
        Text(),
        *_left_out(result),
        *_verdict(result),
    ]


def _strategies(result: ReplayResult) -> FittedTable:
    """A strategy on each row: its moves in every mode, its other measures in the leading mode."""
    leading = leading_mode(result)
    failures = any(verdict.failed for verdict in result.verdicts)
    shown: list[tuple[Column, Mode, dict[str, str]]] = []  # with the format of each figure in the cell
    modes = [mode for mode in Mode if mode in result.options.modes]
    for mode in modes:
        name = mode.value.replace("-", " ")  # a heading may break at a blank
        leads = mode is leading  # It shows the effect of a change of strategy.
        least = Column("least", leave_out=2 if leads else 5, label=f"{name}: least")
        shown.append((Column(f"{name}: moved", leave_out=0 if leads else 4), mode, {"moved": "{:,}"}))
        shown.append((least, mode, {"least_moved": "{:,}"}))
    for figure, each in COLUMNS:
        if each.on_terminal and figure.name != "moved":
            formats = {figure.name: each.terminal_format or each.format}
            formats |= {each.beside: f"({each.format})"} if each.beside else {}
            column = Column(each.terminal_heading or each.title, leave_out=each.leave_out)
            shown.append((column, leading, formats))
    columns = [Column("strategy", ColumnKind.NAME), *(column for column, *_ in shown)]
    table = FittedTable([*columns, *([Column("failed")] if failures else [])], "All groups together")
    every = verdicts_by_group(total.verdict for mode in modes for total in totals(result, mode))
    for strategy, by_mode in every[""].items():
        cells: list[str | Text] = [_cell(by_mode.get(mode), formats) for _, mode, formats in shown]
        if failures:
            failed = by_mode[leading].failed
            cells.append(Text(f"{failed}", style="bold red" if failed else ""))
        table.add([printable(strategy), *cells], style="dim" if strategy == RECORDED else "")
    return table


def _cell(verdict: Verdict | None, formats: Mapping[str, str]) -> str:
    if verdict is None or not verdict.rebalances:
        return "–"
    values = [getattr(verdict, name) for name in formats]
    return "–" if None in values else " ".join(map(str.format, formats.values(), values))


def _truth(truth: TruthCheck) -> Iterator[RenderableType]:
    """The result of the accuracy check, and a line for each difference between clients."""
    if not truth.clients:
        yield Text("Accuracy check: no recorded generation ran range or roundrobin.")
        return
    passes, style = ("passes", "") if truth.holds else ("fails", "bold red")
    matched = f"{truth.matched:,} of {truth.checked:,} assignments led by Java or by kafka-assignors match"
    yield Text(f"The accuracy check {passes}: {matched}.", style=style)
    for client in truth.clients:
        others = [f"{count} explained: {reason}" for reason, count in sorted(client.explained.items())]
        others += [f"{client.unexplained} unexplained"] if client.unexplained else []
        others += [f"{client.unchecked} not checkable"] if client.unchecked else []
        if others:
            said = "; ".join([f"{client.matched} of {client.checked} match", *others])
            yield from indented([f"led by {client.client}, {client.strategy}: {said}"])


def _sample(result: ReplayResult) -> str:
    groups = counted(len(result.sample), "group")
    return f"The figures of {groups} were computed a second time, with the same result."


def _assigned_by_broker(result: ReplayResult) -> Iterator[RenderableType]:
    if result.history.kip848_groups:
        groups = counted(result.history.kip848_groups, "KIP-848 group")
        how = "the broker assigns there; strategies are replayed from its target assignments"
        yield Text(f"{groups}: {how}.")


def _left_out(result: ReplayResult) -> list[RenderableType]:
    """Lines about the data that the figures above do not cover, if there is any."""
    lines = [*result.warnings, *damage_lines(result), *failure_lines(result.verdicts), *_gap_lines(result)]
    return [Text("Excluded data"), *indented(lines), Text()] if lines else []


def damage_lines(result: ReplayResult) -> Iterator[str]:
    """A line about the files that were left out, if there are any."""
    if result.damaged_files:
        files = _first([f"{each.file} ({each.reason})" for each in result.damaged], result.damaged_files)
        yield f"{counted(result.damaged_files, 'damaged file')} left out: {files}"


def _first(known: Sequence[str], count: int) -> str:
    """The first of `count` things, of which some are known."""
    return ", ".join([*known[:_SHOWN], *(["…"] if count > _SHOWN else [])])


def failure_lines(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """A line for each group in which a strategy failed; where there are many, one for all of them."""
    failed: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.failed:
            failed[verdict.strategy, verdict.mode.value].append(verdict)
    for (strategy, mode), of_one in failed.items():
        if len(of_one) > _SHOWN:
            rebalances = counted(sum(verdict.failed for verdict in of_one), "rebalance")
            yield f"{strategy} failed in {rebalances} of {len(of_one):,} groups ({mode}); the first:"
            del of_one[1:]
        for verdict in of_one:
            where = f"{counted(verdict.failed, 'rebalance')} of {verdict.group} ({mode})"
            yield f"{strategy} failed in {where}: {'; '.join(verdict.failures)}"


def _gap_lines(result: ReplayResult) -> Iterator[str]:
    history = result.history
    if result.undecodable:
        places = [f"{each.partition}/{each.offset} ({each.reason})" for each in result.undecodable]
        records = counted(history.undecodable, "undecodable record")
        yield f"{records}, by partition/offset: {_first(places, history.undecodable)}"
    reasons = sorted(reasons_not_replayed(result.groups).items())
    inferred = sorted({topic for group in result.groups for topic in group.inferred_topics})
    topics = _first(inferred, len(inferred))
    lacking = f"without a catalogue entry, whose partition counts are inferred from assignments: {topics}"
    clock = "(a clock was set back): the replay orders records by offset"
    skipped = "without a record: superseded, unless files were left out or a member's claim shows a loss"
    lives = "a group was deleted and created again: each life of a group is replayed on its own"
    for count, noun, said in (
        (history.other_records, "record", "of share or streams groups, or of other topics"),
        (history.duplicates, "record", "found again at the same partition and offset"),
        *((count, "rebalance", f"not replayed: {reason}") for reason, count in reasons),
        (len(inferred), "topic", lacking),
        (history.skipped_numbers, "generation number", skipped),
        (history.clock_jumps, "generation", f"with an earlier timestamp than the one before {clock}"),
        (sum(group.incarnations - 1 for group in result.groups), "time", lives),
    ):
        if count:
            yield f"{counted(count, noun)} {said}"


def _verdict(result: ReplayResult) -> Iterator[RenderableType]:
    found = find(result)
    suggested = [finding for finding in found if finding.suggests]
    generations = sum(each.generations for each in result.groups)
    head = (
        f"{counted(generations, 'generation')} of {counted(len(result.groups), 'group')} "
        f"replayed in {result.seconds:.0f} s. {headline(found)} ({leading_mode(result).value})"
    )
    yield Text(f"{head}; the largest savings:" if suggested else f"{head}.", style="bold")
    for finding in suggested[:_SHOWN]:
        text = Text(printable(finding.group), style="bold")
        text.append(f": {printable(sentence(finding))}", style="not bold")
        yield Padding(text, (0, 0, 0, 2))
    if (more := len(suggested) - _SHOWN) > 0:
        yield from indented([f"and {counted(more, 'more group')}: --report and --json have them all"])
