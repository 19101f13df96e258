"""Clones of Delta tables and namespaces on fakes: their content, refusals, and changes of the
source."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.catalog import complete, create, fakes, fresh, head_of, names
from tests.support.clones import check_shown, clone, cloner, commit, drop_iceberg, held, iceberg_table
from tests.support.fakes import delta
from turnstile.catalog.changes.idempotency import IdempotentCommitter
from turnstile.catalog.clone import copies
from turnstile.catalog.clone.cloner import CloneResult
from turnstile.catalog.core.entities import CloneOf, External, Namespace, Table
from turnstile.catalog.describe import Describer
from turnstile.catalog.load import Loader, TableState
from turnstile.catalog.services import CatalogServices
from turnstile.delta.commits import Commits
from turnstile.delta.core.decide import Refused
from turnstile.delta.core.metadata import Beside, DeltaMetadata
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.delta.repair import Repairer
from turnstile.store.core.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    StateConflict,
    TooLarge,
    UnsupportedTable,
)
from turnstile.transfer.exports import Exporter

WIDER = delta.SCHEMA.replace('"id"', '"wider"')


def sales(services: CatalogServices) -> dict[str, str]:
    """``sales`` with two tables and ``sales.eu`` with one; uuids by full name."""
    services.namespaces.create("main", ("Sales",), comment="c", properties={"a": "1"}, owner="ann")
    services.namespaces.create("main", ("Sales", "EU"))
    return {
        "sales.t1": create(services, "T1", "sales"),
        "sales.t2": create(services, "t2", "sales"),
        "sales.eu.t3": create(services, "t3", "sales.eu"),
    }


def load(services: CatalogServices, name: str) -> TableState:
    *namespace, table = name.split(".")
    commits = Commits(services.world, services.limits)
    return Loader(services.world, services.reader, services.metadata, commits).load("main", namespace, table)


def entity(services: CatalogServices, name: str) -> Any:
    tree = services.reader.current("main")
    entry = tree.find(tuple(name.split(".")))
    assert entry is not None
    return services.reader.store.entity("main", entry.obj)


def wider(name: str = "wider") -> dict[str, Any]:
    """A commit's metadata with another schema."""
    actions = delta.metadata()
    actions["metaData"]["schemaString"] = delta.SCHEMA.replace('"id"', f'"{name}"')
    return actions


def state(services: CatalogServices) -> Any:
    world = fakes(services)
    return dict(world.refs.rows), dict(world.storages.files)


# -- what a clone shows -----------------------------------------------------------------------------------------------


def test_i9_a_namespace_appears_under_another_name_with_everything_in_it_in_one_swap() -> None:
    services = fresh()
    ids = sales(services)
    before = services.reader.current("main").commit.seq
    result = cloner(services, owner="bob").clone("main", ("SALES",), ("Sales_Dev",))
    after = services.reader.current("main")
    assert (after.commit.seq, after.head) == (before + 1, result.head) == (result.seq, result.head)
    assert (result.to, result.namespaces) == ("Sales_Dev", 2)
    assert [(one.name, one.kind, one.version) for one in result.tables] == [
        ("Sales_Dev.EU.t3", "table", 0),
        ("Sales_Dev.T1", "table", 0),
        ("Sales_Dev.t2", "table", 0),
    ]
    assert names(services, "sales_dev") == ["T1", "t2"] and names(services, "sales_dev.eu") == ["t3"]
    assert not {one.table_id for one in result.tables} & {*ids.values()}
    one = entity(services, "sales")
    other = entity(services, "sales_dev")
    assert isinstance(other, Namespace)
    assert (other.name, other.comment, other.properties) == ("Sales_Dev", "c", {"a": "1"})
    assert other.id != one.id and (one.access.owner, other.access.owner) == ("ann", "bob")
    table = entity(services, "sales_dev.t1")
    assert isinstance(table, Table)
    assert table.clone == CloneOf(ids["sales.t1"], 0) and not table.managed
    assert (table.location, table.access.owner) == (entity(services, "sales.t1").location, "bob")
    complete(fakes(services))


def test_a_clone_shows_its_version_for_ever_and_its_source_goes_on() -> None:
    services = fresh()
    id = sales(services)["sales.t1"]
    world = fakes(services)
    assert [commit(world, id), commit(world, id)] == [1, 2]
    result = clone(services, "sales.t1", "sales.copy")
    assert [one.version for one in result.tables] == [2]
    commit(world, id, wider())
    loaded = load(services, "sales.copy")
    source = load(services, "sales.t1")
    assert (loaded.head.latest, loaded.head.floor, loaded.listing.places) == (2, 2, [])
    assert source.head.latest == 3
    assert '"wider"' in source.metadata.metadata["schemaString"]
    assert '"wider"' not in loaded.metadata.metadata["schemaString"]
    assert loaded.head.table_id != id and loaded.head.location == source.head.location
    check_shown(world, loaded.head.table_id, 2)
    complete(world)


def test_i10_a_clone_takes_no_commits_and_says_why() -> None:
    services = fresh()
    sales(services)
    (copy,) = clone(services, "sales.t1", "sales.copy").tables
    world = fakes(services)
    content = delta.append("x", world.clock.now_ms())
    for version in (1, None):
        answer = Ratifier(world).commit(CommitRequest(copy.table_id, version, base=0, content=content))
        assert isinstance(answer, Refused) and answer.kind == "TableNotActive", answer
        assert answer.details["state"] == "pinned"
        assert "read-only" in answer.remedy and "AS SELECT" in answer.remedy
    assert head_of(world, copy.table_id).latest == 0


def test_a_clone_of_a_clone_shows_the_first_source() -> None:
    services = fresh()
    id = sales(services)["sales.t1"]
    world = fakes(services)
    commit(world, id)
    clone(services, "sales.t1", "sales.one")
    commit(world, id)
    (two,) = clone(services, "sales.one", "sales.two").tables
    assert two.version == 1 and entity(services, "sales.two").clone == CloneOf(id, 1)
    assert len(held(world, entity(services, "sales.t1").location)) == 2
    services.dropper.drop("main", ("sales",), "one")
    check_shown(world, two.table_id, 1)
    complete(world)


def test_a_catalog_is_cloned_into_a_namespace_of_its_own() -> None:
    services = fresh()
    sales(services)
    result = clone(services, "", "backup")
    assert (result.namespaces, len(result.tables)) == (4, 3)
    assert names(services, "backup.sales") == ["T1", "t2"]
    assert services.namespaces.get("main", ("backup", "default")).name == ("backup", "default")
    complete(fakes(services))


def test_a_clone_is_renamed_listed_and_dropped_like_every_table() -> None:
    services = fresh()
    sales(services)
    world = fakes(services)
    (copy,) = clone(services, "sales.t1", "sales.copy").tables
    services.renamer.rename("main", ("sales",), "copy", "again", ("sales", "eu"))
    assert load(services, "sales.eu.again").head.table_id == copy.table_id
    services.dropper.drop("main", ("sales", "eu"), "again")
    assert head_of(world, copy.table_id).state == "dropped"
    assert held(world, entity(services, "sales.t1").location) == frozenset()
    with pytest.raises(NotFound):
        load(services, "sales.eu.again")
    complete(world)


def test_a_namespace_of_many_clones_is_dropped_with_them() -> None:
    services = fresh()
    sales(services)
    for number in range(60):
        clone(services, "sales.t1" if number % 2 else "sales.t2", f"sales.eu.c{number}")
    services.namespace_dropper.drop("main", ("sales", "eu"), cascade=True)
    world = fakes(services)
    complete(world)
    assert not any(row.get("clones") for row in world.refs.scan("location"))
    services.namespace_dropper.drop("main", ("sales",), cascade=True)
    complete(world)


def test_i8_a_namespace_with_clones_and_tables_goes_in_one_change() -> None:
    services = fresh()
    sales(services)
    clone(services, "sales.t1", "sales.eu.c1")
    before = services.reader.current("main").commit.seq
    services.namespace_dropper.drop("main", ("sales",), cascade=True)
    assert services.reader.current("main").commit.seq == before + 1
    complete(fakes(services))


def test_what_was_ratified_is_published_before_it_is_shown() -> None:
    services = fresh()
    id = sales(services)["sales.t1"]
    world = fakes(services)
    commit(world, id)
    assert head_of(world, id).floor == 0
    (copy,) = clone(services, "sales.t1", "sales.copy").tables
    assert head_of(world, id).floor == 1
    check_shown(world, copy.table_id, 1)


# -- moments of the past ----------------------------------------------------------------------------------------------


def test_a_snapshot_is_cloned_with_the_versions_that_it_recorded() -> None:
    services = fresh()
    id = sales(services)["sales.t1"]
    world = fakes(services)
    commit(world, id)
    services.named_snapshots.create("main", "month_end")
    commit(world, id, wider())
    commit(world, id)
    (copy,) = clone(services, "sales.t1", "sales.copy", snapshot="month_end").tables
    assert copy.version == 1
    table = load(services, "sales.copy")
    assert '"wider"' not in table.metadata.metadata["schemaString"]
    check_shown(world, copy.table_id, 1)
    complete(world)


def test_a_time_is_cloned_with_the_versions_of_then_and_what_was_dropped_since() -> None:
    services = fresh()
    ids = sales(services)
    world = fakes(services)
    times = []
    for number in range(12):
        world.clock.now += 1_000
        commit(world, ids["sales.t1"], *([wider(f"w{number}")] if number % 4 == 0 else []))
        world.clock.now += 500
        times.append(world.clock.now)
    services.publisher.publish(ids["sales.t1"])
    commit(world, ids["sales.t2"])
    services.publisher.publish(ids["sales.t2"])
    services.dropper.drop("main", ("sales",), "t2")
    for number, time in enumerate(times):
        result = clone(services, "sales", f"then{number}", time=time)
        versions = {one.name: one.version for one in result.tables}
        assert versions == {f"then{number}.EU.t3": 0, f"then{number}.T1": number + 1, f"then{number}.t2": 0}
        schema = load(services, f"then{number}.t1").metadata.metadata["schemaString"]
        assert f'"w{number - number % 4}"' in schema
    complete(world)


def test_a_log_that_does_not_go_back_so_far_is_reported() -> None:
    services = fresh()
    id = sales(services)["sales.t1"]
    world = fakes(services)
    then = services.reader.current("main").head
    world.clock.now += 1_000
    for _ in range(3):
        commit(world, id)
    services.publisher.publish(id)
    location = entity(services, "sales.t1").location
    for version in (0, 1):
        world.storages.open(location).delete(f"_delta_log/{version:020d}.json")
    before = state(services)
    with pytest.raises(StateConflict, match="does not go back") as error:
        clone(services, "sales.t1", "sales.copy", head=then)
    assert error.value.type == "CannotClone" and error.value.field == "of"
    assert state(services) == before


def test_i10_a_dropped_table_that_is_being_purged_is_not_cloned() -> None:
    services = fresh()
    id = sales(services)["sales.t1"]
    world = fakes(services)
    then = services.reader.current("main").head
    location = entity(services, "sales.t1").location
    services.dropper.drop("main", ("sales",), "t1")
    world.refs.rows[world.space.location(location)]["purging"] = True
    with pytest.raises(StateConflict) as error:
        clone(services, "sales.t1", "sales.copy", head=then)
    assert error.value.type == "CannotClone"
    del world.refs.rows[world.space.location(location)]["purging"]
    world.refs.rows[world.space.table(id)]["reason"] = "purging"
    with pytest.raises(StateConflict) as error:
        clone(services, "sales.t1", "sales.copy", head=then)
    assert error.value.type == "CannotClone"
    del world.refs.rows[world.space.table(id)]["reason"]
    (copy,) = clone(services, "sales.t1", "sales.copy", head=then).tables
    check_shown(world, copy.table_id, 0)


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "to", "error", "field"),
    [
        ("nothing", "copy", NotFound, "from"),
        ("sales.nothing", "sales.copy", NotFound, "from"),
        ("nothing.t1", "sales.copy", NotFound, "from"),
        ("sales", "nothing.copy", NotFound, "to"),
        ("sales.t1", "copy", InvalidRequest, "to"),
        ("sales.t1", "nothing.copy", NotFound, "to"),
        ("sales", "DEFAULT", AlreadyExists, "to"),
        ("sales.t1", "sales.T2", AlreadyExists, "to"),
        ("sales", "SALES", InvalidRequest, "to"),
        ("sales", "sales.copy", InvalidRequest, "to"),
        ("sales", "Sales.EU.copy", InvalidRequest, "to"),
        ("sales.t1", "sales.t1", InvalidRequest, "to"),
        ("sales.t1", "sales.t1.copy", InvalidRequest, "to"),
        ("", "sales.copy", InvalidRequest, "to"),
        ("", "sales", InvalidRequest, "to"),
        ("sales", "a+b", InvalidRequest, "to"),
        ("sales", "a.b.c.d.e.f.g.h.i.j.k", InvalidRequest, "to"),
    ],
)
def test_i9_what_cannot_be_cloned_is_refused_and_changes_nothing(
    source: str, to: str, error: type[Exception], field: str
) -> None:
    services = fresh()
    sales(services)
    before = state(services)
    with pytest.raises(error) as refusal:
        clone(services, source, to)
    assert refusal.value.field == field  # type: ignore[attr-defined]
    assert state(services) == before


def test_a_past_that_has_the_name_already_is_not_cloned_into_itself() -> None:
    services = fresh()
    services.namespaces.create("main", ("backup",))
    then = services.reader.current("main").head
    services.namespace_dropper.drop("main", ("backup",))
    with pytest.raises(InvalidRequest, match="lies in what is cloned"):
        clone(services, "", "backup", head=then)
    assert clone(services, "", "backup").namespaces == 2
    with pytest.raises(NotFound):
        clone(services, "", "other", head="commit/none")
    with pytest.raises(NotFound):
        clone(services, "default", "other", snapshot="none")


def test_a_clone_that_would_be_too_deep_is_refused() -> None:
    services = fresh()
    services.namespaces.create("main", tuple("abcde"))
    services.namespaces.create("main", tuple("123456"))
    with pytest.raises(InvalidRequest, match="levels"):
        clone(services, "a", "1.2.3.4.5.6.7")
    assert clone(services, "a", "1.2.3.4.5.x").namespaces == 5


def test_an_external_table_is_not_cloned_nor_what_is_around_it() -> None:
    services = fresh()
    sales(services)
    services.externals.register(
        "main", ("sales", "eu"), "e", location="s3://elsewhere/e", format="delta", about=External()
    )
    before = state(services)
    for source, to in (("sales", "copy"), ("sales.eu.e", "sales.copy")):
        with pytest.raises(UnsupportedTable, match=r"main\.sales\.eu\.e") as error:
            clone(services, source, to)
        assert error.value.field == "from"
    assert state(services) == before


def test_more_than_a_transaction_holds_is_refused_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    services = fresh()
    sales(services)
    monkeypatch.setattr(copies, "MAX_ROWS", 5)
    before = state(services)
    with pytest.raises(TooLarge) as error:
        clone(services, "sales", "copy")
    assert (error.value.details["size"], error.value.details["limit"]) == (6, 5)
    assert state(services) == before
    assert clone(services, "sales.eu", "copy").tables
    monkeypatch.setattr(copies, "MAX_NAMESPACES", 1)
    with pytest.raises(TooLarge, match="namespaces"):
        clone(services, "", "copy2")
    monkeypatch.setattr(copies, "MAX_CLONES", 1)
    with pytest.raises(TooLarge, match=r"clones of 'main\.sales\.eu\.t3'"):
        clone(services, "sales.eu", "copy3")


@pytest.mark.parametrize("keyed", [False, True])
def test_i3_what_one_transaction_holds_leaves_room_for_the_row_of_a_key(keyed: bool) -> None:
    """32 Iceberg tables take 96 rows, the catalog and the key one each; one table more would
    be refused with a key only."""
    services = fresh()
    services.namespaces.create("main", ("s",))
    for number in range(33):
        iceberg_table(services, f"s.t{number}")
    once = IdempotentCommitter(services.world, services.reader, key="test/request/main/k", asked="a", final=lambda _: 0)

    def make() -> CloneResult:
        if not keyed:
            return clone(services, "s", "copy")
        by = cloner(services.committing_with(once))
        return once.run(lambda: by.clone("main", ("s",), ("copy",)), lambda _: pytest.fail("nothing was made"))

    with pytest.raises(TooLarge) as error:
        make()
    assert (error.value.details["size"], error.value.details["limit"]) == (99, 98)
    drop_iceberg(services, "s.t32")
    assert len(make().tables) == 32


def test_i3_what_a_key_made_in_a_catalog_that_was_made_again_since_is_not_shown() -> None:
    services = fresh()
    create(services, "t")
    result = clone(services, "default", "copy")
    assert cloner(services).result_of("main", ("copy",), result.seq) == result
    for to, seq in ((("other",), result.seq), (("default",), result.seq - 1)):
        with pytest.raises(NotFound, match="that made") as error:
            cloner(services).result_of("main", to, seq)
        assert error.value.remedy is not None and "fresh key" in error.value.remedy


def test_a_table_that_cannot_be_published_is_not_cloned() -> None:
    services = fresh()
    id = sales(services)["sales.t1"]
    world = fakes(services)
    commit(world, id)
    location = entity(services, "sales.t1").location
    world.storages.open(location).put_if_absent(f"_delta_log/{1:020d}.json", b"something else")
    before = services.reader.current("main").head
    with pytest.raises(StateConflict) as error:
        clone(services, "sales", "copy")
    assert error.value.type == "TableNotActive"
    assert services.reader.current("main").head == before
    orphans = [id for _, id in world.objs.rows if id.startswith("metadata/")]
    assert len(orphans) == 3, "metadata snapshots of clones that were not made are gone again"
    complete(world)


def test_a_clone_is_neither_exported_nor_described_nor_repaired() -> None:
    services = fresh()
    id = sales(services)["sales.t1"]
    world = fakes(services)
    (copy,) = clone(services, "sales.t1", "sales.copy").tables

    with pytest.raises(StateConflict) as error:
        Exporter(services).run("main", ("sales",), "copy")
    assert error.value.type == "TableNotActive"

    def described(_id: str, snapshot: DeltaMetadata) -> DeltaMetadata:
        return msgspec.structs.replace(snapshot, beside=Beside(comment="c"))

    with pytest.raises(StateConflict, match="pinned"):
        Describer(world, services.metadata).describe(head_of(world, copy.table_id), described)
    commit(world, id)
    services.publisher.publish(id)
    _, diagnosis = Repairer(world, services.publisher).repair(copy.table_id)
    assert (diagnosis.finding, diagnosis.state) == ("healthy", "pinned")
    check_shown(world, copy.table_id, 0)


def test_i10_a_table_with_clones_is_not_exported_until_they_are_gone() -> None:
    services = fresh()
    sales(services)

    clone(services, "sales.t1", "sales.copy")
    before = state(services)
    assert [one.type for one in Exporter(services).dry_run("main", ("sales",), "t1").problems] == ["TableHasClones"]
    with pytest.raises(StateConflict) as error:
        Exporter(services).run("main", ("sales",), "t1")
    assert error.value.type == "TableHasClones"
    assert state(services) == before
    services.dropper.drop("main", ("sales",), "copy")
    Exporter(services).run("main", ("sales",), "t1")
    complete(fakes(services))
