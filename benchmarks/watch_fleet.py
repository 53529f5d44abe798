"""The watch over fleets of several sizes: memory after N and after 2 N generations, speed, scrape, state.

    python -m benchmarks.watch_fleet
    python -m benchmarks.watch_fleet --groups 500 2500 5000 --generations 16
    python -m benchmarks.watch_fleet --groups --giant 10000

The records are those of `spark_validation.fleet`, fed to the fleet of the watch without a broker. Each size
has two processes: one writes the records to a file, so that the other, which is measured, has only the watch
in memory. Each group has the same number of generations. The first half of each group's records comes first,
then the second half. A group remembers eight generations, so memory must not grow after the first half.
Memory is the resident memory in /proc after a scrape and a state file. A scrape is the whole text that
Prometheus gets. Times are CPU times. `--giant MEMBERS` is one group with as many partitions, without a daily
load curve: a member is replaced in each generation.
"""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from prometheus_client import generate_latest

from benchmarks.giant_memory import KEY, values
from kafka_assignors_ops.watch.exporter import registry
from kafka_assignors_ops.watch.fleet import Fleet, FleetLimits
from kafka_assignors_ops.watch.metric_table import Scrape, WatchStatus
from kafka_assignors_ops.watch.watcher import WatchState, save_state
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry
from kafka_assignors_replay.folds.consumer_offsets import group_partition
from kafka_assignors_replay.folds.generations import Record
from kafka_assignors_replay.folds.records import to_micros
from spark_validation.fleet.life import life
from spark_validation.fleet.profile import START, FleetOptions, profile_of, topic_of

_HEAD = struct.Struct(">iqqii")
MIB = 2**20
HEADS = (
    *("groups", "members", "records", "resident, MiB", "at most, MiB", "KiB for each group", "records/s"),
    *("scrape, s", "scrape, MiB", "state, s", "state, MiB"),
)


def write_halves(options: FleetOptions, folder: Path) -> None:
    """Write the first and the second half of each group's records, each into its own file."""
    start = to_micros(START)
    with (folder / "first").open("wb") as first, (folder / "second").open("wb") as second:
        for index in range(options.groups):
            profile = profile_of(options, index, options.generations // options.groups)
            partition = group_partition(profile.group, options.offsets_partitions)
            records = [*life(options, profile)]
            for number, record in enumerate(records):
                file = first if number < len(records) // 2 else second
                offset = record.at_ms * options.groups + index
                micros = start + 1000 * record.at_ms
                _write(file, Record(partition, offset, micros, record.key, record.value))


def write_giant(options: FleetOptions, folder: Path) -> None:
    """Write the halves of one group under `range`; one of its members is replaced in each generation."""
    assert options.giant is not None
    members, partitions, generations = options.giant
    with (folder / "first").open("wb") as first, (folder / "second").open("wb") as second:
        for number, value in enumerate(values(members, partitions, generations)):
            file = first if number < generations // 2 else second
            _write(file, Record(0, number, to_micros(START) + 30_000_000 * number, KEY, value))


def _write(file: BinaryIO, record: Record) -> None:
    key, value = record.key or b"", record.value
    size = -1 if value is None else len(value)
    file.write(
        _HEAD.pack(record.partition, record.offset, record.micros, len(key), size) + key + (value or b"")
    )


def read(file: Path) -> Iterator[Record]:
    with file.open("rb") as stream:
        while head := stream.read(_HEAD.size):
            partition, offset, micros, key_size, size = _HEAD.unpack(head)
            key = stream.read(key_size)
            yield Record(partition, offset, micros, key, None if size < 0 else stream.read(size))


def catalogue_of(options: FleetOptions) -> Catalogue:
    return Catalogue(
        CatalogueEntry(None, replace(topic_of(options, number).topic, id=f"id-{number:05d}"))
        for number in range(options.topics)
    )


def memory_mib() -> tuple[float, float]:
    """The resident memory, and its peak, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    now, most = (int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    return now, most


def feed(fleet: Fleet, records: Iterable[Record]) -> int:
    fed = 0
    for record in records:
        fleet.feed(record, time.monotonic())
        fed += 1
    return fed


def options_of(groups: int, generations: int, giant: int | None) -> FleetOptions:
    if giant is not None:
        return FleetOptions(groups=1, generations=generations, giant=(giant, giant, generations))
    return FleetOptions(groups=groups, generations=groups * generations)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.watch_fleet",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--groups", type=int, nargs="*", default=[500, 2_500, 5_000], help="one fleet each")
    parser.add_argument("--generations", type=int, default=16, help="of each group")
    parser.add_argument("--giant", type=int, metavar="MEMBERS", help="one more fleet, of one group")
    parser.add_argument("--of", nargs=2, metavar=("STEP", "FOLDER"), help="one process: write or measure")
    given = parser.parse_args()
    if given.of is not None:
        step, folder = given.of
        groups = given.groups[0] if given.groups else 1
        options = options_of(groups, given.generations, given.giant)
        write = write_halves if options.giant is None else write_giant
        (write if step == "write" else measure)(options, Path(folder))
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print(f"| {' | '.join(HEADS)} |")
    print(f"|{'---:|' * len(HEADS)}", flush=True)
    sizes = [["--groups", str(groups)] for groups in given.groups]
    sizes += [["--groups", "--giant", str(given.giant)]] if given.giant else []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            for step in ("write", "measure"):
                command = [sys.executable, "-m", "benchmarks.watch_fleet", *size, "--of", step, folder]
                command += ["--generations", str(given.generations)]
                subprocess.run(command, check=True, timeout=4 * 3600)


def measure(options: FleetOptions, folder: Path) -> None:
    """Print two rows of the table: after the first half of the records, and after all."""
    fleet = Fleet(catalogue_of(options), FleetLimits(max_groups=options.groups))
    begin, _ = memory_mib()
    records = 0
    for half in ("first", "second"):
        started = time.process_time()
        fed = feed(fleet, read(folder / half))
        seconds = time.process_time() - started
        records += fed
        scrape_s, scrape_mib = _scrape(fleet)
        state_s, state_mib = _save(fleet, folder / "state.json")
        now, most = memory_mib()
        groups = fleet.snapshot(time.monotonic()).groups
        members = sum(group.last.members or 0 for group in groups if group.last is not None)
        print(
            f"| {len(groups):,} | {members:,} | {records:,} | {now:,.0f} | {most:,.0f} "
            f"| {(now - begin) * 1024 / len(groups):,.0f} | {fed / seconds:,.0f} "
            f"| {scrape_s:.1f} | {scrape_mib:.1f} | {state_s:.1f} | {state_mib:.1f} |",
            flush=True,
        )


def _scrape(fleet: Fleet) -> tuple[float, float]:
    """CPU seconds and MiB of one scrape."""

    def scrape() -> Scrape:
        now = time.monotonic()
        status = WatchStatus(up=True, caught_up=True, lag=0, errors=0)
        return Scrape(fleet.snapshot(now), status)

    started = time.process_time()
    text = generate_latest(registry(scrape))
    return time.process_time() - started, len(text) / MIB


def _save(fleet: Fleet, file: Path) -> tuple[float, float]:
    """CPU seconds and MiB of one state file."""
    started = time.process_time()
    counts = {key: group.counts for key, group in fleet.groups.items()}
    save_state(file, WatchState("cluster", "topic", {}, counts))
    return time.process_time() - started, file.stat().st_size / MIB


if __name__ == "__main__":
    main()
