"""How long one assignment takes: our `cooperative-sticky` beside kafka-python's own sticky assignor.

    python -m benchmarks.assign                        # everything, some minutes
    python -m benchmarks.assign --only "uniform 100"   # the workloads whose name begins so

Times are CPU milliseconds of the assign call alone, inputs already built: the median of `--repeat` samples
after a call that is not counted, a sample being as many calls as fit into half a second, at least one. Each
assignor runs each workload in a process of its own, and one that needs more than `--limit` CPU seconds for
all of that is stopped and shown as such. The ratio is kafka-python's time over ours, of the same run.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import platform
import resource
import signal
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

from benchmarks.workloads import WORKLOADS, joined
from kafka_assignors.group import Group
from kafka_assignors.strategies.cooperative_sticky import CooperativeSticky

SAMPLE_SECONDS = 0.5
"""Shorter calls are repeated within a sample: clocks of CPU time are coarse on some machines."""


def ours(group: Group) -> Callable[[], object]:
    """A call of our assignor."""
    return lambda: CooperativeSticky().assign(group)


def kafka_python(group: Group) -> Callable[[], object]:
    """A call of kafka-python's sticky assignor, with its own types as input."""
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.structs import TopicPartition

    partitions = {name: set(range(topic.partitions)) for name, topic in group.topics.items()}
    cluster: Any = SimpleNamespace(topics=partitions.keys, partitions_for_topic=partitions.get)
    members: list[Any] = [
        SimpleNamespace(
            member_id=member.id,
            metadata=StickyPartitionAssignor._metadata(
                sorted(member.topics),
                [TopicPartition(topic, p) for topic, owned in member.owned.items() for p in owned] or None,
                member.generation,
            ),
        )
        for member in group.members.values()
    ]
    return lambda: StickyPartitionAssignor().assign(cluster, members)


def measure(assignor: str, workload: str, join: bool, repeat: int) -> float:
    """The median CPU time in milliseconds."""
    group = next(w.fresh() for w in WORKLOADS if w.name == workload)
    if join:
        group = joined(group)
    call = {"ours": ours, "kafka-python": kafka_python}[assignor](group)
    start = time.perf_counter()
    call()
    loops = max(1, int(SAMPLE_SECONDS / (time.perf_counter() - start)))
    times: list[float] = []
    for _ in range(repeat):
        gc.collect()
        start_ns = time.process_time_ns()
        for _ in range(loops):
            call()
        times.append((time.process_time_ns() - start_ns) / loops / 1e6)
    return statistics.median(times)


def _report(pipe: Connection, cpu_seconds: int, *arguments: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    pipe.send(measure(*arguments))


def in_a_process(cpu_seconds: int, *arguments: Any) -> float | None:
    """`measure` in a process of its own; None if that runs out of CPU time."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_report, args=(sender, cpu_seconds, *arguments))
    process.start()
    sender.close()
    try:
        return float(receiver.recv())
    except EOFError:
        process.join()
        if process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL):
            return None
        raise RuntimeError(f"{arguments} failed: see above") from None
    finally:
        process.kill()
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="workloads whose name begins so")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--limit", type=int, default=60, help="CPU seconds for one assignor on one workload")
    parser.add_argument("--alone", action="store_true", help="measure ours only")
    options = parser.parse_args()

    print(f"Python {platform.python_version()}, {platform.machine()}; CPU ms, median of {options.repeat}")
    peer = "" if options.alone else f"{'kafka-python':>14}{'ratio':>8}"
    print(f"{'members x partitions':34}{'':8}{'ours':>10}{peer}")
    for workload in WORKLOADS:
        if not workload.name.startswith(options.only):
            continue
        for join in (False, True):
            arguments = (workload.name, join, options.repeat)
            mine = in_a_process(options.limit * 10, "ours", *arguments)
            other = None if options.alone else in_a_process(options.limit, "kafka-python", *arguments)
            cells = f"{workload.name:34}{'join' if join else 'fresh':8}{_ms(mine):>10}"
            if not options.alone:
                ratio = f"{other / mine:.0f}" if mine and other else ""
                cells += f"{_ms(other) if other else f'> {options.limit} s':>14}{ratio:>8}"
            print(cells, flush=True)


def _ms(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "too slow"
    return f"{milliseconds:.2f}" if milliseconds < 10 else f"{milliseconds:.0f}"


if __name__ == "__main__":
    sys.exit(main())
