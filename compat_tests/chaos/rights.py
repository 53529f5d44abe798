"""The rights of the members' principals: all rights, except for one that a test takes away for a while.

The brokers have an authorizer. Clients without a password are ANONYMOUS, which has all rights. Our members
log in through the proxied listener, each as a separate user.
"""

from __future__ import annotations

import contextlib
import enum
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_admin import Kafka, KafkaError
from compat_tests.support.secured_cluster import rule_filter

if TYPE_CHECKING:
    from confluent_kafka.admin import AclBinding

__all__ = ["AUTHORIZER_SETTINGS", "PASSWORD", "USERS", "Right", "Rights"]

PASSWORD = "a-password"
USERS = tuple(f"member-{number}" for number in range(100))

_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_ATTEMPT_S = 15.0

AUTHORIZER_SETTINGS: Mapping[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:SASL_PLAINTEXT",
    "listener.name.proxied.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.proxied.plain.sasl.jaas.config": (
        " ".join([_LOGIN, *(f'user_{user}="{PASSWORD}"' for user in USERS)]) + ";"
    ),
}


class Right(enum.Enum):
    """A right that can be taken away: an operation and a type of resource."""

    READ_TOPICS = ("READ", "TOPIC")
    DESCRIBE_TOPICS = ("DESCRIBE", "TOPIC")
    READ_GROUP = ("READ", "GROUP")
    DESCRIBE_GROUP = ("DESCRIBE", "GROUP")


class Rights:
    """The ACLs of a cluster of our own."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka

    def grant_all(self) -> None:
        """Grant all rights to every user."""
        kinds = ("TOPIC", "GROUP", "TRANSACTIONAL_ID")
        self._create([_rule(kind, "User:*", "ALL", "ALLOW") for kind in kinds])

    @contextlib.contextmanager
    def without(self, user: str, right: Right) -> Iterator[None]:
        """Take a right from a user while the block runs, by a DENY, which outweighs every ALLOW."""
        operation, kind = right.value
        rule = _rule(kind, f"User:{user}", operation, "DENY")
        self._create([rule])
        try:
            yield
        finally:
            self._delete(rule)

    def _create(self, rules: Sequence[AclBinding]) -> None:
        self._ask("grant or deny rights", lambda admin: admin.create_acls(rules, request_timeout=_ATTEMPT_S))

    def _delete(self, rule: AclBinding) -> None:
        chosen = rule_filter(rule)
        self._ask("give rights back", lambda admin: admin.delete_acls([chosen], request_timeout=_ATTEMPT_S))

    def _ask(self, what: str, request: Callable[[Any], Mapping[Any, Any]]) -> None:
        """Send an idempotent request until a broker answers; the first broker may be restarting.

        A right that stays denied would fail every later test on the cluster.
        """
        deadline = time.monotonic() + HANG_S
        while True:
            try:
                with self._kafka.admin(what) as admin:
                    for response in request(admin).values():
                        response.result(_ATTEMPT_S)
                    return
            except KafkaError:
                if time.monotonic() > deadline:
                    raise


def _rule(kind: str, principal: str, operation: str, permission: str) -> AclBinding:
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    return AclBinding(
        ResourceType[kind],
        "*",
        ResourcePatternType.LITERAL,
        principal,
        "*",
        AclOperation[operation],
        AclPermissionType[permission],
    )
