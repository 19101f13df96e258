"""Going back: the tree becomes what it was at some HEAD, by a commit of its own. Nothing of the past is rewritten.

Names, properties, rights and the current metadata of Iceberg tables are again what they were; Delta tables keep their
commits. Tables that were created since are dropped, tables that were dropped since come back as long as gc has not begun
to purge them, and stuck where they were stuck: HEADs and names change in one transaction (I9). Snapshots stay.
If the present HEAD leads nowhere, ``lost_head`` goes on from another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from turnstile.catalog.clone.core import needs_of
from turnstile.catalog.commit import MAX_ROWS, Committer, Edit, View
from turnstile.catalog.core.entities import KINDS as ICEBERG
from turnstile.catalog.core.entities import TABLE, Table
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.location_rows import Location, exchange
from turnstile.catalog.core.paths import dotted, key_of, path_of
from turnstile.catalog.core.rows import CatalogHead
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.log import AsOf, History
from turnstile.catalog.history.moments import AsOfReader
from turnstile.catalog.reader import SAID, CatalogReader, LostHead
from turnstile.delta.core.head import ACTIVE, DROPPED, PINNED, TableHead, gone_for_good
from turnstile.delta.core.state_writes import drop_head, rename_head, restore_head
from turnstile.store.core.errors import StateConflict, TooLarge
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import TRANSACT_MAX, World

AT_ONCE: Final = TRANSACT_MAX - 10
"""Tables that come, go or move with one reset: one transaction holds at most 100 rows."""

_Entries = Mapping[str, IndexEntry]
_NO_REASONS: Final[Mapping[str, str]] = {}


class ResetResult(msgspec.Struct, frozen=True):
    """What a reset did: the HEAD gone back to, the new one, and the tables that came back, went, or got their old name,
    by full name."""

    to: str
    head: str
    seq: int
    restored: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """Going back ``to`` a HEAD; ``names`` of the tables behind ``edit.writes``, in their order."""

    to: str
    edit: Edit
    names: tuple[str, ...]
    restored: tuple[str, ...]
    dropped: tuple[str, ...]
    renamed: tuple[str, ...]
    coming: list[Table]
    going: list[Table]


class Resetter:
    """Resets catalogs."""

    def __init__(
        self, world: World, reader: CatalogReader, committer: Committer, history: History, moments: AsOfReader
    ) -> None:
        self._world, self._reader, self._committer = world, reader, committer
        self._history, self._moments, self._lost = history, moments, LostHead(world, reader)

    def reset(self, catalog: str, to: AsOf) -> ResetResult:
        """Make the tree what it was.

        Raises:
            NotFound: no such catalog; no such commit or snapshot, never or no more.
            StateConflict: ``CannotReset``: a table would come or go that has no HEAD, or was imported;
                ``TableNotActive``: one cannot be dropped, or is being purged.
            TooLarge: more than ``AT_ONCE`` tables would come, go or move.
        """
        row = self._world.refs.read(self._reader.key(catalog))
        if row is not None and not self._lost.stored(catalog, row["head"]):
            return ResetResult(*self._lost.go_on(CatalogHead.from_row(row), to))
        plans: list[_Plan] = []
        reasons: dict[str, str] = {}

        def change(view: View) -> Edit:
            past = self._moments.kept(view.tree, to)
            plan = self._plan(view, past.tree, reasons)
            plans[:] = [plan]
            rows = held_again(self._world, plan.coming, plan.going, room=MAX_ROWS - len(plan.edit.writes))
            return msgspec.structs.replace(plan.edit, writes=(*plan.edit.writes, *rows), replaced=past.replaced)

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            for position, found in failed.items():
                if position >= len(plans[0].names):
                    continue  # a location's clones changed since they were read: the reset is computed anew
                if position < len(plans[0].restored) and _was_stuck(found, reasons):
                    continue  # what it was stuck at comes back with it
                name, state = plans[0].names[position], found["state"] if found else "gone"
                raise StateConflict(
                    "TableNotActive",
                    f"table '{name}' is {state}" + (f" ({found['reason']})" if found and found.get("reason") else ""),
                    field="table",
                    remedy="go back to another time, or wait until it is in ordinary use",
                    state=state,
                )

        tree = self._committer.commit(catalog, change, row=row, on_rejected=on_rejected)
        plan = plans[0]
        return ResetResult(plan.to, tree.head, tree.commit.seq, plan.restored, plan.dropped, plan.renamed)

    def told(self, catalog: str, seq: int | None) -> ResetResult:
        """What the reset that made commit ``seq`` answered. None: one that began the log anew, which is the present commit.

        Raises:
            NotFound: no such catalog, or no such commit any more.
        """
        after = self._reader.current(catalog) if seq is None else self._history.tree(catalog, AsOf(seq=seq))
        to = after.commit.message.removeprefix(SAID).partition(",")[0]
        if seq is None:
            return ResetResult(to, after.head, after.commit.seq)
        plan = self._plan(View(self._history.tree(catalog, AsOf(seq=seq - 1)), self._reader.store), after)
        return ResetResult(to, after.head, seq, plan.restored, plan.dropped, plan.renamed)

    def _plan(self, view: View, past: Tree, reasons: Mapping[str, str] = _NO_REASONS) -> _Plan:
        """What going back to ``past`` takes. ``reasons`` why tables were stuck when they were dropped, by uuid."""
        now, then = dict(view.tree.subtree(())), dict(past.subtree(()))
        self._require_ours(view, now, then)
        tables, before = _tables(now), _tables(then)
        coming = self._named(view, then, [before[id] for id in before.keys() - tables.keys()])
        going = self._named(view, now, [tables[id] for id in tables.keys() - before.keys()])
        both = [
            id
            for id in tables.keys() & before.keys()
            if tables[id] != before[id] or now[tables[id]].obj != then[before[id]].obj
        ]
        moving = self._moved(view, now, then, [(tables[id], before[id]) for id in both])
        count = len(coming) + len(going) + len(moving)
        if count > AT_ONCE:
            raise TooLarge(
                f"{count} tables of catalog '{view.tree.catalog}' would come, go or move",
                field="to",
                remedy="go back in steps, or drop and rename some of them first",
                limit=AT_ONCE,
                size=count,
            )
        clock, space = self._world.clock.now_ms(), self._world.space
        writes: list[Write] = [
            restore_head(
                space.table(one.table_id),
                name,
                clock,
                ACTIVE if one.clone is None else PINNED,
                reason=reasons.get(one.table_id, ""),
            )
            for name, one in coming
        ]
        writes += [drop_head(space.table(one.table_id), clock) for _, one in going]
        writes += [rename_head(space.table(one.table_id), name, clock) for name, one in moving]
        edit = Edit(
            f"{SAID}{past.head}",
            entries={key: entry for key, entry in then.items() if now.get(key) != entry},
            remove=tuple(path_of(key) for key in now if key not in then),
            writes=tuple(writes),
            access=past.commit.access,
            restores=True,
        )
        restored, dropped, renamed = (tuple(name for name, _ in found) for found in (coming, going, moving))
        come, go = ([table for _, table in found] for found in (coming, going))
        return _Plan(past.head, edit, (*restored, *dropped, *renamed), restored, dropped, renamed, come, go)

    def _require_ours(self, view: View, now: _Entries, then: _Entries) -> None:
        """Tables of other formats may change with a reset, not come or go: their locations have owners elsewhere."""
        here, there = ({key: entry for key, entry in one.items() if entry.kind in ICEBERG} for one in (now, then))
        for key in sorted(here.keys() ^ there.keys()):
            raise _not_ours(dotted(view.tree.catalog, *path_of(key)))
        changed = [key for key in here if here[key].obj != there[key].obj]
        found = view.entities([index[key].obj for key in changed for index in (here, there)])
        for key in changed:
            one, other = found[here[key].obj], found[there[key].obj]
            if getattr(one, "table_id", None) != getattr(other, "table_id", None):
                raise _not_ours(dotted(view.tree.catalog, *path_of(key)))

    def _named(self, view: View, index: _Entries, keys: list[str]) -> list[tuple[str, Table]]:
        """Tables that come or go, with their full names. Raises StateConflict for one that has no HEAD of its own."""
        found = view.entities([index[key].obj for key in keys])
        named = []
        for key in sorted(keys):
            table = found[index[key].obj]
            if not isinstance(table, Table) or table.external is not None or not (table.managed or table.clone):
                raise _not_ours(dotted(view.tree.catalog, *path_of(key)))
            named.append((self._full(view, index, key, table.name), table))
        return named

    def _moved(self, view: View, now: _Entries, then: _Entries, keys: list[tuple[str, str]]) -> list[tuple[str, Table]]:
        """Tables with a HEAD that get another name, which is the old one."""
        found = view.entities([index[key].obj for pair in keys for index, key in zip((now, then), pair, strict=True)])
        moved = []
        for here, there in sorted(keys):
            table, before = found[now[here].obj], found[then[there].obj]
            if isinstance(before, Table) and before.external is None and isinstance(table, Table):
                name = self._full(view, then, there, before.name)
                if name != self._full(view, now, here, table.name):
                    moved.append((name, before))
        return moved

    def _full(self, view: View, index: _Entries, key: str, name: str) -> str:
        """The full name as written: levels are spelled in their entities."""
        path = path_of(key)
        levels = [index[key_of(path[:end])].obj for end in range(1, len(path))]
        found = view.entities(levels)
        return dotted(view.tree.catalog, *(getattr(found[obj], "name", "") for obj in levels), name)


def _tables(index: _Entries) -> dict[str, str]:
    """Key of each table by its uuid."""
    return {entry.table_id: key for key, entry in index.items() if entry.kind == TABLE}


def _was_stuck(found: Row | None, reasons: dict[str, str]) -> bool:
    """Whether a table was not restored only because it was stuck when it was dropped; ``reasons`` says why from now on."""
    head = TableHead.from_row(found) if found is not None else None
    if head is None or head.state != DROPPED or gone_for_good(head) or reasons.get(head.table_id, "") == head.reason:
        return False
    reasons[head.table_id] = head.reason
    return True


def _not_ours(full: str) -> StateConflict:
    return StateConflict(
        "CannotReset",
        f"'{full}' would come or go, and it is no managed Delta table",
        field="to",
        remedy="register or drop it first, so that it is there now as it was then",
    )


# -- clone reset ------------------------------------------------------------------------------------------------------
# Clones that come and go with a reset: what they need is held again, or let go of, in the same transaction (I10).


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
