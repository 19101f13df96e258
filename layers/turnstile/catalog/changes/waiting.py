"""Changes of catalogs that wait in a process for one of them to lead (``group_commit``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Final

import msgspec

from turnstile.catalog.core.branches import InheritedTable, is_inherited
from turnstile.catalog.core.entities import Entity, Table, id_of
from turnstile.catalog.core.grouping import GROUP_CHANGES
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import Path
from turnstile.catalog.core.tree import Tree
from turnstile.delta.core.head import TableHead
from turnstile.rights.grants import Access
from turnstile.store.core.names import is_branch
from turnstile.store.core.writes import Clause, Equals, Insert, Row, Write
from turnstile.store.ports import TRANSACT_MAX
from turnstile.store.queue import WAITING_MOST, Line, Waiting, WaitingQueue

MAX_ROWS: Final = TRANSACT_MAX - 2
"""Writes that an edit has at most. One row of the transaction is the catalog's, and one may
remember a request that carries an idempotency key."""


class Edit(msgspec.Struct, frozen=True):
    """A change computed from one tree.

    Attributes:
        message: one line for the history.
        put: entities by full name, new or in place of others.
        remove: full names that lead nowhere afterwards; applied after ``put``.
        writes: writes on other rows, in the same transaction as the HEAD: at most ``MAX_ROWS``.
        access: the catalog's own rights from now on; None keeps them.
        entries: index entries by key, of entities that exist already and get another name.
        restores: whether it brings back entities that the changed tree may not lead to.
        replaced: when the tree of the past that is brought back was replaced (ms), if only the kept
            history still protects it from gc: the change is refused once gc has swept entities that
            were replaced then.
        more: whether the same request makes another change after this one.
    """

    message: str
    put: Mapping[Path, Entity] = {}
    remove: tuple[Path, ...] = ()
    writes: tuple[Write, ...] = ()
    access: Access | None = None
    entries: Mapping[str, IndexEntry] = {}
    restores: bool = False
    replaced: int | None = None
    more: bool = False


RejectionHandler = Callable[[Mapping[int, Row | None]], None]
"""Called with the rows that refused, by position in ``Edit.writes``. Raises the operation's error,
or returns to try again."""

Judge = Callable[[Tree | None], Edit | None]
"""Authorizes a change in a tree and computes it; None: there is no such catalog. Raises the reason
for refusing the change."""

Lead = Callable[[Line["WaitingChange"]], None]


class WaitingChange(Waiting[Tree]):
    """A change in a line.

    Args:
        judge: called in any thread, as often as the swap needs, with the context of the thread that
            made this.
        on_rejected: as of ``Committer.commit``.
        row: the catalog's, if it was read after the change was asked for.
        since: when the first thing that the change depends on was read or written (ms).

    It is ``alone`` to find out whether it is the one that is too large.
    """

    def __init__(self, judge: Judge, on_rejected: RejectionHandler | None, row: Row | None, since: int) -> None:
        super().__init__()
        self.row = row
        self.since = since
        self._judge = judge
        self._on_rejected = on_rejected
        self._context = copy_context()

    def judge(self, tree: Tree | None) -> Edit | None:
        return self._context.run(self._judge, tree)

    def handle_rejection(self, rows: Mapping[int, Row | None]) -> None:
        """Handles the rows of the change that refused. Raises the reason for refusing the
        change."""
        if self._on_rejected is not None:
            self._context.run(self._on_rejected, rows)


class ChangeQueue(WaitingQueue[WaitingChange]):
    """The changes that wait in a process, by catalog. Safe for threads."""

    def __init__(self, most: int = WAITING_MOST) -> None:
        super().__init__(GROUP_CHANGES, "changes of the catalog", most)

    def commit(self, catalog: str, change: WaitingChange, lead: Lead, patience_ms: int) -> Tree:
        """Returns the tree that has ``change``, whichever thread led. Raises as ``apply``."""
        self.apply(catalog, change, lead, patience_ms)
        return change.outcome()


def own_rows_only(edit: Edit | None, tree: Tree) -> Edit | None:
    """Returns an edit of ``tree``; of a branch, with a clause for each HEAD of a Delta table that
    it changes or checks: the table is the branch's own (I28). Raises InheritedTable for a change of
    a table without a HEAD of its own."""
    if edit is None or not is_branch(tree.catalog):
        return edit
    for path, entity in edit.put.items():
        before = tree.find(path)
        with_head = isinstance(entity, Table) and entity.external is None
        if with_head and before is not None and is_inherited(tree, before) and id_of(entity) == before.table_id:
            raise InheritedTable(path)
    own = Clause("same branch", "I28", "the table is the branch's own", Equals(("catalog",), tree.catalog))
    return msgspec.structs.replace(edit, writes=tuple(_with_clause(write, own) for write in edit.writes))


def _with_clause(write: Write, clause: Clause) -> Write:
    if isinstance(write, Insert) or f"/{TableHead.kind}/" not in write.key:
        return write
    return msgspec.structs.replace(write, clauses=(*write.clauses, clause))
