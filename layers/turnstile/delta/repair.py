"""A table that cannot be published: what is wrong, and getting it going again once that is mended.

Turnstile never overwrites a file of the log and never takes back what it ratified (I2, I4). So repair is: look, say
exactly what is where, publish again as soon as storage lets it, and adopt what is published after a HEAD that was
restored from a backup. What only a person can decide stays theirs.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from turnstile.delta.content import ContentChanged, ContentMissing, content_of, transaction_of
from turnstile.delta.core.head import RECOVERING, Positioned, TableHead, positioned
from turnstile.delta.core.state_writes import may_recover, stuck_at
from turnstile.delta.publish import Published, Publisher
from turnstile.delta.recover import NotAdoptable, Recoverer, Unknowns
from turnstile.store.core.errors import NotFound, StorageFault
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
"""How often a table that goes on under our eyes is looked at again."""


class Diagnosis(msgspec.Struct, frozen=True):
    """What stands between a table and its next version, published or adopted.

    ``version`` the version in question (None when there is none); ``facts`` sizes in bytes, times in ms, paths and
    transaction ids as found.
    """

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
        """Publish what can be published, which also lets a table that is no longer stuck take commits again; adopt what
        is published and the HEAD does not know (services/recover); then say how it stands.

        Raises:
            NotFound: no such table.
            TableUnread: the store did not give us the HEAD.
            StorageFault: the log could not be listed.
        """
        done = self._publisher.publish(table_id, until_ms=until_ms)
        if done.problem is None and self._recoverer.begin(table_id):
            again = self._publisher.publish(table_id, until_ms=until_ms)
            done = msgspec.structs.replace(
                again, count=done.count + again.count, lag_ms=done.lag_ms, adopted=done.adopted + again.adopted
            )
        return done, self.diagnose(table_id)

    def diagnose(self, table_id: str) -> Diagnosis:
        """How it stands, changing nothing.

        Raises:
            NotFound: no such table.
        """
        head = self._head(table_id)
        told = self._look(head)
        for _ in range(_LOOKS):
            if told.finding not in ("ahead", "gap", "foreign"):
                break
            again = self._head(table_id)
            if again.latest == head.latest:
                break  # what the log has, and the HEAD has not, was not ratified in the meantime
            head, told = again, self._look(again)
        return told

    def _head(self, table_id: str) -> TableHead:
        row = self._world.refs.read(self._world.space.table(table_id))
        if row is None:
            raise NotFound("table", table_id, field="table_id", remedy="load the table by name again")
        return TableHead.from_row(row)

    def _look(self, head: TableHead) -> Diagnosis:
        place = next((place for place in positioned(head) if place.version == head.floor + 1), None)
        if head.state == "dropped":
            return _told(head, "not in use", place, "the table is dropped", {})
        return self._settled(head) if place is None else self._waiting(head, place)

    def _waiting(self, head: TableHead, place: Positioned) -> Diagnosis:
        """With ``place`` the first version that is not published."""
        facts = self._facts(head, place)
        try:
            content = content_of(self._world, head, place)
            found = self._world.storages.open(head.location).read(published_path(place.version))
        except ContentMissing as fault:
            return _told(head, "missing", place, fault.message, facts)
        except ContentChanged as fault:
            return _told(head, "changed", place, fault.message, facts)
        except StorageFault as fault:
            return _told(head, "unreadable", place, fault.message, facts)
        if found is not None and found[0] != content:
            facts["published_txn_id"] = transaction_of(found[0])
            return _told(head, "differs", place, f"{published_path(place.version)} is not the ratified commit", facts)
        return _told(head, "behind", place, f"{head.latest - head.floor} versions wait for publication", facts)

    def _settled(self, head: TableHead) -> Diagnosis:
        """With everything published that the HEAD knows."""
        facts: dict[str, Any] = {}
        version = head.latest + 1
        try:
            unknown = self._unknowns.after(head) if may_recover(head) or head.state == RECOVERING else []
            if not unknown:
                if head.state != RECOVERING and stuck_at(head) is None:
                    return _told(head, "healthy", None, "everything ratified is published", facts)
                return _told(head, "behind", None, "what was in the way is gone", facts)
            facts |= {"published_path": published_path(version), "published_to": unknown[-1]}
            found = self._unknowns.judged(head, unknown[0])
        except NotAdoptable as fault:
            return _told(head, "gap" if fault.details["gap"] else "foreign", version, fault.message, facts)
        except StorageFault as fault:
            return _told(head, "unreadable", version, fault.message, facts)
        entry = found.proposal.entry
        facts |= {"published_size": entry.size, "published_txn_id": entry.txn}
        message = (
            f"{len(unknown)} published versions are not in the HEAD: it was restored from a backup, or somebody wrote "
            "past the catalog"
        )
        return _told(head, "ahead", version, message, facts)

    def _facts(self, head: TableHead, place: Positioned) -> dict[str, Any]:
        entry = place.entry
        facts: dict[str, Any] = {
            "kind": "inline" if entry.inline else "staged",
            "txn_id": entry.txn,
            "operation": entry.operation,
            "ratified": entry.ratified,
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
            facts[f"{name}_modified"] = stat.modified if stat else None
        return facts


def _told(
    head: TableHead, finding: Finding, at: Positioned | int | None, message: str, facts: dict[str, Any]
) -> Diagnosis:
    version = at.version if isinstance(at, Positioned) else at
    return Diagnosis(
        head.table_id, head.state, head.floor, head.latest, finding, version, message, _REMEDIES[finding], facts
    )
