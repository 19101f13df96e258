"""Why a table's HEAD refused a catalog operation."""

from __future__ import annotations

from turnstile.catalog.clone.core import READ_ONLY
from turnstile.store.core.errors import NotFound, StateConflict, TurnstileError
from turnstile.store.core.writes import Row


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
