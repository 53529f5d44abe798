"""The tables that the jobs read and write, column by column.

| table | a row is | key |
|---|---|---|
| `raw` | a record of `__consumer_offsets`, offset commits left out | partition, offset |
| `archived` | a `raw` record in an archive, with the cluster that it is from | partition, offset |
| `topics` | a topic as it was from a moment on: the catalogue | topic, from |
| `events` | a decoded `raw` record, or the reason why it does not decode | partition, offset |
| `generations` | a generation of a group with its place in the group's life | group, offset |
| `members` | a member of a generation: what it asked for and what it got | group, offset, member_id |
| `assignments` | a topic of which a member of a generation got partitions | group, offset, member_id, topic |
| `current` | how far a member of a KIP-848 group has come on its way to its assignment | group, offset |
| `causes` | why a generation was formed | group, offset |
| `replayed` | a rebalance under one strategy in one mode, measured | group, offset, strategy, mode |
| `metrics` | a day of a group under one strategy in one mode, summed up | date, group, strategy, mode |
| `churn` | a day of a group: how many generations a cause made | date, group, cause |
| `faults` | a day of a client that made a group rebalance, or a deployment | – |
| `checked` | a recorded generation compared with the replay of its strategy | group, offset |

A generation's number is no key: a static member's replacement writes the same generation again, and a
deleted group starts from 0. That of a KIP-848 group is the group's epoch. All timestamps are instants, in
microseconds.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

__all__ = [
    "ARCHIVED",
    "CAUSES",
    "CHECKED",
    "CURRENT",
    "EVENTS",
    "FACT",
    "FAULTS",
    "FOLDED",
    "MEMBERS",
    "OWNERSHIP",
    "RAW",
    "REPLAYED",
    "REPORTED",
    "TOPICS",
]

_STRING, _INT, _LONG, _BOOL = StringType(), IntegerType(), LongType(), BooleanType()
_BINARY, _DOUBLE, _TIMESTAMP = BinaryType(), DoubleType(), TimestampType()
_STRINGS = ArrayType(_STRING)
_PARTITIONS_BY_TOPIC = MapType(_STRING, ArrayType(_INT))


def _struct(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


RAW = _struct(partition=_INT, offset=_LONG, timestamp=_TIMESTAMP, key=_BINARY, value=_BINARY)

REPORTED = StructType([*RAW.fields, StructField("report", _STRING)])
"""The source's rows with the option `reports`. A row with a `report` has only a partition beside it."""

ARCHIVED = StructType([*RAW.fields, StructField("cluster_id", _STRING), StructField("date", DateType())])
"""`date` is that of the timestamp, in UTC, and the name of the folder that holds the record."""

TOPICS = StructType(
    [
        StructField("topic", _STRING),
        StructField("topic_id", _STRING),
        StructField("from", _TIMESTAMP),
        StructField("partitions", _INT),
        StructField("replica_racks", ArrayType(_STRINGS)),
    ]
)

_MEMBER = _struct(
    member_id=_STRING,
    instance_id=_STRING,
    rack=_STRING,
    client_id=_STRING,
    client=_STRING,
    client_host=_STRING,
    version=_INT,
    topics=_STRINGS,
    owned=_PARTITIONS_BY_TOPIC,
    owned_generation=_INT,
    revoked=_BOOL,
    assigned=_PARTITIONS_BY_TOPIC,
    pattern=_STRING,
    assignor=_STRING,
)

MEMBERS = StructType([*_struct(group=_STRING, offset=_LONG, generation=_INT).fields, *_MEMBER.fields])
"""`client` is the library that the client id names (see `folds.clients`), `version` the subscription's.
`owned` is the member's own claim, `revoked` that it gave the claimed partitions up before it joined;
`assigned` is what the leader gave it, or the target that the broker set for it. `pattern` is the regular
expression that a member of KIP-848 subscribes with (what it matches is among `topics`), and `assignor` the
one that it asks for; `version` is -1 there."""

EVENTS = _struct(
    partition=_INT,
    offset=_LONG,
    timestamp=_TIMESTAMP,
    copies=_LONG,
    kind=_STRING,
    group=_STRING,
    reason=_STRING,
    protocol_type=_STRING,
    version=_INT,
    generation=_INT,
    protocol=_STRING,
    leader=_STRING,
    member_count=_INT,
    clients=_STRINGS,
    topics=_STRINGS,
    holds=_BOOL,
    value_bytes=_INT,
    key=_BINARY,
    value=_BINARY,
)
"""`kind` is one of `kafka_assignors_spark.folds.records.Kind`. `reason` says why a record, or a member in it,
does not decode. `version` is that of the GroupMetadata value.

Members are not decoded here, but totalled, without those that do not decode: how many there are, the
libraries of their clients, the topics they subscribe to (both sorted), and whether one of them `holds`
partitions that it has not revoked. Of a record of a KIP-848 group there are only the `topics` that it
subscribes to, and the `key`, which is given for these records alone. `value` is the record's own,
`value_bytes` its length."""

FACT = _struct(fact=_STRING, subject=_STRING)

FOLDED = StructType(
    [field for field in EVENTS.fields if field.name != "key"]
    + _struct(
        members=ArrayType(_MEMBER),
        type=_STRING,
        continues=_BOOL,
        starts_late=_BOOL,
        lost=_INT,
        problem=_STRING,
        unknown_topics=_STRINGS,
        facts=ArrayType(FACT),
    ).fields
)
"""Events with the generations of KIP-848 groups in place of their records.
`folds.generations.FoldedGeneration` says what the columns mean, and `facts` are of class
`folds.generations.Kip848Fact`. Null for groups that never were of KIP-848, but for the `problem` of a group
that is torn.

The members of a classic generation are in its `value`, where they stay until a step decodes them; those of
a generation that was folded from many records are `members`, it has no `value`, and its `value_bytes` are an
estimate of what they take. `rebalances.members_of` reads both."""

CURRENT = _struct(
    group=_STRING,
    partition=_INT,
    offset=_LONG,
    timestamp=_TIMESTAMP,
    member_id=_STRING,
    epoch=_INT,
    previous_epoch=_INT,
    state=_STRING,
    assigned=_PARTITIONS_BY_TOPIC,
    pending_revocation=_PARTITIONS_BY_TOPIC,
    unknown_topics=_STRINGS,
)
"""`epoch` is the group epoch that the member has reached, -2 for a static member that is away, null where the
record is the end of the member; the rest is null then. `state` is "stable", "unrevoked partitions" (it has
yet to revoke `pending_revocation`), "unreleased partitions" (it waits for others to revoke) or "unknown"."""

CAUSES = _struct(
    group=_STRING,
    partition=_INT,
    offset=_LONG,
    generation=_INT,
    timestamp=_TIMESTAMP,
    causes=_STRINGS,
)
"""`causes` are of class `kafka_assignors_spark.folds.causes.Cause`, in its order; never empty."""

REPLAYED = _struct(
    group=_STRING,
    offset=_LONG,
    generation=_INT,
    timestamp=_TIMESTAMP,
    strategy=_STRING,
    mode=_STRING,
    generations=_INT,
    members=_INT,
    partitions=_INT,
    moved=_INT,
    least_moved=_INT,
    could_stay=_INT,
    min_load=_INT,
    max_load=_INT,
    max_over_mean=_DOUBLE,
    load_stddev=_DOUBLE,
    rounds=_INT,
    rack_misses=_INT,
    least_rack_misses=_INT,
    vacated=_INT,
    paused_s=_DOUBLE,
    paused_eager_s=_DOUBLE,
    paused_cooperative_s=_DOUBLE,
    inferred_topics=_STRINGS,
    problem=_STRING,
)
"""`problem` says why a rebalance could not be replayed, or in what a strategy failed; the measures are then
null. Rack misses are null where no racks are known. `vacated` counts partitions whose owner had left. The
paused partition-seconds are those of `kafka_assignors.pause_model`: as the strategy was replayed, had it run
eagerly, and had it run cooperatively, null for one that cannot. `inferred_topics` are those whose partition
count was taken from the recorded assignment itself."""

FAULTS = _struct(
    group=_STRING,
    date=DateType(),
    kind=_STRING,
    client_id=_STRING,
    client_host=_STRING,
    instance_id=_STRING,
    member_id=_STRING,
    members=_INT,
    joins=_INT,
    leaves=_INT,
    restarts=_INT,
    expiries=_INT,
    generations=_INT,
    alone=_INT,
    first_timestamp=_TIMESTAMP,
    last_timestamp=_TIMESTAMP,
)
"""See `kafka_assignors_spark.folds.faults.Fault`. `kind` is one of `faults.FaultKind`."""

OWNERSHIP = _struct(
    group=_STRING, topic=_STRING, partition=_INT, member=_STRING, begin=_TIMESTAMP, end=_TIMESTAMP
)
"""The owner of a partition from `begin` to `end`: see `kafka_assignors_spark.folds.ownership`."""

CHECKED = _struct(
    group=_STRING,
    partition=_INT,
    offset=_LONG,
    generation=_INT,
    strategy=_STRING,
    client=_STRING,
    outcome=_STRING,
    explanation=_STRING,
    detail=_STRING,
)
"""`outcome` is one of `kafka_assignors_spark.folds.truth.Outcome`."""
