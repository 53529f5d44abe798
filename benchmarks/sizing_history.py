"""The present and the needed members of all groups of a history: `size --history` for each group.

    python -m spark_validation.fleet fleet/ --groups 500 --generations 5000 --days 0.1 \\
        --committed-offsets 300
    python -m benchmarks.sizing_history fleet/ --capacity 1000
    python -m spark_validation.recording.record --minutes 4 --committed-offsets 10 --out recorded/
    python -m benchmarks.sizing_history recorded/ --capacity 1.5

The history needs committed offsets. Costs are the rates that partitions did not exceed in `--percentile` per
cent of the time. The present members, and what they own, are those of the last generation that is not empty.
Therefore this benchmark can count moves, which `kafka-assignors size --history` cannot. A group is left out
if its members have different subscriptions, or if no rate of its topics is known. Each group has a row if
there are at most 20; else groups are summed up by their number of partitions. CPU times are of one thread,
for reading the commits and for the size.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from kafka_assignors.group import Group, Topic
from kafka_assignors.live_group import LiveGroup, LiveMember, as_group
from kafka_assignors.sizing import Size, SizeError, of_kind, size_group
from kafka_assignors.sizing.autoscaling import PER_RECORD
from kafka_assignors.wire import (
    GroupMetadata,
    GroupMetadataKey,
    ProtocolError,
    decode_group_metadata,
    decode_key,
)
from kafka_assignors_spark.history import rates_of_history, read_records, record_files
from kafka_assignors_spark.result import ReplayError

_MOST_ROWS = 20
_UP_TO = (10, 100, 100_000)
"""Upper limits of the partitions of the groups that one row sums up."""


@dataclass(frozen=True, slots=True)
class Sized:
    group: str
    members: int
    size: Size
    read_s: float
    size_s: float


def last_generations(folder: str) -> dict[str, GroupMetadata]:
    """The last generation with members, by group."""
    found: dict[str, tuple[int, GroupMetadata]] = {}
    place, files = record_files(folder, ())
    for rows in read_records(files, place):
        for _, offset, _, key_bytes, value in rows:
            if offset is None or key_bytes is None or value is None:
                continue
            try:
                key = decode_key(key_bytes)
                if not isinstance(key, GroupMetadataKey):
                    continue
                metadata = decode_group_metadata(value)
            except ProtocolError:
                continue
            if metadata.members and (key.group not in found or offset > found[key.group][0]):
                found[key.group] = offset, metadata
    return {group: metadata for group, (_, metadata) in sorted(found.items())}


def group_of(name: str, metadata: GroupMetadata, topics: Iterable[Topic]) -> Group:
    """The members of a generation, and their assigned partitions of these topics."""
    members = tuple(
        LiveMember(one.member_id, one.client_id, one.client_host)
        .with_metadata(one.subscription)
        .with_assignment(one.assignment)
        for one in metadata.members
    )
    known = {topic.name: topic for topic in topics}
    return as_group(LiveGroup(name, "classic", "Stable", metadata.protocol, members=members, topics=known))


def sized(folder: str, name: str, metadata: GroupMetadata, limit: int, percentile: float) -> Sized:
    """Size one group. Raises `SizeError` or `ReplayError` for a group that is left out."""
    began = time.thread_time()
    rates = rates_of_history(folder, name, percentile)
    read_s = time.thread_time() - began
    group = of_kind(
        group_of(name, metadata, [Topic(each, len(row), weights=tuple(row)) for each, row in rates.items()])
    )
    if not any(topic.partitions for topic in group.topics.values()):
        raise SizeError(f"no rate of the topics of group {name!r} is known")
    began = time.thread_time()
    size = size_group(group, limit)
    return Sized(name, len(group.members), size, read_s, time.thread_time() - began)


def each_group(found: Sequence[Sized], limit: int) -> Iterator[str]:
    """A row for each group."""
    yield (
        "| group | partitions | members now | greatest load now, of the limit | fewest members | gap | "
        "moves, at least | CPU ms: commits, size |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for one in found:
        size, change = one.size, one.size.change
        now = "–" if size.greatest_now is None else f"{size.greatest_now / limit:.2f}"
        moves = "–" if change is None else f"{change.moved}, {change.least}"
        yield (
            f"| `{one.group}` | {size.partitions} | {one.members} | {now} | {size.members} | "
            f"{size.members - size.least} | {moves} | {1000 * one.read_s:.0f}, {1000 * one.size_s:.1f} |"
        )


def summed_up(found: Sequence[Sized], limit: int) -> Iterator[str]:
    """A row for each range of partitions, and one for all groups."""
    yield (
        "| partitions | groups | members now | fewest members | groups with too few now, with too many | "
        "exact, largest gap | too heavy a partition | moves, at least | CPU ms of a group: commits, size "
        "(most) |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    before = 0
    for most in _UP_TO:
        some = [one for one in found if before < one.size.partitions <= most]
        label, before = f"{before + 1:,} to {most:,}" if most != _UP_TO[-1] else f"above {before:,}", most
        if some:
            yield f"| {label} | {_sums(some)} |"
    yield f"| all | {_sums(found)} |"


def _sums(some: Sequence[Sized]) -> str:
    def total(count: Callable[[Sized], int]) -> int:
        return sum(map(count, some))

    gaps = [one.size.members - one.size.least for one in some]
    changes = [one.size.change for one in some if one.size.change is not None]
    few = total(lambda one: one.members < one.size.members)
    many = total(lambda one: one.members > one.size.members)
    cells = (
        len(some),
        f"{total(lambda one: one.members):,}",
        f"{total(lambda one: one.size.members):,}",
        f"{few}, {many}",
        f"{gaps.count(0)}, {max(gaps)}",
        total(lambda one: bool(one.size.too_heavy)),
        f"{sum(change.moved for change in changes):,}, {sum(change.least for change in changes):,}",
        f"{1000 * median(one.read_s for one in some):.0f}, {1000 * median(one.size_s for one in some):.1f} "
        f"({1000 * max(one.size_s for one in some):.0f})",
    )
    return " | ".join(map(str, cells))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="a history with committed offsets")
    parser.add_argument("--capacity", type=float, default=1000.0, help="of a member, in records a second")
    parser.add_argument("--headroom", type=float, default=0.2)
    parser.add_argument("--percentile", type=float, default=95.0)
    options = parser.parse_args()
    limit = int(options.capacity * (1 - options.headroom) * PER_RECORD)
    found: list[Sized] = []
    left_out = 0
    for name, metadata in last_generations(options.folder).items():
        try:
            found.append(sized(options.folder, name, metadata, limit, options.percentile))
        except (SizeError, ReplayError):
            left_out += 1
    rows = each_group if len(found) <= _MOST_ROWS else summed_up
    print("\n".join(rows(found, limit)))
    print(f"\n{left_out} groups are left out.")


if __name__ == "__main__":
    main()
