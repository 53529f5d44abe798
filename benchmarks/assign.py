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
JoinGroup requests to the bytes of their assignments; `first`, either of the two as the first call of a
process; `memory`, the peak resident memory of a process that leads once; `growth`, our `assign` on series of
groups that double.

A sample of `first` is a process that has read the group file and answers one call. The contestants take
turns, one process at a time, `--processes` each, and the result is the median. No code of the call has run
before, except that for `assign` the members are decoded.

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

from benchmarks.contestants import CONTESTANTS, ROOT, Contestant, Runner, TooSlowError
from benchmarks.group_file import write_group_file
from benchmarks.workloads import GROWTH, GROWTH_TOPICS, WORKLOADS
from compat_tests.support.jvm import java_home_binary, kafka_version
from kafka_assignors.group import Group

RESULTS = ROOT / "benchmarks" / "results.json"
SAMPLE_MS = 100.0
SLOW_MS = 3_000.0

Results = dict[str, Any]


class Race:
    """The contestants on one group."""

    def __init__(self, group: Group, contestants: Iterable[Contestant], limit_s: float, folder: Path) -> None:
        self.file = folder / "group.json"
        write_group_file(group, self.file)
        size = len(group.members) * sum(topic.partitions for topic in group.topics.values())
        self.contestants = [c for c in contestants if c.largest is None or size <= c.largest]
        self.limit_s = limit_s

    def times(self, what: str, rounds: int) -> Results:
        """CPU milliseconds of one call, by contestant, for each round; None if it is too slow."""
        samples: dict[str, list[float] | None] = {}
        with contextlib.ExitStack() as stack:
            calls: dict[str, int] = {}
            runners: dict[str, Runner] = {}
            for contestant in self.contestants:
                if what not in contestant.does:
                    continue
                name = contestant.name
                runners[name] = stack.enter_context(Runner(contestant, self.file, self.limit_s))
                try:
                    took_ms = _warm_up(runners[name], what, contestant.warm_up_s)
                except TooSlowError:
                    samples[name] = None
                    continue
                calls[name] = max(1, int(SAMPLE_MS / took_ms))
                samples[name] = [took_ms] if took_ms > SLOW_MS else []
            for _ in range(rounds):
                for name, times in samples.items():
                    if times is not None and not (times and times[0] > SLOW_MS):
                        times.append(runners[name].cpu_ms(what, calls[name]))
        return {name: times and [round(ms, 4) for ms in times] for name, times in samples.items()}

    def first_times(self, what: str, processes: int) -> Results:
        """CPU milliseconds of the first call, by contestant, for each process; None if it is too slow."""
        contestants = [contestant for contestant in self.contestants if what in contestant.does]
        samples: dict[str, list[float] | None] = {contestant.name: [] for contestant in contestants}
        for _ in range(processes):
            for contestant in contestants:
                times = samples[contestant.name]
                if times is None or (times and times[0] > SLOW_MS):
                    continue
                with Runner(contestant, self.file, self.limit_s) as runner:
                    try:
                        times.append(round(runner.cpu_ms(what), 4))
                    except TooSlowError:
                        samples[contestant.name] = None
        return samples

    def memory(self) -> Results:
        """Peak resident MiB of a process that leads once, by contestant; None if it is too slow."""
        peaks: dict[str, float | None] = {}
        for contestant in self.contestants:
            if "lead" in contestant.does:
                with Runner(contestant, self.file, self.limit_s) as runner:
                    try:
                        runner.cpu_ms("lead")
                        peaks[contestant.name] = round(runner.peak_mib(), 1)
                    except TooSlowError:
                        peaks[contestant.name] = None
        return peaks


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
                race = Race(workload.group(situation), contestants, options.limit, Path(folder))
                measured = results["groups"].setdefault(f"{workload.name}, {situation}", {})
                for what in sorted(options.measure & {"assign", "lead"}):
                    measured.setdefault(what, {}).update(race.times(what, options.rounds))
                    yield _line(f"{workload.name}, {situation}", what, measured[what])
                for what in ("assign", "lead") if "first" in options.measure else ():
                    firsts = measured.setdefault(f"first {what}", {})
                    firsts.update(race.first_times(what, options.processes))
                    yield _line(f"{workload.name}, {situation}", f"first {what}", firsts)
                if "memory" in options.measure:
                    measured.setdefault("memory", {}).update(race.memory())
                    yield f"{workload.name}, {situation}: MiB {measured['memory']}"
    if "growth" in options.measure:
        for name, build in GROWTH.items():
            series = results["growth"].setdefault(name, {})
            for topics in GROWTH_TOPICS:
                with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
                    race = Race(build(topics), contestants[:1], options.limit, Path(folder))
                    partitions = str(topics * 500)
                    series[partitions] = race.times("assign", options.rounds)["ours"]
                    yield f"growth {name} {partitions}: {statistics.median(series[partitions]):.1f} ms"


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
        told = subprocess.run(
            [java_home_binary("java"), "-version"], capture_output=True, text=True, check=True
        )
        versions |= {"kafka-clients": kafka_version(), "java": told.stderr.splitlines()[0]}
    if "franz-go" in peers:
        versions["go"] = _told("go", "version").split()[2].removeprefix("go")
        module = (ROOT / "benchmarks" / "franzgo" / "go.mod").read_text(encoding="utf-8")
        versions["franz-go"] = module.partition("twmb/franz-go ")[2].split()[0]
    return versions | {peer: version(peer) for peer in ("kafka-python", "aiokafka") if peer in peers}


def _told(*command: str) -> str:
    """The first line that a command prints, on standard output or standard error."""
    told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    return told.stdout.splitlines()[0]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    peers = ",".join(name for name in CONTESTANTS if name != "ours")
    parser.add_argument("--only", default="", help="workloads whose names begin so, separated by commas")
    parser.add_argument("--peers", default=peers, help="beside ours, separated by commas")
    parser.add_argument("--measure", default="assign,lead,first,memory,growth", help="separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=7, help="of each contestant for a first call")
    parser.add_argument("--limit", type=float, default=20, help="CPU seconds for one sample of a contestant")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON file of the results")
    options = parser.parse_args()
    options.only = tuple(options.only.split(","))
    options.peers = [name for name in options.peers.split(",") if name]
    options.measure = set(options.measure.split(","))
    return options


def main() -> int:
    options = _options()
    results: Results = {"groups": {}, "growth": {}}
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
