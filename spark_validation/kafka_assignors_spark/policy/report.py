"""The JSON report of a replay, as far as a policy asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafka_assignors_spark.result import RECORDED, Mode

__all__ = ["Report", "ReportError", "ReportedGroup", "read_report"]

_FORMAT = 1
_SECONDS_A_DAY = 86_400


class ReportError(ValueError):
    """What should be a report of a replay is none."""


@dataclass(frozen=True, slots=True)
class ReportedGroup:
    """How much of a group was replayed, and the days from its first record to its last."""

    rebalances: int
    replayed: int
    days: float


@dataclass(frozen=True, slots=True)
class Report:
    """`verdicts` by group, strategy and mode; a figure that is unknown is None. `source` is what was read."""

    source: str
    groups: Mapping[str, ReportedGroup]
    verdicts: Mapping[tuple[str, str, Mode], Mapping[str, Any]]
    strategies: frozenset[str]
    modes: frozenset[Mode]
    truth_holds: bool


def read_report(document: Any, where: str = "report") -> Report:
    """The report in a JSON document, as `replay --json` writes it or `result.to_json` makes it.

    `ReportError` names `where` if it is something else.
    """
    if not isinstance(document, Mapping) or not {"options", "groups", "verdicts", "truth"} <= document.keys():
        raise ReportError(f"{where}: not a report of `kafka-assignors replay --json`")
    if document.get("format", _FORMAT) != _FORMAT:
        raise ReportError(
            f"{where}: a report of format {document['format']!r}, and this release reads {_FORMAT}"
        )
    try:
        return Report(
            source=str(document["history"]["source"]),
            groups={each["group"]: _group(each) for each in document["groups"]},
            verdicts={
                (each["group"], each["strategy"], Mode(each["mode"])): each for each in document["verdicts"]
            },
            strategies=frozenset((RECORDED, *document["options"]["strategies"])),
            modes=frozenset(map(Mode, document["options"]["modes"])),
            truth_holds=bool(document["truth"]["holds"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ReportError(
            f"{where}: not a whole report of a replay: {type(error).__name__}: {error}"
        ) from None


def _group(values: Mapping[str, Any]) -> ReportedGroup:
    first, last = (datetime.fromisoformat(values[f"{end}_timestamp"]) for end in ("first", "last"))
    return ReportedGroup(
        rebalances=values["rebalances"],
        replayed=values["replayed_rebalances"],
        days=(last - first).total_seconds() / _SECONDS_A_DAY,
    )
