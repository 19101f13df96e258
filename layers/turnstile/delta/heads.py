"""Reading HEADs of tables. Apart from ``core.head``, which is pure, and from the services, which all read them."""

from __future__ import annotations

from turnstile.delta.core.head import TableHead
from turnstile.store.core.errors import NotFound
from turnstile.store.ports import Accepted, Rejected, World


def read_head(world: World, table_id: str) -> TableHead:
    """Returns the HEAD in whatever state, also a dropped table's tombstone. One strongly consistent read.

    Raises:
        NotFound: no such table.
    """
    row = world.refs.read(world.space.table(table_id))
    if row is None:
        raise no_such_table(table_id)
    return TableHead.from_row(row)


def head_after(response: Accepted | Rejected, table_id: str) -> TableHead:
    """Returns the HEAD that the store returned to a write.

    Raises:
        NotFound: no such table.
    """
    if response.row is None:
        raise no_such_table(table_id)
    return TableHead.from_row(response.row)


def no_such_table(table_id: str) -> NotFound:
    """The error when a table id leads to no HEAD."""
    return NotFound("table", table_id, field="table_id", remedy="load the table by name again")
