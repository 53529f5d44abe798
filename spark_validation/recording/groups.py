"""The recording as data: the topics, the groups that read them, and the acts of each group.

The seed determines the times (see `play`); this module alone determines the acts of each group.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["GROUPS", "GROWTHS", "TOPICS", "Act", "Group", "Growth", "Role", "replicas"]


@dataclass(frozen=True, slots=True)
class Role:
    """Members of one kind in a group.

    Attributes:
        client: java, confluent, or aiokafka or kafka-python followed by -stock or -ours (our assignors).
            It is the first part of their client id.
        count: the number of these members at the start.
        strategies: the assignors that they offer, the preferred one first; none under KIP-848.
        racks: assigned to the members in turn; empty for none.
        static: each member has an instance id, which its replacement takes over.
        other_topics: the subscription after Act.SWITCH; the next Act.SWITCH restores `topics`.
        upgrades: `strategies` after the first Act.UPGRADE, the second …
    """

    client: str
    count: int
    topics: tuple[str, ...]
    strategies: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    static: bool = False
    other_topics: tuple[str, ...] = ()
    upgrades: tuple[tuple[str, ...], ...] = ()


class Act(str, enum.Enum):
    """An action on a group."""

    JOIN = "join"
    """One more member joins, of a random role."""
    LEAVE = "leave"
    """A random member leaves properly."""
    KILL = "kill"
    """SIGKILL to a random member; its replacement starts after the session timeout."""
    FREEZE = "freeze"
    """SIGSTOP to a random member for longer than the session timeout, so that the group removes it."""
    STALL = "stall"
    """A random member stops polling for longer than its poll interval, while its heartbeats continue."""
    ROLL = "roll"
    """A rolling restart: each member in turn leaves and comes back as a new process."""
    BOUNCE = "bounce"
    """All members restart at once."""
    DRAIN = "drain"
    """All members leave, and come back after a pause."""
    SWITCH = "switch"
    """Every member whose role has other topics changes its subscription, without a restart."""
    UPGRADE = "upgrade"
    """A rolling restart with the next of each role's `upgrades`."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group: its members, and the acts that it repeats until the recording ends."""

    name: str
    shape: str
    roles: tuple[Role, ...]
    acts: tuple[Act, ...]


@dataclass(frozen=True, slots=True)
class Growth:
    """Partitions are added to a topic after this fraction of the recording."""

    at: float
    topic: str
    partitions: int


TOPICS: dict[str, tuple[int, int]] = {
    "orders": (12, 2),
    "payments": (6, 3),
    "refunds": (7, 2),
    "returns": (5, 1),
    "clicks": (24, 1),
    "stock": (8, 2),
    "carts": (10, 1),
    "mails": (4, 2),
    "audit": (3, 3),
    "telemetry": (48, 1),
}
"""The number of partitions and replicas of each topic at the start."""

GROWTHS = (
    Growth(0.30, "orders", 15),
    Growth(0.45, "clicks", 30),
    Growth(0.55, "mails", 7),
    Growth(0.65, "stock", 12),
    Growth(0.75, "payments", 8),
    Growth(0.85, "telemetry", 60),
)


def replicas(partition: int, count: int) -> list[int]:
    """The brokers of a partition: as many of 1, 2, 3 as it has replicas, starting with each in turn."""
    return [(partition + i) % 3 + 1 for i in range(count)]


_J, _L, _K, _R = Act.JOIN, Act.LEAVE, Act.KILL, Act.ROLL

GROUPS = (
    Group(
        "billing",
        "range, uniform, Java and librdkafka in three racks",
        (
            Role("java", 2, ("orders", "payments"), ("range",), racks=("a", "b")),
            Role("confluent", 1, ("orders", "payments"), ("range",), racks=("c",)),
        ),
        (_J, _L, Act.FREEZE, _J, _R, _L, _K),
    ),
    Group(
        "ledger",
        # Subscriptions are uniform: kafka-python 3.0's leader raises KeyError when it has to skip a member.
        "roundrobin, uniform, Java and kafka-python",
        (
            Role("java", 1, ("payments", "refunds"), ("roundrobin",)),
            Role("kafka-python-stock", 2, ("payments", "refunds"), ("roundrobin",)),
        ),
        (_J, _L, Act.BOUNCE, _J, _K, _L, _R),
    ),
    Group(
        "shipping",
        "range, uniform, aiokafka alone",
        (Role("aiokafka-stock", 3, ("orders", "returns"), ("range",)),),
        (_J, _R, _L, Act.STALL, _J, _J, _K, _L, _L),
    ),
    Group(
        "catalog",
        "roundrobin, mixed subscriptions, aiokafka with its own assignor and with ours",
        (
            Role("aiokafka-stock", 2, ("stock", "clicks"), ("roundrobin",)),
            Role("aiokafka-ours", 2, ("clicks",), ("roundrobin",), other_topics=("clicks", "carts")),
        ),
        (Act.SWITCH, _J, Act.BOUNCE, _L, _R, Act.SWITCH, _K, _J, _L),
    ),
    Group(
        "search",
        "range, uniform, kafka-python with our assignor and Java, in three racks",
        (
            Role("kafka-python-ours", 2, ("clicks", "stock"), ("range",), racks=("b", "c")),
            Role("java", 1, ("clicks", "stock"), ("range",), racks=("a",)),
        ),
        (_J, _L, _R, _J, Act.STALL, _L, Act.BOUNCE),
    ),
    Group(
        "pricing",
        "roundrobin, mixed subscriptions, our assignor in both clients",
        # kafka-python's leader does not wait for the metadata of topics that it does not read itself. Here it
        # reads all topics, so that each of its assignments covers the whole group.
        (
            Role("kafka-python-ours", 2, ("stock", "carts", "mails"), ("roundrobin",)),
            Role("aiokafka-ours", 2, ("stock",), ("roundrobin",), other_topics=("stock", "mails")),
        ),
        (_J, Act.SWITCH, _L, _K, _J, _R, Act.SWITCH, _L, Act.BOUNCE),
    ),
    Group(
        "fraud",
        "sticky, mixed subscriptions, Java and aiokafka with our assignor",
        (
            Role("java", 2, ("orders", "payments", "refunds"), ("sticky",)),
            Role("aiokafka-ours", 1, ("orders", "payments"), ("sticky",)),
        ),
        (_J, _L, _R, _K, _J, Act.STALL, _L, Act.BOUNCE),
    ),
    Group(
        "inventory",
        "sticky, uniform, aiokafka alone",
        (Role("aiokafka-stock", 3, ("stock", "returns"), ("sticky",)),),
        (_J, _L, _R, _J, _K, _L),
    ),
    Group(
        "mailer",
        "sticky, uniform, kafka-python with its own assignor",
        (Role("kafka-python-stock", 3, ("mails", "audit"), ("sticky",)),),
        (_J, _R, _L, _J, Act.STALL, _L, _K),
    ),
    Group(
        "reports",
        "sticky, half of the members read one topic more, our assignor in both clients",
        (
            Role("aiokafka-ours", 2, ("orders", "refunds"), ("sticky",)),
            Role("kafka-python-ours", 2, ("orders", "refunds", "clicks"), ("sticky",)),
        ),
        (_J, _L, _R, _J, _K, _L),
    ),
    Group(
        "checkout",
        "cooperative-sticky, uniform, librdkafka alone",
        (Role("confluent", 3, ("carts", "orders"), ("cooperative-sticky",)),),
        (_J, _L, _K, _J, _J, _L, Act.STALL, _L, _R),
    ),
    Group(
        "payouts",
        "cooperative-sticky, uniform, static Java members in three racks",
        (
            Role(
                "java",
                3,
                ("payments", "refunds"),
                ("cooperative-sticky",),
                racks=("a", "b", "c"),
                static=True,
            ),
        ),
        (_R, _J, _K, _L, _R, Act.FREEZE),
    ),
    Group(
        "recommend",
        "cooperative-sticky, mixed subscriptions, kafka-python, librdkafka and Java",
        (
            Role("kafka-python-stock", 1, ("clicks", "carts"), ("cooperative-sticky",)),
            Role("confluent", 1, ("clicks",), ("cooperative-sticky",), other_topics=("clicks", "mails")),
            Role("java", 1, ("clicks", "carts"), ("cooperative-sticky",)),
        ),
        (_J, Act.SWITCH, _L, _R, _K, Act.SWITCH, _J, _L),
    ),
    Group(
        "telemetry",
        "range, one topic of many partitions, scaled up and down, aiokafka with our assignor",
        (Role("aiokafka-ours", 3, ("telemetry",), ("range",), racks=("a", "b", "c")),),
        (_J, _J, _J, _L, _L, _L, Act.BOUNCE),
    ),
    Group(
        "frontdesk",
        "range, uniform, static librdkafka members",
        (Role("confluent", 3, ("orders", "mails"), ("range",), static=True),),
        (_R, _J, _K, _L, _R, Act.STALL),
    ),
    Group(
        "backfill",
        "roundrobin, mixed subscriptions, librdkafka and Java, a batch job that comes and goes",
        (
            Role("confluent", 2, ("clicks", "telemetry"), ("roundrobin",)),
            Role("java", 1, ("clicks", "returns"), ("roundrobin",)),
        ),
        (Act.DRAIN, _J, _L, Act.DRAIN, _J, _K, _L),
    ),
    Group(
        "returns-desk",
        "range and, if all offer it, roundrobin: kafka-python offers two assignors",
        (Role("kafka-python-stock", 3, ("returns", "refunds"), ("range", "roundrobin")),),
        (_J, _L, _K, _J, _R, _L, Act.STALL),
    ),
    Group(
        "crm",
        "upgraded by rolling restarts from range to cooperative-sticky, Java",
        (
            Role(
                "java",
                3,
                ("orders", "mails"),
                ("range",),
                upgrades=(("cooperative-sticky", "range"), ("cooperative-sticky",)),
            ),
        ),
        (_J, _L, Act.UPGRADE, _J, Act.UPGRADE, _L, _K),
    ),
    Group(
        "audit-trail",
        "KIP-848: the broker assigns to Java and librdkafka members",
        (
            Role("java", 1, ("audit", "payments")),
            Role("confluent", 2, ("audit", "payments", "stock")),
        ),
        (_J, _L, _R, _K),
    ),
)
