"""A broker with TLS, passwords and ACLs, and principals that have exactly the rights that a test gives them.

    with SecuredCluster() as secured:
        reader = secured.principal(Right("Describe", "Group", "orders"))
        run("groups", "describe", "orders", *reader.options)

Clients connect with SASL_SSL, and SCRAM-SHA-512 or PLAIN. To prepare a test, use `secured.cluster.bootstrap`,
where every operation is allowed.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from compat_tests.support.hang_limit import HANG_S, wait_for
from compat_tests.support.kafka_cluster import KafkaCluster, free_ports

PASSWORD = "right-password"
"""The password of every principal."""

PLAIN_USER = "superuser"
"""A user that logs in with PLAIN or SCRAM and has every right."""

CLUSTER = "kafka-cluster"
"""The name of the only resource of type Cluster."""

STORE_PASSWORD = "store-password"
"""The password of the file `SecuredCluster.keystore`."""

_SCRAM_ITERATIONS = 4096


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """An operation that is allowed on a resource, in Kafka's words; `name` "*" means all of the type."""

    operation: str
    resource: str
    name: str

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource} {self.name!r}"


@dataclass(frozen=True, slots=True)
class Principal:
    """A user of the broker. `properties` are librdkafka's; `file` holds them, one name=value per line."""

    name: str
    properties: Mapping[str, str]
    file: Path
    bootstrap: str

    @property
    def options(self) -> tuple[str, ...]:
        """The options for a command that reads a cluster."""
        return ("--bootstrap-server", self.bootstrap, "--command-config", str(self.file))


class SecuredCluster:
    """One broker; `settings` are broker properties in addition to ours."""

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        self._settings = dict(settings or {})
        self._stack = ExitStack()
        self._numbers = itertools.count(1)

    def __enter__(self) -> SecuredCluster:
        with ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="secured-")))
            self.keystore, self.certificate = self.folder / "broker.p12", self.folder / "broker.pem"
            _make_certificate(self.keystore, self.certificate)
            *brokers, self.port, self.tls_port = free_ports(5)
            plain, controller, _ = brokers
            doors = f"PLAINTEXT://127.0.0.1:{plain},SECURED://localhost:{self.port},TLS://localhost:{self.tls_port}"
            protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL,TLS:SSL"
            login = "org.apache.kafka.common.security"
            settings = {
                "listeners": f"{doors},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": doors,
                "listener.security.protocol.map": protocols,
                "listener.name.secured.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
                "listener.name.secured.plain.sasl.jaas.config": (
                    f'{login}.plain.PlainLoginModule required user_{PLAIN_USER}="{PASSWORD}";'
                ),
                "listener.name.secured.scram-sha-512.sasl.jaas.config": (
                    f"{login}.scram.ScramLoginModule required;"
                ),
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": self.keystore,
                "ssl.keystore.password": STORE_PASSWORD,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": f"User:ANONYMOUS;User:{PLAIN_USER}",
                **self._settings,
            }
            cluster = KafkaCluster(settings=settings, ports=lambda _: brokers)
            self.cluster = stack.enter_context(cluster)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        """The address for clients with a password."""
        return f"localhost:{self.port}"

    def superuser(self, mechanism: str = "PLAIN") -> Principal:
        """A principal with every right."""
        if mechanism != "PLAIN":
            self._add_user(PLAIN_USER)
        return self._principal(PLAIN_USER, mechanism)

    def principal(self, *rights: Right) -> Principal:
        """A new principal with only these rights."""
        name = f"user-{next(self._numbers)}"
        self._add_user(name)
        who = self._principal(name, "SCRAM-SHA-512")
        self.allow(who, *rights)
        return who

    def allow(self, principal: Principal, *rights: Right) -> None:
        wanted = [rule(principal.name, right) for right in sorted(set(rights))]
        if not wanted:
            return
        with self.cluster.admin(f"give {principal.name} its rights") as admin:
            for future in admin.create_acls(wanted).values():
                future.result(HANG_S)
            wait_for("the rights", lambda: all(_found(admin, rule_filter(each)) for each in wanted))

    def take_away(self, principal: Principal, *rights: Right) -> None:
        """Remove rights of a principal."""
        with self.cluster.admin(f"take rights from {principal.name}") as admin:
            chosen = [rule_filter(rule(principal.name, right)) for right in rights]
            for future in admin.delete_acls(chosen).values():
                future.result(HANG_S)
            wait_for("the end of the rights", lambda: not any(_found(admin, each) for each in chosen))

    def with_properties(self, principal: Principal, **properties: str) -> Principal:
        """The same principal with some properties changed; `__` in a name stands for a dot."""
        changed = {name.replace("__", "."): value for name, value in properties.items()}
        return self._written(principal.name, {**principal.properties, **changed}, principal.bootstrap)

    def _principal(self, name: str, mechanism: str) -> Principal:
        properties = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": name,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.certificate),
        }
        return self._written(name, properties, self.bootstrap)

    def _written(self, name: str, properties: Mapping[str, str], bootstrap: str) -> Principal:
        file = self.folder / f"client-{next(self._numbers)}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
        return Principal(name, properties, file, bootstrap)

    def _add_user(self, name: str) -> None:
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _SCRAM_ITERATIONS)
        change = UserScramCredentialUpsertion(name, how, PASSWORD.encode())
        with self.cluster.admin(f"add user {name}") as admin:
            admin.alter_user_scram_credentials([change])[name].result(HANG_S)
            wait_for("the user", lambda: name in admin.describe_user_scram_credentials().result(HANG_S))


def _found(admin: Any, chosen: AclBindingFilter) -> Sequence[AclBinding]:
    rules: Sequence[AclBinding] = admin.describe_acls(chosen).result(HANG_S)
    return rules


def rule(user: str, right: Right, permission: str = "ALLOW") -> AclBinding:
    """The ACL that allows an operation to a user, or denies it."""
    return AclBinding(
        {"Cluster": ResourceType.BROKER}.get(right.resource) or ResourceType[right.resource.upper()],
        right.name,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation[re.sub("(?<=.)(?=[A-Z])", "_", right.operation).upper()],
        AclPermissionType[permission],
    )


def rule_filter(binding: AclBinding) -> AclBindingFilter:
    """The filter that matches exactly this ACL."""
    fields = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
    return AclBindingFilter(*(getattr(binding, field) for field in fields))


def _make_certificate(store: Path, certificate: Path) -> None:
    keytool = shutil.which("keytool")
    assert keytool, "keytool, which comes with Java, is needed on PATH"
    access = ["-keystore", str(store), "-storetype", "PKCS12", "-storepass", STORE_PASSWORD]
    names = ["-alias", "broker", "-dname", "CN=localhost", "-ext", "san=dns:localhost,ip:127.0.0.1"]
    algorithm = ["-keyalg", "EC", "-groupname", "secp256r1", "-validity", "2"]
    subprocess.run([keytool, "-genkeypair", *access, *names, *algorithm], check=True, capture_output=True)
    exported = [keytool, "-exportcert", "-rfc", *access, "-alias", "broker", "-file", str(certificate)]
    subprocess.run(exported, check=True, capture_output=True)
