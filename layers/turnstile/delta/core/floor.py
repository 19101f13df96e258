"""Raising the floor: what the publisher writes to a HEAD after it saw versions in ``_delta_log`` (I4, I5)."""

from __future__ import annotations

from turnstile.delta.core.head import KEEP_PUBLISHED, TableHead, cost
from turnstile.delta.core.positions import mark_after, positioned
from turnstile.store.core.writes import Action, Change, Clause, Drop, Equals, Exclude, Set, SetSum

FORGOTTEN_AT_ONCE = 64
"""Streaming applications one floor write forgets. Each is named in the expressions, and DynamoDB takes 4 kB and 300
operators of those; the publisher's step bounds what else is named there."""


def evicted(head: TableHead, published: int) -> int:
    """How many entries leave the tail when everything up to ``published`` is in ``_delta_log``."""
    return max(0, published - KEEP_PUBLISHED - head.tail_from + 1)


def raise_floor(head: TableHead, published: int, *, idle: bool) -> Change:
    """The write after publication up to ``published``.

    It evicts all but the last few published entries, strips those of their bytes, and lowers ``bytes``. With
    ``idle`` it also removes ``pending``, under the clause that nothing was ratified since ``head`` was read;
    without, it leaves ``pending`` for the commits that came in between. A refusal returns the row: plan again from it.

    Raises:
        ValueError: when ``published`` is not between the head's floor and latest.
    """
    if not head.floor <= published <= head.latest:
        raise ValueError(f"floor {head.floor} cannot move to {published} (latest {head.latest})")
    gone = evicted(head, published)
    places = positioned(head)
    clauses = [
        Clause("same floor", "I5", "nobody moved the floor since it was read", Equals(("floor",), head.floor)),
        Clause(
            "same tail", "I4", "list positions mean the versions they meant", Equals(("tail_from",), head.tail_from)
        ),
    ]
    actions: list[Action] = [Set(("floor",), published)]
    freed = 0
    for index, entry in enumerate(head.tail[: published - head.tail_from + 1]):
        if index < gone:
            freed += cost(entry)
        elif entry.data or entry.obj:
            freed += cost(entry) - cost(entry.stripped())
            actions.append(Set(("tail", index), entry.stripped().pack()))
    if gone:
        last = places[gone - 1]
        actions += [Set(("tail_from",), head.tail_from + gone), Set(("tail_ict",), last.ict)]
        mark = hwm_after(head, gone)
        if mark is not None:
            actions.append(Set(("tail_hwm",), mark))
        elif head.tail_hwm is not None:
            actions.append(Drop(("tail_hwm",)))
        # Descending: one emulator shifts positions while it removes; in this order every backend agrees.
        actions += [Drop(("tail", index)) for index in reversed(range(gone))]
        actions.append(Exclude(("ids",), frozenset(entry.txn for entry in head.tail[:gone])))
    if freed:
        actions.append(SetSum(("bytes",), ("bytes",), -freed))
    forgotten = _forgettable(head, head.tail_from + gone)
    actions += [Drop(("apps", app)) for app in forgotten]
    if idle:
        clauses.append(Clause("idle", "I11", "nothing was ratified since", Equals(("latest",), published)))
        if head.pending is not None:
            actions.append(Drop(("pending",)))
    else:
        clauses += [
            Clause("same application", "I3", "no later commit carries its txn", Equals(("apps", app), version))
            for app, version in forgotten.items()
        ]
    return Change(head.key, tuple(clauses), tuple(actions))


def _forgettable(head: TableHead, since: int) -> dict[str, int]:
    """Streaming applications last seen before ``since``: nobody needs them, since a ticket with a ``txn`` must know
    the tail from its base on. The oldest ones when there are many: the rest is forgotten by the next writes."""
    old = sorted((version, app) for app, version in head.apps.items() if version < since)
    return {app: version for version, app in old[:FORGOTTEN_AT_ONCE]}


def hwm_after(head: TableHead, count: int) -> int | None:
    """Row-id high-water mark after the first ``count`` entries of the tail (None without row tracking)."""
    mark = head.tail_hwm
    for entry in head.tail[:count]:
        mark = mark_after(mark, entry)
    return mark
