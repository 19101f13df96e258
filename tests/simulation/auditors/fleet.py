"""The rows of a fleet after every change: owners, their epochs, and the previous owners (I19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.auditors.record import Violation, audits
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import world_of
from turnstile.fleet.core.decisions import SILENT_BEATS
from turnstile.fleet.core.rows import FleetRow, GranuleRow, MemberRow, MovesRow
from turnstile.store.core.writes import Erase

if TYPE_CHECKING:
    import random

    from tests.simulation.engine.state import State
    from turnstile.fleet.member import Member


class FleetAuditor:
    """Looks at members, granules and the work that owners do.

    Attributes:
        handed_over: granules, with their epochs, that their owners have ever asked to give away.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._alive_at: dict[str, int] = {}
        self._work: dict[str, int] = {}
        self.handed_over: set[tuple[str, int]] = set()
        for kind, watcher in (
            (FleetRow.kind, self._fleet), (MemberRow.kind, self._member), (GranuleRow.kind, self._granule),
            ("updateable", self._worked),
        ):  # fmt: skip
            state.watchers.setdefault(kind, []).append(watcher)

    def rows(self, kind: type[Any]) -> list[Any]:
        """All rows of a kind."""
        return [kind.from_row(row) for row in self._state.refs.rows.values() if row["kind"] == kind.kind]

    def believed(self, member: Member) -> None:
        """A member that has read as many entries of an owner's log as there are knows which of the
        granules that it believes that owner's are so."""
        exchange = member._exchange
        if exchange.view is None:
            return
        owners = {row.id: row for row in self.rows(MemberRow)}
        granules = exchange.granules
        unread = set(granules.unread(1_000))
        for granule in granules.all():
            owner = owners.get(granule.owner)
            if owner is None or granule.name in unread or granules._moves.get(owner.id) != owner.moves:
                continue
            self._state.auditor.seen["fleet belief"] += 1
            row = GranuleRow.from_row(self._state.refs.rows[self._state.space.fleet_granule(granule.name)])
            if (row.owner, row.epoch) != (granule.owner, granule.epoch):
                raise Violation("I19", f"{member.id} believes {granule}, which is {row}")

    def end_an_entry(self, rng: random.Random) -> None:
        """The time to live of one entry has ended, sooner than it ever does."""
        keys = sorted(row["key"] for row in self._state.refs.rows.values() if row["kind"] == MovesRow.kind)
        if keys:
            self._state.auditor.seen["fleet entry ended"] += 1
            world_of(Process(self._state, "time to live", prone=False)).refs.write(Erase(rng.choice(keys), ()))

    @audits
    def _fleet(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        if after is None:
            raise Violation("I19", "the fleet's row is gone")
        old = FleetRow.from_row(before) if before else None
        new = FleetRow.from_row(after)
        if old is not None and old.granules.items() - new.granules.items():
            raise Violation("I19", f"the granules were {old.granules} and are {new.granules}")
        members = {member.id for member in self.rows(MemberRow)}
        if new.members != members:
            raise Violation("I19", f"members are {sorted(new.members)}, and there are rows of {sorted(members)}")

    @audits
    def _member(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        old = MemberRow.from_row(before) if before else None
        new = MemberRow.from_row(after) if after else None
        now = self._state.scheduler.now
        if new is not None and (old is None or old.life != new.life):
            self._alive_at[new.id] = now
            if old is not None and new.life != old.life + 1:
                raise Violation("I19", f"the life of {new.id} went from {old.life} to {new.life}")
        if new is None and old is not None:
            self._state.auditor.seen["fleet member removed"] += 1
            if old.state == "active":
                self._was_silent(old, "was removed")
        self._counts()

    @audits
    def _granule(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        if after is None:
            raise Violation("I19", "a granule is gone")
        old = GranuleRow.from_row(before) if before else None
        new = GranuleRow.from_row(after)
        if new.epoch != (old.epoch if old else 0) + 1:
            raise Violation("I19", f"{new.name} went from epoch {old and old.epoch} to {new.epoch}")
        owners = {member.id: member for member in self.rows(MemberRow)}
        if new.owner and new.owner not in owners:
            raise Violation("I19", f"{new.name} is owned by {new.owner}, which is no member")
        if new.owner and owners[new.owner].state != "active":
            raise Violation("I19", f"{new.name} was given to {new.owner}, which leaves")
        if new.owner and new.role not in owners[new.owner].loads:
            raise Violation("I19", f"{new.name} was given to {new.owner}, which does not work for {new.role}")
        if old is not None and old.owner:
            if (old.name, old.epoch) in self.handed_over:
                self._state.auditor.seen["fleet hand-over"] += 1
            else:
                self._state.auditor.seen["fleet take-over"] += 1
                self._was_silent(owners.get(old.owner), "lost its granules")
        else:
            self._state.auditor.seen["fleet claim"] += 1
        self._counts()

    @audits
    def _worked(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        if after is None or after["type"] != "fleet-work":
            return
        name, epoch, worker = after["payload"].decode().split()
        granule = GranuleRow.from_row(self._state.refs.rows[self._state.space.fleet_granule(name)])
        if (granule.owner, granule.epoch) != (worker, int(epoch)):
            raise Violation(
                "I19", f"{worker} worked on {name} in epoch {epoch}; in {granule.epoch} it is of {granule.owner}"
            )

    def _was_silent(self, member: MemberRow | None, what: str) -> None:
        if member is None:
            raise Violation("I19", f"a member that was gone {what}")
        quiet_ms = self._state.scheduler.now - self._alive_at[member.id]
        if quiet_ms < (SILENT_BEATS - 1) * member.beat_ms:
            raise Violation("I19", f"{member.id} {what} {quiet_ms} ms after it had shown life")

    def _counts(self) -> None:
        granules = self.rows(GranuleRow)
        for member in self.rows(MemberRow):
            owned = sum(granule.owner == member.id for granule in granules)
            if member.owned != owned:
                raise Violation("I19", f"{member.id} owns {owned} granules, and its row says {member.owned}")
        members = {member.id for member in self.rows(MemberRow)}
        for granule in granules:
            if granule.owner and granule.owner not in members:
                raise Violation("I19", f"{granule.owner} is gone and owns {granule.name}")
