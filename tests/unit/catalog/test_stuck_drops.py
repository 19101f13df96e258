"""A table that is dropped while it is stuck comes back as it was: stuck, with its reason, and
mended like any other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.support.catalog import MAIN, complete, create, fakes, fresh, head_of, names, refused
from tests.support.clones import check_shown, clone
from tests.support.fakes import delta
from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, How
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.decide import Ratified, Refused
from turnstile.delta.identity import Outcomes
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import PATIENCE_MS, Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.errors import OutcomeUnknown, StateConflict
from turnstile.store.core.names import staged_path
from turnstile.store.core.writes import Change, Set
from turnstile.transfer.exports import Exporter

STAGED = "00000000000000000003.aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa.json"


def now(services: CatalogServices) -> str:
    return services.reader.current("main").head


def stuck(services: CatalogServices, name: str = "t") -> tuple[str, Callable[[], object]]:
    """A table of versions 0 to 3 whose version 3 was lost before it was published; its uuid, and
    what mends it."""
    id = create(services, name)
    world = fakes(services)
    for version in (1, 2):
        content = delta.append(f"a{version}", world.clock.now_ms())
        assert isinstance(Ratifier(world).commit(CommitRequest(id, version, content=content)), Ratified)
    Publisher(world).publish(id)
    content = delta.append("a3", world.clock.now_ms())
    storage = world.storages.open(head_of(world, id).location)
    storage.put_if_absent(staged_path(STAGED), content)
    assert isinstance(Ratifier(world).commit(CommitRequest(id, 3, staged=STAGED, size=len(content))), Ratified)
    storage.delete(staged_path(STAGED))
    world.clock.now += PATIENCE_MS + 1
    assert Publisher(world).publish(id).state == "stuck"
    return id, lambda: storage.put_if_absent(staged_path(STAGED), content)


def test_i3_i10_a_table_that_was_dropped_stuck_comes_back_stuck_and_can_be_mended() -> None:
    services = fresh()
    id, mend = stuck(services)
    world = fakes(services)
    well = create(services, "well")
    before = now(services)
    reason = head_of(world, id).reason
    services.dropper.drop(*MAIN, "t")
    services.dropper.drop(*MAIN, "well")
    assert Outcomes(world).of(id, txn="later", version=4).outcome == "open"
    asked = len(world.refs.requests)
    done = services.resetter.reset("main", AsOf(head=before))
    assert len(world.refs.requests) - asked < 10
    assert done.restored == ("main.default.t", "main.default.well")
    assert (head_of(world, id).state, head_of(world, id).reason) == ("stuck", reason)
    assert (head_of(world, well).state, head_of(world, well).reason) == ("active", "")
    complete(world)
    content = delta.append("a4", world.clock.now_ms())
    assert isinstance(Ratifier(world).commit(CommitRequest(id, 4, content=content)), Refused)
    mend()
    assert Publisher(world).publish(id).problem is None
    assert (head_of(world, id).state, head_of(world, id).floor) == ("active", 3)
    assert isinstance(Ratifier(world).commit(CommitRequest(id, 4, content=content)), Ratified)
    complete(world)


def test_a_table_that_an_operator_stopped_comes_back_stopped() -> None:
    services = fresh()
    id = create(services)
    world = fakes(services)
    before = now(services)
    why = "stopped by an operator"
    world.refs.write(Change(world.space.table(id), (), (Set(("state",), "stuck"), Set(("reason",), why))))
    services.dropper.drop(*MAIN, "t")
    services.resetter.reset("main", AsOf(head=before))
    assert (head_of(world, id).state, head_of(world, id).reason) == ("stuck", why)


def test_i10_what_is_gone_for_good_does_not_come_back() -> None:
    services = fresh()
    id = create(services)
    world = fakes(services)
    before = now(services)
    Exporter(services).run(*MAIN, "t")
    for reason in ("exported", "purging", "purged"):
        world.refs.rows[world.space.table(id)]["reason"] = reason
        error = refused(StateConflict, services, lambda: services.resetter.reset("main", AsOf(head=before)))
        assert error.type == "TableNotActive" and reason in error.message
        with pytest.raises(StateConflict) as uncloned:
            clone(services, "default.t", "default.copy", head=before)
        assert uncloned.value.type == "CannotClone"
        assert Outcomes(world).of(id, txn="later", version=4).outcome == "never"


def test_i10_a_purge_that_begins_before_a_reset_lands_keeps_the_table_dropped() -> None:
    services = fresh()
    id, _ = stuck(services)
    world = fakes(services)
    before = now(services)
    plain = world.refs.transact
    services.dropper.drop(*MAIN, "t")
    tries: list[int] = []

    def transact(*args: Any) -> Any:
        tries.append(1)
        if len(tries) == 2:  # the first was refused, and has said why the table was stuck
            world.refs.rows[world.space.table(id)]["reason"] = "purging"
        return plain(*args)

    world.refs.transact = transact  # type: ignore[method-assign]
    with pytest.raises(StateConflict, match="purging"):
        services.resetter.reset("main", AsOf(head=before))
    assert len(tries) == 2 and names(services) == []


@pytest.mark.parametrize("how", [*CRASHES, *LOSSES])
def test_i9_a_reset_that_brings_back_a_stuck_table_and_fails_anywhere_happened_or_did_not(how: How) -> None:
    for at in range(1, 6):
        services = fresh()
        id, _ = stuck(services)
        world = fakes(services)
        before = now(services)
        services.dropper.drop(*MAIN, "t")
        with suppress(Crash, OutcomeUnknown):
            fresh(Faulty(world, at, how).world).resetter.reset("main", AsOf(head=before))
        complete(world)
        fresh(world).resetter.reset("main", AsOf(head=before))
        assert head_of(world, id).state == "stuck"
        complete(world)


def test_a_moment_before_the_version_that_is_lost_is_cloned_from_a_table_that_is_stuck() -> None:
    services = fresh()
    id, _ = stuck(services)
    world = fakes(services)
    (made,) = clone(services, "default.t", "default.copy", time=head_of(world, id).last_ict - 1).tables
    check_shown(world, made.table_id, 2)
    with pytest.raises(StateConflict, match="not published yet"):
        clone(services, "default.t", "default.more")
    complete(world)


def test_i10_a_clone_shows_what_a_table_had_published_before_it_was_dropped_stuck() -> None:
    services = fresh()
    id, _ = stuck(services)
    world = fakes(services)
    published = head_of(world, id).last_ict - 1
    lost = world.clock.now
    services.named_snapshots.create("main", "lost")
    services.dropper.drop(*MAIN, "t")
    (made,) = clone(services, "default.t", "default.copy", time=published).tables
    check_shown(world, made.table_id, 2)
    moments: list[dict[str, Any]] = [{"snapshot": "lost"}, {"time": lost}]
    for moment in moments:
        with pytest.raises(StateConflict, match="version 3") as error:
            clone(services, "default.t", "default.more", **moment)
        assert error.value.type == "CannotClone" and "reset" in str(error.value.remedy)
    complete(world)
