# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""Wrong uses of the library, for the type checkers. Nothing here runs.

Each comment names the error that mypy has to find on its line; pyright has to find an error, too. If a change
of the public API makes a line valid, the linters fail, because its comment is no longer needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import kafka_assignors_aiokafka
import kafka_assignors_kafka_python
from kafka_assignors import Assignment, Group, Member, Topic
from kafka_assignors.leader import lead
from kafka_assignors.strategies import MemberContext, RebalanceProtocol, Sticky, Strategy
from kafka_assignors_strategies import Weighted

EAGER = (RebalanceProtocol.EAGER,)


@dataclass(frozen=True)
class Duck:
    protocols: tuple[RebalanceProtocol, ...] = EAGER

    def assign(self, group: Group) -> Assignment:
        return Assignment({})


class WithWrongTypes(Strategy):
    name = "wrong"
    protocols: tuple[str, ...] = ("eager",)  # type: ignore[assignment]

    def assign(self, group: Group) -> dict[str, dict[str, list[int]]]:  # type: ignore[override]
        return {}

    def member_data(self, member: MemberContext) -> str:  # type: ignore[override]
        return ""


# ---- strategies

duck: Strategy = Duck()  # type: ignore[assignment]
not_an_instance: Strategy = Sticky  # type: ignore[assignment]
told_nothing: bytes = Sticky().member_data()  # type: ignore[call-arg]

# ---- values

Topic("orders", 1, [["a"]])  # type: ignore[arg-type]
Member("m1", "orders")  # type: ignore[arg-type]
Member("m1", frozenset({"orders"}), owned={"orders": 3})  # type: ignore[dict-item]
Assignment({"m1": [("orders", 0)]})  # type: ignore[dict-item]
group = Group.of([Topic("orders", 1)], [Member("m1", frozenset({"orders"}))])
group.members["m2"] = Member("m2", frozenset())  # type: ignore[index]

# ---- leading

lead(Sticky, group, RebalanceProtocol.EAGER)  # type: ignore[arg-type]
lead(Sticky(), group, "eager")  # type: ignore[arg-type]

# ---- in the clients

kafka_assignors_aiokafka.assignor(Sticky)  # type: ignore[arg-type]
kafka_assignors_aiokafka.assignor(Duck())  # type: ignore[arg-type]
kafka_assignors_aiokafka.assignor(Sticky(), "eu-1a")  # type: ignore[call-arg]
kafka_assignors_aiokafka.assignor(Weighted(), weights="lag")  # type: ignore[arg-type]
kafka_assignors_aiokafka.StickyAssignor(client_rack="eu-1a")  # type: ignore[call-arg]
kafka_assignors_kafka_python.assignor("sticky")  # type: ignore[arg-type]
kafka_assignors_kafka_python.StickyAssignor(client_rack="eu-1a")  # type: ignore[call-arg]

# ---- cooperative consumers

OfAiokafka = kafka_assignors_aiokafka.CooperativeAIOKafkaConsumer
OfAiokafka("orders", group_id="g", auto_ofset_reset="earliest")  # type: ignore[call-arg]
OfAiokafka("orders", group_id="g", session_timeout_ms="6000")  # type: ignore[arg-type]
OfAiokafka("orders", group_id=None)  # type: ignore[arg-type]
OfAiokafka("orders", group_id="g", observer=print)  # type: ignore[arg-type]
OfAiokafka(["orders"], group_id="g")  # type: ignore[arg-type]
OfKafkaPython = kafka_assignors_kafka_python.CooperativeKafkaConsumer
OfKafkaPython("orders", group_id="g", auto_ofset_reset="earliest")  # type: ignore[call-arg]
OfKafkaPython("orders", group_id="g", auto_offset_reset="earlist")  # type: ignore[arg-type]
OfKafkaPython("orders", group_id="g", rebalance_timeout_ms=60_000)  # type: ignore[call-arg]
OfKafkaPython("orders")  # type: ignore[call-arg]
OfKafkaPython("orders", group_id="g", observer=Duck())  # type: ignore[arg-type]
OfKafkaPython(["orders"], group_id="g")  # type: ignore[arg-type]
OfKafkaPython(group_id="g").subscribe(topic=["orders"])  # type: ignore[call-arg]


# Only pyright finds these errors: mypy does not know the types of the clients.
async def reads_records(one: OfAiokafka, other: OfKafkaPython) -> None:
    text: str
    for records in (await one.getmany()).values():
        text = records[0].offset  # pyright: ignore[reportAssignmentType]
    text = (await one.getone()).offset  # pyright: ignore[reportAssignmentType]
    async for record in one:
        text = record.offset  # pyright: ignore[reportAssignmentType]
    for records in other.poll().values():
        text = records[0].offset  # pyright: ignore[reportAssignmentType]
    for record in other:
        text = record.offset  # pyright: ignore[reportAssignmentType]
    print(text)
