"""The result of a replay on a terminal: tables first, and the verdict last, where it is seen."""

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
from kafka_assignors_replay.history.measures import COLUMNS, Figure, Mode, Shown, Verdict
from kafka_assignors_replay.report.findings import (
    GroupFinding,
    find,
    headline,
    leading_mode,
    reasons_not_replayed,
    restoring,
    sentence,
    strategies_in_order,
    totals,
    verdicts_by_group,
)
from kafka_assignors_replay.result import RECORDED, ReplayResult, SampleCheck, TruthCheck

_SHOWN_FINDINGS = 5
_SHOWN_GROUPS = 50
_SHOWN_GROUPS_OF_FAILURES = 5
_SHOWN_RECORDS = 5

_TRUTH_COLUMNS = (
    Column("led by", ColumnKind.NAME),
    Column("strategy", ColumnKind.NAME),
    Column("checked"),
    Column("matched"),
    Column("not checkable", leave_out=1),
    Column("explained", leave_out=2),  # each explanation has a line under the table
    Column("unexplained"),
    Column("must match", ColumnKind.TOKEN),
)


def print_replay(result: ReplayResult) -> None:
    """Print the tables of `result`, the data that they leave out, and the verdict to stdout."""
    emit_renderable(*replay_renderables(result))


def replay_renderables(result: ReplayResult) -> list[RenderableType]:
    found = find(result)
    return [
        *_groups(result, found),
        Text(),
        _totals_table(result),
        *_notes(filter(None, [restoring(result, leading_mode(result))])),
        Text(),
        *_truth(result.truth),
        *_sample(result.sample),
        Text(),
        *_left_out(result),
        *_verdict(result, found),
    ]


def _groups(result: ReplayResult, found: Sequence[GroupFinding]) -> list[RenderableType]:
    """The groups that gain most, a row for each strategy; the best strategy of a group is bold."""
    verdicts = verdicts_by_group(result.verdicts)
    best = {each.group: {each.best.strategy, *each.equals} for each in found}
    table = _Strategies(
        "Every group under every strategy (* serves the group best)", result, ("group", "strategy")
    )
    moving = {verdict.group for verdict in result.verdicts if verdict.moved}
    gaining_first = dict.fromkeys([*(finding.group for finding in found), *sorted(moving)])
    shown = {*[group for group in gaining_first if group in moving][:_SHOWN_GROUPS]}
    for group in sorted(verdicts.keys() & shown):
        strategies = strategies_in_order(verdicts[group], result)
        for index, strategy in enumerate(strategies):
            table.add(
                (group if index == 0 else "", strategy),
                verdicts[group][strategy],
                best=strategy in best.get(group, ()),
                last=index == len(strategies) - 1,
            )
    notes = []
    if others := len(verdicts.keys() & moving - shown):
        notes.append(f"and {counted(others, 'more group')}, which gain less: --report and --json have more")
    still = sorted(verdicts.keys() - moving)
    if still:
        names = ", ".join(still[:_SHOWN_GROUPS]) + (", …" if len(still) > _SHOWN_GROUPS else "")
        notes.append(f"Without a move under any strategy: {names}")
    return [table.table, *_notes(notes)] if shown else _notes(notes)


def _notes(sentences: Iterable[str]) -> list[RenderableType]:
    """Lines under a table, which begin where its cells do."""
    return [Padding(Text(printable(each)), (0, 0, 0, 1)) for each in sentences]


def _totals_table(result: ReplayResult) -> FittedTable:
    table = _Strategies("All groups together", result, ("strategy",))
    every = verdicts_by_group(total.verdict for mode in Mode for total in totals(result, mode))
    for strategy, figures in every[""].items():
        table.add((strategy,), figures)
    return table.table


class _Strategies:
    """A table with a strategy on each row: moves in every mode, other measures in the leading mode."""

    def __init__(self, title: str, result: ReplayResult, names: Sequence[str]) -> None:
        self._leading = leading_mode(result)
        self._modes = [mode for mode in Mode if mode in result.options.modes]
        self._failures = any(verdict.failed for verdict in result.verdicts)
        self._figures = [
            (figure, shown) for figure, shown in COLUMNS if shown.on_terminal and figure.name != "moved"
        ]
        columns = [Column(name, ColumnKind.NAME) for name in names]
        for mode in self._modes:
            # The leading mode shows the effect of a change of strategy.
            leads = mode is self._leading
            name = mode.value.replace("-", " ")  # a heading may break at a blank
            columns.append(Column(f"{name}: moved", leave_out=0 if leads else 4))
            columns.append(Column("least", leave_out=2 if leads else 5, label=f"{name}: least"))
        columns += [
            Column(shown.terminal_heading or shown.title, leave_out=shown.leave_out)
            for _, shown in self._figures
        ]
        if self._failures:
            columns.append(Column("failed"))
        self.table = FittedTable(columns, title)

    def add(
        self, names: Sequence[str], figures: Mapping[Mode, Verdict], *, best: bool = False, last: bool = False
    ) -> None:
        *others, strategy = map(printable, names)
        cells: list[str | Text] = [*map(Text, others), Text(f"{strategy} *" if best else strategy)]
        for mode in self._modes:
            own = figures.get(mode)
            cells += [f"{own.moved:,}", f"{own.least_moved:,}"] if own and own.rebalances else ["–"] * 2
        leading = figures.get(self._leading)
        cells += [_cell(leading, figure, shown) for figure, shown in self._figures]
        if self._failures and leading is not None:
            cells.append(Text(f"{leading.failed}", style="bold red" if leading.failed else ""))
        style = "bold" if best else "dim" if names[-1] == RECORDED else ""
        self.table.add(cells, style=style, end_section=last)


def _cell(verdict: Verdict | None, figure: Figure, shown: Shown) -> str:
    if verdict is None or not verdict.rebalances or (value := getattr(verdict, figure.name)) is None:
        return "–"
    text = (shown.terminal_format or shown.format).format(value)
    return f"{text} ({shown.format.format(getattr(verdict, shown.beside))})" if shown.beside else text


def _truth(truth: TruthCheck) -> list[RenderableType]:
    if not truth.clients:
        return [Text("Accuracy check: no recorded generation ran range or roundrobin.")]
    table = FittedTable(
        _TRUTH_COLUMNS, "Accuracy check: recorded assignments of range and roundrobin, computed again"
    )
    for client in truth.clients:
        table.add(
            [
                printable(client.client),
                printable(client.strategy),
                str(client.checked),
                str(client.matched),
                str(client.unchecked),
                str(sum(client.explained.values())),
                Text(str(client.unexplained), style="bold red" if client.unexplained else ""),
                "yes" if client.must_match else "no",
            ]
        )
    explained = _notes(
        f"{counted(count, 'difference')} led by {client.client}, {client.strategy}: {reason}"
        for client in truth.clients
        for reason, count in sorted(client.explained.items())
    )
    passes, style = ("passes", "") if truth.holds else ("fails", "bold red")
    matched = f"{truth.matched:,} of {truth.checked:,} led by Java or by kafka-assignors match."
    return [table, *explained, Text(f" The check {passes}: {matched}", style=style)]


def _sample(sample: SampleCheck) -> list[RenderableType]:
    if not sample.groups:
        return []
    groups = counted(len(sample.groups), "group")
    rows = counted(sample.rows, "row")
    return [Text(f"{rows} of {groups} computed a second time, with the same result.")]


def _left_out(result: ReplayResult) -> list[RenderableType]:
    """Lines about the data that the figures above do not cover, if there is any."""
    lines = [
        *result.warnings,
        *failure_lines(result.verdicts),
        *_gap_lines(result),
    ]
    return [Text("Excluded data"), *indented(lines), Text()] if lines else []


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
    if history.kip848_groups:
        yield f"{counted(history.kip848_groups, 'KIP-848 group')}, whose broker assigns"


def _verdict(result: ReplayResult, found: Sequence[GroupFinding]) -> list[RenderableType]:
    suggested = [finding for finding in found if finding.suggests]
    history = result.history
    mode = leading_mode(result).value
    head = (
        f"{counted(history.generations, 'generation')} of {counted(len(result.groups), 'group')} replayed "
        f"in {result.seconds:.0f} s. {headline(found)} ({mode})"
    )
    if not suggested:
        return [Text(f"{head}.", style="bold")]
    lines: list[RenderableType] = [Text(f"{head}; the largest savings:", style="bold")]
    for finding in suggested[:_SHOWN_FINDINGS]:
        text = Text(printable(finding.group), style="bold")
        words = printable(sentence(finding))
        text.append(f": {words}", style="not bold")
        lines.append(Padding(text, (0, 0, 0, 2)))
    return lines
