"""What one member warms: a value without I/O and clock, as the machine's `MemberState` is.

Its leader lists the units that it is going to get. Each waits for its turn, runs, and is ready when its
callback has ended in any way; the next JoinGroup request reports that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kafka_assignors.group import NO_GENERATION, Warmth, by_topic
from kafka_assignors.rebalance.events import Partitions
from kafka_assignors.wire.warm_sections import Unit, WarmList

NO_UNITS: frozenset[Unit] = frozenset()


@dataclass(frozen=True, slots=True)
class Warming:
    """The warm-ups of a member that runs `max_warming` at a time; 0 without a callback.

    `listed` are the units of the last list, in its order, without those that were assigned since; of these,
    `ready` have ended, and `reported` stood as ready in a JoinGroup request. `running` are the units whose
    callback runs, listed or not; of these, `cancelled` were told to end.
    """

    max_warming: int = 0
    draining: bool = False
    generation: int = NO_GENERATION
    plan: int = 0
    has_list: bool = False
    listed: tuple[Unit, ...] = ()
    running: frozenset[Unit] = NO_UNITS
    cancelled: frozenset[Unit] = NO_UNITS
    ready: frozenset[Unit] = NO_UNITS
    reported: frozenset[Unit] = NO_UNITS

    def assigned(
        self, generation: int, warm: WarmList | None, partitions: Partitions
    ) -> tuple[Warming, frozenset[Unit]]:
        """After an assignment of these partitions: the state, and the units that are not listed any more.

        Without a list, from a leader that knows nothing of warm-ups, nothing is cancelled.
        """
        wanted = self.listed if warm is None else warm.units
        listed = tuple(unit for unit in wanted if not partitions.issuperset(unit))
        gone = frozenset(unit for unit in {*self.listed} - {*listed} if not partitions.issuperset(unit))
        ready = self.ready.intersection(listed) if self.max_warming else frozenset(listed)
        state = replace(
            self,
            listed=listed,
            cancelled=self.cancelled | (self.running & gone),
            ready=ready,
            reported=self.reported & ready if self.max_warming else ready,
            has_list=warm is not None,
        )
        if warm is not None:
            state = replace(state, generation=generation, plan=warm.plan)
        return state, gone

    def without(self, gone: frozenset[Unit]) -> Warming:
        """After these listed units are cancelled: the member has lost its membership, or a subscription."""
        return replace(
            self,
            listed=tuple(unit for unit in self.listed if unit not in gone),
            cancelled=self.cancelled | (self.running & gone),
            ready=self.ready - gone,
            reported=self.reported - gone,
        )

    def begin(self) -> tuple[Warming, tuple[Unit, ...]]:
        """The state, and the units whose callback begins now.

        A unit waits for the end of a running one that shares a partition with it.
        """
        running, warming = set(self.running), {each for unit in self.running for each in unit}
        for unit in self.listed:
            if len(running) < self.max_warming and unit not in self.ready and warming.isdisjoint(unit):
                running.add(unit)
                warming.update(unit)
        begun = tuple(unit for unit in self.listed if unit in running - self.running)
        return replace(self, running=frozenset(running)), begun

    def ended(self, unit: Unit) -> Warming:
        """The callback has returned, raised, or taken too long. After a cancel it begins again if listed."""
        counts = unit in self.listed and unit not in self.cancelled
        return replace(
            self,
            running=self.running - {unit},
            cancelled=self.cancelled - {unit},
            ready=self.ready | {unit} if counts else self.ready,
        )

    def joining(self) -> tuple[Warming, Warmth | None]:
        """When JoinGroup is sent: the state, and what the member announces.

        Without a callback it echoes the last list, so that a leader can keep its plan.
        """
        if not (self.max_warming or self.draining or self.has_list):
            return self, None
        warmth = Warmth(
            self.max_warming,
            self.draining,
            self.generation,
            self.plan,
            by_topic(one for unit in self.listed if unit not in self.ready for one in unit),
            by_topic(one for unit in self.ready for one in unit),
        )
        return replace(self, reported=self.ready), warmth

    @property
    def unreported(self) -> frozenset[Unit]:
        """The units that have become ready since the last JoinGroup request."""
        return self.ready - self.reported

    @property
    def is_warm(self) -> bool:
        """Whether everything listed is ready."""
        return len(self.ready) == len(self.listed)
