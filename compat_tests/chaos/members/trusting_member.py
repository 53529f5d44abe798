"""A member program with a fault: our member on kafka-python, which believes every heartbeat answered OK."""

from __future__ import annotations

from compat_tests.chaos.members.kafka_python_member import Member as Application
from compat_tests.member_reports import MemberSpec
from kafka_assignors.rebalance import Member
from kafka_assignors_kafka_python.cooperative import coordinator


class _Trusting(Member):
    """Its lease begins again although the coordinator may not know the group yet."""

    def _heartbeat_accepted(self, sent_at: float, now: float) -> Member:
        return self._accepted(sent_at, rebalancing=False)


if __name__ == "__main__":
    setattr(coordinator, "Member", _Trusting)  # noqa: B010  # mypy takes it for a class
    Application(MemberSpec.from_arguments()).run()
