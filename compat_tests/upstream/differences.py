"""The tests that pass only with the stock consumer, by client: the id of each and the reason."""

from __future__ import annotations

_AIOKAFKA = "tests/test_consumer.py::TestConsumerIntegration::"

_NO_GROUP = "expects an error of a consumer without a group; the cooperative consumer requires a group"
_NOTHING_REVOKED = (
    "expects on_partitions_revoked(set()) when a member that owns nothing joins, "
    "and with all partitions at each later rebalance"
)
_SECOND_MEMBER = (
    "seeks as soon as the second member has started, which owns nothing until the first has revoked"
)

ALLOWED: dict[str, dict[str, str]] = {
    "aiokafka": {
        f"{_AIOKAFKA}test_none_group": _NO_GROUP,
        f"{_AIOKAFKA}test_consumer_commit_no_group": _NO_GROUP,
        f"{_AIOKAFKA}test_create_consumer_no_running_loop": (
            "makes the consumer outside of a running loop, with aiokafka's deprecated argument loop"
        ),
        f"{_AIOKAFKA}test_consumer_propagates_coordinator_errors": (
            "expects an unexpected error in a join to break the consumer; the cooperative one joins again"
        ),
        f"{_AIOKAFKA}test_consumer_propagates_heartbeat_errors": (
            "replaces a private method of the coordinator; heartbeats of the cooperative one do not call it"
        ),
        "tests/test_subscription_state.py::test_subscribe_topic": (
            "expects no assignment before the first rebalance; the cooperative consumer has an empty one"
        ),
        f"{_AIOKAFKA}test_consumer_position": (
            "expects a partition to lose its position by a new subscription; a partition that stays keeps it"
        ),
        f"{_AIOKAFKA}test_consumer_rebalance_on_new_topic": (
            "expects on_partitions_assigned with all partitions at each rebalance, not with the added"
        ),
        f"{_AIOKAFKA}test_offset_behavior__resuming_behavior": _SECOND_MEMBER,
        f"{_AIOKAFKA}test_max_poll_interval_ms": _SECOND_MEMBER,
        f"{_AIOKAFKA}test_rebalance_listener_with_coroutines": _NOTHING_REVOKED,
        f"{_AIOKAFKA}test_kip_345_enabled": _NOTHING_REVOKED,
        f"{_AIOKAFKA}test_kip_345_disabled": _NOTHING_REVOKED,
    },
    "kafka-python": {},
}
