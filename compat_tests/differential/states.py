"""The states of a consumer: how it reaches each state, and stays there during the calls."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable

from compat_tests.differential.aiokafka_scene import AiokafkaScene
from compat_tests.differential.language import PARTITIONS, Part
from compat_tests.differential.scene import Scene

State = Callable[[Scene], Awaitable[None]]


async def not_constructed(scene: Scene) -> None:
    """There is no consumer yet."""
    for call in scene.scenario.calls:
        scene.observed[str(call)] = {"result": await scene.constructed(call)}
    scene.construct()


async def not_started(scene: Scene) -> None:
    """Constructed with a topic; kafka-python's consumer starts with its first poll."""
    scene.construct(scene.orders)
    await scene.perform()


async def not_started_without_topics(scene: Scene) -> None:
    scene.construct()
    await scene.perform()


async def without_subscription(scene: Scene) -> None:
    """Started without a subscription."""
    scene.construct()
    await scene.start()
    await scene.perform()


async def assigned_by_hand(scene: Scene) -> None:
    scene.construct()
    await scene.start()
    scene.consumer.assign([scene.resolve(Part(number)) for number in range(PARTITIONS)])
    await scene.read_all()
    await scene.perform()
    await scene.observe_delivery()


async def joining(scene: Scene) -> None:
    """The first JoinGroup is unanswered, because another member has not rejoined."""
    holder = scene.holder()
    scene.construct()
    async with scene.held_by(holder):
        await asyncio.to_thread(holder.wait_until_assigned)
        join = scene.joins()
        await scene.start()
        scene.subscribe(scene.orders)
        await join(2)  # The first JoinGroup only gets the member its id.
        await scene.perform()
    await scene.observe_delivery(after_join=True)


async def owning(scene: Scene) -> None:
    """All partitions are owned, and read to their end."""
    await scene.own()
    await scene.perform()
    await scene.observe_delivery()


async def owning_by_pattern(scene: Scene) -> None:
    scene.construct()
    scene.subscribe(pattern=f"^{scene.orders}$")
    await scene.start()
    await scene.read_all()
    await scene.perform()
    await scene.observe_delivery()


async def owning_with_automatic_commits(scene: Scene) -> None:
    await scene.own(enable_auto_commit=True, auto_commit_interval_ms=600_000)
    await scene.perform()


async def owning_as_a_static_member(scene: Scene) -> None:
    await scene.own(group_instance_id="one")
    await scene.perform()
    await scene.observe_delivery()


async def standing_by(scene: AiokafkaScene) -> None:
    """`start` has returned without an assignment: another member owns the only partition."""
    scene.construct(scene.stage.topics["elsewhere"])
    async with scene.first_member("elsewhere"):
        await scene.start()
        await scene.perform()


async def polling(scene: AiokafkaScene) -> None:
    """A `getmany` waits for records."""
    scene.unobserved.add("positions")  # It may read the records that a seek makes available.
    await scene.own()
    pending = asyncio.ensure_future(scene.outcome(lambda: scene.consumer.getmany(timeout_ms=600_000)))
    await scene.until(lambda: scene.consumer._subscription._fetch_count)
    await scene.perform()
    if not scene.scenario.name:
        scene.observe("pending", await pending)
    await scene.observe_delivery()


async def rejoining(scene: Scene) -> None:
    """All partitions are owned. The group rebalances, and another member has not rejoined."""
    await scene.own()
    holder = scene.holder()
    async with scene.held_by(holder):
        await scene.settled_beside(holder)
        join = scene.rejoins()
        async with scene.held_by(scene.holder(name="newcomer")):
            await join(1)
            await scene.perform()
            holder.ask_to_end()
    await scene.observe_delivery(after_join=True)


async def revoking(scene: Scene) -> None:
    """The listener's `on_partitions_revoked` runs, and makes the calls; the first partition is revoked."""
    await scene.own()
    scene.calls_in_listener = True
    async with scene.held_by(scene.holder(scene.orders)):
        await scene.polling_until(lambda: scene.has_called_in_listener)
    await scene.observe_delivery(after_join=True)


async def lost(scene: Scene) -> None:
    """The member was removed, knows it, and joins again; the join waits for another member."""
    await scene.own()
    holder = scene.holder()
    async with scene.held_by(holder):
        await scene.settled_beside(holder)
        join = scene.rejoins()
        await scene.expel()
        await join(2)  # The first JoinGroup only gets the member its id.
        await scene.perform()
    await scene.observe_delivery(after_join=True)


async def stalled(scene: Scene) -> None:
    """No call was made for longer than `max_poll_interval_ms`, and the member has left."""
    await scene.own(max_poll_interval_ms=1500)
    await scene.has_left()
    scene.wire.hold("JoinGroup")  # A call may start a rejoin; the later calls find it in flight.
    await scene.perform()
    scene.wire.let_go("JoinGroup")
    await scene.observe_delivery()


async def closing(scene: Scene) -> None:
    """The consumer is being closed, and its LeaveGroup is in flight."""
    await scene.own()
    scene.wire.hold("LeaveGroup")
    closing = asyncio.ensure_future(scene.closed())
    await scene.until(lambda: scene.wire.sent["LeaveGroup"])
    await scene.perform()
    scene.wire.let_go("LeaveGroup")
    scene.observe("close under way", await closing)


async def closed(scene: Scene) -> None:
    await scene.own()
    await scene.closed()
    await scene.perform()


async def closed_before_start(scene: Scene) -> None:
    scene.construct(scene.orders)
    await scene.closed()
    await scene.perform()


OF_AIOKAFKA: dict[str, State] = {
    name.replace("_", " "): state
    for name, state in list(globals().items())
    if inspect.iscoroutinefunction(state)
}
"""All functions above, by their names."""

OF_KAFKA_PYTHON = {
    name: state
    for name, state in OF_AIOKAFKA.items()
    # It has no `start`, and one thread at a time.
    if state not in (not_started_without_topics, standing_by, polling)
}


async def play(scene: Scene) -> None:
    """Play the whole scenario."""
    try:
        await OF_AIOKAFKA[scene.scenario.state](scene)
    except Exception as error:
        scene.observe("state", f"not reached: {error!r}")
    if scene.consumer is not None:
        await scene.close()
        await scene.look_around()
        await scene.clean_up()
    await scene.look_up_committed()
