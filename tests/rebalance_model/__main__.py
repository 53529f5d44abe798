"""`python -m tests.rebalance_model --members 2 --partitions 2`: explore, print what was found."""

from __future__ import annotations

import argparse
import math
import sys

from tests.rebalance_model.explore import Exploration, Result
from tests.rebalance_model.model import Model


def report(result: Result) -> str:
    unit = "depth" if result.disturbances is None else "disturbances"
    if result.fixpoint:
        how_far = f"to the fixpoint, at {unit} {result.depth}"
    elif result.complete:
        how_far = f"all that {result.disturbances} disturbances lead to"
    else:
        how_far = f"all of {unit} {result.depth - 1}, part of {result.depth}"
    lines = [
        f"{result.states:,} states, {result.steps:,} steps, {how_far}, {result.cpu_seconds:.0f} s of CPU"
    ]
    if result.found:
        return "\n".join([*lines, str(result.found)])
    lines.append(f"{result.rest_states:,} states of rest")
    if result.rounds:
        shares = ", ".join(f"{rounds}: {count:,}" for rounds, count in sorted(result.rounds.items()))
        lines.append(f"rounds after the last change, from every state, on the longest way: {shares}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rebalance_model", description=__doc__)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--depth", type=int, help="stop at this depth instead of the fixpoint")
    parser.add_argument("--disturbances", type=int, help="all that so many of them lead to")
    parser.add_argument("--max-states", type=int)
    parser.add_argument("--cpu-seconds", type=float, default=math.inf, help="stop after this much CPU time")
    parser.add_argument("--kinds", default="", help="of the members: ours,java,eager")
    parser.add_argument("--leader", choices=["ours", "older", "eager"], default="ours")
    parser.add_argument("--late-requests", action="store_true", help="requests are late too")
    parser.add_argument("--events", default=",".join(sorted(Model().events)))
    parser.add_argument("--session", type=int, default=1, help="session timeout, in ticks")
    parser.add_argument("--max-warming", default="", help="of each member, such as 1,0")
    parser.add_argument("--rebalance", type=int, default=1, help="rebalance timeout, in ticks")
    args = parser.parse_args()
    model = Model(
        members=args.members,
        partitions=args.partitions,
        kinds=tuple(args.kinds.split(",")) if args.kinds else (),
        leading=args.leader,
        late_requests=args.late_requests,
        events=frozenset(filter(None, args.events.split(","))),
        session_timeout=args.session,
        rebalance_timeout=args.rebalance,
        max_warming=tuple(map(int, args.max_warming.split(","))) if args.max_warming else (),
    )
    result = Exploration(model).run(args.depth, args.max_states, args.cpu_seconds, args.disturbances)
    print(report(result))
    return 1 if result.found else 0


if __name__ == "__main__":
    sys.exit(main())
