"""Members of a fleet: processes that beat, freeze, die and come back, and do work that is fenced by
the epochs of their granules."""

from __future__ import annotations

import random
from typing import Final

from tests.simulation.actors.owners import Owner
from tests.simulation.auditors.fleet import FleetAuditor
from tests.simulation.auditors.owners import OwnerAuditor
from tests.simulation.auditors.record import Violation
from tests.simulation.engine.plans import SECOND
from tests.simulation.engine.state import State
from turnstile.coordination.core import rows as objects
from turnstile.coordination.tasks import Updateables
from turnstile.fleet.core import rows
from turnstile.fleet.core.shares import Ownership
from turnstile.fleet.member import Member
from turnstile.store.core.writes import Write
from turnstile.store.ports import AllAccepted, World

LEDGER: Final = "fleet-work"
BEAT_MS: Final = SECOND
ALONE_BEAT_MS: Final = 4 * SECOND
ROLES: Final = ("publish", "maintain")


class FleetMember(Owner):
    """Beats, works on subjects that it should work on, and leaves now and then."""

    times = 40

    def __init__(self, state: State, name: str, rng: random.Random, auditor: OwnerAuditor, fleet: FleetAuditor) -> None:
        super().__init__(state, name, rng, auditor)
        self._fleet = fleet
        self._granules = {role: rng.choice((3, 5)) for role in ROLES if rng.random() < 0.8} or {"publish": 4}

    def start(self, world: World) -> None:
        self._world = world
        self.member = Member(
            world, self.process.monotonic, name=self.process.name, granules=self._granules, beat_ms=BEAT_MS,
            alone_beat_ms=ALONE_BEAT_MS,
        )  # fmt: skip

    def act(self) -> None:
        found = self.member.beat()
        self.met("fleet beat")
        self._fleet.believed(self.member)
        if self.rng.random() < 0.05:
            self._fleet.end_an_entry(self.rng)
        if found.removed:
            self.met("fleet member joined anew")
        for _ in range(self.rng.randrange(3)):
            self._work(self.rng.choice(list(self._granules)), f"table-{self.rng.randrange(6)}")
        if self.rng.random() < 0.04:
            self.met("fleet member left" if self.member.leave() else "fleet member left in vain")
        rest_ms = min(self.member.next_beat_ms(), BEAT_MS)
        if self.rng.random() < 0.5:
            self.state.scheduler.sleep(rest_ms // 2)
            self.met("fleet look that doubts" if self.member.look() else "fleet look")
            rest_ms -= rest_ms // 2
        self.state.scheduler.sleep(rest_ms)

    def _work(self, role: str, subject: str) -> None:
        """Writes its own id and epoch, if it still owns the granule."""
        shares = self.member.shares(*self._granules)
        whose = self.member.whose(role, subject)
        granule = self.member.granule(role, subject)
        self.met(f"fleet work {whose.name}")
        if (other := shares.whose(role, subject, self.process.monotonic())) not in (whose, Ownership.UNSURE):
            raise Violation("I19", f"{subject} is {whose.name} here, and {other.name} in the member's other processes")
        if whose is not Ownership.MINE or granule is None:
            return
        name = granule.name.replace("/", ".")
        objs = Updateables(self._world)
        before = objs.read(LEDGER, name)
        if self.rng.random() < 0.3:
            self.state.scheduler.sleep(self.rng.choice((1, SECOND, 20 * SECOND)))
        payload = f"{granule.name} {granule.epoch} {self.member.id}".encode()
        now = self._world.clock.now_ms()
        token = self._world.ids.uuid()
        key = self._world.space.updateable(f"{LEDGER}/{name}")
        if before is None:
            write: Write = objects.create_object(key, LEDGER, token, payload, now)
        else:
            write = objects.update_object(key, before.token, token, payload, now)
        done = self._world.refs.transact((rows.owned_still(granule), write), token)
        self.met("fleet work done" if isinstance(done, AllAccepted) else "fleet work fenced off")
