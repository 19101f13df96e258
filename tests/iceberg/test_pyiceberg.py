"""PyIceberg 0.12, unmodified, with files written and read by PyArrow."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType

from tests.support.iceberg.pyarrow_tables import SCHEMA, Connect, ids, rows

NO_RETRY = {"commit.retry.num-retries": "0"}
"""PyIceberg shall not hide conflicts by committing again."""


def test_the_life_of_a_table(connect: Connect, namespace: str) -> None:
    catalog = connect()
    name = f"{namespace}.orders"
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    table = catalog.create_table(name, SCHEMA, partition_spec=spec, properties={"owner": "alice"})
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(name, SCHEMA)
    table.append(rows(1, 2))
    table.append(rows(3, region="us"))
    assert ids(catalog.load_table(name)) == [1, 2, 3]
    with table.update_schema() as schema:
        schema.add_column("amount", DoubleType(), "in euros")
        schema.rename_column("region", "area")
    with table.update_spec() as partitions:
        partitions.remove_field("region")
    more = pa.table({"id": [4], "area": ["us"], "amount": [1.5]})
    connect().load_table(name).append(more)
    read = connect().load_table(name)
    assert ids(read) == [1, 2, 3, 4]
    found = read.scan().to_arrow().sort_by("id")
    assert found["area"].to_pylist() == ["eu", "eu", "us", "us"] and found["amount"].to_pylist() == [
        None,
        None,
        None,
        1.5,
    ]
    read.delete("area = 'eu'")
    read.overwrite(pa.table({"id": [9], "area": ["us"], "amount": [2.5]}), overwrite_filter="id = 3")
    assert ids(connect().load_table(name)) == [4, 9]
    with read.transaction() as transaction:
        transaction.set_properties({"owner": "bob"})
    assert connect().load_table(name).properties["owner"] == "bob"
    catalog.rename_table(name, f"{namespace}.sales")
    assert catalog.list_tables(namespace) == [(namespace, "sales")]
    with pytest.raises(NoSuchTableError):
        catalog.load_table(name)
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(namespace)
    catalog.drop_table(f"{namespace}.sales")
    assert not catalog.table_exists(f"{namespace}.sales")
    catalog.drop_namespace(namespace)


def test_branches_tags_and_time_travel(connect: Connect, namespace: str) -> None:
    table = connect().create_table(f"{namespace}.t", SCHEMA)
    table.append(rows(1))
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_tag(first.snapshot_id, "v1").create_branch(first.snapshot_id, "audit").commit()
    table.append(rows(2), branch="audit")
    table.append(rows(3))
    read = connect().load_table(f"{namespace}.t")
    assert set(read.refs()) == {"main", "v1", "audit"} and ids(read) == [1, 3]
    assert sorted(read.scan().use_ref("audit").to_arrow()["id"].to_pylist()) == [1, 2]
    assert read.scan(snapshot_id=first.snapshot_id).to_arrow()["id"].to_pylist() == [1]
    read.manage_snapshots().remove_branch("audit").commit()
    named = {ref.snapshot_id for ref in read.refs().values()}
    unnamed = next(one.snapshot_id for one in read.metadata.snapshots if one.snapshot_id not in named)
    read.maintenance.expire_snapshots().by_id(unnamed).commit()
    assert set(connect().load_table(f"{namespace}.t").refs()) == {"main", "v1"}


def test_a_create_transaction_is_there_when_it_is_committed(connect: Connect, namespace: str) -> None:
    catalog = connect()
    with catalog.create_table_transaction(f"{namespace}.ctas", SCHEMA, properties={"a": "1"}) as transaction:
        transaction.append(rows(1, 2, 3))
        assert not connect().table_exists(f"{namespace}.ctas")
    assert ids(connect().load_table(f"{namespace}.ctas")) == [1, 2, 3]


def test_namespaces_of_several_levels_and_their_properties(connect: Connect, namespace: str) -> None:
    catalog = connect()
    inner = (namespace, "emea", "north")
    catalog.create_namespace(inner[:2])
    catalog.create_namespace(inner, {"comment": "cold", "a": "1"})
    assert catalog.list_namespaces(namespace) == [inner[:2]] and catalog.list_namespaces(inner[:2]) == [inner]
    first = catalog.load_namespace_properties(inner)
    location = first.pop("location")
    assert location.endswith(f"/{namespace}.emea.north") and first == {"comment": "cold", "a": "1"}
    summary = catalog.update_namespace_properties(inner, {"a", "none"}, {"b": "2"})
    assert (summary.removed, summary.updated, summary.missing) == (["a"], ["b"], ["none"])
    changed = {"comment": "cold", "b": "2", "location": location}
    assert catalog.load_namespace_properties(inner) == changed
    table = catalog.create_table((*inner, "t"), SCHEMA)
    table.append(rows(1))
    assert catalog.list_tables(inner) == [(*inner, "t")]
    assert catalog.namespace_exists(inner) and not catalog.namespace_exists((namespace, "none"))
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables((namespace, "none"))


def test_listings_come_in_pages(connect: Connect, namespace: str) -> None:
    catalog = connect(**{"rest-page-size": "2"})
    for n in range(5):
        catalog.create_table(f"{namespace}.t{n}", SCHEMA)
    assert sorted(catalog.list_tables(namespace)) == [(namespace, f"t{n}") for n in range(5)]


def test_i9_two_clients_change_different_tables_of_one_catalog_at_once(connect: Connect, namespace: str) -> None:
    for n in range(2):
        connect().create_table(f"{namespace}.t{n}", SCHEMA, properties=NO_RETRY)

    def work(n: int) -> int:
        catalog = connect()
        for round in range(5):
            catalog.load_table(f"{namespace}.t{n}").append(rows(round))
        return n

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(work, range(2))) == [0, 1]
    for n in range(2):
        assert ids(connect().load_table(f"{namespace}.t{n}")) == [0, 1, 2, 3, 4]


def test_i9_a_transaction_over_two_tables_is_all_or_nothing(connect: Connect, namespace: str) -> None:
    """PyIceberg makes the changes; it has no call for the request that commits both, so the test
    sends that itself."""
    catalog = connect()
    apart = {"turnstile.merge-appends": "false"}
    tables = [catalog.create_table(f"{namespace}.t{n}", SCHEMA, properties=apart) for n in range(2)]

    def changes(*ids: int) -> list[dict[str, object]]:
        made = []
        for table in tables:
            transaction = table.refresh().transaction()
            transaction.append(rows(*ids))
            made.append(
                {
                    "identifier": {"namespace": [namespace], "name": table.name()[-1]},
                    "requirements": [one.model_dump(mode="json", by_alias=True) for one in transaction._requirements],
                    "updates": [
                        one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in transaction._updates
                    ],
                }
            )
        return made

    def commit(both: list[dict[str, object]]) -> int:
        url = f"{catalog.uri}/v1/main/transactions/commit"
        return int(catalog._session.post(url, json={"table-changes": both}).status_code)

    assert commit(changes(1, 2)) == 204
    assert [ids(connect().load_table(table.name())) for table in tables] == [[1, 2], [1, 2]]
    stale = changes(3)
    tables[1].refresh().append(rows(9))
    tables[1].refresh().delete("id = 9")
    assert commit(stale) == 409
    assert [ids(connect().load_table(table.name())) for table in tables] == [[1, 2], [1, 2]]


def test_a_commit_from_an_older_state_is_a_conflict_of_pyiceberg(connect: Connect, namespace: str) -> None:
    connect().create_table(f"{namespace}.t", SCHEMA)
    mine, theirs = (connect().load_table(f"{namespace}.t") for _ in range(2))
    theirs.update_schema().add_column("x", LongType()).commit()
    with pytest.raises(CommitFailedException):
        mine.update_schema().add_column("y", LongType()).commit()


def test_i9_appends_from_the_same_state_become_one_history(connect: Connect, namespace: str) -> None:
    name = f"{namespace}.t"
    connect().create_table(name, SCHEMA, properties=NO_RETRY)
    writers = [connect().load_table(name) for _ in range(3)]
    for n, writer in enumerate(writers):
        writer.append(rows(10 * n, 10 * n + 1))  # the second and third were made for an empty table
    read = connect().load_table(name)
    assert ids(read) == [0, 1, 10, 11, 20, 21] == ids(writers[2])
    assert [one.sequence_number for one in read.metadata.snapshots] == [1, 2, 3]
    assert read.current_snapshot().summary["total-records"] == "6"  # type: ignore[union-attr, index]
    read.delete("id = 10")
    assert ids(connect().load_table(name)) == [0, 1, 11, 20, 21]
    with pytest.raises(CommitFailedException):
        writers[0].overwrite(rows(99))


def test_i9_eight_writers_append_to_one_table_and_none_is_refused(connect: Connect, namespace: str) -> None:
    """Without retries of their own: what is refused surfaces."""
    name = f"{namespace}.t"
    writers = 8
    appends = 3
    connect().create_table(name, SCHEMA, properties=NO_RETRY)

    def write(writer: int) -> None:
        table = connect().load_table(name)
        for number in range(appends):
            table.append(rows(writer * appends + number))

    with ThreadPoolExecutor(writers) as threads:
        list(threads.map(write, range(writers)))
    read = connect().load_table(name)
    assert ids(read) == list(range(writers * appends))
    assert [one.sequence_number for one in read.metadata.snapshots] == list(range(1, writers * appends + 1))


@pytest.mark.parametrize("name", ["a.b", "a b", "a/b", "日本語", "a%2Fb", "a:b?c#d"])
def test_i9_odd_names_come_through_the_gateway(connect: Connect, namespace: str, name: str) -> None:
    catalog = connect()
    inner = (namespace, name)
    assert not catalog.namespace_exists(inner)
    catalog.create_namespace(inner)
    assert catalog.list_namespaces(namespace) == [inner] and catalog.namespace_exists(inner)
    assert not catalog.table_exists((*inner, name))
    catalog.create_table((*inner, name), SCHEMA).append(rows(1))
    assert catalog.list_tables(inner) == [(*inner, name)]
    table = connect().load_table((*inner, name))
    assert ids(table) == [1]
    catalog.rename_table((*inner, name), (*inner, f"{name} 2"))
    catalog.drop_table((*inner, f"{name} 2"))
    catalog.drop_namespace(inner)
    assert catalog.list_namespaces(namespace) == []


def test_a_table_that_turns_merging_off_refuses_the_slower_writer(connect: Connect, namespace: str) -> None:
    name = f"{namespace}.t"
    connect().create_table(name, SCHEMA, properties={"turnstile.merge-appends": "false", **NO_RETRY})
    first, second = (connect().load_table(name) for _ in range(2))
    first.append(rows(1))
    with pytest.raises(CommitFailedException):
        second.append(rows(2))
    assert ids(connect().load_table(name)) == [1]


def test_a_dropped_table_is_registered_again_and_a_purged_one_is_gone(connect: Connect, namespace: str) -> None:
    catalog = connect()
    table = catalog.create_table(f"{namespace}.t", SCHEMA)
    table.append(rows(1, 2))
    place = catalog.load_table(f"{namespace}.t").metadata_location
    catalog.drop_table(f"{namespace}.t")
    back = catalog.register_table(f"{namespace}.again", place)
    assert ids(back) == [1, 2]
    catalog.purge_table(f"{namespace}.again")
    assert catalog.list_tables(namespace) == []


def test_views_of_others_are_listed_and_dropped(connect: Connect, namespace: str) -> None:
    catalog: RestCatalog = connect()
    from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion

    version = ViewVersion(
        version_id=1,
        schema_id=0,
        timestamp_ms=1_770_000_000_000,
        summary={"engine-name": "tests"},
        representations=[SQLViewRepresentation(type="sql", sql="select 1 as id", dialect="spark")],
        default_namespace=[namespace],
    )
    made = catalog.create_view(f"{namespace}.v", SCHEMA, version)
    assert catalog.list_views(namespace) == [(namespace, "v")] and catalog.view_exists(f"{namespace}.v")
    assert made.current_version().representations[0].root.sql == "select 1 as id"
    catalog.drop_view(f"{namespace}.v")
    assert catalog.list_views(namespace) == []
