"""Clones that come and go with a reset: what they need is held again, or let go of, in the same transaction (I10)."""

from __future__ import annotations

from collections.abc import Iterable

from turnstile.catalog.clone.core import needs_of
from turnstile.catalog.core.clone_holds import exchange
from turnstile.catalog.core.entities import Table
from turnstile.catalog.core.location_rows import Location
from turnstile.store.core.errors import StateConflict, TooLarge
from turnstile.store.core.writes import Write
from turnstile.store.world import World


def held_again(world: World, coming: Iterable[Table], going: Iterable[Table], *, room: int) -> list[Write]:
    """The rows of the locations that clones among these tables need. One read where there are any.

    Args:
        room: rows that the transaction has left.

    Raises:
        StateConflict: ``CannotReset``: the files that a clone shows are gone or being removed.
        TooLarge: there is no room for them.
    """
    come, go = ({one.table_id: needs_of(one)[0] for one in some if one.clone is not None} for some in (coming, going))
    places = {held: world.space.location(held.location) for held in (*come.values(), *go.values())}
    if not places:
        return []
    if len(places) > room:
        raise TooLarge(
            f"clones of {len(places)} locations would come or go",
            field="to",
            remedy="go back in steps, or drop some of the clones first",
            limit=room,
            size=len(places),
        )
    rows = world.refs.read_many(list(places.values()))
    writes: list[Write] = []
    for held, key in places.items():
        owner = Location.from_row(rows[key]) if key in rows else None
        if owner is None or not owner.keeps(held):
            raise StateConflict(
                "CannotReset",
                f"a clone would come back whose files in {held.location} are gone or being removed",
                field="to",
                remedy="go back to another time",
            )
        comes, goes = ([id for id, at in some.items() if at == held] for some in (come, go))
        writes.append(exchange(world.space, held, owner.clones, come=comes, go=goes))
    return writes
