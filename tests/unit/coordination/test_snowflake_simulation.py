"""Where ids are unique and where they are not: seeded simulations of processes with clocks of their
own.

Processes freeze at any point (also between the look at the clock and the id), thaw when others have
their nodes, have wall clocks that are wrong and jump, monotonic clocks that stand still with them
or do not, and lose answers. Every way of making ids is run in the same worlds: those that are said
to be safe never repeat an id, and each rule that makes them safe is needed, since without it some
seed does.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from tests.support.universe import START, Sandbox, Universe
from turnstile.coordination import ids as ids_module
from turnstile.coordination.core.rows import Lease
from turnstile.coordination.core.snowflake import NODES, IdRange, parts_of, random_id
from turnstile.coordination.ids import MARGIN_MS, ClaimedIds, SnowflakeIds
from turnstile.coordination.tasks import Leases, OtherHolder
from turnstile.store.core.errors import StateConflict

pytestmark = pytest.mark.slow


def repeated(ids: list[int]) -> list[int]:
    return [id for id, count in Counter(ids).items() if count > 1]


def snowflakes(universe: Universe, margin: int = MARGIN_MS) -> None:
    makers = {
        id(sandbox): SnowflakeIds(universe.world(sandbox), sandbox.monotonic, margin_ms=margin)
        for sandbox in universe.sandboxes
    }
    universe.step = lambda sandbox: makers[id(sandbox)].next()


@pytest.fixture
def few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids_module, "NODES", 3)


SEEDS = range(15)


@pytest.mark.usefixtures("few_nodes")
@pytest.mark.parametrize("wrong", [False, True], ids=["clocks right", "clocks wrong"])
def test_i2_snowflakes_of_leased_nodes_never_repeat(wrong: bool) -> None:
    """Five processes on three nodes, frozen, thawed, with clocks that are wrong and answers that
    are lost."""
    issued = changes = 0
    for seed in SEEDS:
        universe = Universe(seed, 5, wrong=wrong)
        snowflakes(universe)
        ids = universe.run(200)
        assert repeated(ids) == [], seed
        for sandbox in universe.sandboxes if not wrong else ():
            assert sandbox.made == sorted(sandbox.made), seed
        issued += len(ids)
        changes += sum(row["fence"] for row in universe.store.rows.values())
    assert issued > 3_000, "the simulation makes ids"
    assert changes > 50, "nodes change hands"


@pytest.mark.usefixtures("few_nodes")
def test_i2_with_clocks_that_are_right_no_id_is_made_after_its_lease_ran_out() -> None:
    """Wherever a process was frozen: what it makes after it thawed, it makes with a lease."""
    late = checked = 0
    for seed in SEEDS:
        universe = Universe(seed, 5, wrong=False)
        makers = {
            id(sandbox): SnowflakeIds(universe.world(sandbox), sandbox.monotonic) for sandbox in universe.sandboxes
        }

        def step(sandbox: Sandbox, makers: dict[int, SnowflakeIds] = makers, universe: Universe = universe) -> int:
            nonlocal late, checked
            began = universe.now
            depth = sandbox.asleep
            issued = makers[id(sandbox)].next()
            if sandbox.asleep == depth:  # not frozen in the middle of this one
                lease = makers[id(sandbox)]._lease
                assert lease is not None and lease.start <= began < lease.until
                checked += 1
            else:
                late += 1
                assert parts_of(issued).at < universe.now + 1
            return issued

        universe.step = step
        universe.run(200)
    assert checked > 2_000
    assert late > 10, "some were frozen in the middle"


class Careless(Leases):
    """Takes a node over without a thought of where the times of the one before end."""

    def take(self, name: str, term_ms: int) -> Lease | OtherHolder:
        taken = super().take(name, term_ms)
        return msgspec.structs.replace(taken, start=0) if isinstance(taken, Lease) else taken


class Endless(IdRange, frozen=True):
    """Knows no end of its range."""

    def next(self, now: int) -> tuple[int, IdRange] | None:
        issued = msgspec.convert(msgspec.to_builtins(self) | {"stop": 2**42}, IdRange).next(now)
        assert issued is not None
        return issued[0], Endless(self.node, self.start, self.stop, issued[1].last, issued[1].sequence)


class Forgetful(IdRange, frozen=True):
    """Believes a clock that stepped back."""

    def next(self, now: int) -> tuple[int, IdRange] | None:
        last = self.last if now >= self.last else 0
        issued = IdRange(self.node, self.start, self.stop, last, self.sequence).next(now)
        return issued and (issued[0], Forgetful(self.node, self.start, self.stop, issued[1].last, issued[1].sequence))


@pytest.mark.usefixtures("few_nodes")
@pytest.mark.parametrize(
    ("changes", "margin"),
    [({"IdRange": Endless}, -(10**12)), ({"IdRange": Forgetful}, MARGIN_MS)],
    ids=["ranges end", "a clock may step back"],
)
def test_each_rule_is_needed(changes: dict[str, type], margin: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, mistake in changes.items():
        monkeypatch.setattr(ids_module, name, mistake)
    for seed in range(60):
        universe = Universe(seed, 8, off=(0, 0, -1, 70_000))
        snowflakes(universe, margin)
        if repeated(universe.run(200)):
            return
    pytest.fail("no seed shows that this is a mistake")


@pytest.mark.parametrize("leases", [Leases, Careless])
def test_i2_a_node_that_a_wrong_clock_took_early_makes_no_id_of_the_one_that_still_has_it(
    leases: type[Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its times begin where the other's end, also after its clock was set right."""

    class Corrected(leases):  # type: ignore[valid-type,misc]
        """The clock is set right in the very moment in which the node was taken."""

        def take(self, name: str, term_ms: int) -> Lease | OtherHolder:
            taken: Lease | OtherHolder = super().take(name, term_ms)
            wrong.offset = 0
            return taken

    monkeypatch.setattr(ids_module, "NODES", 1)
    monkeypatch.setattr(ids_module, "Leases", Corrected)
    universe = Universe(0, 2)
    universe.random.random = lambda: 1.0  # type: ignore[method-assign]  # nobody freezes
    snowflakes(universe)
    right, wrong = universe.sandboxes
    right.offset = 0
    wrong.offset = 0
    issued = [universe.step(right)]
    wrong.offset = 70_000
    issued += [universe.step(wrong), universe.step(right), universe.step(wrong)]
    assert bool(repeated([id or 0 for id in issued])) == (leases is Careless)


# -- a thousand sandboxes -----------------------------------------------------------------------------------------


def test_more_processes_than_nodes_starve_but_never_repeat() -> None:
    """1,100 sandboxes that all want a node: 1,024 get one at most, the others are told so."""
    universe = Universe(1, 1_100, wrong=False)
    universe.random.random = lambda: 1.0  # type: ignore[method-assign]  # nobody freezes, nothing is lost
    snowflakes(universe)
    for sandbox in universe.sandboxes:
        try:
            sandbox.made.append(universe.step(sandbox) or 0)
        except StateConflict as error:
            universe.starved += error.type == "NoFreeNode"
    made = [id for sandbox in universe.sandboxes for id in sandbox.made]
    assert repeated(made) == []
    assert universe.starved >= 1_100 - NODES
    assert universe.starved + len(made) == 1_100


def test_random_ids_repeat_unless_they_are_claimed() -> None:
    """A thousand sandboxes in one second, 22 random bits a millisecond: unclaimed ids meet, claimed
    ones do not."""
    met = 0
    for seed in range(20):
        universe = Universe(seed, 1_000, wrong=True)
        claims: set[int] = set()
        unclaimed: list[int] = []

        def put(id: int, claims: set[int] = claims) -> bool:
            free = id not in claims
            claims.add(id)
            return free

        for sandbox in universe.sandboxes:
            sandbox.offset = universe.random.randrange(3)
            numbers = sandbox.ids
            drawn = [random_id(START + sandbox.offset, int(numbers.uuid()[-12:], 16)) for _ in range(5)]
            unclaimed += drawn
            maker = ClaimedIds(sandbox, numbers)
            sandbox.made += [maker.claim(put) for _ in range(5)]
        ids = [id for sandbox in universe.sandboxes for id in sandbox.made]
        assert repeated(ids) == []
        assert len(ids) == 5_000
        met += bool(repeated(unclaimed))
    assert met >= 5, "of twenty runs, several show it"
