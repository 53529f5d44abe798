"""kafka-python's metrics of the group protocol, fed as its own coordinator does."""

from __future__ import annotations

from typing import Any

__all__ = ["Latencies"]


class Latencies:
    """The sensors of one coordinator, which may have none."""

    def __init__(self, sensors: Any, consumer_sensors: Any) -> None:
        """`sensors` are those of heartbeats and joins, `consumer_sensors` that of commits."""
        self._heartbeat = getattr(sensors, "heartbeat_latency", None)
        self._of_accepted = {
            "JoinGroupRequest": getattr(sensors, "join_latency", None),
            "SyncGroupRequest": getattr(sensors, "sync_latency", None),
        }
        self._commit = getattr(consumer_sensors, "commit_latency", None)

    def answered(self, request: Any, response: Any, latency_ms: float) -> None:
        """A request was answered: heartbeats and commits count always, joins and syncs if accepted."""
        name = type(request).__name__
        if name == "HeartbeatRequest":
            sensor = self._heartbeat
        elif name == "OffsetCommitRequest":
            sensor = self._commit
        else:
            sensor = self._of_accepted.get(name) if response.error_code == 0 else None
        if sensor is not None:
            sensor.record(latency_ms)
