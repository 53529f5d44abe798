"""Minimum-cost flow, for networks whose costs take few different values.

The primal-dual algorithm: find the cheapest distance from source to sink, send all that fits along the
cheapest paths at once (a maximum flow on them, by Dinic's algorithm), and repeat with the distances as prices
until no path is left. It needs one round for each different path cost, and where the costs are "stays" and
"moves" these are two or three.

A flow that is there already may be handed over first, provided it only uses edges of cost nought: then
nothing can be cheaper, and the first round goes on from there.

Source: R. K. Ahuja, T. L. Magnanti, J. B. Orlin, "Network Flows" (1993), sections 9.8 and 7.5.
"""

from __future__ import annotations

from heapq import heappop, heappush

__all__ = ["UNLIMITED", "Network"]

UNLIMITED = 1 << 62


class Network:
    """Nodes and edges are integers; every edge has a twin, `edge ^ 1`, that takes flow back."""

    def __init__(self) -> None:
        self._edges: list[list[int]] = []  # by node: the edges that leave it, twins included
        self._head: list[int] = []
        self._room: list[int] = []  # how much more the edge can carry
        self._cost: list[int] = []

    def node(self) -> int:
        """Add a node."""
        self._edges.append([])
        return len(self._edges) - 1

    def edge(self, tail: int, head: int, capacity: int, cost: int = 0, *, carries: int = 0) -> int:
        """Add an edge; `cost` is for each unit, not negative, and nought if it carries something already."""
        number = len(self._head)
        self._edges[tail].append(number)
        self._edges[head].append(number + 1)
        self._head += (head, tail)
        self._room += (capacity - carries, carries)
        self._cost += (cost, -cost)
        return number

    def flow(self, edge: int) -> int:
        """What the edge carries."""
        return self._room[edge ^ 1]

    def send(self, source: int, sink: int) -> None:
        """Send as much as possible from source to sink, at the least cost."""
        prices = [0] * len(self._edges)
        while True:
            distances = self._distances(source, sink, prices)
            nearest = distances[sink]
            if nearest == UNLIMITED:
                return
            for node, distance in enumerate(distances):
                prices[node] += min(distance, nearest)
            while True:
                layers = self._layers(source, sink, prices)
                if layers[sink] < 0:
                    break
                self._block(source, sink, prices, layers)

    def _distances(self, source: int, sink: int, prices: list[int]) -> list[int]:
        """Dijkstra's algorithm on the costs reduced by prices; nodes no nearer than the sink may be
        unlimited."""
        edges, heads, room, costs = self._edges, self._head, self._room, self._cost
        distances = [UNLIMITED] * len(edges)
        distances[source] = 0
        by_distance = {0: [source]}
        pending = [0]
        while pending:
            distance = heappop(pending)
            if distance >= distances[sink]:
                break
            nodes = by_distance.pop(distance)
            for node in nodes:  # grows while it is walked through
                if distances[node] != distance:
                    continue
                base = distance + prices[node]
                for edge in edges[node]:
                    if room[edge]:
                        head = heads[edge]
                        through = base + costs[edge] - prices[head]
                        if through < distances[head]:
                            distances[head] = through
                            if through == distance:
                                nodes.append(head)
                            elif through in by_distance:
                                by_distance[through].append(head)
                            else:
                                by_distance[through] = [head]
                                heappush(pending, through)
        return distances

    def _layers(self, source: int, sink: int, prices: list[int]) -> list[int]:
        """How many edges of reduced cost nought lie between the source and each node; -1 for those out of
        reach."""
        edges, heads, room, costs = self._edges, self._head, self._room, self._cost
        layers = [-1] * len(edges)
        layers[source] = 0
        nodes = [source]
        for node in nodes:
            following = layers[node] + 1
            price = prices[node]
            for edge in edges[node]:
                if room[edge]:
                    head = heads[edge]
                    if layers[head] < 0 and price + costs[edge] == prices[head]:
                        layers[head] = following
                        nodes.append(head)
            if layers[sink] >= 0:
                break
        return layers

    def _block(self, source: int, sink: int, prices: list[int], layers: list[int]) -> None:
        """Send flow from layer to layer until every such path is blocked."""
        edges, heads, room, costs = self._edges, self._head, self._room, self._cost
        searched = [0] * len(edges)  # how many edges of each node lead nowhere any more
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                amount = min(room[edge] for edge in path)
                for edge in path:
                    room[edge] -= amount
                    room[edge ^ 1] += amount
                # Go on before the first edge that is full; those before it are as they were.
                full = next(index for index, edge in enumerate(path) if not room[edge])
                node = heads[path[full] ^ 1]
                del path[full:]
                continue
            following = layers[node] + 1
            price = prices[node]
            for index in range(searched[node], len(edges[node])):
                edge = edges[node][index]
                head = heads[edge]
                if room[edge] and layers[head] == following and price + costs[edge] == prices[head]:
                    searched[node] = index
                    path.append(edge)
                    node = head
                    break
            else:
                if node == source:
                    return
                layers[node] = -1
                node = heads[path.pop() ^ 1]
