"""Whose records an archive holds. It is written once, and every later run is held against it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from kafka_assignors_spark.archive.directory import Directory
from kafka_assignors_spark.archive.result import ArchiveError
from kafka_assignors_spark.options import MANIFEST

__all__ = ["MANIFEST", "Manifest", "agree", "require_same", "require_whole"]

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """The topic that is archived: an archive is of one topic of one cluster, as long as that topic lives."""

    cluster_id: str
    topic: str
    topic_id: str
    partitions: int


def agree(folder: Directory, found: Manifest) -> bool:
    """Whether an archive is there that is of this topic; an empty folder becomes one.

    `ArchiveError` if what is there is an archive of something else, or no archive.
    """
    if folder.exists(MANIFEST):
        require_same(folder.path, _read(folder), found)
        return True
    if foreign := [name for name in folder.names("") if name != "_archive"]:
        raise ArchiveError(
            f"{folder.path}: {', '.join(foreign[:3])} is there already, and no {MANIFEST}: this is not an "
            "archive; give a folder of its own"
        )
    folder.write(MANIFEST, json.dumps({"format": FORMAT, **asdict(found)}, indent=1) + "\n")
    return False


def _read(folder: Directory) -> Manifest:
    where = folder.at(MANIFEST)
    try:
        read: dict[str, Any] = json.loads(folder.read(MANIFEST))
        number = read["format"]
        if number != FORMAT:
            raise ArchiveError(f"{where}: format {number!r}, and this version knows {FORMAT}")
        return Manifest(**{field.name: read[field.name] for field in fields(Manifest)})
    except (ValueError, TypeError, KeyError) as error:
        raise ArchiveError(f"{where}: not the manifest of an archive: {error!r}") from None


def require_same(where: str, archived: Manifest, found: Manifest) -> None:
    """`ArchiveError` if `found` is not what the archive at `where` is of."""
    if archived.cluster_id != found.cluster_id:
        raise ArchiveError(
            f"{where} is the archive of cluster {archived.cluster_id}, and this is cluster "
            f"{found.cluster_id}: give each cluster a folder of its own"
        )
    if archived.topic != found.topic:
        raise ArchiveError(
            f"{where} is the archive of topic {archived.topic}, not of {found.topic}: "
            "give each a folder of its own"
        )
    if archived.topic_id != found.topic_id:
        raise ArchiveError(
            f"topic {found.topic} was created anew since {where} was begun (its id was {archived.topic_id}, "
            f"and is {found.topic_id}): offsets start over, so begin another archive; this one stays readable"
        )
    if archived.partitions != found.partitions:
        raise ArchiveError(
            f"topic {found.topic} has {found.partitions} partitions, and had {archived.partitions} when "
            f"{where} was begun: groups live in other partitions now, so begin another archive; this one "
            "stays readable"
        )


def require_whole(where: str, topic: str, archived: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """`ArchiveError` if the log of a partition ends before the offset up to which it is archived.

    `archived` and `ends` are next offsets by partition; `archived` is from before `ends` were asked for. New
    records take the offsets of those that are gone, so to wait until the log is long enough would skip them.
    """
    for partition, end in sorted(ends.items()):
        if end < archived[partition]:
            raise ArchiveError(
                f"{topic}[{partition}]: the log ends at offset {end}, and {where} has it up to "
                f"{archived[partition]}: the log was truncated (an unclean leader election, or a broker that "
                "lost its disk), and other records get these offsets now; begin another archive; this one "
                "stays readable"
            )
