"""The member's side of a rebalance (KIP-429): a state machine that adapters to clients drive.

Feed a `Member` events, carry out the actions that come back, ask it before every delivery. The rules are at
the top of `kafka_assignors.rebalance.member`; the words are in `kafka_assignors.rebalance.values`.
"""

from kafka_assignors.rebalance.heartbeats import HeartbeatPace
from kafka_assignors.rebalance.member import Member, OutOfOrderError, Phase, Settings, common_protocol

__all__ = ["HeartbeatPace", "Member", "OutOfOrderError", "Phase", "Settings", "common_protocol"]
