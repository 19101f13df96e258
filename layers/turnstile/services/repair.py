"""A table that cannot be published: what is wrong, and getting it going again once that is mended.

Turnstile never overwrites a file of the log and never takes back what it ratified (I2, I4). So repair is: look, say
exactly what is where, and publish again as soon as storage lets it. What only a person can decide stays theirs.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from turnstile.core.errors import NotFound, StorageFault
from turnstile.core.head import TableHead
from turnstile.core.positions import Positioned, positioned
from turnstile.services.content import ContentChanged, ContentMissing, content_of, transaction_of
from turnstile.services.paths import published_path, staged_path
from turnstile.services.publish import Published, Publisher
from turnstile.world import World

Finding = Literal["healthy", "behind", "missing", "changed", "differs", "unreadable", "not in use"]

_REMEDIES: dict[Finding, str] = {
    "healthy": "nothing to do",
    "behind": "publish: nothing is in the way",
    "missing": "restore the staged file from a backup or an object version, under the same name, and repair again",
    "changed": "restore the staged file as it was ratified (its size is in 'facts') and repair again",
    "differs": "somebody wrote this version past the catalog: move that file out of _delta_log, keep what it added in "
    "mind, and repair again, which publishes the ratified commit",
    "unreadable": "mend the access to the table's storage and repair again",
    "not in use": "a dropped table is not published",
}


class Diagnosis(msgspec.Struct, frozen=True):
    """What stands between a table and its next published version.

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

    def __init__(self, world: World, publisher: Publisher) -> None:
        self._world, self._publisher = world, publisher

    def repair(self, table_id: str, *, until_ms: int | None = None) -> tuple[Published, Diagnosis]:
        """Publish what can be published, which also lets a table that is no longer stuck take commits again; then
        say how it stands.

        Raises:
            NotFound: no such table.
            TableUnread: the store did not give us the HEAD.
        """
        done = self._publisher.publish(table_id, until_ms=until_ms)
        return done, self.diagnose(table_id)

    def diagnose(self, table_id: str) -> Diagnosis:
        """How it stands, changing nothing."""
        row = self._world.refs.read(self._world.space.table(table_id))
        if row is None:
            raise NotFound("table", table_id, field="table_id")
        head = TableHead.from_row(row)
        place = next((place for place in positioned(head) if place.version == head.floor + 1), None)
        if head.state == "dropped":
            return _told(head, "not in use", place, "the table is dropped", {})
        if place is None:
            return _told(head, "healthy", None, "everything ratified is published", {})
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
    head: TableHead, finding: Finding, place: Positioned | None, message: str, facts: dict[str, Any]
) -> Diagnosis:
    version = place.version if place is not None else None
    return Diagnosis(
        head.table_id, head.state, head.floor, head.latest, finding, version, message, _REMEDIES[finding], facts
    )
