"""An admin client that answers within its time, and says in one line why if it does not."""

from __future__ import annotations

import concurrent.futures
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

_Key = TypeVar("_Key")

_METADATA_MS = 5_000
"""librdkafka's own default is five minutes: longer than any wait for an answer."""

_STEP_S = 0.2
_SLACK_S = 1.0
"""librdkafka ends a request itself when its time is over; the wait for its result is this much longer."""

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
"""What a Java client's file says: librdkafka's name for it."""

_QUOTED_OR_FIGURES = re.compile(r"'[^']*'|[0-9]+")

_MOST_KINDS = 20
"""Kinds of trouble that are told apart until all is well."""


class ClusterError(RuntimeError):
    """The cluster did not do as asked. The message is one line without secrets: what, where, what to do."""


class ConfigurationError(ClusterError):
    """A client property is wrong."""


class UnreachableError(ClusterError):
    """No answer within the time: it may come back."""


class AuthenticationError(ClusterError):
    """One side does not accept the other: a wrong password or certificate. Trying again is of no use."""


class NotAuthorizedError(ClusterError):
    """The cluster knows who we are, and does not allow it."""


class Troubles:
    """Tells each kind of trouble once until all is well, through `tell`.

    Troubles alternate, and the text of one trouble varies. All errors that say that no broker answers are one
    kind. Other errors are one kind if their texts differ only in figures outside quotes. At most 20 kinds are
    told.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: set[str] = set()

    def add(self, error: Exception, then: str) -> None:
        """Tell of the error, and what comes `then`, if none of its kind was told since `clear`."""
        kind = _kind(error)
        if kind not in self._told and len(self._told) < _MOST_KINDS:
            self._told.add(kind)
            self._tell(f"{error}; {then}")

    def clear(self) -> bool:
        """All is well: whether any trouble was told. Each is told again from now on."""
        told, self._told = bool(self._told), set()
        return told


def _kind(error: Exception) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, UnreachableError):
            return "no answer"
        cause = cause.__cause__
    return _QUOTED_OR_FIGURES.sub(lambda found: found[0] if found[0][0] == "'" else "0", str(error))


class Connection:
    """The client, what it has last complained of, and how to wait for it.

    `config` are librdkafka's properties on top of the servers. `timeout_s` bounds every wait.
    """

    def __init__(self, servers: str, config: Mapping[str, str], timeout_s: float) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self.servers = servers
        self.timeout_s = timeout_s
        self.unanswered = False
        """Whether a request was left without an answer."""
        self._secrets = [value for name, value in config.items() if _SECRET.search(name) and value]
        self._complaints: deque[KafkaError] = deque(maxlen=20)
        properties: dict[str, Any] = {
            # An admin request waits for the controller that the last metadata names, also if that has died.
            # A client without topics asks for metadata again at this interval alone.
            "topic.metadata.refresh.interval.ms": _METADATA_MS,
            **config,
            "bootstrap.servers": servers,
            "error_cb": self._complaints.append,
            "logger": silent_logger(),
        }
        try:
            self.admin: AdminClient = AdminClient(properties)
        except KafkaException as error:
            raise ConfigurationError(self._configuration_problem(error.args[0].str())) from None

    def gather(self, futures: Mapping[_Key, concurrent.futures.Future[Any]]) -> dict[_Key, Any]:
        """The result of each future, or the `KafkaError` that it ended with.

        Raises `UnreachableError` if one does not end in time, and `AuthenticationError` as soon as that is
        why.
        """
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self.timeout_s + _SLACK_S
        found: dict[_Key, Any] = {}
        for key, future in futures.items():
            while True:
                try:
                    found[key] = future.result(timeout=_STEP_S)
                except concurrent.futures.TimeoutError:
                    self.raise_if_refused()
                    if time.monotonic() > deadline:
                        raise self.unreachable() from None
                    continue
                except KafkaException as error:
                    found[key] = error.args[0]
                break
        return found

    def result(self, what: str, future: concurrent.futures.Future[Any], right: str = "") -> Any:
        """The result of one future; raises `failure` with these arguments for an error."""
        from confluent_kafka import KafkaError

        found = self.gather({what: future})[what]
        if isinstance(found, KafkaError):
            raise self.failure(what, found, right)
        return found

    def failure(self, what: str, error: KafkaError, right: str = "") -> ClusterError:
        """The exception for an error of the cluster, or of librdkafka, while we wanted to do `what`.

        `right` is what the principal needs for it, such as "Describe on Topic 'orders'".
        """
        from confluent_kafka import KafkaError

        self.raise_if_refused()
        code = error.code()
        if code in (
            KafkaError._TIMED_OUT,
            KafkaError._TIMED_OUT_QUEUE,
            KafkaError._TRANSPORT,
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._RESOLVE,
            KafkaError._DESTROY,
        ):
            return self.unreachable()
        message = f"{what}: {self.explained(error, right)}"
        return NotAuthorizedError(message) if code in _authorization_codes() else ClusterError(message)

    def explained(self, error: KafkaError, right: str = "") -> str:
        """The broker's error, and the right that the principal lacks, if any."""
        said = self.without_secrets(reason(error))
        return (
            f"{said}: this principal needs {right}"
            if right and error.code() in _authorization_codes()
            else said
        )

    def topic_names(self) -> list[str]:
        """The topics that this principal may describe, sorted. None is created."""
        from confluent_kafka import KafkaException

        try:
            return sorted(self.admin.list_topics(timeout=self.timeout_s).topics)
        except KafkaException as error:
            raise self.failure("cannot list the topics", error.args[0]) from None

    def unreachable(self) -> UnreachableError:
        """No answer, with the reason that librdkafka gave last."""
        self.unanswered = True
        self._listen()
        complaints = [
            text
            for text in (complaint.str() for complaint in self._complaints)
            if not re.search(r"brokers? are down", text)
        ]
        why = _one_line(complaints[-1]) if complaints else "look at the address, and at security.protocol"
        return UnreachableError(
            self.without_secrets(f"no answer from {self.servers} within {self.timeout_s:g} s: {why}")
        )

    def raise_if_refused(self) -> None:
        """Raise `AuthenticationError` if a broker refused us, or we refused it."""
        from confluent_kafka import KafkaError

        self._listen()
        for complaint in self._complaints:
            text = _one_line(complaint.str())
            if complaint.code() == KafkaError._AUTHENTICATION:
                advice = "look at the user and the password in the client's properties"
            elif complaint.code() == KafkaError._SSL:
                advice = "look at ssl.ca.location and security.protocol in the client's properties"
            else:
                continue
            message = f"{self.servers} and this client do not accept each other: {text}: {advice}"
            raise AuthenticationError(self.without_secrets(message))

    def forget_complaints(self) -> None:
        """Forget earlier errors: later ones belong to the next request."""
        self._listen()
        self._complaints.clear()

    def _listen(self) -> None:
        """Take librdkafka's complaints in: it hands them out, one at a time, when polled."""
        while self.admin.poll(0):
            pass

    def without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _configuration_problem(self, text: str) -> str:
        name = next((name for name in _JAVA_NAMES if f'"{name}"' in text), None)
        hint = f": this is a Java client's name, give {_JAVA_NAMES[name]}" if name else ""
        return self.without_secrets(f"client properties: {_one_line(text)}{hint}")


def _authorization_codes() -> tuple[int, ...]:
    from confluent_kafka import KafkaError

    return (
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    )


def reason(error: KafkaError) -> str:
    """The broker's message, without librdkafka's prefix."""
    return _one_line(error.str()).removeprefix("Broker: ").removeprefix("Local: ")


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".:")


def silent_logger() -> logging.Logger:
    """librdkafka's log goes nowhere: what matters of it is part of our errors."""
    logger = logging.getLogger("kafka_assignors_confluent.librdkafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
    return logger
