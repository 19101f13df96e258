"""The scenario of a fleet: members that join, beat, freeze, die, leave and come back, with wrong
clocks and lost answers (I19)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace

from tests.simulation.actors.fleet import BEAT_MS, ROLES, FleetMember
from tests.simulation.auditors.fleet import FleetAuditor
from tests.simulation.auditors.owners import OwnerAuditor
from tests.simulation.auditors.record import Violation
from tests.simulation.engine.plans import KINDS as FAULTS
from tests.simulation.engine.plans import RESENT, Plan
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import world_of
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped, without
from tests.simulation.scenarios.scenario import Actor
from turnstile.fleet.core.decisions import Observation, granule_names
from turnstile.fleet.core.granules import Granules
from turnstile.fleet.core.rows import FleetRow, GranuleRow, MovesRow
from turnstile.fleet.core.shares import Shares
from turnstile.fleet.exchange import Exchange
from turnstile.fleet.member import Member
from turnstile.gc.core import Grace

REST_BEATS: Final = 60
"""Beats in which a fleet without faults comes to rest."""


class Fleet:
    """Membership and ownership (I19)."""

    name = "fleet"
    grace = Grace()

    def plan(self, seed: int) -> Plan:
        """Two to five members."""
        rng = random.Random(f"fleet/{seed}")
        return Plan(
            seed=seed,
            actors=tuple(f"member-{number}" for number in range(rng.randint(2, 5))),
            faults=tuple(kind for kind in (*FAULTS, RESENT) if rng.random() < 0.6),
            rate=rng.choice((0.0, 0.02, 0.08, 0.2)),
            steps=rng.choice((400, 900)),
            row_tracking=False,
        )

    def limits(self, plan: Plan) -> AbstractContextManager[Any]:
        """Granules change hands in small transactions, and granules that a member gives away are
        recorded for the auditor."""

        def noting(hand_over: Callable[..., Any]) -> Callable[..., Any]:
            def noted(granules: Any, *more: Any, **load: Any) -> Any:
                self._auditor.handed_over |= {(granule.name, granule.epoch) for granule in granules}
                return hand_over(granules, *more, **load)

            return noted

        stack = ExitStack()
        stack.enter_context(patch("turnstile.fleet.exchange.GRANULES_PER_WRITE", 2))
        stack.enter_context(swapped("turnstile.fleet.exchange.rows.hand_over", noting))
        return stack

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """Nothing is there in the beginning."""
        self._auditor = FleetAuditor(state)
        owners = OwnerAuditor(state)
        for number, name in enumerate(plan.actors):
            rng = random.Random(f"{plan.seed}/{name}/{number}")
            yield Actor(name, FleetMember(state, name, rng, owners, self._auditor), leads=True)

    def settle(self, state: State, plan: Plan) -> None:
        """Two new members beat: members that are gone are removed, every granule of their roles is
        owned, and loads are even."""
        living = [
            Member(
                world_of(Process(state, f"last-{number}", prone=False)), lambda: state.scheduler.now,
                name=f"last-{number}",
                granules=dict.fromkeys(ROLES, 4), beat_ms=BEAT_MS, alone_beat_ms=BEAT_MS,
            )
            for number in range(2)
        ]  # fmt: skip
        for _ in range(REST_BEATS):
            for member in living:
                member.beat()
            state.scheduler.sleep(BEAT_MS)
        ids = {member.id for member in living}
        (fleet,) = self._auditor.rows(FleetRow)
        if fleet.members != ids:
            raise Violation("I19", f"members are {sorted(fleet.members)} and should be {sorted(ids)}")
        owned = {granule.name for granule in self._auditor.rows(GranuleRow) if granule.owner in ids}
        names = {f"{role}/{number}" for role in ROLES for number in range(fleet.granules[role])}
        if not names <= owned:
            raise Violation("I19", f"nobody owns {sorted(names - owned)} in the end")
        first, second = (sorted(member.owned_granules()) for member in living)
        if abs(len(first) - len(second)) > len(ROLES):
            raise Violation("I19", f"{len(first)} and {len(second)} granules are not even")


_ROWS: Final = "turnstile.fleet.core.rows."
_MEMBER: Final = "turnstile.fleet.member.rows."


def _silent_at_once() -> Any:
    """A member that was quiet for a beat is silent."""
    return patch.object(Observation, "silent", lambda self, member: self.quiet_ms >= member.beat_ms)


def _nobody_is_silent() -> Any:
    """A dead member keeps its granules."""
    return patch.object(Observation, "silent", lambda *_: False)


def _takes_no_free_granules() -> Any:
    """Granules without an owner stay so."""
    return patch.object(Exchange, "claim", lambda _: None)


def _never_read_again() -> Any:
    """Cached granules are never read again."""
    return patch.object(Granules, "notice", lambda *_: None)


def _takes_of_every_role() -> Any:
    """A member that takes over keeps granules of roles that it does not work for."""

    def take(self: Exchange, id: str) -> bool:
        source = self.joined_view.others[id]
        roles = {role: self.joined_view.fleet.granules[role] for role in source.loads if role not in self._roles}
        rest = [row for row in self._reader.granules(granule_names(roles), []).values() if row.owner == id]
        return all(self._take([row], self.joined_view.others[id], self.joined_view.me) for row in rest)

    return patch.object(Exchange, "_release_rest", take)


def _others_of_old() -> Any:
    """The assignment for other processes of a member is valid for ever."""
    return patch.object(Shares, "whose", lambda self, role, subject, _: _whose(self, role, subject, -1))


_whose = Shares.whose


def _logs_never_read() -> Any:
    """Entries of logs count as read, and are not."""
    return patch.object(Granules, "_move", lambda *_: None)


def _any_epoch() -> Any:
    """An entry counts, however old it is."""

    def moved(self: Granules, entry: MovesRow) -> None:
        for name, epoch in entry.granules.items():
            if row := self.get(name):
                self.put(replace(row, owner=entry.to, epoch=epoch))

    return patch.object(Granules, "_move", moved)


def _gaps_passed_over() -> Any:
    """Where an entry is gone, nothing is read again."""
    return patch.object(
        Granules, "doubt", lambda self, owner: self.read_again(self._owned.get("", ()) if not owner else ())
    )


FLEET_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "granule: given without 'same epoch'": (without(_ROWS + "_give", "same epoch"), "I19"),
    "granule: claimed without 'new'": (without(_ROWS + "_give", "new"), "I19"),
    "granule: given without 'active'": (without(_ROWS + "_receives", "active"), "I19"),
    "owner: not fenced": (without(_MEMBER + "owned_still", "same epoch"), "I19"),
    "member: taken over without 'silent'": (without(_MEMBER + "take_over", "silent"), "I19"),
    "member: removed without 'owns nothing'": (without(_MEMBER + "remove_member", "owns nothing"), "I19"),
    "member: removed without 'same life'": (without(_MEMBER + "remove_member", "same life"), "I19"),
    "fleet: founded without 'new'": (without(_MEMBER + "found_fleet", "new"), "I19"),
    "fleet: a role added without 'new role'": (without(_MEMBER + "add_role", "new role"), "I19"),
    "member: silent after a beat": (_silent_at_once, "I19"),
    "member: never silent": (_nobody_is_silent, "I19"),
    "granule: never claimed": (_takes_no_free_granules, "I19"),
    "granule: never read again": (_never_read_again, "I19"),
    "granule: taken of a role that one does not work for": (_takes_of_every_role, "I19"),
    "shares: believed for ever": (_others_of_old, "I19"),
    "entry: never read": (_logs_never_read, "I19"),
    "entry: of any epoch": (_any_epoch, "I19"),
    "entry: gone, and passed over": (_gaps_passed_over, "I19"),
}
"""The planted mistake, and the invariant that it breaks."""
