"""Requests and bytes of catalog operations: a handful, and the same however large the catalog
is."""

from __future__ import annotations

import pytest

from tests.support.catalog import MAIN, complete, counted, create, fakes, filled, fresh, head_of, staged

SIZES = (0, 10, 1000, pytest.param(3000, marks=pytest.mark.slow))


@pytest.mark.parametrize("size", SIZES)
def test_requests_of_every_operation_do_not_grow_with_the_catalog(size: int) -> None:
    services = filled(size)
    create(services, "warm")
    services.namespaces.create("main", ("other",))
    id = ""

    def stage() -> None:
        nonlocal id
        id = staged(services, "t")

    assert counted(services, stage) == ["refs.read", "refs.write"]
    assert counted(services, lambda: services.registrar.register(*MAIN, "t", id)) == [
        "objs.put",
        "objs.put_many",
        "refs.read_many",
        "refs.transact",
    ]
    assert counted(services, lambda: services.registrar.register(*MAIN, "t", id)) == ["refs.read_many"]
    swap = ["objs.put_many", "refs.read", "refs.transact"]
    assert counted(services, lambda: services.renamer.rename(*MAIN, "t", "u", ("other",))) == swap
    assert counted(services, lambda: services.dropper.drop("main", ("other",), "u")) == swap
    one = ["objs.put_many", "refs.read", "refs.write"]
    assert counted(services, lambda: services.namespaces.create("main", ("n",))) == one
    assert counted(services, lambda: services.namespaces.update("main", ("n",), set={"k": "v"})) == one
    assert counted(services, lambda: services.namespace_dropper.drop("main", ("n",))) == one
    assert counted(services, lambda: services.listings.namespaces("main")) == ["refs.read"]
    assert counted(services, lambda: services.listings.tables(*MAIN, max_results=5)) in (
        ["refs.read"],
        ["objs.get_many", "refs.read"],
    )
    complete(fakes(services))


@pytest.mark.parametrize("size", SIZES)
def test_a_cold_sandbox_needs_one_more_read_for_the_tree(size: int) -> None:
    services = filled(size)
    create(services, "t")
    spilled = bool(services.reader.current("main").index.directory)
    with_segment = "objs.get_many" if spilled else "objs.get"
    assert counted(services, lambda: fresh(services.world).reader.resolve(*MAIN, "t")) == [with_segment, "refs.read"]
    assert counted(services, lambda: fresh(services.world).renamer.rename(*MAIN, "t", "u")) == [
        "objs.get",
        *(["objs.get"] if spilled else []),  # the one segment of a catalog this small
        "objs.get_many",  # the table's entity
        "objs.get_many",  # the namespace's, for its spelling
        "objs.put_many",
        "refs.read",
        "refs.transact",
    ]


def test_a_warm_resolve_is_one_read_and_a_guess_none() -> None:
    services = fresh()
    create(services, "t")
    assert counted(services, lambda: services.reader.resolve(*MAIN, "t")) == ["refs.read"]
    assert counted(services, lambda: services.reader.guess(*MAIN, "t")) == []


@pytest.mark.parametrize("size", SIZES)
def test_a_change_writes_one_commit_and_one_entity_and_a_small_row(size: int) -> None:
    services = filled(size)
    world = fakes(services)
    before = set(world.objs.rows)
    services.namespaces.create("main", ("n",))
    written = [world.objs.rows[key] for key in world.objs.rows.keys() - before]
    assert sorted(obj.type for obj in written) == ["commit", "namespace"]
    commit = next(obj for obj in written if obj.type == "commit")
    assert len(commit.payload) < min(300 + 60 * (size + 3), 10_000)
    assert len(str(world.refs.rows["test/catalog/main"])) < 4096


def test_a_new_head_and_its_rows_fit_one_write_unit_each() -> None:
    services = fresh()
    id = create(services, "t")
    assert head_of(services.world, id).bytes == 0
    for key, row in fakes(services).refs.rows.items():
        if "/table/" in key or "/location/" in key:
            assert len(str(row)) < 1024
