"""Balanced assignments with the fewest moves inside faust-streaming.

    import faust
    from kafka_assignors_aiokafka.faust import LeastMovesAssignor

    app = faust.App("orders", broker="kafka://localhost:9092", PartitionAssignor=LeastMovesAssignor)

Faust's own assignor also keeps topics with the same number of partitions together, chooses standby members
for tables, and tells each member where tables are. All of that stays, and so do its name and its wire format:
members with either assignor form one group. Only the choice of the active member differs.
"""

# pyright: reportMissingImports=false
# Faust is not installed where this package is checked.

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

from faust.assignor.client_assignment import ClientAssignment, CopartitionedAssignment
from faust.assignor.cluster_assignment import ClusterAssignment
from faust.assignor.copartitioned_assignor import CopartitionedAssignor
from faust.assignor.partition_assignor import PartitionAssignor

from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.strategies.sticky import CooperativeSticky

__all__ = ["LeastMovesAssignor", "LeastMovesPlacement"]

_ALL = "co-partitioned"
"""Stands for all topics of a co-partitioned set: a member has the same partitions of each."""

_STRATEGY = CooperativeSticky()


class LeastMovesAssignor(PartitionAssignor):  # type: ignore[misc]  # faust's settings take a class
    """Faust's PartitionAssignor with other active members.

    For each set of co-partitioned topics, loads differ by one at most, and no assignment with such loads
    moves fewer partitions. Of those that move, as many as possible go to a member that is their standby.
    Faust's own rule chooses the standby members, `replicas` of them for each partition of a table.
    """

    def _perform_assignment(self, cluster: Any, member_metadata: Mapping[str, Any]) -> Any:
        """Faust's method of this name, with another placement of active members."""
        clients = {id: self._get_client_metadata(metadata) for id, metadata in member_metadata.items()}
        subscriptions = {id: list(metadata.subscription) for id, metadata in member_metadata.items()}
        known = ClusterAssignment()
        for id, client in clients.items():
            known.add_client(id, subscriptions[id], client)
        self._update_member_urls(clients)
        assignments = {id: ClientAssignment(actives={}, standbys={}) for id in member_metadata}
        group_of: dict[str, int] = {}
        partitions_of: dict[str, int] = {}
        sets = self._get_copartitioned_groups(known.topics(), cluster, subscriptions)
        for number, (partitions, groups) in enumerate(sorted(sets.items())):
            for topics in groups:
                group_of.update(dict.fromkeys(topics, number))
                partitions_of.update(dict.fromkeys(topics, partitions))
                together = LeastMovesPlacement(
                    topics, self._together(known, topics), partitions, self.replicas
                )
                for id, assignment in together.get_assignment().items():
                    assignments[id].add_copartitioned_assignment(assignment)
        assignments = self._global_table_standby_assignments(assignments, partitions_of)
        return self._protocol_assignments(
            assignments,
            self._get_changelog_distribution(assignments),
            self._get_external_topic_distribution(assignments),
            group_of,
        )

    def _together(
        self, known: ClusterAssignment, topics: Iterable[str]
    ) -> MutableMapping[str, CopartitionedAssignment]:
        """The previous assignment of each member that subscribes to all of these topics, by member id.

        The topics of global tables count only if there are no others: Faust makes every member active for all
        of their partitions.
        """
        global_topics = {
            table._changelog_topic_name() for table in self._table_manager.data.values() if table.is_global
        }
        asked = sorted(set(topics) - global_topics) or sorted(topics)
        found = {}
        for id, subscribed in sorted(known.subscriptions.items()):
            if set(topics) <= set(subscribed):
                had = known.assignments[id].copartitioned_assignment(asked)
                found[id] = CopartitionedAssignment(had.actives, had.standbys, set(topics))
        return found


class LeastMovesPlacement(CopartitionedAssignor):  # type: ignore[misc]
    """Active members by `cooperative-sticky`, then Faust's choice of standby members."""

    def get_assignment(self) -> MutableMapping[str, CopartitionedAssignment]:
        before: MutableMapping[str, CopartitionedAssignment] = self._client_assignments
        with_state = [
            frozenset(id for id, had in before.items() if partition in had.actives | had.standbys)
            for partition in range(self.num_partitions)
        ]
        group = Group.of(
            # The rack of a member is its own id, and a partition is in the racks of the members that have its
            # state. So the fewest rack misses are the fewest partitions whose table a member has to restore.
            [Topic(_ALL, self.num_partitions, replica_racks=tuple(with_state))],
            [Member(id, [_ALL], owned={_ALL: sorted(had.actives)}, rack=id) for id, had in before.items()],
        )
        shares = _STRATEGY.assign(group).members
        for id, had in before.items():
            had.actives = set(shares[id].get(_ALL, ()))
            had.standbys -= had.actives
            had.unassign_extras(self.max_capacity, self.replicas)
        self._assign(active=False)
        return before
