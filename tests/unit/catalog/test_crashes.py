"""Every catalog operation, killed before and after each of its writes, or left without an answer to
it: the tree is complete at every moment (I9), and doing it again ends where it would have ended at
once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.catalog import LAKE, MAIN, complete, create, fakes, fresh, head_of, names, staged
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, How
from turnstile.catalog import services as bootstrap
from turnstile.catalog.services import CatalogServices
from turnstile.store.core.errors import AlreadyExists, NotFound, OutcomeUnknown


@dataclass(frozen=True)
class Operation:
    """What is prepared, what is done, how one tells that it was, and which refusal of a repetition
    says so too."""

    prepare: Callable[[CatalogServices], object]
    run: Callable[[CatalogServices, object], object]
    done: Callable[[CatalogServices, object], bool]
    already: tuple[type[Exception], ...] = ()


def nested(services: CatalogServices) -> object:
    services.namespaces.create("main", ("a", "b"))
    return [create(services, "t", "a"), create(services, "t", "a.b")]


def are_dropped(services: CatalogServices, ids: Any) -> bool:
    return all(head_of(services.world, id).state == "dropped" for id in ids)


OPERATIONS = {
    "create catalog": Operation(
        lambda services: None,
        lambda services, _: services.catalogs.create("other"),
        lambda services, _: "other" in [catalog.name for catalog in services.catalogs.list()],
        (AlreadyExists,),
    ),
    "create namespace": Operation(
        lambda services: None,
        lambda services, _: services.namespaces.create("main", ("a", "b"), comment="c"),
        lambda services, _: services.namespaces.get("main", ("a", "b")).entity.comment == "c",
        (AlreadyExists,),
    ),
    "update namespace": Operation(
        lambda services: None,
        lambda services, _: services.namespaces.update("main", ("default",), set={"k": "v"}),
        lambda services, _: services.namespaces.get("main", ("default",)).entity.properties == {"k": "v"},
    ),
    "register": Operation(
        staged,
        lambda services, table_id: services.registrar.register(*MAIN, "t", str(table_id)),
        lambda services, made: services.reader.resolve(*MAIN, "t").table_id == made,
    ),
    "rename": Operation(
        lambda services: create(services, "t"),
        lambda services, _: services.renamer.rename(*MAIN, "t", "u"),
        lambda services, made: services.reader.resolve(*MAIN, "u").table_id == made and names(services) == ["u"],
        (NotFound,),
    ),
    "rename namespace": Operation(
        nested,
        lambda services, _: services.namespace_mover.rename("main", ("a",), "z"),
        lambda services, ids: (
            [services.reader.resolve("main", path, "t").table_id for path in (("z",), ("z", "b"))] == ids
            and services.reader.current("main").find(("a",)) is None
        ),
        (NotFound,),
    ),
    "drop": Operation(
        lambda services: create(services, "t"),
        lambda services, _: services.dropper.drop(*MAIN, "t"),
        lambda services, made: names(services) == [] and head_of(services.world, str(made)).state == "dropped",
        (NotFound,),
    ),
    "cascade": Operation(
        nested,
        lambda services, _: services.namespace_dropper.drop("main", ("a",), cascade=True),
        are_dropped,
        (NotFound,),
    ),
}


def prepared(operation: Operation) -> tuple[FakeWorld, object]:
    services = fresh()
    return fakes(services), operation.prepare(services)


def writes_of(operation: Operation) -> int:
    world, subject = prepared(operation)
    faulty = Faulty(world)
    operation.run(fresh(faulty.world), subject)
    return len(faulty.writes)


def again(operation: Operation, world: FakeWorld, subject: object) -> None:
    """Another process does the same, and the world is as if nothing had failed."""
    services = fresh(world)
    with suppress(*operation.already):
        operation.run(services, subject)
    assert operation.done(services, subject)
    complete(world)


@pytest.mark.parametrize("how", CRASHES)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_a_crash_at_any_write_leaves_a_complete_tree_and_a_repetition_converges(name: str, how: How) -> None:
    operation = OPERATIONS[name]
    assert writes_of(operation) >= 2
    for at in range(1, writes_of(operation) + 1):
        world, subject = prepared(operation)
        with pytest.raises(Crash):
            operation.run(fresh(Faulty(world, at, how).world), subject)
        complete(world)
        again(operation, world, subject)


@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_an_answer_lost_at_any_write_is_found_out_or_reported_as_unknown(name: str, how: How) -> None:
    """I3: never a success that did not happen, never a refusal of what did."""
    operation = OPERATIONS[name]
    for at in range(1, writes_of(operation) + 1):
        world, subject = prepared(operation)
        faulty = Faulty(world, at, how)
        try:
            operation.run(fresh(faulty.world), subject)
        except OutcomeUnknown:
            assert faulty.writes[at - 1] not in ("transact", "write") or "catalog" in name
        else:
            assert operation.done(fresh(world), subject)
        complete(world)
        again(operation, world, subject)


@pytest.mark.parametrize("how", CRASHES)
def test_a_stack_whose_start_was_interrupted_starts_the_next_time(how: How) -> None:
    for at in range(1, 12):
        world = fake_world()
        with suppress(Crash):
            bootstrap.ensure(Faulty(world, at, how).world, lake_root=LAKE)
        complete(world)
        bootstrap.ensure(world, lake_root=LAKE)
        services = fresh(world)
        assert [catalog.name for catalog in services.catalogs.list()] == ["main"]
        create(services, "t")
        complete(world)


def test_a_registration_whose_answer_never_arrived_is_answered_again() -> None:
    """I3: the client repeats the request that another sandbox had carried out."""
    services = fresh()
    table_id = staged(services)
    with pytest.raises(Crash):
        fresh(Faulty(fakes(services), 3, "after").world).registrar.register(*MAIN, "t", table_id)
    assert fresh(services.world).registrar.register(*MAIN, "t", table_id).replayed
    complete(fakes(services))


def test_a_staging_row_whose_answer_was_lost_is_a_staging_table_more_and_nothing_else() -> None:
    services = fresh()
    with pytest.raises(OutcomeUnknown):
        fresh(Faulty(fakes(services), 1, "lost").world).staging.create(*MAIN, "t")
    create(services, "t")
    assert names(services) == ["t"]
    assert sum(row["kind"] == "staging" for row in fakes(services).refs.rows.values()) == 1
    complete(fakes(services))
