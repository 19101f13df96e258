"""Diagnosis and repair of a table that cannot be published.

Turnstile never overwrites a file of the log and never takes back what it ratified (I2, I4). So a repair publishes what can
be published, adopts what is published after a HEAD that was restored from a backup, and says exactly what is where. The
rest is for an operator to decide.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from turnstile.delta.commits import ContentChanged, ContentMissing, content_of, read_head, transaction_of
from turnstile.delta.core.head import DROPPED, RECOVERING, Positioned, TableHead, positioned
from turnstile.delta.core.state_writes import may_recover, stuck_at
from turnstile.delta.publish import Published, Publisher
from turnstile.delta.recover import NotAdoptable, Recoverer, Unknowns
from turnstile.store.core.errors import StorageFault
from turnstile.store.core.locations import published_path, staged_path
from turnstile.store.ports import World

Finding = Literal[
    "healthy", "behind", "missing", "changed", "differs", "ahead", "gap", "foreign", "unreadable", "not in use"
]

_REMEDIES: dict[Finding, str] = {
    "healthy": "nothing to do",
    "behind": "repair: nothing is in the way",
    "missing": "restore the staged file from a backup or an object version, under the same name, and repair again",
    "changed": "restore the staged file as it was ratified (its size is in 'facts') and repair again",
    "differs": "somebody wrote this version past the catalog: move that file out of _delta_log, keep what it added in "
    "mind, and repair again, which publishes the ratified commit",
    "ahead": "repair: the published versions are adopted in order, and the table takes no commits until then. If the "
    "coordinator was not restored, look first who wrote them",
    "gap": "bring the missing version back into _delta_log from a backup or an object version, or restore a later state "
    "of the coordinator, and repair again",
    "foreign": "find out who wrote it; if it does not belong to the table's history, move it and every later version out "
    "of _delta_log, and repair again",
    "unreadable": "mend the access to the table's storage and repair again",
    "not in use": "a dropped table is not published",
}

_LOOKS: Final = 5
"""How often a table that commits meanwhile is looked at again."""


class Diagnosis(msgspec.Struct, frozen=True):
    """What stands between a table and ``version``, the next to be published or adopted (None when there is none); ``facts``
    sizes in bytes, times in ms, paths and transaction ids as found."""

    table_id: str
    state: str
    floor: int
    latest: int
    finding: Finding
    version: int | None
    message: str
    remedy: str
    facts: dict[str, Any]


class Repairer:
    """Diagnoses and repairs tables; both may be repeated at will."""

    def __init__(self, world: World, publisher: Publisher, recoverer: Recoverer | None = None) -> None:
        self._world, self._publisher = world, publisher
        self._recoverer = recoverer or Recoverer(world)
        self._unknowns = Unknowns(world)

    def repair(self, table_id: str, *, until_ms: int | None = None) -> tuple[Published, Diagnosis]:
        """Publishes what can be published, which also ends a stuck state whose cause is gone; adopts what is published and
        the HEAD does not know (``delta.recover``); then diagnoses. Raises NotFound, TableUnread and StorageFault."""
        first = self._publisher.publish(table_id, until_ms=until_ms)
        if first.problem is not None or not self._recoverer.begin(table_id):
            return first, self.diagnose(table_id)
        second = self._publisher.publish(table_id, until_ms=until_ms)
        both = msgspec.structs.replace(
            second, count=first.count + second.count, lag_ms=first.lag_ms, adopted=first.adopted + second.adopted
        )
        return both, self.diagnose(table_id)

    def diagnose(self, table_id: str) -> Diagnosis:
        """Returns how the table stands; changes nothing. Raises NotFound."""
        head = read_head(self._world, table_id)
        diagnosis = self._look(head)
        for _ in range(_LOOKS):
            if diagnosis.finding not in ("ahead", "gap", "foreign"):
                break
            again = read_head(self._world, table_id)
            if again.latest == head.latest:
                break  # what the log has, and the HEAD has not, was not ratified in the meantime
            head, diagnosis = again, self._look(again)
        return diagnosis

    def _look(self, head: TableHead) -> Diagnosis:
        place = next((place for place in positioned(head) if place.version == head.floor + 1), None)
        if head.state == DROPPED:
            return _diagnosis(head, "not in use", place, "the table is dropped", {})
        return self._all_published(head) if place is None else self._unpublished(head, place)

    def _unpublished(self, head: TableHead, place: Positioned) -> Diagnosis:
        """``place`` is the first version that is not published."""
        facts = self._facts(head, place)
        try:
            content = content_of(self._world, head, place)
            file = self._world.storages.open(head.location).read(published_path(place.version))
        except ContentMissing as fault:
            return _diagnosis(head, "missing", place, fault.message, facts)
        except ContentChanged as fault:
            return _diagnosis(head, "changed", place, fault.message, facts)
        except StorageFault as fault:
            return _diagnosis(head, "unreadable", place, fault.message, facts)
        if file is not None and file[0] != content:
            facts["published_txn_id"] = transaction_of(file[0])
            message = f"{published_path(place.version)} is not the ratified commit"
            return _diagnosis(head, "differs", place, message, facts)
        return _diagnosis(head, "behind", place, f"{head.latest - head.floor} versions wait for publication", facts)

    def _all_published(self, head: TableHead) -> Diagnosis:
        """Everything that the HEAD knows is published."""
        facts: dict[str, Any] = {}
        version = head.latest + 1
        try:
            unknown = self._unknowns.after(head) if may_recover(head) or head.state == RECOVERING else []
            if not unknown:
                if head.state != RECOVERING and stuck_at(head) is None:
                    return _diagnosis(head, "healthy", None, "everything ratified is published", facts)
                return _diagnosis(head, "behind", None, "what was in the way is gone", facts)
            facts |= {"published_path": published_path(version), "published_to": unknown[-1]}
            next = self._unknowns.adoptable(head, unknown[0])
        except NotAdoptable as fault:
            return _diagnosis(head, "gap" if fault.details["gap"] else "foreign", version, fault.message, facts)
        except StorageFault as fault:
            return _diagnosis(head, "unreadable", version, fault.message, facts)
        entry = next.proposal.entry
        facts |= {"published_size": entry.size, "published_txn_id": entry.txn}
        message = (
            f"{len(unknown)} published versions are not in the HEAD: it was restored from a backup, or somebody wrote "
            "past the catalog"
        )
        return _diagnosis(head, "ahead", version, message, facts)

    def _facts(self, head: TableHead, place: Positioned) -> dict[str, Any]:
        entry = place.entry
        facts: dict[str, Any] = {
            "kind": "inline" if entry.inline else "staged",
            "txn_id": entry.txn,
            "operation": entry.operation,
            "ratified": entry.ratified_ms,
            "ratified_size": entry.size,
        }
        storage = self._world.storages.open(head.location)
        for name, path in (("staged", staged_path(place.name)), ("published", published_path(place.version))):
            facts[f"{name}_path"] = path
            try:
                stat = storage.stat(path)
            except StorageFault:
                continue
            facts[f"{name}_size"] = stat.size if stat else None
            facts[f"{name}_modified"] = stat.modified_ms if stat else None
        return facts


def _diagnosis(
    head: TableHead, finding: Finding, at: Positioned | int | None, message: str, facts: dict[str, Any]
) -> Diagnosis:
    version = at.version if isinstance(at, Positioned) else at
    return Diagnosis(
        head.table_id, head.state, head.floor, head.latest, finding, version, message, _REMEDIES[finding], facts
    )
