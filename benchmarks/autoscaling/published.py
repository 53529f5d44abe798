"""The authors' own figures: consumers and R-score, and the latency by their formula on their stream.

    python -m benchmarks.autoscaling.published                   # two minutes of CPU
    python -m benchmarks.autoscaling.published measurements_5

The first command prints consumers and R-score of the heuristics on 500 measurements of 200 partitions, for
comparison with the results in github.com/landaudiogo/thesis_data (`Reassign Algorithm/uniform_start.csv`).

The second command needs the authors' stream, which is in
github.com/landaudiogo/kafka-consumer-group-autoscaler (January 2025,
`src/controller/test/monitor_sequence/measurements_5`: 32 partitions, 100 measurements) next to their program.
The formula of latency is that of the program. For each consumer and interval of 30 s:

- partitions that stay are one queue. The first record is as late as the last one that the consumer processed;
  each further record is later by 1/c - 1/w seconds, or earlier, but never below 0. w records are written and
  c consumed in a second. c is the capacity of the consumer; if partitions come, c is at most w;
- partitions that come are another queue, which begins 5 s late and gets the rest of the capacity.

`queues` computes something else. The authors' formula forgets the backlog at the end of an interval, except
for the lateness of the last record, and lets partitions of a consumer wait for each other. Therefore there
are tables with both.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.autoscaling.contestants import OURS
from benchmarks.autoscaling.heuristics import HEURISTICS, UNASSIGNED
from benchmarks.autoscaling.ours import as_published, fixed, scaled
from benchmarks.autoscaling.queues import Lateness
from benchmarks.autoscaling.simulation import PAPER_PAUSE_S, Decision, Step, moved_partitions, r_score
from benchmarks.autoscaling.traces import CONSUMER_CAPACITY, INTERVAL_S, Trace, random_walk, read_stream
from kafka_assignors.strategies import RoundRobin

__all__ = ["published_lateness"]


def published_lateness(trace: Trace, step: Step) -> tuple[float, float, Lateness]:
    """Mean number of consumers, mean R-score, and the lateness by the authors' formula."""
    now = Decision([UNASSIGNED] * len(trace.speeds[0]), frozenset())
    lateness = Lateness()
    last_s: dict[int, float] = {}
    consumers, score = 0, 0.0
    for number, speeds in enumerate(trace.speeds):
        after = step(speeds, now)
        moved = set(moved_partitions(now.owners, after.owners))
        for consumer in sorted(after.consumers):
            staying = coming = 0
            for partition, owner in enumerate(after.owners):
                if owner == consumer:
                    if partition in moved or not number:
                        coming += speeds[partition]
                    else:
                        staying += speeds[partition]
            consumed = min(CONSUMER_CAPACITY, staying) if coming else CONSUMER_CAPACITY
            if staying:
                begin_s = last_s.get(consumer, 0.0)
                last_s[consumer] = _add(lateness, staying, consumed, begin_s)
            if coming and number:
                last_s[consumer] = _add(lateness, coming, CONSUMER_CAPACITY - consumed, PAPER_PAUSE_S)
        consumers += len(after.consumers)
        score += r_score(speeds, sorted(moved))
        now = after
    return consumers / len(trace.speeds), score / len(trace.speeds), lateness


def _add(lateness: Lateness, written: int, consumed: int, begin_s: float) -> float:
    """Add a queue of one interval, and return the lateness of its last record; `begin_s`: of its first."""
    records = written * INTERVAL_S
    if not consumed:  # The consumer has no capacity left; the authors' program would divide by zero.
        lateness.add(begin_s, begin_s + INTERVAL_S, records)
        return begin_s + INTERVAL_S
    end_s = begin_s + records * (1 / consumed - 1 / written)
    if end_s >= 0:
        lateness.add(begin_s, end_s, records)
        return end_s
    late = records * begin_s / (begin_s - end_s)
    if late:
        lateness.add(0.0, begin_s, late)
    lateness.prompt += records - late
    return 0.0


def main(arguments: Sequence[str]) -> int:
    if arguments:
        _latencies(read_stream(Path(arguments[0])))
    else:
        _scores()
    return 0


def _scores() -> None:
    print("| delta | heuristic | R-score | consumers | of BFD's |\n|--:|---|--:|--:|--:|")
    for delta in (5, 15):
        trace = random_walk("", partitions=200, measurements=500, delta=delta, start=None, seed=delta)
        of_bfd = 0.0
        for name in ("BFD", "NF", "MWF", "MBF", "MWFP", "MBFP"):
            step = as_published(HEURISTICS[name])
            now = Decision([UNASSIGNED] * 200, frozenset())
            score, consumers = 0.0, 0
            for speeds in trace.speeds:
                after = step(speeds, now)
                score += r_score(speeds, moved_partitions(now.owners, after.owners)) / len(trace.speeds)
                consumers += len(after.consumers)
                now = after
            mean = consumers / len(trace.speeds)
            of_bfd = of_bfd or mean
            print(f"| {delta} | {name} | {score:.2f} | {mean:.2f} | {mean / of_bfd:.3f} |", flush=True)


def _latencies(trace: Trace) -> None:
    contestants: dict[str, Step] = {
        name: as_published(HEURISTICS[name]) for name in ("BFD", "MWF", "MBF", "MWFP", "MBFP")
    }
    for count in range(13, 33):
        contestants[f"round robin over {count}"] = scaled(fixed(count), RoundRobin())
    contestants |= {f"**{name}**": step_of() for name, step_of in OURS.items()}
    print("| contestant | consumers | p90, s | p99, s | R-score |\n|---|--:|--:|--:|--:|")
    for name, step in contestants.items():
        consumers, score, lateness = published_lateness(trace, step)
        late = " | ".join(f"{lateness.percentile_s(percent):.2f}" for percent in (90, 99))
        print(f"| {name} | {consumers:.1f} | {late} | {score:.2f} |")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
