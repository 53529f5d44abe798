"""What `kafka-assignors lint` asks of a live cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_assignors.lint import BrokerBounds, MemberConfig, NotJudged, StrategyUse, live_members
from kafka_assignors.livegroup import CLASSIC, LiveGroup
from kafka_assignors.protocol import GroupMetadata
from kafka_assignors_cli.errors import CannotRun

__all__ = ["Live", "LiveSource", "read_live"]

_PAUSE_S = 0.2
"""Between two looks at a group that is rebalancing."""

_BOUNDS = ("group.min.session.timeout.ms", "group.max.session.timeout.ms")


@dataclass(frozen=True, slots=True)
class LiveSource:
    """Whom to ask, with librdkafka's properties on top, and for how long to wait for an answer."""

    bootstrap_servers: str
    config: Mapping[str, str]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Live:
    """The members of a live group as they run now, the group itself, and what its brokers accept."""

    members: tuple[MemberConfig, ...]
    group: LiveGroup | None
    bounds: BrokerBounds
    not_judged: tuple[NotJudged, ...]


def read_live(source: LiveSource, group: str | None, listed: Sequence[StrategyUse]) -> Live:
    """What the cluster tells; what it does not let us read is left out, and said. Raises `CannotRun`."""
    try:
        from kafka_assignors_confluent import ClusterError
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    try:
        live = _read_group(source, group) if group is not None else None
        bounds, not_judged = _read_bounds(source)
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    except ClusterError as error:
        raise CannotRun(str(error)) from None
    members: tuple[MemberConfig, ...] = ()
    if live is not None:
        record, why_not = _read_record(source, live)
        members, unknown = live_members(live, record, listed, why_not)
        not_judged += unknown
    return Live(members, live, bounds, not_judged)


def _missing(error: ModuleNotFoundError) -> Exception:
    if error.name is None or error.name.partition(".")[0] != "confluent_kafka":
        return error
    return CannotRun('a live group needs confluent-kafka: pip install "kafka-assignors[cli,admin]"')


def _read_group(source: LiveSource, group: str) -> LiveGroup:
    from kafka_assignors_confluent import Cluster

    deadline = time.monotonic() + source.timeout_s
    with Cluster(source.bootstrap_servers, source.config, timeout_s=source.timeout_s) as cluster:
        (live,) = cluster.read_groups([group], offsets=False)
        while _is_rebalancing(live) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            (live,) = cluster.read_groups([group], offsets=False)
    if _is_rebalancing(live):
        raise CannotRun(
            f"group {group!r} is rebalancing ({live.state}), so nobody can say what its members run: "
            "try again"
        )
    if live.state == "Dead":
        raise CannotRun(f"there is no group {group!r} at {source.bootstrap_servers}")
    if live.protocol_type not in (None, "", "consumer"):
        raise CannotRun(f"group {group!r} is no group of consumers, but of {live.protocol_type!r}")
    return live


def _is_rebalancing(live: LiveGroup) -> bool:
    return live.group_type == CLASSIC and live.state in ("PreparingRebalance", "CompletingRebalance")


def _read_bounds(source: LiveSource) -> tuple[BrokerBounds, tuple[NotJudged, ...]]:
    from kafka_assignors_confluent import NotAuthorizedError
    from kafka_assignors_confluent.broker_settings import read_broker_settings

    try:
        told = read_broker_settings(source.bootstrap_servers, source.config, _BOUNDS, source.timeout_s)
        low_ms, high_ms = (int(told[name]) for name in _BOUNDS)
    except (NotAuthorizedError, KeyError, ValueError) as error:
        why = str(error) if isinstance(error, NotAuthorizedError) else "the broker does not tell them"
        return BrokerBounds(), (NotJudged("session timeouts against the broker's own bounds", why),)
    return BrokerBounds(low_ms, high_ms, read=True), ()


def _read_record(source: LiveSource, live: LiveGroup) -> tuple[GroupMetadata | None, str]:
    """The group's record, or else why there is none."""
    from kafka_assignors_confluent import ClusterError
    from kafka_assignors_confluent.group_record import read_group_record

    if live.group_type != CLASSIC or not live.members:
        return None, ""
    try:
        record = read_group_record(source.bootstrap_servers, source.config, live.id, source.timeout_s)
    except ClusterError as error:
        return None, str(error)
    return record, "the group's record is not among the newest of its partition of __consumer_offsets"
