"""Reset: an earlier HEAD's tree becomes the present one, by a commit of its own. Nothing of the
past is rewritten.

Names, properties, rights and the current metadata of Iceberg tables are again as they were; Delta
tables keep their commits. Tables that were created since are dropped. Tables that were dropped
since come back as long as gc has not begun to purge them, stuck if they were stuck: HEADs and names
change in one transaction (I9). Snapshots stay. Clones come and go like other tables; the locations
that they need are held again, or released, in the same transaction (I10).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.waiting import MAX_ROWS, Edit
from turnstile.catalog.clone.core import needs_of
from turnstile.catalog.core.branches import refuse_branch
from turnstile.catalog.core.entities import ICEBERG_KINDS, TABLE, Table
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.location_rows import Location, exchange
from turnstile.catalog.core.paths import dotted_name, key_of, path_of
from turnstile.catalog.core.rows import CatalogHead, swap_head
from turnstile.catalog.core.tree import Tree, parents_after
from turnstile.catalog.describe import not_active
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.history.log import History
from turnstile.catalog.history.reader import AsOfReader
from turnstile.catalog.reader import CatalogReader, View
from turnstile.delta.core.head import ACTIVE, DROPPED, PINNED, TableHead, gone_for_good
from turnstile.delta.core.writes.state import drop_head, rename_head, restore_head
from turnstile.delta.undecided import is_settled
from turnstile.store.core.errors import ErrorType, StateConflict, TooLarge
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import TRANSACT_MAX, Accepted, World

MAX_TABLES: Final = TRANSACT_MAX - 10
"""Tables that come, go or move with one reset: the transaction has other rows as well."""

RESET_MESSAGE: Final = "reset to "
"""How the message of a reset's commit begins; the HEAD gone back to follows."""

_Entries = Mapping[str, IndexEntry]
_NamedTables = list[tuple[str, Table]]


class ResetResult(msgspec.Struct, frozen=True):
    """The HEAD gone back to, the new one, and the full names of tables that came back, were
    dropped, or got their old name."""

    to: str
    head: str
    seq: int
    restored: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: tuple[str, ...] = ()


class _Reset(msgspec.Struct, frozen=True):
    """Going back ``to`` a HEAD. ``edit.writes`` begins with the writes of coming, going and moving
    tables, in this order."""

    to: str
    edit: Edit
    coming: _NamedTables
    going: _NamedTables
    moving: _NamedTables

    def result(self, head: str, seq: int) -> ResetResult:
        groups = (self.coming, self.going, self.moving)
        return ResetResult(self.to, head, seq, *(tuple(name for name, _ in tables) for tables in groups))


class Resetter:
    """Resets catalogs."""

    def __init__(
        self, world: World, reader: CatalogReader, committer: Committer, history: History, as_of_reader: AsOfReader
    ) -> None:
        self._world = world
        self._reader = reader
        self._committer = committer
        self._history = history
        self._as_of_reader = as_of_reader
        self._lost = LostHead(world, reader)

    def reset(self, catalog: str, to: AsOf) -> ResetResult:
        """Resets the tree.

        Raises:
            NotFound: no such catalog; no such commit or snapshot, never or no more.
            StateConflict: ``CannotReset``: a table would come or go that has no HEAD, or was
                imported; ``TableNotActive``: one cannot be dropped, or is being purged.
            TooLarge: more than ``MAX_TABLES`` tables would come, go or move.
            InvalidRequest: it is a branch.
        """
        refuse_branch(catalog, "resets")
        row = self._world.refs.read(self._reader.key(catalog))
        if row is not None and not self._lost.is_stored(catalog, row["head"]):
            return ResetResult(*self._lost.go_on(CatalogHead.from_row(row), to))
        attempts: list[_Reset] = []
        reasons: dict[str, str] = {}

        def change(view: View) -> Edit:
            past = self._as_of_reader.kept_tree(view.tree, to)
            attempt = self._prepare(view, past.tree, reasons)
            attempts[:] = [attempt]
            coming, going = ([table for _, table in tables] for tables in (attempt.coming, attempt.going))
            rows = held_again(self._world, coming, going, room=MAX_ROWS - len(attempt.edit.writes))
            return msgspec.structs.replace(attempt.edit, writes=(*attempt.edit.writes, *rows), replaced=past.replaced)

        def on_rejected(rejected: Mapping[int, Row | None]) -> None:
            tables = [*attempts[0].coming, *attempts[0].going, *attempts[0].moving]
            for position, row in rejected.items():
                if position >= len(tables):
                    continue  # a location's clones changed since they were read: the reset is computed again
                if position < len(attempts[0].coming) and _was_stuck(row, reasons):
                    continue  # it is restored with the reason why it was stuck
                if is_settled(self._world, row):
                    continue
                if row is not None and row.get("undecided"):
                    raise not_active(tables[position][0], row)
                state, reason = (row["state"], row.get("reason")) if row else ("gone", None)
                raise StateConflict(
                    ErrorType.TABLE_NOT_ACTIVE,
                    f"table '{tables[position][0]}' is {state}" + (f" ({reason})" if reason else ""),
                    field="table",
                    remedy="go back to another time, or wait until it is in ordinary use",
                    state=state,
                )

        tree = self._committer.commit(catalog, change, row=row, on_rejected=on_rejected)
        return attempts[0].result(tree.head, tree.commit.seq)

    def result_of(self, catalog: str, seq: int | None) -> ResetResult:
        """Returns the result of the reset that made commit ``seq``. None: the reset began a new
        log, and its commit is the present one. Raises NotFound, also for a commit that is gone."""
        after = self._reader.current(catalog) if seq is None else self._history.tree(catalog, AsOf(seq=seq))
        to = after.commit.message.removeprefix(RESET_MESSAGE).partition(",")[0]
        if seq is None:
            return ResetResult(to, after.head, after.commit.seq)
        before = View(self._history.tree(catalog, AsOf(seq=seq - 1)), self._reader.store)
        return msgspec.structs.replace(self._prepare(before, after, {}).result(after.head, seq), to=to)

    def _prepare(self, view: View, past: Tree, reasons: Mapping[str, str]) -> _Reset:
        """The changes of going back to ``past``. ``reasons``: why tables were stuck when they were
        dropped, by uuid."""
        now = dict(view.tree.subtree(()))
        then = dict(past.subtree(()))
        self._require_same_iceberg(view, now, then)
        tables = _tables(now)
        before = _tables(then)
        coming = self._name_tables(view, then, [before[id] for id in before.keys() - tables.keys()])
        going = self._name_tables(view, now, [tables[id] for id in tables.keys() - before.keys()])
        both = [(tables[id], before[id]) for id in tables.keys() & before.keys()]
        changed = [(here, there) for here, there in both if here != there or now[here].obj != then[there].obj]
        moving = self._tables_to_move(view, now, then, changed)
        count = len(coming) + len(going) + len(moving)
        if count > MAX_TABLES:
            problem = f"{count} tables of catalog '{view.tree.catalog}' would come, go or move"
            raise _too_large(problem, count, MAX_TABLES, "drop and rename some of them first")
        clock = self._world.clock.now_ms()
        key_of_head = self._world.space.table
        writes: list[Write] = []
        for name, table in coming:
            key = key_of_head(table.table_id)
            reason = reasons.get(table.table_id, "")
            writes.append(restore_head(key, name, clock, ACTIVE if table.clone is None else PINNED, reason=reason))
        writes += [drop_head(key_of_head(table.table_id), clock) for _, table in going]
        writes += [rename_head(key_of_head(table.table_id), name, clock) for name, table in moving]
        edit = Edit(
            f"{RESET_MESSAGE}{past.head}",
            entries={key: entry for key, entry in then.items() if now.get(key) != entry},
            remove=tuple(path_of(key) for key in now if key not in then),
            writes=tuple(writes),
            access=past.commit.access,
            restores=True,
        )
        return _Reset(past.head, edit, coming, going, moving)

    def _require_same_iceberg(self, view: View, now: _Entries, then: _Entries) -> None:
        """Iceberg's tables and views may change with a reset, not come or go: their locations have
        owners elsewhere."""
        here, there = ({key: entry for key, entry in one.items() if entry.kind in ICEBERG_KINDS} for one in (now, then))
        for key in sorted(here.keys() ^ there.keys()):
            raise _cannot_come_or_go(view.tree, key)
        changed = [key for key in here if here[key].obj != there[key].obj]
        entities = view.entities([index[key].obj for key in changed for index in (here, there)])
        for key in changed:
            if len({getattr(entities[index[key].obj], "table_id", None) for index in (here, there)}) > 1:
                raise _cannot_come_or_go(view.tree, key)

    def _name_tables(self, view: View, index: _Entries, keys: list[str]) -> _NamedTables:
        """Tables that come or go, with their full names. Raises StateConflict for one that has no
        HEAD of its own."""
        entities = view.entities([index[key].obj for key in keys])
        named = []
        for key in sorted(keys):
            table = entities[index[key].obj]
            if not isinstance(table, Table) or table.external is not None or not (table.managed or table.clone):
                raise _cannot_come_or_go(view.tree, key)
            named.append((self._full(view, index, key, table.name), table))
        return named

    def _tables_to_move(self, view: View, now: _Entries, then: _Entries, keys: list[tuple[str, str]]) -> _NamedTables:
        """Tables with a HEAD that get another name, which is the old one."""
        indexes = (now, then)
        entities = view.entities([index[key].obj for pair in keys for index, key in zip(indexes, pair, strict=True)])
        moved = []
        for here, there in sorted(keys):
            table = entities[now[here].obj]
            before = entities[then[there].obj]
            if isinstance(before, Table) and before.external is None and isinstance(table, Table):
                name = self._full(view, then, there, before.name)
                if name != self._full(view, now, here, table.name):
                    moved.append((name, before))
        return moved

    def _full(self, view: View, index: _Entries, key: str, name: str) -> str:
        """The full name as users wrote it: levels are spelled in their entities."""
        path = path_of(key)
        levels = [index[key_of(path[:end])].obj for end in range(1, len(path))]
        entities = view.entities(levels)
        return dotted_name(view.tree.catalog, *(getattr(entities[obj], "name", "") for obj in levels), name)


def _tables(index: _Entries) -> dict[str, str]:
    """Key of each table by its uuid."""
    return {entry.table_id: key for key, entry in index.items() if entry.kind == TABLE}


def _was_stuck(row: Row | None, reasons: dict[str, str]) -> bool:
    """Whether a table was not restored only because it was stuck when it was dropped. If so,
    ``reasons`` says why then."""
    head = TableHead.from_row(row) if row is not None else None
    if head is None or head.state != DROPPED or gone_for_good(head) or reasons.get(head.table_id, "") == head.reason:
        return False
    reasons[head.table_id] = head.reason
    return True


def _cannot_come_or_go(tree: Tree, key: str) -> StateConflict:
    problem = f"'{dotted_name(tree.catalog, *path_of(key))}' would come or go, and it is no managed Delta table"
    return _refusal(problem, "register or drop it first, so that it is there now as it was then")


def held_again(world: World, coming: Sequence[Table], going: Sequence[Table], *, room: int) -> list[Write]:
    """Returns the writes that hold, or release, the locations that clones among these tables need.
    One read where there are any.

    Raises:
        StateConflict: ``CannotReset``: the files that a clone shows are gone or being removed.
        TooLarge: more than ``room``, the rows that the transaction has left.
    """
    come, go = ({table.table_id: needs_of(table)[0] for table in some if table.clone} for some in (coming, going))
    versions = {table.table_id: table.clone.version for table in coming if table.clone}
    keys = {held: world.space.location(held.location) for held in (*come.values(), *go.values())}
    if not keys:
        return []
    if len(keys) > room:
        problem = f"clones of {len(keys)} locations would come or go"
        raise _too_large(problem, len(keys), room, "drop some of the clones first")
    rows = world.refs.read_many(list(keys.values()))
    writes: list[Write] = []
    for held, key in keys.items():
        owner = Location.from_row(rows[key]) if key in rows else None
        if owner is None or not owner.keeps(held):
            problem = f"a clone would come back whose files in {held.location} are gone or being removed"
            raise _refusal(problem, "go back to another time")
        comes, goes = ([id for id, needed in some.items() if needed == held] for some in (come, go))
        for version in (versions[id] for id in comes):
            if not owner.readable(version):
                problem = (
                    f"a clone would come back that shows version {version} in {held.location}: a vacuum has removed "
                    f"files of it"
                )
                raise _refusal(problem, "go back to another time")
        writes.append(exchange(world.space, held, owner, come=comes, go=goes))
    return writes


def _too_large(problem: str, size: int, limit: int, remedy: str) -> TooLarge:
    return TooLarge(problem, field="to", remedy=f"go back in steps, or {remedy}", limit=limit, size=size)


def _refusal(problem: str, remedy: str, **details: list[str]) -> StateConflict:
    return StateConflict(ErrorType.CANNOT_RESET, problem, field="to", remedy=remedy, **details)


class LostHead:
    """Continues from a recent HEAD when the catalog's own leads nowhere, as after a loss of objs (a
    replica that lags behind its refs): the tree of a recent HEAD that is whole is taken as it is,
    and the log continues from there. Reads past the caches, which may still have lost objs.
    """

    def __init__(self, world: World, reader: CatalogReader) -> None:
        self._world = world
        self._reader = reader

    def is_stored(self, catalog: str, head: str) -> bool:
        """Whether the commit is in the store: one request, for a list, which is never cached."""
        newest = self._world.objs.newest(self._world.space.objs(catalog), head)
        return newest is not None and newest.id == head

    def go_on(self, at: CatalogHead, to: AsOf) -> tuple[str, str, int]:
        """Go on from a recent HEAD as if nothing had come after it. Returns that HEAD, the new one
        and its number.

        Raises:
            StateConflict: ``CannotReset``: not a recent HEAD, or not whole; ``ConcurrentChange``.
            OutcomeUnknown: it may have happened.
        """
        if to.head is None or to.head not in at.recent:
            remedy = "name a recent HEAD that is whole: the catalog's row lists them"
            raise _refusal(f"the HEAD of catalog '{at.name}' leads nowhere", remedy, recent=list(at.recent))
        store = self._reader.store
        past = store.tree(at.name, to.head)
        self._require_whole(past)
        id = store.new_commit_id()
        now = self._world.clock.now_ms()
        commit = msgspec.structs.replace(
            past.commit,
            seq=past.commit.seq + 1,
            parents=parents_after(past.commit.seq, past.head, past.commit.parents),
            message=f"{RESET_MESSAGE}{past.head}, later commits are lost",
            at=max(now * 1000, past.commit.at + 1),
            restored_by=past.head if past.commit.restores else past.commit.restored_by,
            restores=True,
        )
        store.write(at.name, id, commit, {})
        recent = at.recent[at.recent.index(past.head) :]
        onto = msgspec.structs.replace(at, seq=past.commit.seq, recent=recent)
        response = self._world.refs.write(swap_head(onto, id, now, commit.segments))
        if isinstance(response, Accepted) or (response.row is not None and id in response.row["recent"]):
            return past.head, id, commit.seq  # it is also done if its own swap, whose response was lost, refused it
        raise StateConflict(
            ErrorType.CONCURRENT_CHANGE, f"catalog '{at.name}' changed", remedy="send the request again"
        )

    def _require_whole(self, tree: Tree) -> None:
        """Raises StateConflict when something that the tree leads to is missing (I9)."""
        space = self._world.space.objs(tree.catalog)
        missing = {entry.obj for _, entry in tree.index.iterate()}
        missing |= {segment.obj for segment in tree.index.directory if segment.obj}
        for prefix in {id.partition("/")[0] + "/" for id in missing}:
            missing.difference_update(obj.id for obj in self._world.objs.list(space, prefix))
        if missing:
            problem = f"{len(missing)} objs of HEAD {tree.head} are missing, as {min(missing)}"
            raise _refusal(problem, "name an older one of the recent HEADs")
