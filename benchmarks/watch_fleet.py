"""The watch over a synthetic fleet: memory after N generations and after 2 N, speed, scrape and state file.

    python -m benchmarks.watch_fleet
    python -m benchmarks.watch_fleet --groups 5000 --generations 16

The records are those of `spark_validation.fleet`, written to a file by a process of its own, so that nothing
but the watch is in the memory that is measured. Each group has the same number of generations. The first half
of each group's records comes first, then the second half of each. A group remembers eight generations, so
memory has to stay where it is after the first half. It is what /proc shows as resident after a scrape and a
state file; a scrape is the whole text that Prometheus gets.
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
from pathlib import Path
from typing import BinaryIO

from prometheus_client import generate_latest

from kafka_assignors.wire import group_partition
from kafka_assignors_spark.catalogue import Catalogue, CatalogueEntry
from kafka_assignors_spark.folds.lives import Record
from kafka_assignors_spark.folds.records import to_micros
from kafka_assignors_spark.watch.exporter import registry
from kafka_assignors_spark.watch.fleet import Fleet, FleetLimits, Now
from kafka_assignors_spark.watch.metrics import Scrape, WatchStatus
from kafka_assignors_spark.watch.state import WatchState, save_state
from spark_validation.fleet.life import life
from spark_validation.fleet.profile import START, FleetOptions, profile_of, topic_of

_HEAD = struct.Struct(">iqqii")
MIB = 2**20


def write_halves(options: FleetOptions, folder: Path) -> None:
    """The first and the second half of each group's records, a file for each."""
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
        CatalogueEntry(None, f"id-{number:05d}", topic_of(options, number).topic)
        for number in range(options.topics)
    )


def memory_mib() -> tuple[float, float]:
    """What is resident, and the most that ever was."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    now, most = (int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    return now, most


def feed(fleet: Fleet, records: Iterable[Record]) -> int:
    fed = 0
    for record in records:
        fleet.feed(record, Now(time.monotonic(), time.time()))
        fed += 1
    return fed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watch_fleet", description=__doc__)
    parser.add_argument("--groups", type=int, default=5_000)
    parser.add_argument("--generations", type=int, default=16, help="of each group")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the records, and end")
    given = parser.parse_args()
    options = FleetOptions(groups=given.groups, generations=given.groups * given.generations)
    if given.write is not None:
        write_halves(options, given.write)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "benchmarks.watch_fleet", "--write", name]
        sizes = ["--groups", str(given.groups), "--generations", str(given.generations)]
        subprocess.run([*command, *sizes], check=True, timeout=4 * 3600)
        measure(options, folder)


def measure(options: FleetOptions, folder: Path) -> None:
    catalogue = catalogue_of(options)
    fleet = Fleet(catalogue, FleetLimits(max_groups=options.groups))
    begin, _ = memory_mib()
    load = os.getloadavg()[0]
    print(
        f"{options.groups:,} groups, {os.cpu_count()} cores, load {load:.1f}, {begin:.0f} MiB at the start\n"
    )
    heads = ("records", "resident, MiB", "at most, MiB", "records/s", "scrape, s", "scrape, MiB", "state, s")
    print(f"| {' | '.join(heads)} | state, MiB |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    records = 0
    for half in ("first", "second"):
        started = time.process_time()
        fed = feed(fleet, read(folder / half))
        seconds = time.process_time() - started
        records += fed
        scrape_s, scrape_mib = _scrape(fleet)
        state_s, state_mib = _save(fleet, folder / "state.json")
        now, most = memory_mib()
        print(
            f"| {records:,} | {now:,.0f} | {most:,.0f} | {fed / seconds:,.0f} | {scrape_s:.1f} "
            f"| {scrape_mib:.1f} | {state_s:.1f} | {state_mib:.1f} |",
            flush=True,
        )


def _scrape(fleet: Fleet) -> tuple[float, float]:
    """Processor seconds and MiB of one scrape."""

    def scrape() -> Scrape:
        now = Now(time.monotonic(), time.time())
        status = WatchStatus(up=True, caught_up=True, lag=0, started_s=0.0, errors=0)
        return Scrape(fleet.snapshot(now), status)

    started = time.process_time()
    text = generate_latest(registry(scrape))
    return time.process_time() - started, len(text) / MIB


def _save(fleet: Fleet, file: Path) -> tuple[float, float]:
    """Processor seconds and MiB of one state file."""
    started = time.process_time()
    save_state(file, WatchState("cluster", "topic", 0.0, {}, fleet.counts, fleet.groups), fleet.catalogue)
    return time.process_time() - started, file.stat().st_size / MIB


if __name__ == "__main__":
    main()
