"""The result of a replay on a terminal: the strategies over all groups first, and the verdict last, where it
is seen. The reports have the figures of each group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

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
from kafka_assignors_replay.history.measures import COLUMNS, Figure, Mode, Shown, Verdict
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

_SHOWN_FINDINGS = 5
_SHOWN_GROUPS_OF_FAILURES = 5
_SHOWN_RECORDS = 5
_SHOWN_FILES = 5


def print_replay(result: ReplayResult) -> None:
    """Print the figures of `result`, the data that they leave out, and the verdict to stdout."""
    emit_renderable(*replay_renderables(result))


def replay_renderables(result: ReplayResult) -> list[RenderableType]:
    return [
        _strategies(result),
        *_notes(filter(None, [restoring(result, leading_mode(result))])),
        Text(),
        *_truth(result.truth),
        Text(_sample(result)),
        *_assigned_by_broker(result),
        Text(),
        *_left_out(result),
        *_verdict(result),
    ]


def _notes(sentences: Iterable[str]) -> list[RenderableType]:
    """Lines under a table, which begin where its cells do."""
    return [Padding(Text(printable(each)), (0, 0, 0, 1)) for each in sentences]


def _strategies(result: ReplayResult) -> FittedTable:
    """A strategy on each row: its moves in every mode, its other measures in the leading mode."""
    leading = leading_mode(result)
    modes = [mode for mode in Mode if mode in result.options.modes]
    figures = [(each, shown) for each, shown in COLUMNS if shown.on_terminal and each.name != "moved"]
    failures = any(verdict.failed for verdict in result.verdicts)
    columns = [Column("strategy", ColumnKind.NAME)]
    for mode in modes:
        # The leading mode shows the effect of a change of strategy.
        name = mode.value.replace("-", " ")  # a heading may break at a blank
        columns.append(Column(f"{name}: moved", leave_out=0 if mode is leading else 4))
        columns.append(Column("least", leave_out=2 if mode is leading else 5, label=f"{name}: least"))
    columns += [
        Column(shown.terminal_heading or shown.title, leave_out=shown.leave_out) for _, shown in figures
    ]
    columns += [Column("failed")] if failures else []
    table = FittedTable(columns, "All groups together")
    every = verdicts_by_group(total.verdict for mode in modes for total in totals(result, mode))
    for strategy, by_mode in every[""].items():
        cells: list[str | Text] = [printable(strategy)]
        for mode in modes:
            own = by_mode.get(mode)
            cells += [f"{own.moved:,}", f"{own.least_moved:,}"] if own and own.rebalances else ["–"] * 2
        verdict = by_mode.get(leading)
        cells += [_cell(verdict, figure, shown) for figure, shown in figures]
        if failures and verdict is not None:
            cells.append(Text(f"{verdict.failed}", style="bold red" if verdict.failed else ""))
        table.add(cells, style="dim" if strategy == RECORDED else "")
    return table


def _cell(verdict: Verdict | None, figure: Figure, shown: Shown) -> str:
    if verdict is None or not verdict.rebalances or (value := getattr(verdict, figure.name)) is None:
        return "–"
    text = (shown.terminal_format or shown.format).format(value)
    return f"{text} ({shown.format.format(getattr(verdict, shown.beside))})" if shown.beside else text


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
    groups = counted(len(result.sample.groups), "group")
    return f"{counted(result.sample.rows, 'row')} of {groups} computed a second time, with the same result."


def _assigned_by_broker(result: ReplayResult) -> Iterator[RenderableType]:
    if result.history.kip848_groups:
        groups = counted(result.history.kip848_groups, "KIP-848 group")
        how = "the broker assigns there; strategies are replayed from its target assignments"
        yield Text(f"{groups}: {how}.")


def _left_out(result: ReplayResult) -> list[RenderableType]:
    """Lines about the data that the figures above do not cover, if there is any."""
    lines = [
        *result.warnings,
        *damage_lines(result),
        *failure_lines(result.verdicts),
        *_gap_lines(result),
    ]
    return [Text("Excluded data"), *indented(lines), Text()] if lines else []


def damage_lines(result: ReplayResult) -> Iterator[str]:
    """A line about the files that were left out, if there are any."""
    if result.damaged_files:
        files = ", ".join(f"{each.file} ({each.reason})" for each in result.damaged[:_SHOWN_FILES])
        more = ", …" if result.damaged_files > _SHOWN_FILES else ""
        yield f"{counted(result.damaged_files, 'damaged file')} left out: {files}{more}"


def failure_lines(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """A line for each group in which a strategy failed; where there are many, one for all of them."""
    failed: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.failed:
            failed[verdict.strategy, verdict.mode.value].append(verdict)
    for (strategy, mode), of_one in failed.items():
        shown = of_one if len(of_one) <= _SHOWN_GROUPS_OF_FAILURES else of_one[:1]
        if len(shown) < len(of_one):
            rebalances = counted(sum(verdict.failed for verdict in of_one), "rebalance")
            yield f"{strategy} failed in {rebalances} of {len(of_one):,} groups ({mode}); the first:"
        for verdict in shown:
            where = f"{counted(verdict.failed, 'rebalance')} of {verdict.group} ({mode})"
            yield f"{strategy} failed in {where}: {'; '.join(verdict.failures)}"


def _gap_lines(result: ReplayResult) -> Iterator[str]:
    history = result.history
    if result.undecodable:
        records = ", ".join(
            f"{record.partition}/{record.offset} ({record.reason})"
            for record in result.undecodable[:_SHOWN_RECORDS]
        )
        more = ", …" if history.undecodable > _SHOWN_RECORDS else ""
        yield f"{counted(history.undecodable, 'undecodable record')}, by partition/offset: {records}{more}"
    if history.other_records:
        yield f"{counted(history.other_records, 'record')} of share or streams groups, or of other topics"
    if history.duplicates:
        yield f"{counted(history.duplicates, 'record')} found again at the same partition and offset"
    for reason, count in sorted(reasons_not_replayed(result.groups).items()):
        yield f"{counted(count, 'rebalance')} not replayed: {reason}"
    inferred = sorted({topic for group in result.groups for topic in group.inferred_topics})
    if inferred:
        topics = ", ".join(inferred)
        yield f"partition counts inferred from the assignments, for lack of a catalogue entry: {topics}"
    if history.skipped_numbers:
        skipped = counted(history.skipped_numbers, "generation number")
        yield f"{skipped} without a record; the replay never bridges a gap"
    if history.clock_jumps:
        yield (
            f"{counted(history.clock_jumps, 'generation')} with an earlier timestamp than the one before (a "
            "clock was set back): the replay orders records by offset"
        )
    if made_again := sum(group.incarnations - 1 for group in result.groups):
        times = counted(made_again, "time")
        yield f"{times} a group was deleted and created again: each life of a group is replayed on its own"


def _verdict(result: ReplayResult) -> Iterator[RenderableType]:
    found = find(result)
    suggested = [finding for finding in found if finding.suggests]
    generations = sum(each.generations for each in result.groups)
    head = (
        f"{counted(generations, 'generation')} of {counted(len(result.groups), 'group')} "
        f"replayed in {result.seconds:.0f} s. {headline(found)} ({leading_mode(result).value})"
    )
    yield Text(f"{head}; the largest savings:" if suggested else f"{head}.", style="bold")
    for finding in suggested[:_SHOWN_FINDINGS]:
        text = Text(printable(finding.group), style="bold")
        text.append(f": {printable(sentence(finding))}", style="not bold")
        yield Padding(text, (0, 0, 0, 2))
    if (more := len(suggested) - _SHOWN_FINDINGS) > 0:
        yield from indented([f"and {counted(more, 'more group')}: --report and --json have them all"])
