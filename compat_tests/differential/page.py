"""The page of the docs with all allowed differences.

`python -m compat_tests.differential.page` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from compat_tests.differential import differences_aiokafka, differences_kafka_python
from compat_tests.differential.comparison import Difference

__all__ = ["CLIENTS", "DOCS", "page"]

DOCS = Path(__file__).parents[2] / "docs"

CLIENTS = {
    "aiokafka": ("AIOKafkaConsumer", "CooperativeAIOKafkaConsumer", differences_aiokafka.TABLE),
    "kafka-python": ("KafkaConsumer", "CooperativeKafkaConsumer", differences_kafka_python.TABLE),
}

_HEAD = """# Differences from the stock consumers

`compat_tests/differential` calls every public method of both consumers, with good and bad arguments, in
every state that a consumer can be in, on a real broker. It compares the cooperative consumer with the stock
one call by call: what is returned or raised, what the listener is told, assignment, subscription, paused
partitions and positions afterwards, whether records come when the state has ended, how closing ends, which
tasks, threads and sockets it leaves, and what the group has committed. This page lists every difference
that it allows; any other one fails the tests, and so does a row that does not occur. `*` stands for
anything.

It is written by `python -m compat_tests.differential.page`. `pytest -s compat_tests/differential` prints
how many calls were compared in how many states, and how many of them differ.
"""


def page() -> str:
    sections = [_HEAD]
    for client, (stock, ours, table) in CLIENTS.items():
        sections.append(f"## {client}\n\n{_rows(client, stock, ours, table)}")
    return "\n".join(sections)


def _rows(client: str, stock: str, ours: str, table: Sequence[Difference]) -> str:
    lines = [f"| state | call | what | `{stock}` | `{ours}` | why |", "|---|---|---|---|---|---|"]
    for row in table:
        why = f"{row.reason} [Docs]({client}.md#{row.anchor})"
        states = "every state" if row.states == ("*",) else ", ".join(row.states)
        cells = (states, _code(row.calls), ", ".join(row.what), _code([row.stock]), _code([row.ours]), why)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _code(texts: Sequence[str]) -> str:
    return ", ".join("any" if text == "*" else f"`{text}`" for text in texts)


if __name__ == "__main__":
    (DOCS / "differences.md").write_text(page(), encoding="utf-8")
