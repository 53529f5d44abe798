"""Search for a group that our solver does not solve exactly. None is known.

    python -m tests.exact_search --groups 100000 --seed 1 --jobs 2 --json search.json

The command draws random groups from every family in turn (see `exact_families`), solves each in every order
of wishes, and compares the answers with the optimum of an independent solver (`exact_oracle`). It also checks
that the answer is valid, that assigning it again changes nothing, and that the order of members, topics and
claims does not matter. With `--capacities`, members differ in capacity and some have partitions already (see
`exact_scales`).

The command updates the JSON file during the search. A stopped search continues from its file if it starts
with the same seed; `--groups` may be greater then.

Exit code: 0 if all answers are right, 1 if one is wrong, 2 if the file belongs to another search, 130 after
Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kafka_assignors.criteria import PLAIN
from tests.exact_comparison import Comparison
from tests.exact_families import FAMILIES, draw
from tests.exact_scales import random_scale

CHUNK = 100
"""The number of groups that a process takes at a time."""

SAVE_EVERY_S = 30.0


class OtherSearchError(Exception):
    """The file belongs to another search."""


@dataclass(slots=True)
class Search:
    """The state of a search: the counts of each family, and the finished chunks."""

    seed: int
    capacities: bool = False
    by_family: dict[str, Comparison] = field(
        default_factory=lambda: {family: Comparison() for family in FAMILIES}
    )
    chunks: set[int] = field(default_factory=set)
    seconds: float = 0.0

    @classmethod
    def continued(cls, seed: int, file: Path | None, *, capacities: bool = False) -> Search:
        """The search in the file, or a new search if there is no file."""
        if file is None or not file.exists():
            return cls(seed, capacities)
        search = cls.read(file)
        if search.capacities != capacities:
            raise OtherSearchError(
                f"{file} is of a search {'with' if search.capacities else 'without'} capacities"
            )
        if search.seed != seed:
            raise OtherSearchError(f"{file} is of another search: its seed is {search.seed}")
        return search

    @classmethod
    def read(cls, file: Path) -> Search:
        """The search that `save` wrote to the file."""
        value: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if value["chunk"] != CHUNK or tuple(value["families"]) != FAMILIES:
            raise OtherSearchError(f"{file} was written by another version of the search")
        return cls(
            value["seed"],
            value.get("capacities", False),
            {family: Comparison.from_json(counts) for family, counts in value["families"].items()},
            {chunk for first, last in value["chunks_done"] for chunk in range(first, last + 1)},
            value["seconds"],
        )

    def save(self, file: Path) -> None:
        """Replace the file; a concurrent reader sees the old file or the new one."""
        value = {
            "seed": self.seed,
            "capacities": self.capacities,
            "chunk": CHUNK,
            "groups": self.total().groups,
            "failures": len(self.total().failures),
            "seconds": round(self.seconds, 1),
            "chunks_done": _ranges(sorted(self.chunks)),
            "families": {family: counts.to_json() for family, counts in self.by_family.items()},
        }
        beside = file.with_name(f"{file.name}.new")
        beside.write_text(json.dumps(value), encoding="utf-8")
        os.replace(beside, file)

    def add(self, chunk: int, counted: dict[str, Comparison]) -> None:
        self.chunks.add(chunk)
        for family, counts in counted.items():
            self.by_family[family].merge(counts)

    def total(self) -> Comparison:
        """The counts of all families together."""
        total = Comparison()
        for counts in self.by_family.values():
            total.merge(counts)
        return total


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The first and last number of each run of consecutive numbers."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def search_chunk(task: tuple[int, int, bool]) -> tuple[int, dict[str, Comparison]]:
    """Compare the groups of one chunk; the task is its number, the seed and whether there are capacities."""
    chunk, seed, capacities = task
    counted: dict[str, Comparison] = {}
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        family = FAMILIES[number % len(FAMILIES)]
        name = f"{seed}/{number}"
        group = draw(family, name)
        scale = random_scale(random.Random(f"scale/{family}/{name}"), group) if capacities else PLAIN
        counted.setdefault(family, Comparison()).add(f"{family}/{name}", group, scale)
    return chunk, counted


def run(search: Search, groups: int, jobs: int, file: Path | None, console: Console) -> None:
    """Search the chunks of the first `groups` groups that are missing; Ctrl-C leaves the file up to date."""
    chunks = -(-groups // CHUNK)
    tasks = [(chunk, search.seed, search.capacities) for chunk in range(chunks) if chunk not in search.chunks]
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failures]} wrong"),
    )
    started, before = time.monotonic(), search.seconds
    saved = started
    with Progress(*columns, console=console) as progress:
        shown = progress.add_task(
            "groups",
            total=chunks * CHUNK,
            completed=search.total().groups,
            failures=len(search.total().failures),
        )
        try:
            with contextlib.ExitStack() as stack:
                finished: Iterable[tuple[int, dict[str, Comparison]]] = map(search_chunk, tasks)
                if jobs > 1:
                    pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(jobs))
                    finished = pool.imap_unordered(search_chunk, tasks)
                for chunk, counted in finished:
                    search.add(chunk, counted)
                    search.seconds = before + time.monotonic() - started
                    total = search.total()
                    progress.update(shown, completed=total.groups, failures=len(total.failures))
                    if file is not None and time.monotonic() - saved > SAVE_EVERY_S:
                        search.save(file)
                        saved = time.monotonic()
        finally:
            if file is not None:
                search.save(file)


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Search for a group that is not solved exactly.")
    parser.add_argument("--groups", type=int, default=100_000, help=f"rounded up to {CHUNK}s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--capacities", action="store_true", help="members of different capacity")
    parser.add_argument("--json", type=Path, help="file of the counts; continued if it exists")
    options = parser.parse_args(None if arguments is None else list(arguments))
    console = Console(stderr=True)
    try:
        search = Search.continued(options.seed, options.json, capacities=options.capacities)
    except OtherSearchError as error:
        console.print(str(error), style="red", highlight=False)
        return 2
    try:
        run(search, options.groups, options.jobs, options.json, console)
    except KeyboardInterrupt:
        return 130
    total = search.total()
    print(total.table())
    for family, counts in search.by_family.items():
        print(f"  {family:12} {counts.groups} groups, {len(counts.failures)} wrong")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
