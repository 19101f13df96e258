"""Exports that meet other exports, drops and commits of the same table: it is released once, and
only while nothing can be ratified any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from tests.support.catalog import MAIN, complete, fakes, fresh, head_of
from tests.support.fakes import delta
from tests.support.legacy import Legacy, managed, run_import, with_legacy
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.decide import Ratified
from turnstile.delta.core.writes.state import (
    begin_recovery,
    describe_head,
    drop_head,
    drop_published_head,
    leave_head,
    left_head,
    mark_stuck,
    rename_head,
    restore_head,
    stay_head,
)
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Published, Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.errors import NotFound, StateConflict
from turnstile.store.core.names import published_path
from turnstile.store.core.writes import Write
from turnstile.store.ports import Accepted, Rejected
from turnstile.transfer.exports import EXPORTING, Exporter
from turnstile.transfer.imports import Importer


def held_up(services: CatalogServices, *, before: Callable[[], object], after: Callable[[], object]) -> Exporter:
    """An exporter in another sandbox; other things happen during its publication."""
    sandbox = fresh(services.world)
    publish = sandbox.publisher.publish

    def slow(table_id: str) -> Published:
        before()
        done = publish(table_id)
        after()
        return done

    sandbox.publisher.publish = slow  # type: ignore[method-assign,assignment]
    return Exporter(sandbox)


def stays(services: CatalogServices, id: str) -> Callable[[], object]:
    """The actions of another export of the table that could not publish it."""

    def write() -> object:
        head = head_of(services.world, id)
        return services.world.refs.write(stay_head(head, EXPORTING, services.world.clock.now_ms()))

    return write


def commits(services: CatalogServices, id: str, version: int) -> Callable[[], object]:
    def commit() -> object:
        content = delta.append(f"late{version}", services.world.clock.now_ms())
        return Ratifier(services.world).commit(CommitRequest(id, version, content=content))

    return commit


def nothing() -> None:
    """Nothing happens."""


def test_i2_i4_a_table_that_another_export_let_stay_is_not_released() -> None:
    services, id = managed()
    legacy = Legacy(services, head_of(services.world, id).location)
    with pytest.raises(StateConflict, match="active again") as refused:
        held_up(services, before=stays(services, id), after=nothing).run(*MAIN, "t")
    assert refused.value.type == "TableNotActive" and refused.value.remedy
    assert legacy.storage.stat(published_path(3)) is None
    assert isinstance(commits(services, id, 3)(), Ratified)
    done = Publisher(services.world).publish(id)
    assert (done.problem, done.floor, done.state) == (None, 3, "active")
    assert Exporter(fresh(services.world)).run(*MAIN, "t").release_version == 4
    complete(fakes(services))


def test_i4_a_commit_that_came_after_publishing_is_never_jumped_over_by_the_release() -> None:
    services, id = managed()
    legacy = Legacy(services, head_of(services.world, id).location)
    exporter = held_up(services, before=stays(services, id), after=commits(services, id, 3))
    with pytest.raises(StateConflict, match="active again"):
        exporter.run(*MAIN, "t")
    assert [legacy.storage.stat(published_path(version)) for version in (3, 4)] == [None, None]
    assert (head_of(services.world, id).latest, head_of(services.world, id).floor) == (3, 2)


def test_i4_a_table_that_stayed_took_a_commit_and_leaves_again_is_published_first() -> None:
    services, id = managed()
    legacy = Legacy(services, head_of(services.world, id).location)

    def leaves_again() -> None:
        commits(services, id, 3)()
        services.world.refs.write(leave_head(head_of(services.world, id), EXPORTING, services.world.clock.now_ms()))

    with pytest.raises(StateConflict) as refused:
        held_up(services, before=stays(services, id), after=leaves_again).run(*MAIN, "t")
    assert refused.value.details["state"] == "leaving"
    assert legacy.storage.stat(published_path(4)) is None
    assert Exporter(fresh(services.world)).run(*MAIN, "t").release_version == 4
    assert legacy.actions(3)["commitInfo"]["txnId"] == "late3"
    complete(fakes(services))


@pytest.mark.parametrize("how", ["dropped", "exported"])
def test_i10_a_table_that_goes_another_way_meanwhile_is_not_released_by_a_slow_export(how: str) -> None:
    services, id = managed()
    world = fakes(services)

    def goes() -> None:
        if how == "exported":
            Exporter(fresh(world)).run(*MAIN, "t")
        else:
            stays(services, id)()
            fresh(world).dropper.drop(*MAIN, "t")
        files.update(world.storages.files)

    files: dict[str, object] = {}
    with pytest.raises(NotFound):
        held_up(services, before=goes, after=nothing).run(*MAIN, "t")
    assert files and files == world.storages.files
    complete(world)


def test_i10_a_neighbour_that_comes_while_a_table_is_exported_delays_it_and_keeps_its_location() -> None:
    """Both lie below a folder outside the lake root, and its marker counts them."""
    services, _ = with_legacy()
    world = fakes(services)
    neighbour = "s3://old/tables/u"
    Legacy(services, neighbour).created()
    run_import(services)
    sandbox = fresh(world)
    transact = world.refs.transact
    tries = 0

    def after_a_neighbour(writes: Sequence[Write], token: str) -> object:
        nonlocal tries
        if any(write.key.endswith("/catalog/main") for write in writes):
            tries += 1
            if tries == 1:
                Importer(fresh(world)).run(*MAIN, "u", neighbour)
        return transact(writes, token)

    world.refs.transact = after_a_neighbour  # type: ignore[method-assign,assignment]
    Exporter(sandbox).run(*MAIN, "t")
    world.refs.transact = transact  # type: ignore[method-assign]
    assert tries == 3, "the export, the neighbour's import, and the export again"
    Exporter(fresh(world)).run(*MAIN, "u")
    assert not [key for key in world.refs.rows if "old" in key]
    complete(world)


def test_i2_i10_a_leaving_table_that_is_published_can_only_be_exported() -> None:
    """States in which an export that is frozen before its release goes on: no write makes the table
    active again, or drops it."""
    services, id = managed()
    world = services.world
    active = head_of(world, id)
    world.refs.write(leave_head(active, EXPORTING, 1))
    leaving = head_of(world, id)
    Publisher(world).publish(id)
    ready = head_of(world, id)
    assert (ready.state, ready.floor, ready.latest) == ("leaving", 2, 2)
    published = msgspec.structs.replace(ready, state="active", reason="")
    others: list[Write] = [
        *(stay_head(head, EXPORTING, 2) for head in (leaving, ready)),
        *(mark_stuck(head, 3, "foreign", 2) for head in (active, ready)),
        begin_recovery(published, 2),
        *(drop_published_head(head, 2) for head in (active, ready)),
        drop_head(ready.key, 2),
        restore_head(ready.key, "main.default.t", 2),
        rename_head(ready.key, "main.default.u", 2),
        leave_head(active, "another", 2),
        describe_head(ready, "m", 2),
    ]
    for write in others:
        assert isinstance(world.refs.write(write), Rejected), write
    assert not isinstance(commits(services, id, 3)(), Ratified)
    assert head_of(world, id) == ready
    assert isinstance(world.refs.write(left_head(ready, "exported", 2)), Accepted)
