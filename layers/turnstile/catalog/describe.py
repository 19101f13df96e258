"""Why a table's HEAD refused a catalog operation."""

from __future__ import annotations

from collections.abc import Callable

from turnstile.delta.core.head import READ_ONLY, TableHead
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.core.state_writes import describe_head
from turnstile.delta.metadata import MetadataStore
from turnstile.store.core.errors import NotFound, OutcomeUnknown, StateConflict, TurnstileError
from turnstile.store.core.writes import Row
from turnstile.store.ports import Accepted, World


def not_active(name: str, row: Row | None) -> TurnstileError:
    """The error for a HEAD that is not in ordinary use.

    Args:
        name: full name of the table, for the message.
        row: the HEAD as the refused write saw it.
    """
    if row is None or row["state"] == "dropped":
        return NotFound("table", name, field="table", remedy="list the namespace; it was dropped meanwhile")
    reason = f": {row['reason']}" if row.get("reason") else ""
    return StateConflict(
        "TableNotActive",
        f"table '{name}' is {row['state']}{reason}",
        field="table",
        remedy={
            "leaving": "finish the export, or wait for it",
            "stuck": "a ratified commit cannot be published; run 'turnstile repair'",
            "recovering": "try again when the coordinator has caught up with storage",
            "pinned": READ_ONLY,
        }.get(row["state"], "try again"),
        state=row["state"],
    )


# -- describing -------------------------------------------------------------------------------------------------------
# Changing what the catalog keeps beside a table's log, without a commit: one conditional write on the HEAD.


_ATTEMPTS = 4

Redescribe = Callable[[str, DeltaMetadata], DeltaMetadata]
"""Makes the new snapshot from the present one and its id; raises what refuses it. No side effects."""


class Describer:
    """Swaps a table's metadata snapshot for another one of the same version."""

    def __init__(self, world: World, snapshots: MetadataStore) -> None:
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
