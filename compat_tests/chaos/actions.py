"""The actions of a plan, as values: each names its target and its duration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from compat_tests.support.fault_proxy import Fault

__all__ = [
    "Action",
    "AddPartitions",
    "Freeze",
    "HangListener",
    "Join",
    "Kill",
    "KillCoordinator",
    "Leave",
    "NetworkFault",
    "RaiseInListener",
    "Restart",
    "RestartBroker",
    "SlowListener",
    "Stall",
    "Subscribe",
    "Suspend",
]


@dataclass(frozen=True, slots=True)
class Join:
    """Start a process. A `static` member has its name as instance id (KIP-345)."""

    member: str
    kind: str
    topics: Sequence[str]
    static: bool = False


@dataclass(frozen=True, slots=True)
class Leave:
    """SIGTERM. A static member closes without leaving, and the group waits for the end of its session."""

    member: str


@dataclass(frozen=True, slots=True)
class Restart:
    """End the process of a static member, by SIGTERM or `killed`, and start it again after `seconds`.

    The new process has the same instance id. It starts within the session, or after it.
    """

    member: str
    seconds: float
    killed: bool


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL."""

    member: str


@dataclass(frozen=True, slots=True)
class Freeze:
    """SIGSTOP, and SIGCONT after `seconds`: within the session, or after it."""

    member: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Stall:
    """The application does not poll for longer than the poll interval."""

    member: str
    seconds: float


@dataclass(frozen=True, slots=True)
class SlowListener:
    """For some seconds, each call of the member's listener takes `pause_s` longer."""

    member: str
    pause_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Suspend:
    """The member's machine sleeps for some seconds: its process and its CLOCK_MONOTONIC stop."""

    member: str
    seconds: float


@dataclass(frozen=True, slots=True)
class HangListener:
    """A call of the member's listener that runs in these seconds returns at their end."""

    member: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RaiseInListener:
    """Each call of the member's listener raises after it has done its work."""

    member: str
    seconds: float


@dataclass(frozen=True, slots=True)
class NetworkFault:
    """The network between brokers and members has a fault.

    It affects one member or, if `member` is empty, all members behind the proxy, and the broker in `fault`.
    """

    member: str
    fault: Fault
    seconds: float

    def __str__(self) -> str:
        return f"NetworkFault(member={self.member!r}, {self.fault}, seconds={self.seconds})"


@dataclass(frozen=True, slots=True)
class Subscribe:
    member: str
    topics: Sequence[str]


@dataclass(frozen=True, slots=True)
class AddPartitions:
    topic: str
    total: int


@dataclass(frozen=True, slots=True)
class RestartBroker:
    """SIGTERM to a broker, and a start after `seconds`."""

    broker: int
    seconds: float


@dataclass(frozen=True, slots=True)
class KillCoordinator:
    """SIGKILL to the broker that coordinates the group, and a start after `seconds`."""

    seconds: float


Action: TypeAlias = (
    Join
    | Leave
    | Restart
    | Kill
    | Freeze
    | Suspend
    | Stall
    | SlowListener
    | HangListener
    | RaiseInListener
    | NetworkFault
    | Subscribe
    | AddPartitions
    | RestartBroker
    | KillCoordinator
)
