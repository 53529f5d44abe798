"""The cluster of a command: its connection, and groups that it does not show."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kafka_assignors.arguments import UserError
from kafka_assignors.group import quoted
from kafka_assignors_cli.options import ClusterAddress, require_extra

if TYPE_CHECKING:
    from kafka_assignors_ops.cluster import Cluster
    from kafka_assignors_ops.live_group import LiveGroup


@contextlib.contextmanager
def connected(address: ClusterAddress) -> Iterator[Cluster]:
    """Connect to the cluster that the options name."""
    with require_extra("a running cluster", "admin"):
        import confluent_kafka  # noqa: F401

        from kafka_assignors_ops.cluster import Cluster
    with Cluster(address.bootstrap_servers, address.config, timeout_s=address.timeout_s) as cluster:
        yield cluster


def require_existing(cluster: Cluster, found: Sequence[LiveGroup]) -> None:
    """Refuse groups that the cluster does not have, or does not describe."""
    if problem := unreadable(cluster, found):
        raise UserError(problem)


def unreadable(cluster: Cluster, found: Sequence[LiveGroup]) -> str | None:
    """What is wrong with groups that the cluster does not describe, or does not have: the nearest name."""
    errors = [live.error for live in found if live.error is not None]
    dead = [live for live in found if live.state == "Dead"]
    errors += [f"group {quoted(live.id)} {problem}" for live in dead for problem in live.problems]
    unknown = [live.id for live in dead if not live.problems]
    if unknown:
        known = [group.id for group in cluster.list_groups().groups]
        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = (
            f"did you mean {near[0]!r}?" if near else "'kafka-assignors groups' lists those that you may see"
        )
        errors.append(f"there is no group {', '.join(map(quoted, unknown))}: {hint}")
    return "; ".join(errors) or None
