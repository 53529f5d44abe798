"""The states of an aiokafka consumer: how it reaches each state, and stays there during the calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiokafka import TopicPartition

from compat_tests.differential.aiokafka_scene import Scene, enter
from compat_tests.differential.language import Part
from compat_tests.differential.scene import HANG_S

__all__ = ["STATES", "play"]

State = Callable[[Scene], Awaitable[None]]


async def not_constructed(scene: Scene) -> None:
    """There is no consumer yet."""
    for call in scene.scenario.calls:
        scene.observed[str(call)] = {"result": await scene.constructed(call)}
    scene.construct()


async def not_started(scene: Scene) -> None:
    """Constructed with a topic."""
    scene.construct(scene.orders)
    await scene.perform()


async def not_started_without_topics(scene: Scene) -> None:
    scene.construct()
    await scene.perform()


async def without_subscription(scene: Scene) -> None:
    """Started without a subscription."""
    scene.construct()
    await scene.consumer.start()
    await scene.perform()


async def assigned_by_hand(scene: Scene) -> None:
    scene.construct()
    await scene.consumer.start()
    scene.consumer.assign([scene.resolve(Part(number)) for number in range(4)])
    await scene.read_all()
    await scene.perform()
    scene.observe("then", await scene.deliver())


async def joining(scene: Scene) -> None:
    """The first JoinGroup is unanswered, because another member has not rejoined."""
    holder = scene.holder()
    scene.construct()
    async with scene.held_by(holder):
        await asyncio.get_running_loop().run_in_executor(None, holder.wait_until_assigned)
        await scene.consumer.start()
        scene.consumer.subscribe([scene.orders], listener=scene.listener)
        await scene.until(
            # The first JoinGroup only gets the member its id.
            lambda: scene.wire.sent["JoinGroup"] == 2
        )
        await scene.perform()
    scene.observe("then", await scene.deliver())


async def owning(scene: Scene) -> None:
    """All partitions are owned, and read to their end."""
    await scene.own()
    await scene.perform()
    scene.observe("then", await scene.deliver())


async def owning_by_pattern(scene: Scene) -> None:
    scene.construct()
    scene.consumer.subscribe(pattern=f"^{scene.orders}$", listener=scene.listener)
    await scene.consumer.start()
    await scene.read_all()
    await scene.perform()
    scene.observe("then", await scene.deliver())


async def owning_with_automatic_commits(scene: Scene) -> None:
    await scene.own(enable_auto_commit=True, auto_commit_interval_ms=600_000)
    await scene.perform()


async def owning_as_a_static_member(scene: Scene) -> None:
    await scene.own(group_instance_id="one")
    await scene.perform()
    scene.observe("then", await scene.deliver())


async def standing_by(scene: Scene) -> None:
    """`start` has returned without an assignment: another member owns the only partition."""
    scene.construct(scene.stage.topics["elsewhere"])
    async with scene.first_member("elsewhere"):
        await scene.within(scene.consumer.start())
        await scene.perform()


async def polling(scene: Scene) -> None:
    """A `getmany` waits for records."""
    scene.unobserved.add("positions")  # It may read the records that a seek makes available.
    await scene.own()
    pending = asyncio.ensure_future(scene.outcome(scene.consumer.getmany(timeout_ms=600_000)))
    await scene.until(lambda: scene.consumer._subscription._fetch_count)
    await scene.perform()
    if not scene.scenario.name:
        scene.observe("pending", await pending)
    scene.observe("then", await scene.deliver())


async def rejoining(scene: Scene) -> None:
    """All partitions are owned. The group rebalances, and another member has not rejoined."""
    await scene.own()
    holder = scene.holder()
    async with scene.held_by(holder):
        await scene.settled_beside(holder)
        join = scene.hold_lookups_until_join()
        async with scene.held_by(scene.holder(name="newcomer")):
            await join(1)
            await scene.perform()
            holder.ask_to_end()
    scene.observe("then", await scene.deliver())


async def revoking(scene: Scene) -> None:
    """The listener's `on_partitions_revoked` runs, and makes the calls; the first partition is revoked."""
    await scene.own()
    told: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def in_listener(revoked: set[TopicPartition]) -> None:
        scene.names.first = min(tp.partition for tp in revoked)
        performing = asyncio.ensure_future(scene.perform())
        performing.add_done_callback(lambda _: told.set_result(None))
        await asyncio.shield(performing)

    scene.in_revoked = in_listener
    async with scene.held_by(scene.holder(scene.orders)):
        await scene.within(told)
    scene.observe("then", await scene.deliver())


async def lost(scene: Scene) -> None:
    """The member was removed, knows it, and joins again; the join waits for another member."""
    await scene.own()
    holder = scene.holder()
    async with scene.held_by(holder):
        await scene.settled_beside(holder)
        join = scene.hold_lookups_until_join()
        await scene.expel()
        await join(2)  # The first JoinGroup only gets the member its id.
        await scene.perform()
    scene.observe("then", await scene.deliver())


async def stalled(scene: Scene) -> None:
    """No call was made for longer than `max_poll_interval_ms`, and the member has left."""
    await scene.own(max_poll_interval_ms=1500)
    left = scene.wire.answered[
        "LeaveGroup"
    ]  # On a busy machine the member may have left and rejoined before.
    await scene.until(lambda: scene.wire.answered["LeaveGroup"] > left)
    if scene.is_stock:  # The stock consumer calls the listener at once; ours calls it in the next poll.
        await scene.until(lambda: scene.told[-1].startswith("revoked"))
    join = scene.wire.hold("JoinGroup")  # A call may start a rejoin; the later calls find it in flight.
    await scene.perform()
    join.set()
    scene.observe("then", await scene.deliver())


async def closing(scene: Scene) -> None:
    """`stop` runs in another task, and its LeaveGroup is in flight."""
    await scene.own()
    leave = scene.wire.hold("LeaveGroup")
    stopping = asyncio.ensure_future(scene.consumer.stop())
    await scene.until(lambda: scene.wire.sent["LeaveGroup"])
    await scene.perform()
    leave.set()
    scene.observe("close under way", await scene.outcome(stopping, patience_s=HANG_S))


async def closed(scene: Scene) -> None:
    await scene.own()
    await scene.consumer.stop()
    await scene.perform()


async def closed_before_start(scene: Scene) -> None:
    scene.construct(scene.orders)
    await scene.consumer.stop()
    await scene.perform()


STATES: dict[str, State] = {
    state.__name__.replace("_", " "): state
    for state in (
        not_constructed,
        not_started,
        not_started_without_topics,
        without_subscription,
        assigned_by_hand,
        joining,
        owning,
        owning_by_pattern,
        owning_with_automatic_commits,
        owning_as_a_static_member,
        standing_by,
        polling,
        rejoining,
        revoking,
        lost,
        stalled,
        closing,
        closed,
        closed_before_start,
    )
}


async def play(scene: Scene) -> None:
    """Play the whole scenario."""
    enter(scene)
    try:
        await STATES[scene.scenario.state](scene)
    except Exception as error:
        scene.observe("state", f"not reached: {error!r}")
    await scene.close()
    await scene.look_around()
    await scene.clean_up()
    await scene.look_up_committed()
