"""CPU time of one assignment: our strategies and peers, on the same groups in one run.

    python -m benchmarks.assign                                     # everything: an hour or two
    python -m benchmarks.assign --only "kafka uniform,half"         # workloads with these prefixes
    python -m benchmarks.assign --peers franz-go --measure assign   # ours and one peer
    python -m benchmarks.report                                     # the results as tables

Times are CPU milliseconds. All contestants of a workload run at the same time, each in its own process that
has read the same group file and is warm (Java after two seconds of calls). The benchmark asks them in turn,
round after round. A sample is as many calls as fill a tenth of a second, and the result is the median of the
rounds. A contestant that needs more than `--limit` CPU seconds for a sample is stopped and shown as too slow;
one that needs more than `SLOW_MS` for a call is measured once, not in every round.

The measures are: `assign`, the assignor's call on decoded members; `lead`, from the bytes of the members'
JoinGroup requests to the bytes of their assignments.

CPU time means: for Python the whole process; for Go user and system time of the process, with its garbage
collector; for Java the calling thread alone, without garbage collector and compiler.

Results are kept in a JSON file. A run replaces only what it measures, so slow peers need not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.contestants import CONTESTANTS, ROOT, Contestant, Runner, TooSlowError, running
from benchmarks.group_file import write_group_file
from benchmarks.workloads import WORKLOADS
from compat_tests.support.jvm import java_home_binary, kafka_version

RESULTS = ROOT / "benchmarks" / "results.json"
SAMPLE_MS = 100.0
SLOW_MS = 3_000.0

Results = dict[str, Any]


def times(file: Path, contestants: Iterable[Contestant], what: str, rounds: int, limit_s: float) -> Results:
    """CPU milliseconds of one call on a group, by contestant, for each round; None if it is too slow."""
    samples: dict[str, list[float] | None] = {}
    with contextlib.ExitStack() as stack:
        calls: dict[str, int] = {}
        runners: dict[str, Runner] = {}
        for contestant in contestants:
            name = contestant.name
            runners[name] = stack.enter_context(running(contestant, file, limit_s))
            try:
                took_ms = _warm_up(runners[name], what, contestant.warm_up_s)
            except TooSlowError:
                samples[name] = None
                continue
            calls[name] = max(1, int(SAMPLE_MS / took_ms))
            samples[name] = [took_ms] if took_ms > SLOW_MS else []
        for _ in range(rounds):
            for name, taken in samples.items():
                if taken is not None and not (taken and taken[0] > SLOW_MS):
                    taken.append(runners[name].cpu_ms(what, calls[name]))
    return {name: taken and [round(ms, 4) for ms in taken] for name, taken in samples.items()}


def _warm_up(runner: Runner, what: str, at_least_s: float) -> float:
    """Call for `at_least_s` of CPU time (once if slow), and return the milliseconds of one call."""
    took_ms = spent_ms = runner.cpu_ms(what)
    while took_ms <= SLOW_MS:
        calls = max(1, int(SAMPLE_MS / took_ms))
        took_ms = runner.cpu_ms(what, calls)
        spent_ms += calls * took_ms
        if spent_ms > at_least_s * 1000:
            break
    return took_ms


def run(options: argparse.Namespace, results: Results) -> Iterator[str]:
    """Measure what the options select, into `results`; yields a line for each measurement."""
    contestants = [CONTESTANTS[name] for name in ["ours", *options.peers]]
    for workload in WORKLOADS:
        if not workload.name.startswith(options.only):
            continue
        for situation in workload.situations:
            with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
                group, file = workload.group(situation), Path(folder, "group.json")
                write_group_file(group, file)
                size = len(group.members) * sum(topic.partitions for topic in group.topics.values())
                able = [each for each in contestants if each.largest is None or size <= each.largest]
                measured = results["groups"].setdefault(f"{workload.name}, {situation}", {})
                for what in sorted(options.measure):
                    found = times(file, able, what, options.rounds, options.limit)
                    measured.setdefault(what, {}).update(found)
                    yield _line(f"{workload.name}, {situation}", what, measured[what])


def _line(group: str, what: str, samples: Results) -> str:
    ours = statistics.median(samples["ours"])
    cells = [f"ours {ours:.2f} ms"]
    for name, times in samples.items():
        if name != "ours":
            cells.append(f"{name} {ours / statistics.median(times):.3f}" if times else f"{name} too slow")
    return f"{group}, {what}: {'; '.join(cells)}"


def _versions(peers: Collection[str]) -> dict[str, str]:
    from importlib.metadata import version

    versions = {
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
    }
    if any(peer.startswith("java") for peer in peers):
        told = subprocess.run([java_home_binary("java"), "-version"], capture_output=True, text=True)
        versions |= {"kafka-clients": kafka_version(), "java": told.stderr.splitlines()[0]}
    if "franz-go" in peers:
        told = subprocess.run(["go", "version"], capture_output=True, text=True)
        versions["go"] = told.stdout.split()[2].removeprefix("go")
        module = (ROOT / "benchmarks" / "franzgo" / "go.mod").read_text(encoding="utf-8")
        versions["franz-go"] = module.partition("twmb/franz-go ")[2].split()[0]
    return versions | {peer: version(peer) for peer in ("kafka-python", "aiokafka") if peer in peers}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    peers = ",".join(name for name in CONTESTANTS if name != "ours")
    parser.add_argument("--only", default="", help="workloads whose names begin so, separated by commas")
    parser.add_argument("--peers", default=peers, help="beside ours, separated by commas")
    parser.add_argument("--measure", default="assign,lead", help="separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=20, help="CPU seconds for one sample of a contestant")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON file of the results")
    options = parser.parse_args()
    options.only = tuple(options.only.split(","))
    options.peers = [name for name in options.peers.split(",") if name]
    options.measure = set(options.measure.split(","))
    return options


def main() -> int:
    options = _options()
    results: Results = {"groups": {}}
    if options.results.exists():
        results = json.loads(options.results.read_text(encoding="utf-8"))
    results["versions"] = results.get("versions", {}) | _versions(options.peers)
    for line in run(options, results):
        print(line, flush=True)
        results["measured"] = datetime.now(timezone.utc).date().isoformat()
        options.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
