"""Checks clones: what they show is what their source was, and the files that they need have an owner who keeps them for
exactly the clones there are (I9, I10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.auditors.pasts import PastAuditor
from tests.simulation.auditors.record import Violation, audits
from tests.simulation.auditors.trees import SeenHead
from turnstile.catalog.clone.core import needs_of
from turnstile.catalog.core.entities import IcebergTable, Namespace, Table
from turnstile.catalog.core.paths import Path, path_of
from turnstile.delta.core.head import PINNED
from turnstile.store.core.locations import LOG, STAGED

if TYPE_CHECKING:
    from tests.simulation.engine.state import State

_SAID: Final = "clone from "


class CloneAuditor:
    """Listens to the trees' auditor, and to files that go."""

    def __init__(self, state: State, past: PastAuditor) -> None:
        self._state, self._trees, self._together = state, state.trees, past.together
        state.trees.listeners.append(self._changed)
        state.file_watchers.append(self._file_deleted)

    @audits
    def _changed(self, head: SeenHead, _: SeenHead | None) -> None:
        said = head.commit.message
        if said.startswith(_SAID):
            id, what = said.removeprefix(_SAID).split(": ", 1)
            source, to = what.split(" to ")
            self._same(self._trees.heads[id], path_of_name(source), head, path_of_name(to))
        self._kept(head)

    def _same(self, was: SeenHead, source: Path, head: SeenHead, to: Path) -> None:
        """A clone has just appeared: it is what its source was."""
        self._state.auditor.seen["clone"] += 1
        cloned, clone = self._below(was, source), self._below(head, to)
        if cloned != clone:
            raise Violation("I9", f"the clone of {source} in {was.id} is {clone} instead of {cloned}")

    def _below(self, head: SeenHead, path: Path) -> dict[Path, object]:
        """What a path leads to, by the rest of each name, as far as a clone has it in common with its source."""
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
        refs, space = self._state.refs.rows, self._state.space
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
