"""The member's side of a rebalance (KIP-429): a state machine that adapters to clients drive.

Feed a `MemberState` events, carry out the actions that come back, ask it before every delivery. The rules
are at the top of `kafka_assignors.rebalance.member`; `.events` has the events and actions.
"""

from kafka_assignors.rebalance.lease import Settings
from kafka_assignors.rebalance.member import MemberState
from kafka_assignors.rebalance.progress import Phase

__all__ = ["MemberState", "Phase", "Settings"]
