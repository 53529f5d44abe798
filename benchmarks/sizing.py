"""`kafka-assignors size`: how often it is exact, its distance from the bound at scale, and its CPU time.

    python -m benchmarks.sizing            # some minutes of CPU
    python -m benchmarks.sizing --small    # a few seconds: does it run?

Each row is one distribution of costs. The capacity leaves a random share of one member free, on average half
of one member, of 12 or of 1,000, so that the packing is tight. `first fit` is first fit decreasing, the usual
rule of autoscalers that consider partitions.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence

from kafka_assignors.sizing.packing import pack

SHAPES: dict[str, Callable[[random.Random], int]] = {
    "Pareto, shape 2": lambda rng: int(1000 * min(15.0, rng.paretovariate(2))),
    "Pareto, shape 1.2": lambda rng: int(1000 * min(15.0, rng.paretovariate(1.2))),
    "uniform 1 to 1,000": lambda rng: rng.randint(1, 1000),
    "uniform 200 to 500": lambda rng: rng.randint(200, 500),
    "one of four costs": lambda rng: rng.choice([100, 130, 210, 370]),
    "uniform 1 to 10^18": lambda rng: rng.randint(1, 10**18),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="few groups, and small ones")
    small = parser.parse_args().small
    rows = [(12, 200, 5), (12, 36, 5)] if small else [(12, 200, 200), (12, 36, 200), (1000, 10_000, 3)]
    print(
        "| costs | members x partitions | groups | exact | largest gap | "
        "first fit: exact, largest gap | CPU s: median, most |"
    )
    print("|---|---|---|---|---|---|---|")
    for members, partitions, groups in rows:
        for shape in SHAPES:
            print(
                f"| {shape} | {members:,} x {partitions:,} | {row(shape, members, partitions, groups)} |",
                flush=True,
            )


def row(shape: str, members: int, partitions: int, groups: int) -> str:
    rng = random.Random(f"{shape} {members} {partitions}")
    gaps, usual, took = [], [], []
    for _ in range(groups):
        costs = [SHAPES[shape](rng) for _ in range(partitions)]
        limit = max(*costs, int(sum(costs) / (members - rng.random())))
        began = time.thread_time()
        packing = pack(costs, limit)
        took.append(time.thread_time() - began)
        gaps.append(len(packing.bins) - packing.least)
        usual.append(first_fit_decreasing(costs, limit) - packing.least)
    took.sort()
    return (
        f"{groups} | {gaps.count(0)} | {max(gaps)} | {usual.count(0)}, {max(usual)} | "
        f"{took[len(took) // 2]:.2f}, {took[-1]:.2f}"
    )


def first_fit_decreasing(costs: Sequence[int], limit: int) -> int:
    """The members that first fit decreasing needs: the greatest cost first, to the first with room.

    The rooms are the leaves of a tree in which each node has the greatest room below it.
    """
    width = 1 << (len(costs) - 1).bit_length()
    rooms = [limit] * (2 * width)
    used = 0
    for cost in sorted(costs, reverse=True):
        node = 1
        while node < width:
            node = 2 * node if rooms[2 * node] >= cost else 2 * node + 1
        used = max(used, node - width + 1)
        rooms[node] -= cost
        while node > 1:
            node //= 2
            rooms[node] = max(rooms[2 * node], rooms[2 * node + 1])
    return used


if __name__ == "__main__":
    main()
