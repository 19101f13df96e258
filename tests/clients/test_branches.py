"""A branch is a catalog for every client: the plain client, DuckDB and PyIceberg write to it and
read it, and a promotion shows all of it at once (I28)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.support.clients import duck
from tests.support.fakes import delta
from turnstile_client import ApiError, Conflict, connect
from turnstile_http.branches import BranchChanges

if TYPE_CHECKING:
    from turnstile_server import Server


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


class Site:
    """A server with a branch ``dev`` of its catalog, and clients of both."""

    def __init__(self, server: Server, work: Path) -> None:
        self.server = server
        self.work = work
        self.api = server.client()
        self.lake = connect(server.url)
        self.dev = connect(server.url, catalog="main@dev")

    def branch(self, **options: Any) -> None:
        assert self.lake.branches.create("dev", **options).full_name == "main@dev"

    def load(self, table: str) -> dict[str, Any]:
        return dict(self.api.get(f"/v1/catalogs/main/namespaces/default/tables/{table}").json())

    def add_feature(self, table: str, feature: str) -> None:
        """A commit with one more writer feature."""
        loaded = self.load(table)
        protocol = loaded["metadata"]["protocol"]
        features = [*protocol["writerFeatures"], feature]
        head = self.api.get(f"/v1/tables/{loaded['table_id']}/head").json()
        info = delta.info("feature", max(time.time_ns() // 1_000_000, head["timestamp"] + 1))
        content = delta.lines(info, {"protocol": {**protocol, "writerFeatures": features}}).decode()
        body = {"version": loaded["latest"] + 1, "inline": {"content": content}}
        answer = self.api.post(f"/v1/tables/{loaded['table_id']}/commits", json=body)
        assert answer.status_code == 200, answer.text

    def promote(self) -> BranchChanges:
        return self.lake.branches.promote("dev")

    def iceberg(self, catalog: str = "main") -> RestCatalog:
        return RestCatalog("c", uri=f"{self.server.url}/iceberg", warehouse=catalog)

    def planned(self, catalog: str, table: str) -> list[int]:
        """A Delta table's rows by PyIceberg, whose scan the server plans."""
        uri = f"{self.server.url}/iceberg"
        planning = RestCatalog("p", uri=uri, warehouse=catalog, **{"scan-planning-mode": "server"})
        return ids(planning.load_table(table).scan().to_arrow())

    def duckdb(self, catalog: str, query: str) -> list[Any]:
        with duck.connect(self.work) as db:
            duck.attach(db, self.server, catalog=catalog)
            return db.execute(query).fetchall()


@pytest.fixture
def site(server: Server, tmp_path: Path) -> Any:
    site = Site(server, tmp_path)
    yield site
    if [branch.name for branch in site.lake.branches]:
        site.lake.branches.drop("dev")
    for name in ("b_t", "b_n", "b_ice", "b_ice2"):
        site.api.delete(f"/v1/catalogs/main/namespaces/default/tables/{name}")


def test_i28_delta_tables_of_a_branch_are_read_and_written_by_every_client(site: Site) -> None:
    main = site.lake.create("default.b_t", rows())
    main.append(rows(1, 2, 3))
    site.branch()
    assert sorted(site.duckdb("main@dev", "SELECT id FROM lake.default.b_t")) == [(1,), (2,), (3,)]
    dev = site.dev.table("default.b_t")
    dev.append(rows(10))
    site.duckdb("main@dev", "INSERT INTO lake.default.b_t VALUES (11)")
    made = site.dev.create("default.b_n", rows())
    made.append(rows(7))
    assert ids(dev.read()) == site.planned("main@dev", "default.b_t") == [1, 2, 3, 10, 11]
    assert ids(main.read()) == site.planned("main", "default.b_t") == [1, 2, 3]
    assert "b_n" not in str(site.duckdb("main", "SHOW ALL TABLES"))
    site.promote()
    assert ids(main.read()) == site.planned("main", "default.b_t") == [1, 2, 3, 10, 11]
    assert sorted(site.duckdb("main", "SELECT id FROM lake.default.b_t")) == [(one,) for one in (1, 2, 3, 10, 11)]
    assert ids(site.lake.table("default.b_n").read()) == [7]
    main.append(rows(5))
    main.delete(where=[("id", ">", 4)])
    assert ids(main.read()) == [1, 2, 3]


def test_i28_duckdb_uses_a_table_of_a_branch_before_any_other_client(site: Site) -> None:
    main = site.lake.create("default.b_t", rows())
    main.append(rows(1))
    site.branch()
    main.append(rows(3))
    assert site.duckdb("main@dev", "SELECT id FROM lake.default.b_t") == [(1,)]
    site.lake.branches.update("dev")
    site.duckdb("main@dev", "INSERT INTO lake.default.b_t VALUES (2)")
    site.promote()
    assert ids(site.lake.table("default.b_t").read()) == [1, 2, 3]


def test_i28_tables_with_branches_in_deltas_registry_are_read_and_written_by_every_client(site: Site) -> None:
    main = site.lake.create("default.b_t", rows())
    main.append(rows(1, 2))
    site.add_feature("b_t", "domainMetadata")
    site.branch(delta_registry=True)
    assert [branch.delta_registry for branch in site.lake.branches] == [True]
    site.dev.table("default.b_t").append(rows(10))
    site.duckdb("main@dev", "INSERT INTO lake.default.b_t VALUES (11)")
    assert sorted(site.duckdb("main@dev", "SELECT id FROM lake.default.b_t")) == [(1,), (2,), (10,), (11,)]
    site.promote()
    site.duckdb("main", "INSERT INTO lake.default.b_t VALUES (12)")
    main.append(rows(13))
    assert ids(main.read()) == site.planned("main", "default.b_t") == [1, 2, 10, 11, 12, 13]
    loaded = site.load("b_t")
    assert '"status":"published"' in loaded["metadata"]["domains"]["delta.tableBranching"]


def test_i28_an_updated_branch_is_read_and_written_by_every_client(site: Site) -> None:
    main = site.lake.create("default.b_t", rows())
    main.append(rows(1, 2))
    ice = site.iceberg().create_table("default.b_ice", rows().schema)
    site.branch()
    dev = site.dev.table("default.b_t")
    dev.append(rows(10))
    main.append(rows(3))
    ice.append(rows(7))
    assert site.lake.branches.update("dev").until_ms > 0
    assert site.lake.branches.changes("dev").conflicts == []
    dev = site.dev.table("default.b_t")
    assert ids(dev.read()) == site.planned("main@dev", "default.b_t") == [1, 2, 3, 10]
    assert sorted(site.duckdb("main@dev", "SELECT id FROM lake.default.b_t")) == [(1,), (2,), (3,), (10,)]
    assert ids(site.iceberg("main@dev").load_table("default.b_ice").scan().to_arrow()) == [7]
    dev.delete([("id", "=", 3)])
    site.iceberg("main@dev").load_table("default.b_ice").append(rows(8))
    site.promote()
    assert ids(site.lake.table("default.b_t").read()) == [1, 2, 10]
    assert ids(site.iceberg().load_table("default.b_ice").scan().to_arrow()) == [7, 8]
    site.iceberg().drop_table("default.b_ice")


def test_i28_a_refused_promotion_shows_nothing_and_leaves_the_branch(site: Site) -> None:
    main = site.lake.create("default.b_t", rows())
    main.append(rows(1, 2))
    site.branch()
    site.dev.table("default.b_t").delete(where=[("id", "=", 1)])
    main.append(rows(3))
    with pytest.raises(ApiError, match="got rows in version") as refusal:
        site.promote()
    assert refusal.value.type == "BranchConflict"
    assert site.lake.branches.changes("dev").conflicts == refusal.value.body["conflicts"]
    assert ids(main.read()) == [1, 2, 3]
    assert ids(site.dev.table("default.b_t").read()) == [2]


def test_i28_iceberg_tables_change_on_a_branch_and_become_the_catalogs_together(site: Site) -> None:
    main = site.iceberg()
    main.create_table("default.b_ice", rows().schema).append(rows(1))
    site.branch()
    dev = site.iceberg("main@dev")
    dev.load_table("default.b_ice").append(rows(2))
    dev.create_table("default.b_ice2", rows().schema).append(rows(9))
    assert ids(dev.load_table("default.b_ice").scan().to_arrow()) == [1, 2]
    assert ids(main.load_table("default.b_ice").scan().to_arrow()) == [1]
    assert not main.table_exists("default.b_ice2")
    done = site.promote()
    assert sorted((one["name"], one["change"]) for one in done.names) == [
        ("default.b_ice", "changed"),
        ("default.b_ice2", "created"),
    ]
    assert ids(main.load_table("default.b_ice").scan().to_arrow()) == [1, 2]
    assert ids(main.load_table("default.b_ice2").scan().to_arrow()) == [9]
    main.load_table("default.b_ice2").append(rows(8))
    for name in ("default.b_ice", "default.b_ice2"):
        main.drop_table(name)


def test_i28_an_iceberg_table_that_both_changed_is_a_conflict(site: Site) -> None:
    main = site.iceberg()
    main.create_table("default.b_ice", rows().schema).append(rows(1))
    site.branch()
    site.iceberg("main@dev").load_table("default.b_ice").append(rows(2))
    main.load_table("default.b_ice").append(rows(3))
    with pytest.raises(ApiError):
        site.promote()
    assert site.lake.branches.changes("dev").conflicts == ["'default.b_ice' was changed in the catalog, too"]
    assert ids(main.load_table("default.b_ice").scan().to_arrow()) == [1, 3]
    main.drop_table("default.b_ice")


def test_a_commit_to_a_table_of_a_promoted_branch_is_refused(site: Site) -> None:
    main = site.lake.create("default.b_t", rows())
    site.branch()
    dev = site.dev.table("default.b_t")
    dev.append(rows(1))
    site.promote()
    with pytest.raises((Conflict, Exception), match=r"dropped"):
        dev.append(rows(2))
    assert ids(main.read()) == [1]


def test_i10_an_iceberg_table_of_the_catalog_is_not_dropped_on_a_branch(site: Site) -> None:
    main = site.iceberg()
    main.create_table("default.b_ice", rows().schema).append(rows(1))
    site.branch()
    dev = site.iceberg("main@dev")
    for drop in (dev.drop_table, dev.purge_table):
        with pytest.raises(Exception, match=r"a branch does not drop these"):
            drop("default.b_ice")
    dev.create_table("default.b_ice2", rows().schema)
    answer = site.api.delete("/v1/catalogs/main/branches/dev")
    assert (answer.status_code, answer.json()["error"]["type"]) == (409, "NamespaceNotEmpty")
    dev.drop_table("default.b_ice2")
    assert site.api.delete("/v1/catalogs/main/branches/dev").status_code == 204
    assert ids(main.load_table("default.b_ice").scan().to_arrow()) == [1]
    main.drop_table("default.b_ice")


def test_a_branch_is_named_with_or_without_its_catalog(site: Site) -> None:
    for name in ("dev", "main@dev"):
        assert site.lake.branches.create(name).full_name == "main@dev"
        assert site.lake.branches.changes(name).tables == []
        assert site.lake.branches.renew(name, 3).name == "dev"
        site.lake.branches.drop(name)
    for name in ("a b", "main@main@dev", ""):
        with pytest.raises(ApiError, match=r"is not a valid name of a branch .*leave the catalog's name out"):
            site.lake.branches.create(name)
