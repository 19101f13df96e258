"""Diagnosis and repair of a table that cannot be published.

Turnstile never overwrites a file of the log (I4). It takes back a ratified commit only when an
operator chooses so (I2). A repair publishes each commit that can be published, adopts commits that
were published after the state of a HEAD from a backup, and reports which side has which commit.

Where HEAD and log contradict each other, clients may have got an acknowledgement for either side:
for the log's commits from a coordinator that lost its state, for the HEAD's commits since then. The
repair shows both sides and changes nothing until the operator chooses one with ``adopt``:

    log     the HEAD takes back its unpublished commits, and adopts the published versions
    head    the repair names the files of the log that are in the way, and the operator removes
            them. A service that removed them itself could act late, and remove their successors

A log with a damaged published part, or without its folder (``delta.soundness.judge``), is
``damaged``: a repair cannot mend it, and the diagnosis names the file.

Before a repair changes anything, it copies each commit that it drops to ``_delta_log/_set_aside``.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from turnstile.delta.commits import ContentChanged, ContentMissing, read_head
from turnstile.delta.core.head import DROPPED, RECOVERING, STUCK, PlacedCommit, TableHead, tail_by_version
from turnstile.delta.core.soundness import missing
from turnstile.delta.core.writes.state import may_recover, stuck_at
from turnstile.delta.publish import Published, Publisher
from turnstile.delta.recover import NotAdoptable, Recoverer, Unknowns
from turnstile.delta.sides import (
    Commit,
    Sides,
    copies_of_unpublished,
    copy_of,
    log_after,
    published_as,
    ratified_from,
    with_later,
    without_content,
)
from turnstile.delta.soundness.judge import expired_upto, folder_fault, judge, ratified_sizes
from turnstile.store.core.errors import ErrorType, StateConflict, StorageFault
from turnstile.store.core.names import published_path, staged_path
from turnstile.store.ports import World

Finding = Literal[
    "healthy",
    "behind",
    "missing",
    "changed",
    "differs",
    "ahead",
    "gap",
    "foreign",
    "damaged",
    "unreadable",
    "not in use",
]

Side = Literal["head", "log"]

_KEEP_LOG = "'--adopt log' keeps _delta_log: it takes back the HEAD's commits and adopts the published versions"
_KEEP_HEAD = (
    "'--adopt head' keeps the HEAD: it names the files that you then remove from _delta_log, in its order; then repair "
    "again"
)
_COPIES = (
    "Both may have been acknowledged to their writers. Copies of the other side are in _delta_log/_set_aside first"
)

_REMEDIES: dict[Finding, str] = {
    "healthy": "nothing to do",
    "behind": "repair: nothing is in the way",
    "missing": "restore the staged file from a backup or an object version, under the same name, and repair again",
    "changed": "restore the staged file as it was ratified (its size is in 'facts') and repair again",
    "differs": f"choose, and repair again: {_KEEP_LOG}; {_KEEP_HEAD}. {_COPIES}",
    "ahead": "repair: the published versions are adopted in order, and the table takes no commits until then",
    "gap": "bring the missing version back into _delta_log from a backup or an object version, or restore a later "
    "state "
    f"of the coordinator, and repair again. If it is nowhere: {_KEEP_HEAD}",
    "foreign": f"find its writer. If the table is to go on without it: {_KEEP_HEAD}. {_COPIES}",
    "damaged": "bring the file back from a backup or an object version; 'turnstile verify' names all that are damaged",
    "unreadable": "mend the access to the table's storage and repair again",
    "not in use": "a dropped table is not published",
}

_LOOKS: Final = 5
"""How often a table that commits meanwhile is looked at again."""


class Diagnosis(msgspec.Struct, frozen=True, omit_defaults=True):
    """The obstacle between a table and ``version``, the next to be published or adopted (None when
    there is none); ``facts`` sizes in bytes, times in ms, paths and transaction ids as found;
    ``sides`` for a choice.
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
    sides: Sides | None = None


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A choice between the sides of a diagnosis: ``side`` stays; ``version`` and ``digest``
    describe the log's side (None if it had no such file)."""

    side: Side
    version: int
    digest: str | None = None


class Adopted(msgspec.Struct, frozen=True):
    """The result of a choice: ``set_aside`` copies that were made or were there; ``to_remove``
    files that an operator has to remove after choosing the HEAD, in this order; then as a
    repair's.
    """

    set_aside: tuple[str, ...]
    to_remove: tuple[str, ...]
    published: Published
    diagnosis: Diagnosis


class Repairer:
    """Diagnoses and repairs tables; both may be repeated at will."""

    def __init__(self, world: World, publisher: Publisher, recoverer: Recoverer | None = None) -> None:
        self._world = world
        self._publisher = publisher
        self._recoverer = recoverer or Recoverer(world)
        self._unknowns = Unknowns(world)

    def repair(self, table_id: str, *, until_ms: int | None = None) -> tuple[Published, Diagnosis]:
        """Publishes all commits without a conflict, which also ends a stuck state after its cause
        is gone; adopts published versions that the HEAD does not know (``delta.recover``); then
        diagnoses. Raises NotFound, TableUnread and StorageFault.
        """
        first = self._publisher.publish(table_id, until_ms=until_ms)
        if first.problem is not None or not self._recoverer.begin(table_id):
            return first, self.diagnose(table_id)
        second = self._publisher.publish(table_id, until_ms=until_ms)
        both = msgspec.structs.replace(
            second, count=first.count + second.count, lag_ms=first.lag_ms, adopted=first.adopted + second.adopted
        )
        return both, self.diagnose(table_id)

    def adopt(self, table_id: str, choice: Choice, *, until_ms: int | None = None) -> Adopted:
        """Repairs a table by keeping one side. Repeatable: if there is no choice any more, as
        ``repair``.

        Raises StateConflict ``ConcurrentChange`` if the sides have changed since the choice,
        ``TableNotActive`` if this side cannot be kept, UnsupportedTable, NotFound, TableUnread and
        StorageFault. Commits that were not set aside are as they were then.
        """
        published, diagnosis = self.repair(table_id, until_ms=until_ms)
        sides = diagnosis.sides
        if sides is None:
            return Adopted((), (), published, diagnosis)
        head = read_head(self._world, table_id)
        same = (head.floor, head.latest) == (diagnosis.floor, diagnosis.latest)
        if not same or (choice.version, choice.digest) != (sides.log.version, sides.log.digest):
            raise StateConflict(
                ErrorType.CONCURRENT_CHANGE,
                f"HEAD and log now contradict each other at version {sides.log.version}, where the log has "
                + (f"a file with digest {sides.log.digest}" if sides.log.digest else "no file"),
                remedy="run the comparison again and choose again",
            )
        if choice.side == "head":
            storage = self._world.storages.open(head.location)
            files = [stat.path for stat in log_after(storage, choice.version)]
            copies = tuple(copy_of(storage, path) for path in files)
            return Adopted(copies, tuple(reversed(files)), published, diagnosis)
        if diagnosis.finding != "differs" or head.state not in (STUCK, RECOVERING):
            raise StateConflict(
                ErrorType.TABLE_NOT_ACTIVE,
                f"the log's side cannot be adopted: {diagnosis.message}, and the table is {head.state}",
                remedy=diagnosis.remedy,
                state=head.state,
            )
        copies = copies_of_unpublished(self._world, head)
        after = self._recoverer.take_back(head)
        if after.state == RECOVERING:
            published = self._publisher.publish(table_id, until_ms=until_ms)
        return Adopted(copies, (), published, self.diagnose(table_id))

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
            head = again
            diagnosis = self._look(again)
        return diagnosis

    def _look(self, head: TableHead) -> Diagnosis:
        place = next((place for place in tail_by_version(head) if place.version == head.floor + 1), None)
        if head.state == DROPPED:
            return _diagnosis(head, "not in use", place, "the table is dropped", {})
        return self._all_published(head) if place is None else self._diagnose_unpublished(head, place)

    def _diagnose_unpublished(self, head: TableHead, place: PlacedCommit) -> Diagnosis:
        """``place`` is the first version that is not published."""
        facts = self._facts(head, place)
        storage = self._world.storages.open(head.location)
        published = Commit(place.version, place.version)
        try:
            if storage.stat(published_path(head.floor)) is None:  # nothing may be published behind it
                fault = folder_fault(storage, head.floor) or missing(head.floor)
                damaged = _diagnosis(head, "damaged", fault.version, f"the log is damaged: {fault.message}", facts)
                return msgspec.structs.replace(damaged, remedy=fault.remedy)
            published = with_later(storage, published_as(storage, place.version))
            ratified = ratified_from(self._world, head, place)
        except (ContentMissing, ContentChanged) as fault:
            if published.path is None:
                finding: Finding = "missing" if isinstance(fault, ContentMissing) else "changed"
                return _diagnosis(head, finding, place, fault.message, facts)
            ratified = without_content(head, place)
        except StorageFault as fault:
            return _diagnosis(head, "unreadable", place, fault.message, facts)
        if published.path is None or (published.size, published.digest) == (ratified.size, ratified.digest):
            return _diagnosis(head, "behind", place, f"{head.latest - head.floor} versions wait for publication", facts)
        facts["published_txn_id"] = published.txn_id or ""
        message = f"{published_path(place.version)} is not the ratified commit"
        sides = Sides(ratified, published)
        return msgspec.structs.replace(_diagnosis(head, "differs", place, message, facts), sides=sides)

    def _all_published(self, head: TableHead) -> Diagnosis:
        """Everything that the HEAD knows is published."""
        facts: dict[str, Any] = {}
        version = head.latest + 1
        try:
            unknown = self._unknowns.after(head) if may_recover(head) or head.state == RECOVERING else []
            if not unknown:
                if head.state != RECOVERING and stuck_at(head) is None:
                    return self._published_log(head)
                return _diagnosis(head, "behind", None, "the obstacle is gone", facts)
            facts |= {"published_path": published_path(version), "published_to": unknown[-1]}
            next = self._unknowns.adoptable(head, unknown[0])
        except NotAdoptable as fault:
            return self._unadoptable(head, fault, facts)
        except StorageFault as fault:
            return _diagnosis(head, "unreadable", version, fault.message, facts)
        entry = next.proposal.entry
        facts |= {"published_size": entry.size, "published_txn_id": entry.txn}
        message = (
            f"{len(unknown)} published versions are not in the HEAD: it was restored from a backup, or somebody wrote "
            "past the catalog"
        )
        return _diagnosis(head, "ahead", version, message, facts)

    def _published_log(self, head: TableHead) -> Diagnosis:
        """Everything is published; whether the published log can be read. Raises StorageFault."""
        judgement = judge(
            self._world.storages.open(head.location),
            head.floor,
            ratified_sizes(head),
            expired_upto=lambda: expired_upto(self._world, head),
        )
        facts: dict[str, Any] = {}
        if judgement.not_judged:
            facts["not_judged"] = "; ".join(f"{each.path}: {each.reason}" for each in judgement.not_judged)
        if not judgement.faults:
            return _diagnosis(head, "healthy", None, "everything ratified is published", facts)
        fault, *others = judgement.faults
        facts |= {"path": fault.path, "damaged": ", ".join(dict.fromkeys(each.path for each in judgement.faults))}
        more = f" (and {len(others)} more)" if others else ""
        diagnosis = _diagnosis(head, "damaged", fault.version, f"the log is damaged: {fault.message}{more}", facts)
        return msgspec.structs.replace(diagnosis, remedy=fault.remedy)

    def _unadoptable(self, head: TableHead, why: NotAdoptable, facts: dict[str, Any]) -> Diagnosis:
        """The log goes on, and its next version cannot be the HEAD's next one."""
        finding: Finding = "gap" if why.details["gap"] else "foreign"
        storage = self._world.storages.open(head.location)
        version = head.latest + 1
        try:
            sides = Sides(None, with_later(storage, published_as(storage, version)))
        except StorageFault as fault:
            return _diagnosis(head, "unreadable", version, fault.message, facts)
        return msgspec.structs.replace(_diagnosis(head, finding, version, why.message, facts), sides=sides)

    def _facts(self, head: TableHead, place: PlacedCommit) -> dict[str, Any]:
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
    head: TableHead, finding: Finding, at: PlacedCommit | int | None, message: str, facts: dict[str, Any]
) -> Diagnosis:
    version = at.version if isinstance(at, PlacedCommit) else at
    return Diagnosis(
        head.table_id, head.state, head.floor, head.latest, finding, version, message, _REMEDIES[finding], facts
    )
