"""What a watch remembers from one run to the next, in a file that is replaced at once.

The file has the offsets up to which records are counted, and all that they were counted into, as one text. So
a run that goes on from it counts each record once, however the run before ended. The format is that of
`folds.replay_state`: values alone, which reading can neither execute nor inflate.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.replay_state import StateError, read_state, write_state
from kafka_assignors_spark.watch.fleet import FleetCounts
from kafka_assignors_spark.watch.group import WatchedGroup

__all__ = ["WatchError", "WatchState", "load_state", "save_state"]


class WatchError(Exception):
    """A cluster that cannot be watched as asked: one line that says what is wrong, where, and what to do."""


@dataclass(slots=True)
class WatchState:
    """Everything up to `offsets`, the next one of each partition, is counted in `counts` and `groups`."""

    cluster_id: str
    topic_id: str
    started_s: float
    offsets: dict[int, int] = field(default_factory=dict)
    counts: FleetCounts = field(default_factory=FleetCounts)
    groups: dict[bytes, WatchedGroup] = field(default_factory=dict)


def load_state(file: Path, catalogue: Catalogue) -> WatchState | None:
    """The state in the file; None if there is no file. `WatchError` if it is another file."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WatchError(f"{file}: cannot be read: {error.strerror}") from None
    try:
        return read_state(WatchState, text, (catalogue,))
    except StateError as error:
        raise WatchError(
            f"{file}: not the state of a watch: {error}; remove the file and all counts start at 0"
        ) from None


def save_state(file: Path, state: WatchState, catalogue: Catalogue) -> None:
    """Replace the file; `WatchError` if it cannot be written, and then it stays as it was."""
    text = write_state(state, (catalogue,))
    # Always the same name: a kill in the middle leaves one file, which the next write removes.
    part = file.with_name(file.name + ".part")
    try:
        part.unlink(missing_ok=True)
        try:
            with open(part, "xb", opener=_open_private) as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(file)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink()
            raise
    except OSError as error:
        raise WatchError(f"{file}: the state cannot be written: {error.strerror}") from None


def _open_private(path: str, flags: int) -> int:
    """Groups and their topics concern only the user that may read the offsets topic."""
    return os.open(path, flags, 0o600)
