"""Which isolation a history of transactions shows: its direct serialization graph, and the cycles
in it. Pure.

A transaction reads and writes numbered versions of objects; here an object is a table, and its
versions are its commits, so that the order of versions needs no guess. An edge leads from a
transaction to one that must come after it:

    ww    it wrote a version, the other wrote the next one
    wr    it wrote the version that the other read
    rw    it read a version, the other wrote the next one (an anti-dependency)
    rt    it was answered before the other began (only where real time counts: strict serializability)

A history is serializable exactly if there is no cycle. What a cycle is called follows from its
edges, rt beside any of them:

    G0                 ww only: writes of transactions in different orders
    G1c                ww and wr: a circle of what was read from whom
    G-single           one rw: a lost update, or a reader that saw a part of a transaction
    G-nonadjacent      several rw, no two of them in a row: a long fork; snapshot isolation excludes it, too
    G2                 several rw, some in a row: write skew; only serializability excludes it

Beside cycles: ``two writers`` of one version, and ``unwritten``, a read of a version without a
writer.

Sources: Adya, Liskov and O'Neil, *Generalized isolation level definitions*, ICDE 2000 (the graph,
G0 to G2); Kingsbury and Alvaro, *Elle*, PVLDB 14(3) (real time, the search by classes); Cerone and
Gotsman, *Analysing snapshot isolation*, JACM 65(2) (a history is of snapshot isolation exactly if
``(rt + ww + wr) ; rw?`` has no cycle).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

TWO_WRITERS: Final = "two writers"
UNWRITTEN: Final = "unwritten"
CYCLES: Final = ("G0", "G1c", "G-single", "G-nonadjacent", "G2")
SERIALIZABLE: Final = frozenset({TWO_WRITERS, UNWRITTEN, *CYCLES})
"""Kinds of anomalies that this level excludes."""
SNAPSHOT: Final = SERIALIZABLE - {"G2"}


@dataclass(frozen=True)
class Transaction:
    """A transaction that is committed, or that only read. ``reads`` and ``writes`` are objects with
    versions; a version below the first written one is the state at the start. ``began`` and
    ``ended`` are times of one clock, before the first read and after the answer; without an answer
    ``ended`` is None.
    """

    id: str
    reads: tuple[tuple[str, int], ...] = ()
    writes: tuple[tuple[str, int], ...] = ()
    began: int | None = None
    ended: int | None = None


@dataclass(frozen=True)
class Edge:
    """``target`` must come after ``source``, by ``object``; ids of transactions."""

    source: str
    kind: str
    target: str
    object: str = ""

    def __str__(self) -> str:
        return f"{self.source} -{self.kind}{f'({self.object})' if self.object else ''}-> {self.target}"


@dataclass(frozen=True)
class Anomaly:
    """``kind`` is one of the kinds above; a cycle has its ``edges``, the target of each the source
    of the next."""

    kind: str
    edges: tuple[Edge, ...] = ()
    message: str = ""

    @property
    def in_real_time(self) -> bool:
        """Whether it is one only by the order of answers."""
        return any(edge.kind == "rt" for edge in self.edges)

    def __str__(self) -> str:
        kind = f"{self.kind} (real time)" if self.in_real_time else self.kind
        return f"{kind}: {self.message or ', '.join(map(str, self.edges))}"


def check(history: Iterable[Transaction], *, real_time: bool = False) -> list[Anomaly]:
    """Returns the faults of a history, an anomaly for each set of transactions that depend on each
    other in circles: of the first kind in ``CYCLES`` that is in the set. Raises ValueError where
    two transactions have one id.
    """
    transactions = list(history)
    if len({transaction.id for transaction in transactions}) < len(transactions):
        raise ValueError("two transactions of the history have one id")
    edges, anomalies = dependencies(transactions)
    if real_time:
        edges += _real_time(transactions)
    graph = _graph(edges)
    for component in components(graph):
        if len(component) > 1:
            members = frozenset(component)
            inside = [edge for node in component for edge in graph[node] if edge.target in members]
            anomalies.append(_worst(inside))
    return anomalies


def violations(anomalies: Iterable[Anomaly], level: Collection[str]) -> list[Anomaly]:
    """The anomalies that ``level`` (``SERIALIZABLE``, ``SNAPSHOT``) excludes."""
    return [anomaly for anomaly in anomalies if anomaly.kind in level]


# -- the graph --------------------------------------------------------------------------------------------------------


def dependencies(transactions: Sequence[Transaction]) -> tuple[list[Edge], list[Anomaly]]:
    """Returns the edges ww, wr and rw of a history, and the faults that keep it from having a graph
    (``two writers``, ``unwritten``)."""
    writers: dict[str, dict[int, str]] = defaultdict(dict)
    edges = []
    anomalies = []
    for transaction in transactions:
        for name, version in transaction.writes:
            other = writers[name].setdefault(version, transaction.id)
            if other != transaction.id:
                message = f"version {version} of {name} is by {other} and by {transaction.id}"
                anomalies.append(Anomaly(TWO_WRITERS, message=message))
    orders = {name: sorted(versions) for name, versions in writers.items()}
    for name, order in orders.items():
        ids = [writers[name][version] for version in order]
        edges += [Edge(a, "ww", b, name) for a, b in pairwise(ids) if a != b]
    for transaction in transactions:
        for name, version in transaction.reads:
            order = orders.get(name, [])
            place = bisect_right(order, version)
            writer = writers[name].get(version)
            if writer is None and place:
                message = f"{transaction.id} read version {version} of {name}, which nobody wrote"
                anomalies.append(Anomaly(UNWRITTEN, message=message))
            if writer not in (None, transaction.id):
                edges.append(Edge(str(writer), "wr", transaction.id, name))
            if place < len(order) and (successor := writers[name][order[place]]) != transaction.id:
                edges.append(Edge(transaction.id, "rw", successor, name))
    return edges, anomalies


_MOMENT: Final = "\0moment "


def _real_time(transactions: Sequence[Transaction]) -> list[Edge]:
    """Edges rt. Instead of an edge for each pair a chain of moments, one for each answer: the
    transaction leads to the moment of its answer, each moment to the next, and the last one before
    a transaction began to it."""
    answered = sorted((t.ended, t.id) for t in transactions if t.ended is not None)
    moments = [f"{_MOMENT}{number}" for number in range(len(answered))]
    edges = [Edge(id, "rt", moment) for (_, id), moment in zip(answered, moments, strict=True)]
    edges += [Edge(a, "rt", b) for a, b in pairwise(moments)]
    ends = [ended for ended, _ in answered]
    for transaction in transactions:
        if transaction.began is not None and (place := bisect_right(ends, transaction.began - 1)):
            edges.append(Edge(moments[place - 1], "rt", transaction.id))
    return edges


def _graph(edges: Iterable[Edge]) -> dict[str, list[Edge]]:
    graph: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        graph[edge.source].append(edge)
        graph.setdefault(edge.target, [])
    return dict(graph)


def components(graph: dict[str, list[Edge]]) -> list[list[str]]:
    """Returns the strongly connected components, each after the ones that it leads to (Tarjan)."""
    indexes: dict[str, int] = {}
    lows: dict[str, int] = {}
    stack: list[str] = []
    waiting: set[str] = set()
    results: list[list[str]] = []
    for root, first in graph.items():
        if root in indexes:
            continue
        indexes[root] = lows[root] = len(indexes)
        stack.append(root)
        waiting.add(root)
        todo: list[tuple[str, Iterator[Edge]]] = [(root, iter(first))]
        while todo:
            node, rest = todo[-1]
            for edge in rest:
                if edge.target not in indexes:
                    indexes[edge.target] = lows[edge.target] = len(indexes)
                    stack.append(edge.target)
                    waiting.add(edge.target)
                    todo.append((edge.target, iter(graph[edge.target])))
                    break
                if edge.target in waiting:
                    lows[node] = min(lows[node], indexes[edge.target])
            else:
                todo.pop()
                if todo:
                    lows[todo[-1][0]] = min(lows[todo[-1][0]], lows[node])
                if lows[node] == indexes[node]:
                    component = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                    waiting.difference_update(component)
                    results.append(component)
    return results


# -- cycles -----------------------------------------------------------------------------------------------------------


def _worst(edges: Sequence[Edge]) -> Anomaly:
    """A cycle among the edges of one strongly connected component, of the first kind that there
    is."""
    for kind, search in (("G0", _of_writes), ("G1c", _without_rw), ("G-single", _single), ("G-nonadjacent", _apart)):
        if cycle := search(edges):
            return Anomaly(kind, tuple(_without_moments(cycle)))
    return Anomaly("G2", tuple(_without_moments(_around(_graph(edges)))))


def _of_writes(edges: Sequence[Edge]) -> list[Edge]:
    return _around(_graph(edge for edge in edges if edge.kind in {"ww", "rt"}))


def _without_rw(edges: Sequence[Edge]) -> list[Edge]:
    return _around(_graph(edge for edge in edges if edge.kind != "rw"))


def _single(edges: Sequence[Edge]) -> list[Edge]:
    """A cycle with one rw. The other edges have no cycle here, so that a way back exists only
    within their order."""
    graph = _graph(edge for edge in edges if edge.kind != "rw")
    places = {node: -place for place, (node,) in enumerate(components(graph))}
    for edge in edges:
        first = places.get(edge.target)
        last = places.get(edge.source)
        if edge.kind != "rw" or first is None or last is None or first > last:
            continue

        def onward(node: str, last: int = last) -> Iterator[list[Edge]]:
            return ([step] for step in graph[node] if places[step.target] <= last)

        if way := _way(edge.target, edge.source, onward):
            return [edge, *way]
    return []


def _apart(edges: Sequence[Edge]) -> list[Edge]:
    """A cycle in ``(rt + ww + wr) ; rw?``: no two rw in a row."""
    graph = _graph(edges)
    steps: dict[str, list[list[Edge]]] = {node: [] for node in graph}
    for edge in edges:
        if edge.kind != "rw":
            steps[edge.source].append([edge])
            steps[edge.source] += [[edge, more] for more in graph[edge.target] if more.kind == "rw"]
    composed = _graph(Edge(node, "", step[-1].target) for node, ways in steps.items() for step in ways)
    for component in components(composed):
        if len(component) > 1:
            members = frozenset(component)
            return _shortest(
                component,
                lambda node: (step for step in steps[node] if step[-1].target in members),  # noqa: B023
            )
    return []


def _around(graph: dict[str, list[Edge]]) -> list[Edge]:
    """A short cycle of a graph, empty if it has none."""
    for component in components(graph):
        if len(component) > 1:
            members = frozenset(component)
            return _shortest(
                component,
                lambda node: ([edge] for edge in graph[node] if edge.target in members),  # noqa: B023
            )
    return []


_STARTS: Final = 50
"""How many nodes of a component are tried as the start of a short cycle."""

Onward = Callable[[str], Iterable[list[Edge]]]


def _shortest(component: Sequence[str], onward: Onward) -> list[Edge]:
    cycles = (_way(node, node, onward) for node in component[:_STARTS])
    return min((cycle for cycle in cycles if cycle), key=len)


def _way(start: str, goal: str, onward: Onward) -> list[Edge]:
    """The shortest way of at least one step, empty if there is none."""
    came: dict[str, tuple[str, list[Edge]]] = {}
    todo = deque([start])
    while todo:
        node = todo.popleft()
        for step in onward(node):
            target = step[-1].target
            if target in came:
                continue
            came[target] = (node, step)
            if target == goal:
                return _walked(start, goal, came)
            todo.append(target)
    return []


def _walked(start: str, goal: str, came: dict[str, tuple[str, list[Edge]]]) -> list[Edge]:
    way: list[Edge] = []
    node = goal
    while True:
        node, step = came[node]
        way[:0] = step
        if node == start:
            return way


def _without_moments(cycle: Sequence[Edge]) -> list[Edge]:
    """The cycle with an rt between transactions in place of each way over moments."""
    start = next(place for place, edge in enumerate(cycle) if not edge.source.startswith(_MOMENT))
    edges: list[Edge] = []
    for edge in [*cycle[start:], *cycle[:start]]:
        if edge.source.startswith(_MOMENT):
            edges[-1] = Edge(edges[-1].source, "rt", edge.target)
        else:
            edges.append(edge)
    return edges
