"""Runs every assignor on every scenario, and makes the tables of the results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from compat_tests.corpus.judge import End, Verdict, judge, play
from compat_tests.corpus.scenario import Scenario
from compat_tests.peers.asking import PEERS, Answer, Peer, Peers
from kafka_assignors.group import Group
from kafka_assignors.leader import lead
from kafka_assignors.strategies import RebalanceProtocol, Strategy, load_strategy

OURS = ("sticky", "cooperative-sticky", "rack-aware-sticky")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one assignor for one scenario."""

    assignor: str
    scenario: Scenario
    verdict: Verdict

    @property
    def ours(self) -> bool:
        return self.assignor.startswith("ours ")


def play_ours(name: str, scenario: Scenario) -> Result:
    """Play a scenario with one of our strategies, called as a leader calls it."""
    strategy: Strategy = load_strategy(name)
    protocol = strategy.protocols[0]

    def ask(group: Group) -> Answer:
        return Answer(lead(strategy, group, protocol).assignment, None)

    played = play(scenario.group, ask, cooperative=protocol is RebalanceProtocol.COOPERATIVE)
    return Result(f"ours {name}", scenario, judge(scenario.group, scenario.best, played))


def run(scenarios: Sequence[Scenario], peers: Iterable[Peer] = PEERS) -> Iterator[Result]:
    """Play every scenario with our strategies and with the peers; yields each result at once."""
    for name in OURS:
        for scenario in scenarios:
            yield play_ours(name, scenario)
    with Peers() as asked:
        for peer in peers:

            def ask(group: Group, peer: Peer = peer) -> Answer:
                return asked.assign(peer, group)

            for scenario in scenarios:
                played = play(scenario.group, ask, cooperative=peer.cooperative)
                yield Result(str(peer), scenario, judge(scenario.group, scenario.best, played))


def overall(results: Sequence[Result]) -> str:
    """The results of each assignor over all scenarios."""
    head = ["assignor", "groups", "balanced", "and least moved", "and least rack misses", "best"]
    head += ["moves again", "never settles", "crashed", "invalid"]
    wishes = ("balanced", "least_moved", "least_misses", "best", "moves_again")
    by_assignor: dict[str, list[Verdict]] = {}
    for result in results:
        by_assignor.setdefault(result.assignor, []).append(result.verdict)
    rows = [
        [
            assignor,
            len(verdicts),
            *(sum(getattr(verdict, wish) for verdict in verdicts) for wish in wishes),
            *(sum(v.end is end for v in verdicts) for end in (End.NEVER_SETTLES, End.CRASHED, End.INVALID)),
        ]
        for assignor, verdicts in by_assignor.items()
    ]
    return markdown(head, rows)


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table with text in the first column and numbers in the others."""
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])
