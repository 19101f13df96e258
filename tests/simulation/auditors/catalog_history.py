"""Compares the answers to clients of catalogs with a past with the trees as they were (I6, I8, I9,
I10).

The auditor of catalogs checks the stored rows; this one checks their meaning: a listing is the tree
that its token pinned, a HEAD of the past is unchanged, a reset brings back the earlier state, a
counter is the sum of its merges, and two Iceberg tables that change together are never seen apart.
Clones show their source as it was, and the files that they need have an owner that keeps them for
exactly the present clones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.simulation.auditors.catalogs import SeenHead
from tests.simulation.auditors.record import Violation, audits
from tests.simulation.engine.plans import MINUTE
from turnstile.catalog.clone.core import needs_of
from turnstile.catalog.core.entities import ICEBERG_TABLE, Entity, IcebergTable, Namespace, Table
from turnstile.catalog.core.paths import Path, key_of, path_of
from turnstile.catalog.history.core import SNAPSHOT
from turnstile.delta.core.head import PINNED, TableHead
from turnstile.iceberg.core.metadata import parse
from turnstile.store.core.names import LOG, STAGED
from turnstile.store.core.writes import Row

if TYPE_CHECKING:
    from tests.simulation.engine.state import State

COUNTED = ("counted",)
"""The namespace that has the counter."""
COUNTER = "count"
TOGETHER = "together"
"""The property of Iceberg tables that one transaction sets in all of them."""
SLACK = 6 * MINUTE
"""The difference between clocks of servers, and the duration of a request."""


@dataclass
class Merges:
    """Merges of one counter; each adds a power of two of its own, so its value says which of them
    it has."""

    sent: set[int] = field(default_factory=set)
    landed: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)


class PastAuditor:
    """Listens to the trees' auditor.

    Attributes:
        patient: changes have the time that they have in earnest, so nothing but changes of others
            can use it up.
        tables_fit: tables that change together are never seen apart. A table that comes back by
            itself may be older than the other, after a reset to a time before it.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._trees = state.trees
        self.merges = Merges()
        self.patient = True
        self.tables_fit = True
        self._metadata: dict[str, str] = {}
        state.trees.listeners.append(self._changed)
        state.file_watchers.append(self._file_deleted)

    # -- HEADs ----------------------------------------------------------------------------------------------------

    @audits
    def _changed(self, head: SeenHead, before: SeenHead | None) -> None:
        word = head.commit.message.split(" ", maxsplit=1)[0]
        self._state.auditor.seen[f"commit {word}"] += 1
        if before is not None and head.commit.message.startswith("reset to "):
            self._reset(head, self._trees.heads[head.commit.message.removeprefix("reset to ")], before)
        elif before is not None:
            self._counted(head, before)
        self._iceberg(head)

    def _reset(self, head: SeenHead, to: SeenHead, before: SeenHead) -> None:
        def tree(of: SeenHead, *, snapshots: bool) -> dict[str, str]:
            return {key: one.obj for key, one in of.entries.items() if (one.kind == SNAPSHOT) == snapshots}

        if tree(head, snapshots=False) != tree(to, snapshots=False):
            raise Violation("I9", f"a reset to {to.id} made another tree")
        if tree(head, snapshots=True) != tree(before, snapshots=True):
            raise Violation("I9", f"a reset to {to.id} changed snapshots")

    def _counted(self, head: SeenHead, before: SeenHead) -> None:
        now = self._counter(head)
        then = self._counter(before)
        if now == then:
            return
        gained = (now - then).bit_length() - 1
        if now < then or now - then != 1 << gained or gained not in self.merges.sent:
            raise Violation("I8", f"the counter went from {then:b} to {now:b}, which no merge asked for")
        if gained in self.merges.landed:
            raise Violation("I8", f"merge {gained} was applied twice")
        if gained in self.merges.refused:
            raise Violation("I3", f"merge {gained} was refused and is applied now")
        self.merges.landed.add(gained)

    def _counter(self, head: SeenHead) -> int:
        entry = head.entries.get(key_of(COUNTED))
        found = self._trees.entity(head, entry.obj) if entry is not None else None
        return int(found.properties.get(COUNTER, "0")) if isinstance(found, Namespace) else 0

    def _iceberg(self, head: SeenHead) -> None:
        together: dict[Path, set[str]] = {}
        for key, entry in head.entries.items():
            table = self._trees.entity(head, entry.obj) if entry.kind == ICEBERG_TABLE else None
            if isinstance(table, IcebergTable):
                if table.metadata not in self._state.storages.files:
                    raise Violation("I9", f"{table.name} leads to {table.metadata}, which does not exist")
                together.setdefault(path_of(key)[:-1], set()).add(self.together(table.metadata))
        for path, values in together.items():
            if len(values) > 1 and self.tables_fit:
                raise Violation("I8", f"half of a transaction is visible in {path}: {sorted(values)}")

    def together(self, path: str) -> str:
        """The value that a transaction set in all tables, from the metadata file."""
        if path not in self._metadata:
            content: bytes = self._state.storages.files[path][0]
            self._metadata[path] = parse(content).properties.get(TOGETHER, "")
        return self._metadata[path]

    @audits
    def _file_deleted(self, path: str) -> None:
        if not path.endswith(".metadata.json"):
            return
        for head, why in self._trees.kept():
            for entry in head.entries.values():
                table = self._trees.entity(head, entry.obj) if entry.kind == ICEBERG_TABLE else None
                if not isinstance(table, IcebergTable) or table.metadata != path:
                    continue
                if why == "the HEAD" or not self._is_purged(table):
                    raise Violation("I10", f"{path} was deleted; {why} {head.id} leads to it")

    def _is_purged(self, table: IcebergTable) -> bool:
        """Returns whether the table was dropped with its files, a grace period ago: nothing is left
        of its past."""
        row = self._state.refs.rows.get(self._state.space.table(table.table_id))
        since_ms = self._state.scheduler.now - self._state.grace.dropped_ms + SLACK
        return row is not None and row["state"] == "dropped" and row["changed_at"] < since_ms

    # -- what clients were told -----------------------------------------------------------------------------------

    def begin_merge(self) -> int:
        """The number of a merge that is about to be sent."""
        number = len(self.merges.sent)
        self.merges.sent.add(number)
        return number

    @audits
    def told_merged(self, number: int) -> None:
        if number not in self.merges.landed:
            raise Violation("I6", f"merge {number} was acknowledged and nowhere applied")

    @audits
    def told_not_merged(self, number: int, why: str) -> None:
        if number in self.merges.landed:
            raise Violation("I3", f"merge {number} was applied and told '{why}'")
        self.merges.refused.add(number)

    @audits
    def listed(self, id: str, kinds: tuple[str, ...], found: list[tuple[str, Entity]]) -> None:
        """A listing was read to its end: key and entity of everything, from the HEAD that its first
        page saw."""
        head = self._trees.heads[id]
        expected = [(key, self._trees.entity(head, one.obj)) for key, one in head.entries.items() if one.kind in kinds]
        if found != expected:
            raise Violation("I10", f"a listing of {id} was {found} instead of {expected}")

    @audits
    def token_refused(self, began: int, message: str) -> None:
        """A page token of a listing that began then (ms) was refused."""
        if self._state.scheduler.now - began < 3_600_000 - SLACK:
            raise Violation("I10", f"a page token was refused although it is young: {message}")

    @audits
    def told_overtaken(self, began: int) -> None:
        """A change that began then (ms) was told that others were faster until its deadline."""
        if self.patient and self._trees.moved < began:
            raise Violation("I11", "others were faster, a change was told; there were none")

    @audits
    def read(self, asked: list[SeenHead], head: str, found: dict[str, Entity]) -> None:
        """One of these HEADs was asked for, and read with everything that it leads to."""
        if head not in {one.id for one in asked}:
            raise Violation("I6", f"{head} was told to be what {asked[0].id} was")
        was = self._trees.heads[head]
        if found != {key: self._trees.entity(was, entry.obj) for key, entry in was.entries.items()}:
            raise Violation("I10", f"{head} is not what it was")

    @audits
    def gone(self, asked: SeenHead, asked_at: int) -> None:
        """A HEAD of the past was told to be gone."""
        if not self._trees.history_is_kept:
            return
        if asked.until is None or asked.until > asked_at - self._state.grace.history_ms + SLACK:
            raise Violation("I10", f"{asked.id} was told to be gone, and was the HEAD until {asked.until}")


_SAID: Final = "clone from "


class CloneAuditor:
    """Listens to the trees' auditor, and to files that go."""

    def __init__(self, state: State, past: PastAuditor) -> None:
        self._state = state
        self._trees = state.trees
        self._together = past.together
        state.trees.listeners.append(self._changed)
        state.file_watchers.append(self._file_deleted)
        state.watchers.setdefault("table", []).append(self._ended)

    @audits
    def _ended(self, before: Row | None, after: Row | None) -> None:
        """A HEAD goes when nothing is left that a name, a clone or a late question can be about."""
        if before is None or after is not None:
            return
        head = TableHead.from_row(before)
        grace = self._state.grace
        if head.state == "dropped" and not head.reason and self._is_back(head):
            self._state.auditor.came_back(head)
            return
        self._state.auditor.seen["ended table"] += 1
        if head.state != "dropped" or not (head.reason == "purged" or head.source):
            raise Violation("I10", f"the HEAD of {head.table_id} went, which is {head.state}: {head.reason}")
        if self._state.scheduler.now - head.changed_at < grace.tombstone_ms - SLACK:
            raise Violation("I3", f"the HEAD of {head.table_id} went too soon after its drop")
        left = [id for _, id in self._state.objs.rows if head.table_id in id and not id.startswith("identity/")]
        if left:
            raise Violation("I10", f"nothing collects {left}, which the HEAD that is gone led to")

    def _is_back(self, head: TableHead) -> bool:
        """Returns whether an undrop has just brought this Iceberg table back, which was to be
        purged."""
        now = self._trees.stored(head.catalog)
        there = (self._trees.entity(now, entry.obj) for entry in now.entries.values() if entry.kind == ICEBERG_TABLE)
        return any(isinstance(table, IcebergTable) and table.table_id == head.table_id for table in there)

    @audits
    def _changed(self, head: SeenHead, _: SeenHead | None) -> None:
        said = head.commit.message
        if said.startswith(_SAID):
            id, what = said.removeprefix(_SAID).split(": ", 1)
            source, to = what.split(" to ")
            self._same(self._trees.heads[id], path_of_name(source), head, path_of_name(to))
        self._kept(head)

    def _same(self, was: SeenHead, source: Path, head: SeenHead, to: Path) -> None:
        """A clone has just appeared: it equals its source as it was."""
        self._state.auditor.seen["clone"] += 1
        cloned = self._below(was, source)
        clone = self._below(head, to)
        if cloned != clone:
            raise Violation("I9", f"the clone of {source} in {was.id} is {clone} instead of {cloned}")

    def _below(self, head: SeenHead, path: Path) -> dict[Path, object]:
        """The entity of a path, by the rest of each name, as far as a clone has it in common with
        its source."""
        found: dict[Path, object] = {}
        for key, entry in head.entries.items():
            if path_of(key)[: len(path)] != path:
                continue
            entity = self._trees.entity(head, entry.obj)
            match entity:
                case Namespace():
                    said: object = (entity.comment, entity.properties)
                case Table():
                    said = (entity.location, entity.comment)
                case IcebergTable():
                    said = self._together(entity.metadata)
                case _:
                    said = entity
            found[path_of(key)[len(path) :]] = (entry.kind, said)
        return found

    def _kept(self, head: SeenHead) -> None:
        """Every location that a clone needs says so, and no other does."""
        refs = self._state.refs.rows
        space = self._state.space
        needed: dict[str, set[str]] = {}
        for entry in head.entries.values():
            entity = self._trees.entity(head, entry.obj)
            if isinstance(entity, Table) and entity.clone is not None:
                for held in needs_of(entity):
                    needed.setdefault(space.location(held.location), set()).add(entity.table_id)
            elif isinstance(entity, IcebergTable):
                for held in entity.needs:
                    needed.setdefault(space.location(held.location), set()).add(entity.table_id)
        for key, clones in needed.items():
            owner = refs.get(key)
            if owner is None or owner.get("purging") or set(owner.get("clones", ())) != clones:
                raise Violation("I10", f"{key} says {owner}, and is needed by {sorted(clones)}")
        for key, row in refs.items():
            if (
                row["kind"] == "location"
                and row.get("clones")
                and row.get("catalog") == head.catalog
                and key not in needed
            ):
                raise Violation("I10", f"{key} is kept for {row['clones']}, which do not need it")

    @audits
    def _file_deleted(self, path: str) -> None:
        for row in self._state.refs.rows.values():
            if row["kind"] != "table" or row["state"] != PINNED or not path.startswith(row["location"] + "/"):
                continue
            name = path.removeprefix(row["location"] + "/")
            if not name.startswith((STAGED, LOG + "_staged_commits")):
                raise Violation("I10", f"{path} was deleted, and clone {row['name']} shows it")


def path_of_name(full: str) -> Path:
    """A name without its catalog, as messages have it."""
    return tuple(full.split("."))
