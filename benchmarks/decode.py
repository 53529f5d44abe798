"""How many records of classic groups are decoded a second on one core: ours beside Kafka's own classes.

    python -m benchmarks.decode
    python -m benchmarks.decode --records 100000 --rounds 9 --spark --profile

The records are those of a synthetic fleet, no two the same, and then as many of which only one in twenty is
new, as sinks repeat them. In each round every contestant decodes all of them once, one after the other, so
that what else the machine does takes the same from all; shown are the medians of the CPU time, and what they
are in relation to Java's:

* `java`: Kafka's generated classes and ConsumerProtocol, in a warm JVM;
* `summary`: what Spark's tasks do with every record of a history (`folds.decode`);
* `members`: every field of every member (`records.decode_record`), as the replay of a group does.

`--spark` adds the whole stage on `local[1]`, from Parquet on, by the wall clock; `--profile` shows where the
summary's time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import random
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from compat_tests.java.oracle import LineProcess
from compat_tests.support.jvm import compile_java, java_command
from kafka_assignors_spark.folds.decode import RecordDecoder
from kafka_assignors_spark.folds.records import decode_record
from kafka_assignors_spark.jobs import history
from kafka_assignors_spark.jobs.session import spark_session
from spark_validation.fleet.life import life
from spark_validation.fleet.profile import FleetOptions, generations_of_each, profile_of

Records = Sequence[tuple[bytes, bytes]]
REPEATS = 20
WARM_UP_PASSES = 5


def different(count: int, seed: int = 1) -> Records:
    """So many records of a fleet, in an order in which groups come mixed."""
    options = FleetOptions(groups=max(20, count // 100), generations=2 * count, days=1.0, seed=seed)
    quotas = generations_of_each(options)
    records: dict[bytes, bytes] = {}
    for index in range(options.groups):
        for record in life(options, profile_of(options, index, min(quotas[index], 2_000))):
            if record.value is not None:
                records[record.value] = record.key
        if len(records) >= count:
            break
    mixed = [(key, value) for value, key in records.items()][:count]
    random.Random(seed).shuffle(mixed)
    return mixed


def repeated(records: Records) -> Records:
    """As many, of which one in `REPEATS` is different."""
    return random.Random(1).choices(records[: max(1, len(records) // REPEATS)], k=len(records))


def by_summary(records: Records) -> None:
    decoder = RecordDecoder()
    for key, value in records:
        decoder.decode(key, value, False)


def by_members(records: Records) -> None:
    for key, value in records:
        decode_record(key, value)


def cpu_s(decode: Callable[[Records], None], records: Records) -> float:
    start = time.process_time()
    decode(records)
    return time.process_time() - start


def measure(records: Records, rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each contestant in each round."""
    samples: dict[str, list[float]] = {"java": [], "summary": [], "members": []}
    with tempfile.NamedTemporaryFile() as file:
        for key, value in records:
            file.write(struct.pack(">i", len(key)) + key + struct.pack(">i", len(value)) + value)
        file.flush()
        command = java_command(
            "DecodeBenchmark",
            file.name,
            heap="1g",
            classes=compile_java(),
            options=("-XX:TieredStopAtLevel=4",),
        )
        with LineProcess(command, timeout_s=600) as java:
            for _ in range(WARM_UP_PASSES):
                java.ask({})
            for _ in range(rounds):
                samples["java"].append(java.ask({})["cpu_ns"] / 1e9)
                samples["summary"].append(cpu_s(by_summary, records))
                samples["members"].append(cpu_s(by_members, records))
    return samples


def show(title: str, records: Records, samples: dict[str, list[float]]) -> None:
    members = sum(len(decode_record(*record).members) for record in records) / len(records)
    size = sum(len(value) for _, value in records) / len(records)
    print(
        f"{title}: {len(records):,} records, {len(set(records)):,} different; "
        f"{members:.1f} members, {size:,.0f} bytes"
    )
    java = statistics.median(samples["java"])
    for name, times in samples.items():
        median = statistics.median(times)
        print(
            f"  {name:8} {len(records) / median:10,.0f} records/s  {1e6 * median / len(records):7.2f} us  "
            f"{java / median:5.2f} of Java's speed"
        )


def on_spark(records: Records) -> None:
    """The stage, from Parquet to columns that are dropped."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "raw.parquet"))
        keys, values = zip(*records, strict=True)
        count = len(records)
        columns = {
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([0] * count, pa.timestamp("us", "UTC")),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
        pq.write_table(pa.table(columns), path)
        with spark_session("local[1]") as spark:
            raw = spark.read.parquet(path)
            stages = {
                "read and deduplicated": history.unique(history.group_records(raw)),
                "decoded as well": history.decode(history.unique(history.group_records(raw))),
            }
            for round_ in range(3):
                for name, rows in stages.items():
                    start = time.monotonic()
                    rows.write.format("noop").mode("overwrite").save()
                    if round_:
                        seconds = time.monotonic() - start
                        print(f"  spark, {name}: {seconds:.2f} s, {count / seconds:,.0f} records/s")


def profiled(decode: Callable[[Records], None], records: Records) -> None:
    profile = cProfile.Profile()
    profile.runcall(decode, records)
    pstats.Stats(profile).sort_stats("tottime").print_stats(12)


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decode", description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spark", action="store_true", help="also the whole stage on Spark")
    parser.add_argument("--profile", action="store_true", help="also where the time goes")
    given = parser.parse_args(None if arguments is None else list(arguments))
    fresh = different(given.records)
    again = repeated(fresh)
    show("all different", fresh, measure(fresh, given.rounds))
    show("with repeats", again, measure(again, given.rounds))
    if given.spark:
        on_spark(fresh)
    if given.profile:
        profiled(by_summary, fresh)


if __name__ == "__main__":
    main()
