"""Records of classic groups decoded per second on one core: our decoder and Kafka's own classes.

    python -m benchmarks.decode
    python -m benchmarks.decode --records 100000 --rounds 9 --profile

The records are those of a synthetic fleet: first all different, then as many with only one in twenty
different, as sinks repeat them. In each round every contestant decodes all of them once, one after the other,
so that other load on the machine affects all contestants equally. The output shows the medians of the CPU
time, and the speed relative to Java's:

* `java`: Kafka's generated classes and ConsumerProtocol, in a warm JVM;
* `python`: every field of every member (`records.decode_record`), as the fold of a group decodes it.

`--profile` shows where Python's time goes.
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

from compat_tests.java.oracle import LineProcess
from compat_tests.support.jvm import compile_java, java_command
from kafka_assignors_replay.folds.records import decode_record
from spark_validation.fleet.life import life
from spark_validation.fleet.profile import FleetOptions, generations_of_each, profile_of

Records = Sequence[tuple[bytes, bytes]]
REPEATS = 20
WARM_UP_PASSES = 5


def different(count: int, seed: int = 1) -> Records:
    """This number of records of a fleet, with the groups shuffled."""
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
    """As many records, of which one in `REPEATS` is different."""
    return random.Random(1).choices(records[: max(1, len(records) // REPEATS)], k=len(records))


def by_python(records: Records) -> None:
    for key, value in records:
        decode_record(key, value)


def cpu_s(decode: Callable[[Records], None], records: Records) -> float:
    start = time.process_time()
    decode(records)
    return time.process_time() - start


def measure(records: Records, rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each contestant in each round."""
    samples: dict[str, list[float]] = {"java": [], "python": []}
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
                samples["python"].append(cpu_s(by_python, records))
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


def profiled(decode: Callable[[Records], None], records: Records) -> None:
    profile = cProfile.Profile()
    profile.runcall(decode, records)
    pstats.Stats(profile).sort_stats("tottime").print_stats(12)


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decode", description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="also where the time goes")
    given = parser.parse_args(None if arguments is None else list(arguments))
    fresh = different(given.records)
    again = repeated(fresh)
    show("all different", fresh, measure(fresh, given.rounds))
    show("with repeats", again, measure(again, given.rounds))
    if given.profile:
        profiled(by_python, fresh)


if __name__ == "__main__":
    main()
