"""Changing what the catalog keeps beside a table's log, without a commit: one conditional write on the HEAD."""

from __future__ import annotations

from collections.abc import Callable

from turnstile.catalog.core.table_heads import describe_head
from turnstile.catalog.heads import not_active
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import MetadataSnapshot
from turnstile.delta.metadata import Snapshots
from turnstile.store.core.errors import NotFound, OutcomeUnknown, StateConflict
from turnstile.store.ports import Accepted
from turnstile.store.world import World

_ATTEMPTS = 4

Redescribe = Callable[[str, MetadataSnapshot], MetadataSnapshot]
"""Makes the new snapshot from the present one and its id; raises what refuses it. No side effects."""


class Describer:
    """Swaps a table's metadata snapshot for another one of the same version."""

    def __init__(self, world: World, snapshots: Snapshots) -> None:
        self._world, self._snapshots = world, snapshots

    def describe(self, head: TableHead, change: Redescribe) -> TableHead:
        """The HEAD after ``change``; no write when it changes nothing.

        Raises:
            NotFound: the table was dropped.
            StateConflict: ``TableNotActive``, or ``ConcurrentChange`` when others were faster every time.
            OutcomeUnknown: an answer was lost, and what was sent again was refused.
            TurnstileError: what ``change`` raises.
        """
        world = self._world
        for _ in range(_ATTEMPTS):
            before = self._snapshots.get(head.catalog, head.metadata)
            after = change(head.metadata, before)
            if after == before:
                return head
            now = world.clock.now_ms()
            id = self._snapshots.put(head.catalog, head.table_id, after, now)
            answer = world.refs.write(describe_head(head, id, now))
            if answer.row is None:
                raise NotFound("table", head.name, field="table", remedy="list the namespace; it was dropped meanwhile")
            head = TableHead.from_row(answer.row)
            if isinstance(answer, Accepted):
                return head
            if answer.uncertain:  # the write before this one landed, or may have been replaced, or lands yet (I3)
                if head.metadata == id:
                    return head
                raise OutcomeUnknown(
                    f"an answer to a change of table '{head.name}' was lost; the same, again, was refused"
                )
            if head.state != "active":
                raise not_active(head.name, answer.row)
        raise StateConflict(
            "ConcurrentChange",
            "the table's metadata changed during every attempt",
            remedy="send the same request again",
            retry_after_ms=200,
        )
