"""A live cluster as the source of a history: the error that jobs and Spark's workers report, and the
catalogue of its topics. It needs confluent-kafka, and neither Spark nor pyarrow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from kafka_assignors_confluent.connection import ClusterError, Connection
from kafka_assignors_confluent.topics import describe_topics, hidden_topics_warning, topic_of
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry


class SourceError(RuntimeError):
    """The cluster cannot be read as asked: one line that says why."""


@contextlib.contextmanager
def source_errors() -> Iterator[None]:
    """Turn every `ClusterError` into a `SourceError`, which jobs and Spark's workers report."""
    try:
        yield
    except ClusterError as error:
        raise SourceError(str(error)) from error


def live_catalogue(
    bootstrap_servers: str, config: Mapping[str, str], topics: Iterable[str], timeout_seconds: float
) -> tuple[Catalogue, str]:
    """The current topics of a live cluster, as if they had never changed, and a warning, or "".

    Missing topics are left out, and hidden ones too, which the warning names. `SourceError` if the cluster
    does not answer.
    """
    names = sorted(set(topics))
    if not names:
        return Catalogue(()), ""
    with source_errors():
        described = describe_topics(Connection(bootstrap_servers, config, timeout_seconds), names)
    found = described.found.items()
    catalogue = Catalogue(CatalogueEntry(None, topic_of(name, description)) for name, description in found)
    return catalogue, hidden_topics_warning(described.hidden, "history")
