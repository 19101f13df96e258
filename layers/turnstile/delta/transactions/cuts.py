"""Cuts: the latest versions of several tables as of one moment, also of a past one (I8).

A change of several HEADs, by a group of commits or a change of the catalog, is in a cut entirely or
not at all. A reader that reads each table at its version in the cut, and never at a later one, so
sees no group half done. HEADs change meanwhile: a cut takes no lock and delays no commit.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from turnstile.delta.commits import check_readable, no_such_table
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.undecided import as_folded, undecided_of, without_entry
from turnstile.delta.past import version_at
from turnstile.delta.undecided import verdicts
from turnstile.store.core.errors import ErrorType, InvalidRequest, NotFound, StateConflict, Throttled, UnsupportedTable
from turnstile.store.ports import World


class TableInCut(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table as a cut shows it: its full ``name``, the latest ``version`` and the in-commit
    ``timestamp`` (ms) of that, the ``etag`` of its metadata, and the ``floor`` up to which it is
    published. In a cut of the past without etag, unless the version is the latest still.
    """

    table_id: str
    name: str
    version: int
    timestamp: int
    floor: int
    etag: str = ""


class Cut(msgspec.Struct, frozen=True):
    """HEADs by table id as of one moment, in any state; tables without one are left out.
    ``taken_at_ms`` is the server's clock before that moment: everything that was answered by then
    is in the cut.
    """

    heads: Mapping[str, TableHead]
    taken_at_ms: int

    def tables(self, table_ids: Sequence[str]) -> list[TableInCut]:
        """Returns the cut's entries for these tables, in their order. Raises NotFound for a table
        that is missing or dropped, StateConflict for one that is being recovered; ``field`` gives
        its place in the order.
        """
        return [self._table(table_id, f"tables[{index}]") for index, table_id in enumerate(table_ids)]

    def _table(self, table_id: str, field: str) -> TableInCut:
        head = self.heads.get(table_id)
        try:
            if head is None:
                raise no_such_table(table_id)
            check_readable(head)
        except StateConflict as error:
            problem = f"table {table_id}: {error.public_message}"
            details = {**error.details, "table_id": table_id}
            raise StateConflict(ErrorType(error.type), problem, field=field, remedy=error.remedy, **details) from None
        except NotFound as error:
            error.field = field
            raise
        return TableInCut(table_id, head.name, head.latest, head.last_ict, head.floor, head.metadata)


_ATTEMPTS: Final = 20
_THREADS: Final = 16
AHEAD_MS: Final = 60_000
"""The largest difference between the clock of a client that names a moment and the server's."""


def _group(head: TableHead) -> tuple[str, str]:
    """The beginning of a group that the undecided entry of ``head`` is of; empty for none."""
    entry = undecided_of(head)
    return (entry.ref, entry.token) if entry is not None else ("", "")


def _as_seen(head: TableHead, committed: Container[tuple[str, str]]) -> TableHead:
    """As a reader sees a HEAD, where these groups are committed."""
    if not head.undecided:
        return head
    return as_folded(head) if _group(head) in committed else without_entry(head)


class Cuts:
    """Takes cuts of up to ``TRANSACT_MAX`` tables."""

    def __init__(self, world: World) -> None:
        self._world = world

    def take(self, table_ids: Sequence[str]) -> Cut:
        """Returns the HEADs of these tables as of one moment between the call and its return: one
        request to the store. Of one table it is a plain read, at half the price. Raises ValueError
        for more than ``TRANSACT_MAX`` tables, Throttled where they are changed so often that no
        moment was found until the deadline.

        Where HEADs have undecided entries, their groups are looked at, and a group that is found
        committed may have been committed after the moment of the rows. So the rows are read again:
        of that moment it is known (ADR 24).
        """
        refs = self._world.refs
        space = self._world.space
        taken_at_ms = self._world.clock.now_ms()
        keys = {space.table(table_id): table_id for table_id in table_ids}
        committed: set[tuple[str, str]] = set()  # groups that were committed before the rows were read
        for _ in range(_ATTEMPTS):
            if len(keys) == 1:
                rows = {key: row for key in keys if (row := refs.read(key)) is not None}
            else:
                rows = refs.read_cut(list(keys))
            heads = {keys[key]: TableHead.from_row(row) for key, row in rows.items()}
            waiting = {id: head for id, head in heads.items() if _group(head) not in committed}
            new = {_group(heads[id]) for id, is_ in verdicts(self._world, waiting).items() if is_ == "committed"}
            if not new or len(keys) == 1:
                return Cut({id: _as_seen(head, committed | new) for id, head in heads.items()}, taken_at_ms)
            committed |= new
        raise Throttled("groups were committed on these tables during every attempt to take a cut")

    def of(self, table_ids: Sequence[str]) -> list[TableInCut]:
        """Returns a cut of these tables, in their order. Raises as ``take`` and ``Cut.tables``."""
        return self.take(table_ids).tables(table_ids)

    def past(self, cut: Cut, table_ids: Sequence[str], at_ms: int) -> list[TableInCut]:
        """Returns the versions that these tables of a cut had at ``at_ms``, by in-commit
        timestamps, in their order. A change of several tables is in them entirely or not at all if
        its commits have one timestamp.

        Raises:
            InvalidRequest: that moment has not come yet.
            NotFound, StateConflict, UnsupportedTable: as ``Cut.tables`` and ``version_at``;
                ``field`` says of which table.
        """
        if not 0 <= at_ms <= cut.taken_at_ms + AHEAD_MS:
            remedy = f"the server's clock says {cut.taken_at_ms}: name an earlier moment"
            raise InvalidRequest(f"{at_ms} (ms) is no moment of the past", field="at_ms", remedy=remedy)
        tables = cut.tables(table_ids)

        def earlier(index: int) -> TableInCut:
            head = cut.heads[table_ids[index]]
            try:
                moment = version_at(self._world, head, at_ms)
            except (NotFound, UnsupportedTable) as error:
                error.field = f"tables[{index}]"
                raise
            if moment.version == head.latest:
                return tables[index]
            return msgspec.structs.replace(
                tables[index],
                version=moment.version,
                timestamp=moment.timestamp,
                etag="",
                floor=min(head.floor, moment.version),
            )

        with ThreadPoolExecutor(_THREADS, thread_name_prefix="past") as threads:
            return list(threads.map(earlier, range(len(tables))))
