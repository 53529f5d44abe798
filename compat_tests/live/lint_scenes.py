"""Situations for the rules of `lint`: real members with the same settings that `lint` gets.

    scene = Scene(kafka)
    settings = {"client": "aiokafka", "partition_assignment_strategy": ["stock:range"]}
    async with scene.aiokafka(settings) as member:
        await member.until(lambda: member.owned)
    assert "no-common-strategy" not in scene.lint(settings)

Members run in the process of the test: aiokafka on its event loop, librdkafka when the test polls it.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from confluent_kafka import Consumer, KafkaError

from compat_tests.aiokafka.member import OURS, STOCK
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_cli import main
from kafka_assignors_confluent.connection import Connection
from kafka_assignors_ops.cluster import read_groups
from kafka_assignors_ops.live_group import LiveGroup

__all__ = ["AiokafkaMember", "Scene", "Settings", "first_error", "poll_until"]

Settings = Mapping[str, Any]

_OF_LINT_ALONE = ("client", "client_version", "members")


class Scene:
    """A group id and a topic on a broker that only this scene uses."""

    def __init__(self, kafka: Kafka, partitions: int = 4) -> None:
        self.kafka = kafka
        self.group = f"lint-{uuid.uuid4().hex[:8]}"
        self.topic = f"{self.group}-orders"
        kafka.create_topic(self.topic, partitions)

    # ---- the findings of lint

    def lint(self, *members: Settings, live: bool = False, options: tuple[str, ...] = ()) -> dict[str, str]:
        """The severity of each rule with a finding, as the command line reports it.

        With `live`, lint checks the live group together with these members, which would join it.
        """
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for number, settings in enumerate(members):
                files.append(Path(folder) / f"{number}.json")
                files[-1].write_text(json.dumps(settings))
            where = ["--bootstrap-server", self.kafka.bootstrap, "--group", self.group] if live else []
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                code = main(["lint", *map(str, files), *where, *options, "--json", "-"])
        assert code in (0, 1), printed.getvalue()
        found = json.loads(printed.getvalue())["findings"]
        severities = {finding["rule"]: finding["severity"] for finding in found}
        assert code == ("error" in severities.values())
        return severities

    def refused(self, *options: str) -> str:
        """What lint says of the live group when it refuses these options."""
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed):
            code = main(["lint", "--bootstrap-server", self.kafka.bootstrap, "--group", self.group, *options])
        assert code == 2, printed.getvalue()
        return printed.getvalue()

    # ---- the group on the broker

    def described(self) -> LiveGroup:
        (group,) = read_groups(Connection(self.kafka.bootstrap, {}, HANG_S), [self.group])
        return group

    # ---- members

    def aiokafka(
        self,
        settings: Settings,
        *,
        listener_s: float = 0,
        consumer: type[AIOKafkaConsumer] = AIOKafkaConsumer,
    ) -> AiokafkaMember:
        return AiokafkaMember(self, settings, listener_s, consumer)

    def librdkafka(self, settings: Settings) -> Consumer:
        """A consumer with a subscription; the caller must poll it, and close it with `leave`."""
        consumer = Consumer(
            {"bootstrap.servers": self.kafka.bootstrap, "group.id": self.group, **for_client(settings)}
        )
        consumer.subscribe([self.topic])
        return consumer


def for_client(settings: Settings) -> dict[str, Any]:
    """The settings without those that only `lint` knows."""
    return {name: value for name, value in settings.items() if name not in _OF_LINT_ALONE}


def poll_until(consumer: Consumer, condition: Callable[[], Any]) -> Any:
    """Poll a librdkafka consumer until the condition holds, and return its value."""
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        consumer.poll(0.1)
        value = condition()
        if value:
            return value
    raise TimeoutError("librdkafka did not get there")


def first_error(consumer: Consumer) -> KafkaError:
    """Poll a librdkafka consumer until it reports an error."""
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        error = message.error() if message is not None else None
        if error is not None:
            return error
    raise TimeoutError("librdkafka reported no error")


class AiokafkaMember(ConsumerRebalanceListener):  # type: ignore[misc]
    """An AIOKafkaConsumer with these settings, started and stopped by the block."""

    def __init__(
        self, scene: Scene, settings: Settings, listener_s: float, consumer: type[AIOKafkaConsumer]
    ) -> None:
        self._scene = scene
        self._class = consumer
        self._settings = settings
        self._listener_s = listener_s
        self.owned: set[int] = set()
        self.revoked: list[set[int]] = []
        """The partitions that each rebalance revoked, without empty sets."""
        self.in_listener = False
        self.may_return = asyncio.Event()
        """The listener waits for this event, for at most `listener_s` seconds."""

    async def __aenter__(self) -> AiokafkaMember:
        settings = {"heartbeat_interval_ms": 300, "session_timeout_ms": 30_000, **for_client(self._settings)}
        names = settings.pop("partition_assignment_strategy")
        self.consumer = self._class(
            bootstrap_servers=self._scene.kafka.bootstrap,
            group_id=self._scene.group,
            enable_auto_commit=False,
            partition_assignment_strategy=[self._strategy(name) for name in names],
            **settings,
        )
        self.consumer.subscribe([self._scene.topic], listener=self)
        try:
            await self.consumer.start()
        except BaseException:
            await self.consumer.stop()
            raise
        self._polling = asyncio.create_task(self._poll())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._polling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._polling
        await self.consumer.stop()

    def _strategy(self, name: str) -> Any:
        if name.startswith("stock:"):
            return STOCK[name.removeprefix("stock:")]
        return OURS[name]()

    async def _poll(self) -> None:
        while True:
            await self.consumer.getmany(timeout_ms=100)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if revoked:
            self.revoked.append({tp.partition for tp in revoked})
            self.in_listener = True
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.may_return.wait(), self._listener_s)
            self.in_listener = False
        self.owned = set()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.owned = {tp.partition for tp in assigned}

    @property
    def generation(self) -> int:
        generation: int = self.consumer._coordinator.generation
        return generation

    async def until(self, condition: Callable[[], Any], what: str = "it") -> None:
        """Wait until the condition holds; if polling fails, raise its error."""
        deadline = time.monotonic() + HANG_S
        while not condition():
            if self._polling.done():
                self._polling.result()
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {HANG_S:g} s for {what}")
            await asyncio.sleep(0.05)
