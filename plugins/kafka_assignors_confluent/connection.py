# pyright: reportPrivateImportUsage=false
"""An admin client with a bound on every wait, and errors of one line."""

from __future__ import annotations

import concurrent.futures
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from kafka_assignors.arguments import UserError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

_Key = TypeVar("_Key")
_Client = TypeVar("_Client")

SILENT_LOGGER = logging.Logger("librdkafka", logging.CRITICAL + 1)
"""It discards librdkafka's log: the errors here contain what matters of it."""

_STEP_S = 0.2
_SLACK_S = 1.0
"""librdkafka itself ends a request after its timeout; the wait for the result is this much longer."""

_SECRET = re.compile(r"password|secret|\.pem|token|jaas|oauthbearer", re.IGNORECASE)

_JAVA_NAMES = {
    "ssl.truststore.location": "ssl.ca.location, a file of PEM certificates",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.truststore.password": "ssl.ca.location, which needs no password",
    "ssl.truststore.type": "ssl.ca.location, a file of PEM certificates",
    "ssl.keystore.type": "ssl.keystore.location, a PKCS#12 file",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
}
"""Names in the properties file of a Java client, with librdkafka's names for them."""

_NO_ANSWER = frozenset(
    {"_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_DESTROY"}
)
_REFUSALS = {
    "_AUTHENTICATION": "look at the user and the password in the client's properties",
    "_SSL": "look at ssl.ca.location and security.protocol in the client's properties",
}
"""What to do about librdkafka's errors of broker and client that do not accept each other."""


class ClusterError(UserError):
    """A request to the cluster failed. The message is one line without secrets: what, where, what to do."""


class ConfigurationError(ClusterError):
    """A client property is wrong, a user, password or certificate among them. A retry is of no use."""


class UnreachableError(ClusterError):
    """No broker, or no leader of a partition, answered in time. A later request may succeed."""


class NotAuthorizedError(ClusterError):
    """The cluster does not allow this principal to do it."""


class NoTopicError(ClusterError):
    """There is no offsets topic: the cluster never had a group."""


class Connection:
    """An admin client with librdkafka's properties in `config`. `timeout_s` bounds every wait."""

    def __init__(self, servers: str, config: Mapping[str, str], timeout_s: float) -> None:
        from confluent_kafka.admin import AdminClient

        self.servers, self.config, self.timeout_s = servers, config, timeout_s
        self._secrets = [value for name, value in config.items() if _SECRET.search(name) and value]
        self._complaints: deque[KafkaError] = deque(maxlen=20)
        properties: dict[str, Any] = {
            # An admin request waits for the controller in the last metadata, even if that has died. A client
            # without topics requests metadata only at this interval, by default after five minutes.
            "topic.metadata.refresh.interval.ms": 5_000,
            **config,
            "bootstrap.servers": servers,
            "error_cb": self._complaints.append,
            "logger": SILENT_LOGGER,
        }
        self.admin: AdminClient = self.client(AdminClient, properties)

    def client(self, kind: Callable[[dict[str, Any]], _Client], properties: dict[str, Any]) -> _Client:
        """A client of this kind; `ConfigurationError` if it does not accept its properties."""
        from confluent_kafka import KafkaException

        try:
            return kind(properties)
        # confluent-kafka's own errors are about properties that it takes for Python's callbacks.
        except (KafkaException, TypeError, AttributeError) as error:
            is_librdkafkas = isinstance(error, KafkaException)
            text = _one_line(error.args[0].str() if is_librdkafkas else str(error))
            for name, ours in _JAVA_NAMES.items():
                if f'"{name}"' in text:
                    text += f": this is a Java client's name, give {ours}"
            raise ConfigurationError(self.without_secrets(f"client properties: {text}")) from None

    def gather(self, futures: Mapping[_Key, concurrent.futures.Future[Any]]) -> dict[_Key, Any]:
        """The result of each future, or the `KafkaError` that it ended with.

        Raises `UnreachableError` if a future does not end in time, and `ConfigurationError` as soon as a
        broker and the client refuse each other.
        """
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self.timeout_s + _SLACK_S
        while concurrent.futures.wait(futures.values(), timeout=_STEP_S).not_done:
            self.raise_if_refused()
            if time.monotonic() > deadline:
                raise self.unreachable()
        return {
            key: error.args[0] if isinstance(error := future.exception(), KafkaException) else future.result()
            for key, future in futures.items()
        }

    def result(self, what: str, future: concurrent.futures.Future[Any], right: str = "") -> Any:
        """The result of one future; raises `failure` with these arguments for an error."""
        from confluent_kafka import KafkaError

        found = self.gather({what: future})[what]
        if isinstance(found, KafkaError):
            raise self.failure(what, found, right)
        return found

    def failure(self, what: str, error: KafkaError, right: str = "") -> ClusterError:
        """The exception for an error of `what`, which needs a `right` like "Describe on Topic 'orders'"."""
        self.raise_if_refused()
        if error.name() in _NO_ANSWER:
            return self.unreachable()
        kind = NotAuthorizedError if _is_authorization(error) else ClusterError
        return kind(f"{what}: {self.explained(error, right)}")

    def explained(self, error: KafkaError, right: str = "") -> str:
        """The broker's error, and the right that the principal lacks, if any."""
        said = self.without_secrets(reason(error))
        return f"{said}: this principal needs {right}" if right and _is_authorization(error) else said

    def topic_settings(self, topic: str) -> dict[str, str | None]:
        """The settings of a topic; `NotAuthorizedError` names the right for them."""
        from confluent_kafka.admin import ConfigResource, ResourceType

        resource = ConfigResource(ResourceType.TOPIC, topic)
        future = self.admin.describe_configs([resource], request_timeout=self.timeout_s)[resource]
        right = f"DescribeConfigs on Topic {topic!r}"
        told = self.result(f"cannot read the settings of topic {topic}", future, right)
        return {setting: entry.value for setting, entry in told.items()}

    def unreachable(self) -> UnreachableError:
        """The error for no answer, with librdkafka's last complaint as the reason."""
        said = [_one_line(one.str()) for one in self._heard() if one.name() != "_ALL_BROKERS_DOWN"]
        why = said[-1] if said else "look at the address, and at security.protocol"
        return UnreachableError(
            self.without_secrets(f"no answer from {self.servers} within {self.timeout_s:g} s: {why}")
        )

    def raise_if_refused(self) -> None:
        """Raise `ConfigurationError` if a broker refused this client, or this client a broker."""
        for complaint in self._heard():
            if advice := _REFUSALS.get(complaint.name()):
                text = _one_line(complaint.str())
                message = f"{self.servers} and this client do not accept each other: {text}: {advice}"
                raise ConfigurationError(self.without_secrets(message))

    def forget_complaints(self) -> None:
        """Forget earlier errors, so that later ones belong to the next request."""
        self._heard().clear()

    def _heard(self) -> deque[KafkaError]:
        """librdkafka's latest complaints: each `poll` passes one to `error_cb`."""
        while self.admin.poll(0):
            pass
        return self._complaints

    def without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _is_authorization(error: KafkaError) -> bool:
    return str(error.name()).endswith("_AUTHORIZATION_FAILED")


def is_timeout(result: object) -> bool:
    """Whether a result of `gather` is the error of brokers that do not answer."""
    from confluent_kafka import KafkaError

    return isinstance(result, KafkaError) and result.name() in _NO_ANSWER


def reason(error: KafkaError) -> str:
    """The broker's message, without librdkafka's prefix."""
    return _one_line(error.str()).removeprefix("Broker: ").removeprefix("Local: ")


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".:")
