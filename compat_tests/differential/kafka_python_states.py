"""The states of a kafka-python consumer: how it reaches each state, and stays there during the calls."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kafka.structs import TopicPartition

from compat_tests.differential.kafka_python_scene import Scene
from compat_tests.differential.language import Part

__all__ = ["STATES", "play"]

State = Callable[[Scene], None]


def not_constructed(scene: Scene) -> None:
    """There is no consumer yet."""
    for call in scene.scenario.calls:
        scene.observed[str(call)] = {"result": scene.constructed(call)}
    scene.construct()


def not_polled(scene: Scene) -> None:
    """Subscribed, but never polled."""
    scene.construct(scene.orders)
    scene.perform()


def without_subscription(scene: Scene) -> None:
    """Constructed without topics."""
    scene.construct()
    scene.perform()


def assigned_by_hand(scene: Scene) -> None:
    scene.construct()
    scene.consumer.assign([scene.resolve(Part(number)) for number in range(4)])
    scene.read_all()
    scene.perform()
    scene.observe_delivery()


def joining(scene: Scene) -> None:
    """The first JoinGroup is unanswered, because another member has not rejoined."""
    holder = scene.holder()
    scene.construct()
    with scene.held_by(holder):
        holder.wait_until_assigned()
        scene.consumer.subscribe([scene.orders], listener=scene.listener)
        scene.poll_until(
            # The first JoinGroup only gets the member its id.
            lambda: scene.wire.sent["JoinGroup"] == 2
        )
        scene.perform()
    scene.observe_delivery_after_join()


def owning(scene: Scene) -> None:
    """All partitions are owned, and read to their end."""
    scene.own()
    scene.perform()
    scene.observe_delivery()


def owning_by_pattern(scene: Scene) -> None:
    scene.unobserved.add("subscription")  # A metadata refresh empties it for a moment.
    scene.construct()
    scene.consumer.subscribe(pattern=f"^{scene.orders}$", listener=scene.listener)
    scene.read_all()
    scene.perform()
    scene.observe_delivery()


def owning_with_automatic_commits(scene: Scene) -> None:
    scene.own(enable_auto_commit=True, auto_commit_interval_ms=600_000)
    scene.perform()


def owning_as_a_static_member(scene: Scene) -> None:
    scene.own(group_instance_id="one")
    scene.perform()
    scene.observe_delivery()


def rejoining(scene: Scene) -> None:
    """All partitions are owned. The group rebalances, and another member has not rejoined."""
    scene.own()
    holder = scene.holder()
    with scene.held_by(holder):
        scene.settled_beside(holder)
        joins = scene.wire.sent["JoinGroup"]
        with scene.held_by(scene.holder(name="newcomer")):
            scene.poll_until(lambda: scene.wire.sent["JoinGroup"] > joins)
            scene.perform()
            holder.ask_to_end()
    scene.observe_delivery_after_join()


def revoking(scene: Scene) -> None:
    """The listener's `on_partitions_revoked` runs, and makes the calls; the first partition is revoked."""
    scene.own()
    told = threading.Event()

    def in_listener(revoked: set[TopicPartition]) -> None:
        scene.names.first = min(tp.partition for tp in revoked)
        try:
            scene.perform(here=True)
        finally:
            told.set()

    scene.in_revoked = in_listener
    with scene.held_by(scene.holder(scene.orders)):
        scene.poll_until(told.is_set)
    scene.observe_delivery_after_join()


def lost(scene: Scene) -> None:
    """The member was removed, knows it, and joins again; the join waits for another member."""
    scene.own()
    holder = scene.holder()
    with scene.held_by(holder):
        scene.settled_beside(holder)
        joins = scene.wire.sent["JoinGroup"]
        scene.expel()
        scene.poll_until(lambda: scene.wire.sent["JoinGroup"] >= joins + 2)
        scene.perform()
    scene.observe_delivery_after_join()


def stalled(scene: Scene) -> None:
    """`poll` was not called for longer than `max_poll_interval_ms`, and the member has left."""
    scene.own(max_poll_interval_ms=1500)
    scene.until(lambda: scene.wire.answered["LeaveGroup"])
    scene.wire.hold("JoinGroup")  # A call may start a rejoin; the later calls find it in flight.
    scene.perform()
    scene.wire.let_go("JoinGroup")
    scene.observe_delivery()


def closing(scene: Scene) -> None:
    """`close` runs in another thread, and its LeaveGroup is in flight."""
    scene.own()
    scene.wire.hold("LeaveGroup")
    said: list[str] = []
    closer = threading.Thread(target=lambda: said.append(scene.outcome(scene.consumer.close, here=True)))
    closer.start()
    scene.until(lambda: scene.wire.sent["LeaveGroup"])
    scene.perform()
    scene.wire.let_go("LeaveGroup")
    closer.join()
    scene.observe("close under way", said[0])


def closed(scene: Scene) -> None:
    scene.own()
    scene.consumer.close()
    scene.perform()


def closed_before_first_poll(scene: Scene) -> None:
    scene.construct(scene.orders)
    scene.consumer.close()
    scene.perform()


STATES: dict[str, State] = {
    state.__name__.replace("_", " "): state
    for state in (
        not_constructed,
        not_polled,
        without_subscription,
        assigned_by_hand,
        joining,
        owning,
        owning_by_pattern,
        owning_with_automatic_commits,
        owning_as_a_static_member,
        rejoining,
        revoking,
        lost,
        stalled,
        closing,
        closed,
        closed_before_first_poll,
    )
}


def play(scene: Scene) -> None:
    """Play the whole scenario."""
    try:
        STATES[scene.scenario.state](scene)
    except Exception as error:
        scene.observe("state", f"not reached: {error!r}")
    if scene.consumer is not None:
        scene.close()
        scene.look_around()
        scene.clean_up()
    scene.look_up_committed()
