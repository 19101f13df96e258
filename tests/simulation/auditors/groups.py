"""Checks that groups of commits are ratified entirely or not at all, and that cuts show them so
(I8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tests.simulation.auditors.record import Violation, audits
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.journal_rows import ABORTED, COMMITTED
from turnstile.delta.core.undecided import GroupRow
from turnstile.delta.proposals import GroupRequest, ReadVersion

if TYPE_CHECKING:
    from tests.simulation.engine.state import State


class GroupAuditor:
    """Watches the HEADs of tables; a transaction's rows are all changed when it is told of the
    first."""

    def __init__(self, state: State, value_of: Callable[[str], int] = len) -> None:
        """``value_of``: by transaction id, the value of the rows that a commit changed, where reads
        have predicates."""
        self._state = state
        self.value_of = value_of
        self._proposed: dict[str, tuple[list[GroupRequest], str]] = {}
        self._transactions: set[tuple[str, str]] = set()
        self._ratified: set[str] = set()
        self._announced: set[str] = set()
        self._aborted: set[str] = set()
        self._names: dict[str, dict[str, str]] = {}
        self._drops: dict[str, frozenset[str]] = {}
        self._by_name: dict[str, str] = {}
        self._never: set[str] = set()
        state.watchers.setdefault("table", []).append(self.changed)
        state.watchers.setdefault("group", []).append(self.decided)
        state.watchers.setdefault("transaction", []).append(self.entry_changed)

    def proposed(self, group: GroupRequest, txn: str, *, journal: bool = False) -> None:
        """A client is about to send this group, all of whose commits have the transaction id
        ``txn``; or, with ``journal``, to announce it. An announced one may have several attempts,
        over the same tables.
        """
        self._proposed.setdefault(group.id, ([], txn))[0].append(group)
        self._transactions |= {(request.table_id, txn) for request in group.commits}
        if journal:
            self._announced.add(group.id)

    def txn_of(self, id: str) -> str:
        """The transaction id of the commits of a group."""
        return self._proposed[id][1]

    @audits
    def told_aborted(self, id: str) -> None:
        """A client received the answer that this transaction is aborted."""
        if id in self._ratified:
            raise Violation("I3", f"group {id} is ratified, and was told to be aborted")
        self._aborted.add(id)
        self._state.auditor.seen["transaction aborted"] += 1

    @audits
    def entry_changed(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        """The journal's entry of a transaction is another: settled once, and committed with its
        group only."""
        was, now = (row["state"] if row else None for row in (before, after))
        if was in (COMMITTED, ABORTED) and now not in (was, None):
            raise Violation("I3", f"a transaction that was {was} is {now}")
        if after is not None and now == COMMITTED and was != now:
            self._is_whole(after["id"])

    def changing(self, group: GroupRequest, names: Mapping[str, str], drops: Mapping[str, str]) -> None:
        """The group will give these tables names that no other actor gives a table, and drop
        those."""
        self._names[group.id] = dict(names)
        self._drops[group.id] = frozenset(drops)
        self._by_name |= dict.fromkeys(names.values(), group.id) | dict.fromkeys(drops, group.id)

    @audits
    def told_never(self, group: GroupRequest) -> None:
        """The client of the group was told that it will never be applied."""
        if group.id in self._ratified:
            raise Violation("I3", f"group {group.id} was applied and refused")
        self._never.add(group.id)

    @audits
    def changed(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        if after is None:
            return
        self._catalog_changed(before, after)
        if before is None or after is None or after["latest"] == before["latest"]:
            return
        head = TableHead.from_row(after)
        entry = head.tail[-1]
        if entry.group:
            self._is_whole(entry.group)
        elif (head.table_id, entry.txn) in self._transactions:
            raise Violation("I8", f"{entry.txn} of a group was ratified alone")

    @audits
    def decided(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        """A large group's row: from its commit on the members are ratified, in whichever HEADs they
        are folded."""
        seen = self._state.auditor.seen
        if before is None or after is None or after["state"] == before["state"]:
            return
        seen[f"large group {after['state']}"] += 1
        if before["state"] == "committed":
            raise Violation("I8", f"a group that was committed is {after['state']}")
        if after["state"] == "committed":
            id = after["key"].rpartition("/")[2].partition(".")[0]
            for table in GroupRow.from_row(after).table_ids():
                row = self._state.refs.rows[self._state.space.table(table)]
                self._state.auditor.head_changed(row, row)
            self._is_whole(id)

    def _catalog_changed(self, before: dict[str, Any] | None, after: dict[str, Any]) -> None:
        """A table that got its name, or was dropped, in a transaction: all of that is done."""
        if before is None or before["name"] != after["name"]:
            id = self._by_name.get(after["name"].rsplit(".", maxsplit=1)[-1])
            if id is not None:
                self._is_whole(id)
        if before is not None and before["state"] != after["state"] == "dropped" and after["table_id"] in self._by_name:
            self._is_whole(self._by_name[after["table_id"]])

    def _changes_are_made(self, id: str) -> None:
        rows = self._state.refs.rows
        tables = {table: rows.get(self._state.space.table(table)) for table in (*self._names[id], *self._drops[id])}
        for table, name in self._names[id].items():
            row = tables[table]
            if row is None or row["name"].rsplit(".", maxsplit=1)[-1] != name:
                raise Violation("I8", f"group {id} was applied without the name '{name}' of {table}")
        for table in self._drops[id]:
            row = tables[table]
            if row is None or row["state"] != "dropped":
                raise Violation("I8", f"group {id} was applied without the drop of {table}")
        self._state.auditor.seen["transaction whole"] += 1

    def _is_whole(self, id: str) -> None:
        if id in self._aborted:
            raise Violation("I3", f"group {id} was ratified after it was aborted")
        groups, txn = self._proposed[id]
        rows = self._state.refs.rows
        for request in groups[-1].commits:
            row = rows[self._state.space.table(request.table_id)]
            versions = self._state.auditor.tables[request.table_id].versions
            if txn not in row.get("ids", ()) and txn not in versions:
                raise Violation("I8", f"group {id} was ratified without its commit of {request.table_id}")
        if id in self._ratified:
            return
        self._ratified.add(id)
        if id in self._never:
            raise Violation("I3", f"group {id} was refused for ever, and applied")
        if id in self._names:
            self._changes_are_made(id)
        self._state.auditor.seen["group ratified"] += 1
        if id in self._announced and rows[self._state.space.transaction(id)]["state"] != COMMITTED:
            raise Violation("I8", f"group {id} was ratified without its entry in the journal")
        latest = {id: rows[self._state.space.table(id)]["latest"] for id in self._state.auditor.tables}
        behind = [[self._behind(read, latest[read.table_id]) for read in group.reads] for group in groups]
        slack = [[read.slack for read in group.reads] for group in groups]
        within = [all(0 <= b <= s for b, s in zip(*one, strict=True)) for one in zip(behind, slack, strict=True)]
        if not any(within):
            invariant = "I20" if any(read.predicate for read in groups[-1].reads) else "I8"
            raise Violation(invariant, f"group {id} read {groups[-1].reads} of tables at {latest}")
        if any(behind[within.index(True)]):
            self._state.auditor.seen["group behind within its slack"] += 1

    def _behind(self, read: ReadVersion, latest: int) -> int:
        """By how many versions a read is behind; for a read with a predicate, versions before the
        first one that changed such a row do not count (I20)."""
        if not read.predicate:
            return latest - read.version
        value = int(read.predicate.removeprefix("id = "))
        versions = self._state.auditor.tables[read.table_id].versions
        matter = [
            version for txn, version in versions.items() if version > read.version and self.value_of(txn) == value
        ]
        if latest > read.version + read.slack and latest - read.slack < min(matter, default=latest + 1):
            self._state.auditor.seen["group moved on by its predicate"] += 1
        return 0 if not matter else latest - min(matter) + 1

    @audits
    def cut(self, versions: Mapping[str, int]) -> None:
        """A reader took a cut that shows these tables at these versions."""
        for id in self._ratified:
            (*_, group), txn = self._proposed[id]
            tables = self._state.auditor.tables
            shown = {
                versions[request.table_id] >= tables[request.table_id].versions[txn]
                for request in group.commits
                if request.table_id in versions
            }
            if len(shown) > 1:
                raise Violation("I8", f"a cut {dict(versions)} shows a part of group {id}")
        self._state.auditor.seen["cut"] += 1
