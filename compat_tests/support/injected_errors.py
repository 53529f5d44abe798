"""An error in a call of a consumer that no part of it expects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined]

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.strategies import CooperativeSticky
from kafka_assignors.strategy import MemberContext

__all__ = ["Announcing", "InjectedError", "Once", "members_of"]


class InjectedError(Exception):
    """An error that Kafka does not know."""


class Once:
    """Replaces a function; the first call raises."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.has_raised = False

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if not self.has_raised:
            self.has_raised = True
            raise InjectedError("injected")
        return self.function(*arguments, **options)

    def __get__(self, owner: Any, kind: Any) -> Callable[..., Any]:
        return lambda *arguments, **options: self(owner, *arguments, **options)


class Announcing(CooperativeSticky):
    """A strategy that sends member data to the leader."""

    name = "announcing"

    def member_data(self, member: MemberContext) -> bytes:
        return b"something"


def members_of(kafka: Kafka, group_id: str) -> int:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    return len(admin.describe_consumer_groups([group_id])[group_id].result(HANG_S).members)
