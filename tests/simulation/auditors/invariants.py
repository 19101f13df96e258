"""Checks every invariant at every change of the stores, against a record of its own.

The record is made when a ratification is accepted: version, transaction, final bytes. Nothing that
the services keep for themselves is believed afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.auditors.record import Fact, History, Violation, audits
from tests.support.fakes.heads import recount
from turnstile.delta.commits import unpack
from turnstile.delta.core.content import Content, read_content
from turnstile.delta.core.head import PINNED, PlacedCommit, TableHead, final_bytes, tail_by_version
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.core.undecided import as_folded, undecided_of
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.names import LOG, STAGED, parse_staged_file, published_path, staged_path
from turnstile.store.core.rows import identity_obj

if TYPE_CHECKING:
    from tests.simulation.engine.state import State


SLACK = 300_000
"""How far clocks of servers are apart at most (ms)."""


class Auditor:
    """Raises ``Violation`` from within the call that breaks an invariant."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.tables: dict[str, History] = {}
        self.at: dict[str, History] = {}
        self.seen: Counter[str] = Counter()
        self.light_work: list[Callable[[History, str, bytes], None]] = []
        self.cleanups: list[Callable[[str, str], None]] = []

    # -- HEADs ----------------------------------------------------------------------------------------------------

    def true_head(self, row: dict[str, Any]) -> TableHead:
        """A HEAD as every reader sees it: a commit of a large group counts from the group's
        decision on."""
        head = TableHead.from_row(row)
        entry = undecided_of(head)
        group = self._state.refs.rows.get(self._state.space.group(entry.ref)) if entry is not None else None
        if entry is None or group is None or (group["state"], group["token"]) != ("committed", entry.token):
            return head
        return as_folded(head)

    def came_back(self, head: TableHead) -> None:
        """An undrop erased the HEAD that marked an Iceberg table to be purged; a drop may write
        another."""
        del self.tables[head.table_id]
        self.seen["iceberg came back before its purge"] += 1

    @audits
    def head_changed(self, before: dict[str, Any] | None, after: dict[str, Any]) -> None:
        head = self.true_head(after)
        history = self.tables.get(head.table_id)
        if history is None or before is None:
            if before is not None or history is not None:
                raise Violation("I2", f"the HEAD of {head.table_id} was written twice")
            history = History(
                head.table_id, head.location, head.latest + 1, head.latest, head.last_ict, floor=head.floor
            )
            history.rows_to = head.row_hwm
            self.tables[head.table_id] = history
            if head.state != PINNED:  # where a clone is, its source lives
                self.at[head.location] = history
            return
        try:
            recount(head)
        except AssertionError as error:
            raise Violation("I1", f"the row contradicts itself: {error}") from None
        if head.floor < head.latest and head.pending is None:
            raise Violation("I11", f"versions after {head.floor} wait and the stream is not told")
        if head.latest < history.latest:
            raise Violation("I6", f"latest went back from {history.latest} to {head.latest}")
        places = tail_by_version(head)
        added = [place for place in places if place.version > history.latest]
        if len(added) != head.latest - history.latest:
            raise Violation("I1", f"latest jumped from {history.latest} to {head.latest}")
        self.seen["shared"] += len(added) > 1
        for place in added:
            self._ratified(head, history, place)
        if head.floor != history.floor:
            self._floor(head, history)
        for place in places:
            fact = history.facts.get(place.version)
            if fact is not None and (place.ict, place.name, place.entry.txn) != (fact.ict, fact.name, fact.txn):
                raise Violation("I2", f"version {place.version} is another one now: {place} instead of {fact}")
        self._remembered(head, history, TableHead.from_row(before))

    def _ratified(self, head: TableHead, history: History, place: PlacedCommit) -> None:
        entry = place.entry
        proposal = (entry.txn, entry.operation)
        self._state.scheduler.note(f"RATIFIED {head.table_id} version {place.version}: {entry.txn} {entry.operation}")
        self.seen["ticket" if entry.ticket else "inline" if entry.inline else "staged"] += 1
        if head.state != "active" and not (entry.group and head.state == "stuck"):  # stuck after it was prepared
            raise Violation("I10", f"a table that is {head.state} took version {place.version}")
        if entry.txn in history.versions:
            raise Violation("I3", f"{entry.txn} is versions {history.versions[entry.txn]} and {place.version}")
        if not history.refused.isdisjoint(((*proposal, place.version), (*proposal, 0))):
            raise Violation("I3", f"{proposal} was finally refused and is version {place.version} now")
        if place.ict <= history.ict:
            raise Violation("I7", f"version {place.version} is not later than its predecessor")
        content = self._bytes(head, place)
        read = read_content(content)
        self._rows(history, place, read)
        apps = frozenset(read.apps)
        if entry.ticket:
            self._undisturbed(history, place.version, read.read_version or 0, apps)
        history.facts[place.version] = Fact(
            entry.txn, entry.operation, content, place.ict, place.name, read.changes_metadata, apps
        )
        history.versions[entry.txn] = history.latest = place.version
        history.ict = place.ict

    def _bytes(self, head: TableHead, place: PlacedCommit) -> bytes:
        entry = place.entry
        if entry.data:
            return final_bytes(place, unpack(entry.data))
        if entry.obj:
            obj = self._state.objs.rows.get((self._state.space.objs(head.catalog), entry.obj))
            if obj is None:
                raise Violation("I9", f"version {place.version} names obj {entry.obj}, which does not exist")
            return final_bytes(place, unpack(obj.payload))
        found = self._state.storages.files.get(f"{head.location}/{staged_path(place.name)}")
        if found is None or len(found[0]) != entry.size:
            raise Violation("I4", f"version {place.version} was ratified without its file {place.name}")
        return found[0]

    def _undisturbed(self, history: History, version: int, base: int, apps: frozenset[str]) -> None:
        for between in range(max(base, history.first - 1) + 1, version):
            fact = history.facts[between]
            if fact.metadata:
                raise Violation("I2", f"ticket {version} was written for the metadata before version {between}")
            if fact.apps & apps:
                raise Violation("I3", f"ticket {version} repeats the streaming transaction of version {between}")

    def _rows(self, history: History, place: PlacedCommit, read: Content) -> None:
        if history.rows_to is None:
            return
        if place.first_row is not None and place.first_row <= history.rows_to:
            raise Violation("I2", f"version {place.version} assigns row id {place.first_row} again")
        history.rows_to = max(history.rows_to, read.hwm if read.hwm is not None else -1)

    def _floor(self, head: TableHead, history: History) -> None:
        self._state.scheduler.note(f"FLOOR {head.table_id} {history.floor} -> {head.floor}")
        if head.floor < history.floor:
            raise Violation("I5", f"the floor fell from {history.floor} to {head.floor}")
        for version in range(history.floor + 1, head.floor + 1):
            if version not in history.published_at:
                raise Violation("I5", f"the floor is {head.floor} but version {version} is not in _delta_log")
        history.floor = head.floor

    def _remembered(self, head: TableHead, history: History, before: TableHead) -> None:
        space = self._state.space.objs(head.catalog)
        self.seen["evicted"] += head.tail_from - before.tail_from
        if head.state != before.state:
            self.seen[f"state {head.state}"] += 1
        for place in tail_by_version(before)[: head.tail_from - before.tail_from]:
            for identity in (place.entry.txn, place.name):
                if (space, identity_obj(head.table_id, identity)) not in self._state.objs.rows:
                    raise Violation("I3", f"version {place.version} left the tail and nothing remembers {identity}")

    # -- files and objs -------------------------------------------------------------------------------------------

    @audits
    def file_created(self, location: str, path: str, content: bytes) -> None:
        history = self.at.get(location)
        if history is None or not path.startswith(LOG) or path.startswith(STAGED):
            return
        if not path.endswith(".json") or path.count(".") > 1 or "/" in path[len(LOG) :]:
            for watcher in self.light_work:
                watcher(history, path, content)
            return
        version = int(path[len(LOG) :].split(".", maxsplit=1)[0])
        fact = history.facts.get(version)
        if fact is None:
            raise Violation("I4", f"version {version} is in _delta_log and was never ratified")
        if content != fact.content:
            raise Violation("I4", f"version {version} was published with other bytes than were ratified")
        if version > history.first and version - 1 not in history.published_at:
            raise Violation("I4", f"version {version} was published before version {version - 1}")
        history.published_at.setdefault(version, self._state.scheduler.now)

    @audits
    def file_deleted(self, location: str, path: str) -> None:
        history = self.at.get(location)
        self.seen["deleted file"] += 1
        now = self._state.scheduler.now
        if history is None:
            if any(other.location.startswith(location) for other in self.tables.values()):
                raise Violation("I10", f"{location}/{path} was deleted")
            return
        if self._state.has_ended(history.table_id):
            return
        head = TableHead.from_row(self._state.row(history.table_id))
        if head.state == "dropped":
            if now - head.changed_at < self._state.grace.dropped_ms - SLACK:
                raise Violation("I10", f"{path} of a table dropped just now was deleted")
            return
        parsed = parse_staged_file(path.removeprefix(STAGED))
        if parsed is None and path.startswith(LOG) and self.cleanups:
            for judge in self.cleanups:
                judge(location, path)
            return
        if parsed is None:
            raise Violation("I10", f"{path} was deleted")
        version = parsed[0]
        if self._is_freed(head, path.removeprefix(STAGED)):
            self.seen["deleted file of an aborted transaction"] += 1
            return
        if version > head.floor or any(place.name == path.removeprefix(STAGED) for place in tail_by_version(head)):
            raise Violation("I10", f"{path} was deleted with the floor at {head.floor}")
        if now - history.published_at[version] < self._state.grace.staged_ms - SLACK:
            raise Violation("I10", f"{path} was deleted too soon after version {version} was decided")

    def _is_freed(self, head: TableHead, name: str) -> bool:
        """Whether a staged file is of a transaction that was aborted, and of no commit that the
        table carries."""
        freed = f"{head.table_id}/{name}"
        entries = (row for row in self._state.refs.rows.values() if row["kind"] == "transaction")
        aborted = any(row["state"] == "aborted" and freed in row.get("freed", ()) for row in entries)
        return aborted and all(place.name != name for place in tail_by_version(head))

    @audits
    def obj_deleted(self, space: str, id: str) -> None:
        self.seen["deleted obj"] += 1
        for row in self._state.refs.rows.values():
            if row["kind"] != "table" or row["state"] == "dropped":
                continue
            head = TableHead.from_row(row)
            if id == head.metadata or any(id == entry.obj for entry in head.tail):
                raise Violation("I10", f"obj {id} was deleted and is reachable")

    # -- what clients were told -----------------------------------------------------------------------------------

    def saw(self, answer: object) -> None:
        """Count an answer, so that a test can tell that every kind is met."""
        kind = type(answer).__name__.lower()
        detail = getattr(answer, "kind", None) or getattr(answer, "because", None) or getattr(answer, "outcome", "")
        self.seen[f"{kind} {'replayed' if getattr(answer, 'replayed', False) else detail}".strip()] += 1

    @audits
    def told_ratified(self, table_id: str, txn: str, version: int) -> None:
        history = self.tables[table_id]
        became = history.versions.get(txn)
        if became != version:
            raise Violation("I3", f"{txn} was told it is version {version} and is {became}")
        history.acknowledged[txn] = version
        history.shown = max(history.shown, version)

    @audits
    def told_never(self, table_id: str, txn: str, attempt: str, why: str, version: int = 0) -> None:
        """A proposal was finally refused, as ``version``, or as any (0)."""
        history = self.tables[table_id]
        if txn in history.versions:
            raise Violation("I3", f"{txn} is version {history.versions[txn]} and was told '{why}'")
        history.refused.add((txn, attempt, version))

    @audits
    def shown(self, table_id: str, head: TableHead, least: int) -> None:
        history = self.tables[table_id]
        if head.latest > history.latest:
            raise Violation("I6", f"a reader saw {head.latest} beyond {history.latest}")
        if head.latest < least:
            raise Violation("I6", f"a reader saw {head.latest} after somebody was told of {least}")
        history.shown = max(history.shown, head.latest)

    @audits
    def told_registered(self, table_id: str) -> None:
        if table_id not in self.tables:
            raise Violation("I9", f"{table_id} was told it is registered and has no HEAD")

    @audits
    def loaded(self, head: TableHead, snapshot: DeltaMetadata) -> None:
        history = self.tables[head.table_id]
        if head.latest > history.latest or snapshot.version > head.latest:
            raise Violation("I6", f"{head.name} was loaded beyond its latest version")

    @audits
    def refused(self, error: TurnstileError) -> None:
        self.seen[f"refused {error.type}"] += 1
        if error.type == "InternalError":
            raise Violation("I9", f"a name led to something that is not there: {error}")

    @audits
    def read_bytes(self, table_id: str, version: int, content: bytes) -> None:
        fact = self.tables[table_id].facts[version]
        if content != fact.content:
            raise Violation("I4", f"a reader of version {version} got other bytes than were ratified")

    # -- in the end -----------------------------------------------------------------------------------------------

    def at_rest(self) -> None:
        """Liveness: faults have stopped and the publisher had its turns (I11)."""
        for table_id, history in self.tables.items():
            if self._state.has_ended(table_id):
                continue
            head = TableHead.from_row(self._state.row(table_id))
            if head.state in ("dropped", PINNED):
                continue
            if head.state != "active" or head.floor != head.latest or head.pending is not None:
                raise Violation(
                    "I11", f"{table_id} rests {head.state} at floor {head.floor} of {head.latest}: {head.reason}"
                )
            for version, fact in history.facts.items():
                found = self._state.storages.files.get(f"{head.location}/{published_path(version)}")
                if found is None or found[0] != fact.content:
                    raise Violation("I4", f"version {version} is not in _delta_log as it was ratified")
