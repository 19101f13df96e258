"""Changes of a table's metadata that the catalog keeps beside the log, and the refusal of tables
that are not active."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from turnstile.delta.core.head import READ_ONLY, TableHead
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.core.writes.state import describe_head
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.undecided import settle_one
from turnstile.store.core.errors import ErrorType, NotFound, OutcomeUnknown, StateConflict, TurnstileError
from turnstile.store.core.writes import Row
from turnstile.store.ports import Accepted, World

_ATTEMPTS: Final = 4

Redescribe = Callable[[str, DeltaMetadata], DeltaMetadata]
"""Returns the new metadata for the present one and its id; raises the reason for refusing it. No
side effects."""


def not_active(name: str, row: Row | None) -> TurnstileError:
    """Returns the error for a table ``name`` whose HEAD, as the refused write saw it, is not in
    ordinary use."""
    if row is None or row["state"] == "dropped":
        return NotFound("table", name, field="table", remedy="list the namespace; it was dropped meanwhile")
    if row.get("undecided") and row["state"] in ("active", "stuck"):
        problem = f"a transaction over many tables is being decided on table '{name}'"
        remedy = "send the same request again"
        return StateConflict(ErrorType.CONCURRENT_CHANGE, problem, field="table", remedy=remedy, retry_after_ms=200)
    reason = f": {row['reason']}" if row.get("reason") else ""
    return StateConflict(
        ErrorType.TABLE_NOT_ACTIVE,
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


class Describer:
    """Replaces a table's metadata by another one of the same version, without a commit."""

    def __init__(self, world: World, metadata: MetadataStore) -> None:
        self._world = world
        self._metadata = metadata

    def describe(self, head: TableHead, change: Redescribe) -> TableHead:
        """Returns the HEAD after ``change``: one conditional write, none if nothing changes. Raises
        NotFound; StateConflict ``TableNotActive``, or ``ConcurrentChange`` if others were faster
        every time; OutcomeUnknown; the errors of ``change``.
        """
        world = self._world
        for _ in range(_ATTEMPTS):
            before = self._metadata.get(head.catalog, head.metadata)
            after = change(head.metadata, before)
            if after == before:
                return head
            now = world.clock.now_ms()
            id = self._metadata.put(head.catalog, head.table_id, after, now)
            answer = world.refs.write(describe_head(head, id, now))
            if answer.row is None:
                raise not_active(head.name, None)
            head = TableHead.from_row(answer.row)
            if isinstance(answer, Accepted):
                return head
            if answer.uncertain:  # the write sent before may have landed and been replaced, or may land yet (I3)
                if head.metadata == id:
                    return head
                raise OutcomeUnknown(
                    f"an answer to a change of table '{head.name}' was lost; the same, again, was refused"
                )
            head = settle_one(world, head)
            if head.state != "active" or head.undecided:
                raise not_active(head.name, answer.row)
        problem = "the table's metadata changed during every attempt"
        raise StateConflict(
            ErrorType.CONCURRENT_CHANGE, problem, remedy="send the same request again", retry_after_ms=200
        )
