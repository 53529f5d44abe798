"""The results of `benchmarks.assign` as tables and a picture; docs/evidence.md has some of the rows.

    python -m benchmarks.report

Prints the tables, and writes docs/speed.svg. Needs matplotlib (dependency group `picture`).
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.assign import RESULTS
from benchmarks.contestants import CONTESTANTS, ROOT

PICTURE = ROOT / "docs" / "speed.svg"
MIXED = ("kafka bucket", "bucket", "half", "random", "narrow", "different", "nested", "chain", "ladder")
SMALL = 100
"""Groups of up to this number of partitions have their own tables of times."""
ADVERSARIAL = ("different", "nested", "chain", "ladder", "scattered")

Results = Mapping[str, Any]


def median_ms(results: Results, group: str, what: str, name: str) -> float | None:
    """The median time; None if it was not measured or was too slow."""
    samples = results["groups"][group].get(what, {}).get(name)
    return statistics.median(samples) if samples else None


def ratio(results: Results, group: str, what: str, peer: str) -> float | None:
    """Our time over the peer's."""
    ours, theirs = (median_ms(results, group, what, name) for name in ("ours", peer))
    return ours / theirs if ours and theirs else None


def partitions_in(group: str) -> int:
    """The number of partitions in the name of a group."""
    found = re.search(r" x (\d+)([kM]?)\b", group)
    assert found
    return int(found[1]) * {"": 1, "k": 1000, "M": 1_000_000}[found[2]]


def times_table(
    results: Results, what: str, names: Iterable[str], *, small: bool | None = None
) -> Iterator[str]:
    """Milliseconds of every contestant, and in brackets our time over theirs.

    `small` selects only small groups or only the others; None selects all. No lines if none was measured.
    """
    measured = {
        g: of[what]
        for g, of in results["groups"].items()
        if what in of and small in (None, partitions_in(g) <= SMALL)
    }
    if not measured:
        return
    names = [name for name in names if any(name in times for times in measured.values())]
    yield f"| members x partitions | ours, ms | {' | '.join(names)} |"
    yield f"|---|---:|{'---:|' * len(names)}"
    for group, times in measured.items():
        cells = [_time(results, group, what, name, times) for name in names]
        yield f"| {group} | {_ms(median_ms(results, group, what, 'ours'))} | {' | '.join(cells)} |"


def _time(results: Results, group: str, what: str, name: str, times: Mapping[str, Any]) -> str:
    if name not in times:
        return ""
    if times[name] is None:
        return "too slow"
    return f"{_ms(median_ms(results, group, what, name))} ({_number(ratio(results, group, what, name))})"


def _ms(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "too slow"
    if milliseconds < 0.1:
        return f"{milliseconds:.3f}"
    return f"{milliseconds:.2f}" if milliseconds < 10 else f"{milliseconds:,.0f}"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if value < 0.01 else f"{value:.2f}"


def memory_table(results: Results) -> Iterator[str]:
    """MiB of every contestant that leads, if measured."""
    measured = [of["memory"] for of in results["groups"].values() if "memory" in of]
    if not measured:
        return
    names = [name for name in CONTESTANTS if any(name in of for of in measured)]
    yield f"| members x partitions | {' | '.join(f'{name}, MiB' for name in names)} |"
    yield f"|---|{'---:|' * len(names)}"
    for group, of in results["groups"].items():
        if "memory" in of:
            cells = [f"{of['memory'][n]:,.0f}" if of["memory"].get(n) else "–" for n in names]
            yield f"| {group} | {' | '.join(cells)} |"


def growth_table(results: Results) -> Iterator[str]:
    """Milliseconds by number of partitions, and the fitted exponent."""
    series = {name: of for name, of in results["growth"].items() if of}
    if not series:
        return
    sizes = sorted({int(size) for of in series.values() for size in of})
    yield f"| series, a member joins | {' | '.join(f'{size:,}' for size in sizes)} | exponent |"
    yield f"|---|{'---:|' * (len(sizes) + 1)}"
    for name, of in series.items():
        cells = [_ms(statistics.median(of[str(size)])) if str(size) in of else "" for size in sizes]
        yield f"| {name} | {' | '.join(cells)} | {exponent(of):.2f} |"


def exponent(times: Mapping[str, list[float]]) -> float:
    """The slope of log(time) over log(size), by least squares."""
    points = [(math.log(int(size)), math.log(statistics.median(ms))) for size, ms in times.items()]
    mean_x, mean_y = (statistics.fmean(values) for values in zip(*points, strict=True))
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return rise / sum((x - mean_x) ** 2 for x, _ in points)


def targets_table(results: Results) -> Iterator[str]:
    """The worst group of each target, and how many groups meet the target."""
    groups = list(results["groups"])

    def sized(low: float, high: float) -> list[str]:
        return [g for g in groups if low <= partitions_in(g) <= high]

    mixed = [g for g in sized(10_000, math.inf) if g.startswith(MIXED)]
    adversarial = [g for g in groups if g.startswith(ADVERSARIAL)]
    small = [g for g in groups if " 100 x 10k" in g]
    java = "java cooperative-sticky"
    yield "| at most | times the assign call of | on groups | met in | worst |"
    yield "|---:|---|---|---:|---|"
    for most, what, peer, on, among in (
        (1.0, "assign", "franz-go", "of 1M partitions", sized(1_000_000, math.inf)),
        (1.5, "assign", "franz-go", "of 45,000 to 200,000", sized(45_000, 200_000)),
        (2.5, "assign", "franz-go", "of 10,000 to 20,000", sized(10_000, 20_000)),
        (1.0, "assign", "franz-go", "of 10,000 and more (the goal)", sized(10_000, math.inf)),
        (3.0, "assign", "franz-go", "adversarial", adversarial),
        (1.0, "assign", java, "of 10,000 and more", sized(10_000, math.inf)),
        (0.1, "assign", java, "mixed, of 10,000 and more", mixed),
        (1 / 150, "assign", "kafka-python", "of 100 x 10k", small),
        (1 / 150, "assign", "aiokafka", "of 100 x 10k", small),
        (1.0, "lead", java, "of 100,000 and more, bytes in to bytes out", sized(100_000, math.inf)),
        (1.0, "lead", "franz-go", "of 100,000 and more, bytes in to bytes out", sized(100_000, math.inf)),
    ):
        found = {g: r for g in among if (r := ratio(results, g, what, peer)) is not None}
        # A peer that was stopped counts as beaten; it has no ratio.
        stopped = sum(
            results["groups"][g].get(what, {}).get(peer, 0) is None
            and median_ms(results, g, what, "ours") is not None
            for g in among
        )
        if found or stopped:
            met = sum(r <= most for r in found.values()) + stopped
            worst = max(found, key=found.__getitem__, default="")
            value = f"{_number(found[worst])} ({worst})" if worst else "all stopped"
            limit = "1/150" if most < 0.01 else f"{most:g}"
            yield f"| {limit} | {peer} | {on} | {met} of {len(found) + stopped} | {value} |"


def conditions(results: Results) -> Iterator[str]:
    """The date of the measurement, and the versions."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(results["versions"].items()))
    yield f"Measured until {results['measured']}: {versions}."


def draw(results: Results) -> None:
    """Our time over that of two peers, one row for each group."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    groups = [g for g in results["groups"] if "assign" in results["groups"][g] and partitions_in(g) >= 10_000]
    style = {"franz-go": ("o", "#2563a8"), "java cooperative-sticky": ("D", "#c2410c")}
    with mpl.rc_context({"svg.hashsalt": "speed", "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(9, 0.19 * len(groups) + 1.2), layout="constrained")
        panel = figure.subplots()
        panel.set_facecolor("white")
        panel.axvline(1, color="#777777", linewidth=1)
        for peer, (marker, color) in style.items():
            points = [(r, row) for row, g in enumerate(groups) if (r := ratio(results, g, "assign", peer))]
            xs, ys = [x for x, _ in points], [y for _, y in points]
            panel.scatter(xs, ys, s=16, color=color, marker=marker, label=peer)
        panel.set_xscale("log")
        panel.set_yticks(range(len(groups)), groups)
        panel.set_ylim(len(groups) - 0.5, -0.5)
        panel.grid(axis="y", linewidth=0.3)
        panel.set_xlabel("our CPU time over theirs, one assign call: left of the line we are faster")
        panel.legend(loc="lower left")
        figure.savefig(PICTURE, metadata={"Date": None, "Creator": None})


def main() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    peers = [name for name in CONTESTANTS if name != "ours"]
    parts: dict[str, Iterable[str]] = {
        "conditions": conditions(results),
        "targets": targets_table(results),
        "small assign": times_table(results, "assign", peers, small=True),
        "small lead": times_table(results, "lead", peers, small=True),
        "first assign": times_table(results, "first assign", peers),
        "first lead": times_table(results, "first lead", peers),
        "assign": times_table(results, "assign", peers, small=False),
        "lead": times_table(results, "lead", peers, small=False),
        "memory": memory_table(results),
        "growth": growth_table(results),
    }
    for name, lines in parts.items():
        print(f"## {name}\n\n" + "\n".join(lines) + "\n")
    draw(results)


if __name__ == "__main__":
    main()
