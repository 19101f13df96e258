"""Named traps that other coordinators fell into: names, drops and transactions over several
rows."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.catalog import complete, create, fakes, fresh, head_of, staged
from tests.support.faults import Crash, Faulty
from turnstile.catalog.load import Loader
from turnstile.catalog.services import CatalogServices, build
from turnstile.delta.commits import Commits
from turnstile.store.core.errors import NotFound, OutcomeUnknown
from turnstile.store.core.writes import Write

NS = ("default",)


def loader(services: CatalogServices) -> Loader:
    return Loader(services.world, services.reader, services.metadata, Commits(services.world))


@pytest.mark.parametrize("how", ["before", "after", "lost", "unsent"])
@pytest.mark.parametrize("at", range(1, 6))
def test_i9_a_drop_that_dies_between_two_heads_has_happened_entirely_or_not_at_all(at: int, how: Any) -> None:
    services = fresh()
    table_id = create(services)
    world = fakes(services)
    faulty = Faulty(world, at, how)
    with contextlib.suppress(Crash, OutcomeUnknown):
        build(faulty.world, lake_root=services.lake_root).dropper.drop("main", NS, "t")
    complete(world)
    dropped = head_of(world, table_id).state == "dropped"
    after = fresh(world)
    if dropped:
        with pytest.raises(NotFound):
            after.reader.resolve("main", NS, "t")
    else:
        assert after.reader.resolve("main", NS, "t").table_id == table_id
        after.dropper.drop("main", NS, "t")
    complete(world)


def test_i9_a_name_cached_before_a_rename_leads_nowhere_afterwards() -> None:
    services = fresh()
    table_id = create(services)
    warm = loader(services)
    assert warm.load("main", NS, "t").head.table_id == table_id
    fresh(services.world).renamer.rename("main", NS, "t", "renamed")
    with pytest.raises(NotFound):
        warm.load("main", NS, "t")
    assert warm.load("main", NS, "renamed").head.table_id == table_id


def test_i9_a_cached_name_that_was_reused_loads_the_new_table() -> None:
    services = fresh()
    first = create(services)
    warm = loader(services)
    assert warm.load("main", NS, "t").head.table_id == first
    other = fresh(services.world)
    other.dropper.drop("main", NS, "t")
    second = create(other)
    assert warm.load("main", NS, "t").head.table_id == second != first


def test_i9_the_absence_of_a_name_is_not_remembered() -> None:
    services = fresh()
    warm = loader(services)
    with pytest.raises(NotFound):
        warm.load("main", NS, "t")
    table_id = create(fresh(services.world))
    assert warm.load("main", NS, "t").head.table_id == table_id


class ForgetsTokens:
    """refs that lose the answer of a transaction and, by the time it is sent again, have forgotten
    its token."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self.sent = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def transact(self, writes: Sequence[Write], token: str) -> Any:
        self.sent += 1
        answer = self._plain.transact(writes, f"{token}/{self.sent}")
        if self.sent == 1:
            raise OutcomeUnknown("no answer for eleven minutes")
        return answer


@pytest.mark.parametrize("operation", ["register", "drop", "rename"])
def test_i3_i9_a_request_token_older_than_ten_minutes_makes_no_second_change(operation: str) -> None:
    services = fresh()
    world = fakes(services)
    table_id = staged(services) if operation == "register" else create(services)
    refs = ForgetsTokens(world.refs)
    moved = type(world)(refs, world.objs, world.storages, world.clock, world.ids, world.space)  # type: ignore[arg-type]
    again = build(moved, lake_root=services.lake_root)
    match operation:
        case "register":
            assert again.registrar.register("main", NS, "t", table_id).table_id == table_id
        case "drop":
            again.dropper.drop("main", NS, "t")
        case _:
            assert again.renamer.rename("main", NS, "t", "u") == ("default", "u")
    assert refs.sent == 2
    complete(world)
    assert head_of(world, table_id).state == ("dropped" if operation == "drop" else "active")


class MovesThenMute:
    """refs on which somebody else changes the catalog first; the next change is applied and never
    answered."""

    def __init__(self, services: CatalogServices) -> None:
        self._services = services
        self._plain = services.world.refs
        self.sent = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def write(self, write: Write) -> Any:
        self.sent += 1
        if self.sent == 1:
            fresh(self._services.world).namespaces.create("main", ("somebody", "else"))
            return self._plain.write(write)
        self._plain.write(write)
        fakes(self._services).clock.now += 60_000  # no answer until the deadline
        raise OutcomeUnknown("no answer")


def test_i9_what_an_unanswered_change_may_have_made_reachable_is_not_tidied_away() -> None:
    services = fresh()
    world = fakes(services)
    refs = MovesThenMute(services)
    moved = type(world)(refs, world.objs, world.storages, world.clock, world.ids, world.space)  # type: ignore[arg-type]
    with pytest.raises(OutcomeUnknown):
        build(moved, lake_root=services.lake_root).namespaces.create("main", ("mine",))
    assert refs.sent >= 2
    complete(world)
