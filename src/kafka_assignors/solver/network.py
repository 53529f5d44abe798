"""Minimum-cost flow that sends the whole supply of some nodes to the nodes that lack it.

Every node has a *balance*: its supply, or, negative, what it lacks. The primal-dual algorithm brings them
together: find the distance of every node from those on one side, make the distances the prices of the nodes,
send all that fits along paths that are tight at these prices, and repeat until no supply is left. At these
prices no edge with room has a negative reduced cost, so no flow is cheaper.

Since all supply must be sent in the end, a round sends from near and far at the same time, and it starts from
the side with fewer nodes, supply or lack: one member at the end of a long chain takes one round, not one for
each different length of a path.

The network may begin with a flow on edges of cost zero, since none is cheaper.

Source: R. K. Ahuja, T. L. Magnanti, J. B. Orlin, "Network Flows" (1993), sections 9.7 and 9.8; the sending
along layers is Dinic's, section 7.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

UNLIMITED = 1 << 62


class Network:
    """Nodes and edges are integers; every edge has a twin, `edge ^ 1`, that takes flow back."""

    def __init__(self) -> None:
        self._edges: list[list[int]] = []  # by node: the edges that leave it, twins included
        self._balance: list[int] = []  # by node: its supply, or, negative, what it lacks
        self._head: list[int] = []
        self._room: list[int] = []  # how much more the edge can carry
        self._cost: list[int] = []

    def node(self, balance: int = 0) -> int:
        """Add a node."""
        self._edges.append([])
        self._balance.append(balance)
        return len(self._edges) - 1

    def lack(self, node: int, amount: int) -> None:
        """Raise what a node lacks by `amount`."""
        self._balance[node] -= amount

    def edge(self, tail: int, head: int, capacity: int, cost: int = 0, *, carries: int = 0) -> int:
        """Add an edge; `cost` is for each unit, not negative, and zero if it carries something already.

        What it carries counts as sent from `tail` to `head`.
        """
        number = len(self._head)
        self._edges[tail].append(number)
        self._edges[head].append(number + 1)
        self._balance[tail] -= carries
        self._balance[head] += carries
        self._head += (head, tail)
        self._room += (capacity - carries, carries)
        self._cost += (cost, -cost)
        return number

    def fan(self, tail: int, heads: Sequence[int], cost: int) -> range:
        """Add an edge without a limit to each of the heads, as `edge` would; their numbers, in order."""
        first = len(self._head)
        numbers = range(first, first + 2 * len(heads), 2)
        self._edges[tail] += numbers
        for number, head in zip(numbers, heads, strict=True):
            self._edges[head].append(number + 1)
            self._head += (head, tail)
        self._room += (UNLIMITED, 0) * len(heads)
        self._cost += (cost, -cost) * len(heads)
        return numbers

    def flow(self, edge: int) -> int:
        return self._room[edge ^ 1]

    def settle(self) -> None:
        """Send the whole supply to the nodes that lack it, at the least cost; ValueError if that fails."""
        prices = [0] * len(self._edges)
        while True:
            giving = [node for node, balance in enumerate(self._balance) if balance > 0]
            lacking = [node for node, balance in enumerate(self._balance) if balance < 0]
            if not giving:
                return
            if len(giving) <= len(lacking):
                search = _Search(self, prices, giving, lacking, forward=True)
            else:
                search = _Search(self, prices, lacking, giving, forward=False)
            search.set_prices()
            while search.send():
                pass


class _Search:
    """One round: from the `starts`, with the edges if `forward`, else against them, to the `ends`.

    `edge ^ along` is the edge that the flow takes where the search takes `edge`: the edge itself or its twin.
    Prices keep the reduced cost of every edge with room (its cost plus the fall of the price along it) at
    zero or more; at zero the edge is tight.
    """

    def __init__(
        self, network: Network, prices: list[int], starts: list[int], ends: list[int], *, forward: bool
    ) -> None:
        self._edges, self._head = network._edges, network._head
        self._room, self._cost, self._balance = network._room, network._cost, network._balance
        self._prices, self._starts, self._ends = prices, starts, ends
        self._sign = 1 if forward else -1
        self._along = 0 if forward else 1

    def set_prices(self) -> None:
        """Add to each price the node's distance from the starts: Dijkstra's algorithm on reduced costs."""
        edges, heads, room, costs, prices = self._edges, self._head, self._room, self._cost, self._prices
        sign, along = self._sign, self._along
        distances = [UNLIMITED] * len(edges)
        for node in self._starts:
            distances[node] = 0
        by_distance = {0: [*self._starts]}
        pending = [0]
        wanted = set(self._ends)
        distance = 0
        while pending and wanted:
            distance = heappop(pending)
            nodes = by_distance.pop(distance)
            for node in nodes:  # grows while it is walked through
                if distances[node] != distance:
                    continue
                wanted.discard(node)
                price = prices[node]
                for edge in edges[node]:
                    if room[edge ^ along]:
                        head = heads[edge]
                        through = distance + sign * (costs[edge] + price - prices[head])
                        if through < distances[head]:
                            distances[head] = through
                            if through == distance:
                                nodes.append(head)
                            elif through in by_distance:
                                by_distance[through].append(head)
                            else:
                                by_distance[through] = [head]
                                heappush(pending, through)
        if wanted:
            raise ValueError("not everything can be sent")
        # Nodes that are farther than all the ends get the same distance.
        for node, nearest in enumerate(distances):
            prices[node] += sign * min(nearest, distance)

    def send(self) -> bool:
        """Send all that tight paths with the fewest edges can take; whether anything was sent."""
        layers = self._layers()
        searched = [0] * len(self._edges)  # how many edges of each node lead nowhere any more
        sent = False
        for end in self._ends:
            while self._balance[end] and layers[end] >= 0:
                if self._send_to(end, layers, searched):
                    sent = True
        return sent

    def _layers(self) -> list[int]:
        """How many tight edges lie between the starts and each node; -1 for those out of reach."""
        edges, heads, room, costs, prices = self._edges, self._head, self._room, self._cost, self._prices
        balance, along = self._balance, self._along
        layers = [-1] * len(edges)
        nodes = [node for node in self._starts if balance[node]]
        for node in nodes:
            layers[node] = 0
        for node in nodes:  # grows while it is walked through
            following = layers[node] + 1
            price = prices[node]
            for edge in edges[node]:
                if room[edge ^ along]:
                    head = heads[edge]
                    if layers[head] < 0 and price + costs[edge] == prices[head]:
                        layers[head] = following
                        nodes.append(head)
        return layers

    def _send_to(self, end: int, layers: list[int], searched: list[int]) -> bool:
        """Send along one path, found from its end: from there every step backwards leads to a start.

        False if there is none any more; `layers` then says so.
        """
        edges, heads, room, costs, prices = self._edges, self._head, self._room, self._cost, self._prices
        balance, along = self._balance, self._along ^ 1
        path: list[int] = []
        node = end
        while layers[node] or not balance[node]:
            before = layers[node] - 1
            price = prices[node]
            # A start that has nothing left leads nowhere: no node is in a layer before it.
            for index in range(searched[node], len(edges[node]) if layers[node] else 0):
                edge = edges[node][index]
                head = heads[edge]
                if room[edge ^ along] and layers[head] == before and price + costs[edge] == prices[head]:
                    searched[node] = index
                    path.append(edge)
                    node = head
                    break
            else:
                layers[node] = -1
                if node == end:
                    return False
                node = heads[path.pop() ^ 1]
        amount = min(abs(balance[end]), abs(balance[node]))
        for edge in path:
            if room[edge ^ along] < amount:
                amount = room[edge ^ along]
        for edge in path:
            room[edge ^ along] -= amount
            room[edge ^ along ^ 1] += amount
        balance[node] -= self._sign * amount
        balance[end] += self._sign * amount
        return True
