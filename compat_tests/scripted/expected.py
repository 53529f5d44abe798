"""A consumer's reaction to each response: Java's reaction, or a documented difference.

`JAVA` is taken from the response handlers of Java's `AbstractCoordinator`, `ConsumerCoordinator` and
`OffsetFetcher`. The first matching line counts.

    retried     the request is sent again, or need not be; the user sees no error
    looked up   the coordinator is looked up again, then as `retried`
    rejoined    the member joins again with the same id, and keeps its partitions
    lost        the partitions are lost, and the member joins again
    raised      a call for records, or the call in flight, raises it once; the consumer goes on
    fatal       every further call raises it
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import aiokafka.errors
import kafka.errors

from compat_tests.scripted.broker import Answer, Closed, Code, Late, Never, Torn, Twice
from compat_tests.scripted.error_codes import ERRORS, UNKNOWN_CODE, ErrorCode
from compat_tests.scripted.scenes import SCENES, Scene
from compat_tests.scripted.users import CLIENTS

JAVA = """
FindCoordinator  retriable                                                          retried
FindCoordinator  *                                                                  raised
JoinGroup        COORDINATOR_LOAD_IN_PROGRESS REBALANCE_IN_PROGRESS                 retried
JoinGroup        MEMBER_ID_REQUIRED                                                 retried
JoinGroup        COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR                          looked-up
JoinGroup        UNKNOWN_MEMBER_ID                                                  lost
JoinGroup        *                                                                  raised
SyncGroup        REBALANCE_IN_PROGRESS                                              retried
SyncGroup        COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR                          looked-up
SyncGroup        UNKNOWN_MEMBER_ID ILLEGAL_GENERATION                               lost
SyncGroup        *                                                                  raised
Heartbeat        COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR                          looked-up
Heartbeat        REBALANCE_IN_PROGRESS                                              rejoined
Heartbeat        UNKNOWN_MEMBER_ID ILLEGAL_GENERATION                               lost
Heartbeat        FENCED_INSTANCE_ID                                                 fatal
Heartbeat        *                                                                  retried
LeaveGroup       *                                                                  retried
OffsetCommit     COORDINATOR_LOAD_IN_PROGRESS UNKNOWN_TOPIC_OR_PARTITION            retried
OffsetCommit     COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR REQUEST_TIMED_OUT        looked-up
OffsetCommit     UNKNOWN_MEMBER_ID ILLEGAL_GENERATION                               raised,lost
OffsetCommit     REBALANCE_IN_PROGRESS                                              raised,rejoined
OffsetCommit     *                                                                  raised
OffsetFetch      COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR                          looked-up
OffsetFetch      retriable                                                          retried
OffsetFetch      *                                                                  raised
Partitions       UNSTABLE_OFFSET_COMMIT                                             retried
Partitions       *                                                                  raised
ListOffsets      TOPIC_AUTHORIZATION_FAILED                                         raised
ListOffsets      *                                                                  retried
Metadata         TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION                 raised
Metadata         *                                                                  retried
"""
"""`Partitions` stands for the errors of single partitions in an OffsetFetch response."""


DIFFERENCES = """
# Nothing is owned, and the member keeps its id, as in Java.
JoinGroup | UNKNOWN_MEMBER_ID ILLEGAL_GENERATION | retried | first join
SyncGroup | ILLEGAL_GENERATION | retried | first join

# The consumer is being closed: no call is left that could raise, the listener is called once, and its commit
# raises, or is sent again for a time, as the member joins no more.
Heartbeat JoinGroup SyncGroup FindCoordinator | * | retried | closing
OffsetCommit | UNKNOWN_MEMBER_ID ILLEGAL_GENERATION FENCED_INSTANCE_ID | raised | closing
OffsetCommit | REBALANCE_IN_PROGRESS | retried | closing

# Another process has the instance id. Java raises whenever it is answered so; no call succeeds.
JoinGroup SyncGroup OffsetCommit | FENCED_INSTANCE_ID | fatal |

# The generation is gone. Java raises: no coordinator answers JoinGroup so.
JoinGroup | ILLEGAL_GENERATION | lost |

# A coordinator that gives an id to a member that has one does not know it.
JoinGroup | MEMBER_ID_REQUIRED | lost | rejoining

# While JoinGroup is under way this says only that its answer is on the way.
Heartbeat OffsetCommit | ILLEGAL_GENERATION | retried | rejoining

# No retry helps, so the user hears of it, on kafka-python unless a later heartbeat is accepted before the
# user polls. Java repeats the heartbeat until the session has ended. Before the first join none is sent.
Heartbeat | unnamed-final UNKNOWN_TOPIC_OR_PARTITION | retried-or-raised | kafka-python
Heartbeat | unnamed-final UNKNOWN_TOPIC_OR_PARTITION | raised |
FindCoordinator | unnamed-final retriable-in-java-alone | raised | first join
FindCoordinator | unnamed-final retriable-in-java-alone | retried-or-raised | kafka-python

# As in Java, although the code is retriable: no coordinator answers so.
JoinGroup SyncGroup | UNKNOWN_TOPIC_OR_PARTITION | raised |

# What is retriable may succeed in a moment. Java raises all that its handler does not name.
JoinGroup SyncGroup | unnamed-retriable | retried |

# The commit waits for the end of the rebalance, and is sent again for what is still owned.
OffsetCommit | REBALANCE_IN_PROGRESS | rejoined |

# The topic was deleted. Java repeats the commit until its timeout.
OffsetCommit | UNKNOWN_TOPIC_OR_PARTITION | raised |

# The code of the client itself sends the request and judges the answer, in the stock consumer too.
FindCoordinator | retriable-in-java-alone | raised |
OffsetFetch | retriable-in-java-alone | raised |
OffsetFetch | COORDINATOR_NOT_AVAILABLE | retried | kafka-python
Partitions | UNKNOWN_TOPIC_OR_PARTITION COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR | retried | aiokafka
Partitions | retriable-in-java-alone | raised | kafka-python
Partitions | retriable | retried | kafka-python
ListOffsets Metadata | * | retried-or-raised |
"""
"""Where our consumers react otherwise than Java, in which phase or with which client, under the reason.

The first match counts; without a match, `JAVA` applies.
"""

BROKEN: dict[str, Answer] = {
    "late": Late(0.3),
    "never": Never(),
    "torn": Torn(),
    "twice": Twice(),
    "closed": Closed(),
}
"""Answers without an error code: the coordinator is looked up again, and the member may have to rejoin."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One answer to one request in one phase of one client's consumer."""

    client: str
    scene: Scene
    label: str
    answer: Answer

    @property
    def name(self) -> str:
        """A short name for pytest's output."""
        return f"{self.client}, {self.scene.name}, {self.label}"


def cells() -> Iterator[Cell]:
    for client in CLIENTS:
        for scene in SCENES:
            for error in ERRORS:
                yield Cell(client, scene, error.name, Code(error.code, scene.in_partitions))
            for label, answer in BROKEN.items():
                yield Cell(client, scene, label, answer)


_SAMPLED = (
    *("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"),
    *("REBALANCE_IN_PROGRESS", "FENCED_INSTANCE_ID", "GROUP_AUTHORIZATION_FAILED", f"error {UNKNOWN_CODE}"),
    *BROKEN,
)

_ALWAYS_SAMPLED = (
    ("first join", "ListOffsets", "UNSUPPORTED_FOR_MESSAGE_FORMAT"),
    ("first join", "Metadata", "never"),
    ("closing", "JoinGroup", "MEMBER_ID_REQUIRED"),
)
"""Cells in which a faulty consumer once failed while it passed all others: phase, request and answer."""


def sample() -> Iterator[Cell]:
    """Some cells of each request, phase, outcome and broken answer."""
    seen: set[object] = set()
    number = 0
    for cell in cells():
        always = (cell.scene.phase, cell.scene.api, cell.label) in _ALWAYS_SAMPLED
        if not always and cell.label not in _SAMPLED:
            continue
        kinds = kinds_of(cell)
        # The number of answers is not a multiple of three, so the sampled answers differ from scene to scene.
        if always or number % 3 == 0 or not kinds <= seen:
            seen |= kinds
            yield cell
        number += cell.label in _SAMPLED


def kinds_of(cell: Cell) -> set[object]:
    """The kinds of which a sample needs at least one cell for each client."""
    kinds = {cell.scene.api, cell.scene.phase, allowed(cell).must}
    if cell.label in BROKEN:
        kinds.add(cell.label)
    return {(cell.client, kind) for kind in kinds}


@dataclass(frozen=True, slots=True)
class Allowed:
    """The labels that must and may be observed."""

    must: frozenset[str]
    may: frozenset[str]

    def __contains__(self, labels: frozenset[str]) -> bool:
        return self.must <= labels <= self.must | self.may


def _api(scene: Scene) -> str:
    return "Partitions" if scene.in_partitions else scene.api


def _line_of(scene: Scene, error: ErrorCode) -> tuple[list[str], str]:
    for line in JAVA.strip().splitlines():
        of, *codes, outcome = line.split()
        named = error.name in codes or ("retriable" in codes and error.retriable)
        if of == _api(scene) and (named or "*" in codes):
            return codes, outcome
    raise LookupError(f"no line of JAVA fits {scene.name}, {error.name}")


def _fits(client: str, scene: Scene, codes: list[str], error: ErrorCode) -> bool:
    unnamed = "*" in _line_of(scene, error)[0]
    errors = aiokafka.errors if client == "aiokafka" else kafka.errors
    kinds = {
        error.name: True,
        "*": True,
        "retriable": error.retriable,
        "retriable-in-java-alone": error.retriable and not errors.for_code(error.code).retriable,
        "unnamed-retriable": error.retriable and unnamed,
        "unnamed-final": not error.retriable and unnamed,
    }
    return any(kinds.get(code, False) for code in codes)


def difference(client: str, scene: Scene, error: ErrorCode) -> str | None:
    """The outcome in the line of `DIFFERENCES` that applies."""
    for line in DIFFERENCES.splitlines():
        if not line or line.startswith("#"):
            continue
        apis, codes, outcome, where = (column.strip() for column in line.split("|"))
        if (
            _api(scene) in apis.split()
            and where in ("", client, scene.phase)
            and _fits(client, scene, codes.split(), error)
        ):
            return outcome
    return None


def allowed(cell: Cell) -> Allowed:
    """The allowed labels of the cell, including those that its scene causes regardless of the answer."""
    scene, by_itself = cell.scene, _by_itself(cell.scene)
    if cell.label in BROKEN:
        return Allowed(frozenset(), _of_broken(cell) | by_itself)
    error = next(one for one in ERRORS if one.name == cell.label)
    outcome = difference(cell.client, scene, error) or _line_of(scene, error)[1]
    if outcome == "retried-or-raised":
        return Allowed(frozenset(), by_itself | {"raised"})
    must = frozenset() if outcome == "retried" else frozenset(outcome.replace("-", " ").split(","))
    if "fatal" in must:
        must |= {"raised"}
    may = by_itself | ({"rejoined"} if "lost" in must else frozenset())
    if scene.phase == "closing":
        may |= {"looked up"}
    if (scene.phase, scene.api) == ("closing", "FindCoordinator"):
        # A heartbeat, or the listener's commit, looks the coordinator up first; the commit raises.
        may |= {"raised"}
    return Allowed(must - by_itself, may)


def _by_itself(scene: Scene) -> frozenset[str]:
    """The labels that a scene causes even with the usual response."""
    labels = set()
    if scene.phase == "first join" or scene.api == "FindCoordinator":
        labels.add("looked up")
    if scene.phase not in ("stable", "closing") or scene.api in ("JoinGroup", "SyncGroup", "LeaveGroup"):
        labels.add("rejoined")
    if scene.phase in ("lost", "stalled") or (scene.phase, scene.api) == ("stable", "LeaveGroup"):
        labels.add("lost")
    return frozenset(labels)


def _of_broken(cell: Cell) -> frozenset[str]:
    """A broken connection has no consequence except for the calls that wait for it."""
    if cell.label == "late":
        return frozenset()
    labels = {"looked up", "rejoined"}
    if cell.label == "never":
        # The call times out, and the partitions may have been reassigned after so long without a response.
        labels |= {"raised", "lost"}
    if cell.scene.phase == "closing" and cell.scene.api == "OffsetCommit":
        # A closing consumer does not wait for another coordinator.
        labels.add("raised")
    if cell.scene.api == "JoinGroup" and cell.label in ("torn", "twice"):
        # The coordinator has begun a generation that the member does not know, so it refuses heartbeats.
        # kafka-python drops a response that comes together with one more.
        labels.add("lost")
    return frozenset(labels)
