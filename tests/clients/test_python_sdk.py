"""The official Python SDK (``unitycatalog-client`` 0.4.0): every method that the surface serves.

Its answers are models that refuse unknown enumerators and wrong types, so a wrong answer fails
inside the SDK.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from unitycatalog.client import models
from unitycatalog.client.exceptions import ApiException, BadRequestException, NotFoundException

from tests.support.clients.engine import Engine, Files, fresh, now_ms
from tests.support.clients.sdk import Sdk, connect
from tests.support.fakes import delta
from tests.support.unity import metadata, protocol

if TYPE_CHECKING:
    from turnstile_server import Server

Story = Callable[[Sdk], Coroutine[Any, Any, None]]
COLUMN = models.ColumnInfo(
    name="id", type_text="bigint", type_name=models.ColumnTypeName.LONG, position=0, nullable=True,
    type_json='{"name":"id","type":"long","nullable":true,"metadata":{}}',
)  # fmt: skip


@pytest.fixture
def run(server: Server) -> Callable[[Story], None]:
    """Runs a story against the server."""

    async def tell(story: Story) -> None:
        async with connect(server) as session:
            await story(Sdk(session))

    return lambda story: asyncio.run(tell(story))


async def refused(status: int, call: Coroutine[Any, Any, Any]) -> str:
    """The ``error_code`` of a call that must fail with this status."""
    with pytest.raises(ApiException) as caught:
        await call
    assert caught.value.status == status, caught.value
    return str(json.loads(caught.value.body)["error_code"])


def test_catalogs_live_their_life(run: Callable[[Story], None]) -> None:
    async def story(sdk: Sdk) -> None:
        name = fresh("cat")
        made = await sdk.catalogs.create_catalog(models.CreateCatalog(name=name, comment="one", properties={"a": "b"}))
        assert (made.name, made.comment, made.properties) == (name, "one", {"a": "b"})
        assert await sdk.catalogs.get_catalog(name) == made
        assert name in [one.name for one in (await sdk.catalogs.list_catalogs()).catalogs]
        changed = await sdk.catalogs.update_catalog(name, models.UpdateCatalog(comment="two"))
        assert (changed.comment, changed.id) == ("two", made.id)
        again = sdk.catalogs.create_catalog(models.CreateCatalog(name=name))
        assert await refused(409, again) == "CATALOG_ALREADY_EXISTS"
        await sdk.catalogs.delete_catalog(name)
        assert await refused(404, sdk.catalogs.get_catalog(name))

    run(story)


def test_schemas_live_their_life(run: Callable[[Story], None]) -> None:
    async def story(sdk: Sdk) -> None:
        name = fresh("s")
        full = f"main.{name}"
        made = await sdk.schemas.create_schema(models.CreateSchema(name=name, catalog_name="main", comment="one"))
        assert (made.full_name, made.comment) == (full, "one")
        assert await sdk.schemas.get_schema(full) == made
        changed = await sdk.schemas.update_schema(full, models.UpdateSchema(comment="two", properties={"a": "b"}))
        assert (changed.comment, changed.properties, changed.schema_id) == ("two", {"a": "b"}, made.schema_id)
        await sdk.schemas.delete_schema(full)
        assert await refused(404, sdk.schemas.get_schema(full))

    run(story)


def test_i9_a_schema_gets_another_name_with_what_is_in_it(run: Callable[[Story], None], tmp_path: Path) -> None:
    async def story(sdk: Sdk) -> None:
        old = fresh("s")
        new = fresh("S")
        schema = await sdk.schemas.create_schema(models.CreateSchema(name=old, catalog_name="main", comment="one"))
        table = await sdk.tables.create_table(models.CreateTable(
            name="t", catalog_name="main", schema_name=old, table_type=models.TableType.EXTERNAL,
            data_source_format=models.DataSourceFormat.DELTA, columns=[COLUMN], storage_location=tmp_path.as_uri(),
        ))  # fmt: skip
        change = models.UpdateSchema(new_name=new, comment="two")
        renamed = await sdk.schemas.update_schema(f"main.{old}", change)
        assert (renamed.full_name, renamed.comment, renamed.schema_id) == (f"main.{new}", "two", schema.schema_id)
        assert await refused(404, sdk.schemas.get_schema(f"main.{old}"))
        assert (await sdk.tables.get_table(f"main.{new}.t")).table_id == table.table_id
        taken = sdk.schemas.update_schema(f"main.{new}", models.UpdateSchema(new_name="DEFAULT"))
        assert await refused(409, taken) == "SCHEMA_ALREADY_EXISTS"
        await sdk.schemas.delete_schema(f"main.{new}", force=True)

    run(story)


def test_listings_come_in_pages(run: Callable[[Story], None]) -> None:
    async def story(sdk: Sdk) -> None:
        catalog = fresh("paged")
        await sdk.catalogs.create_catalog(models.CreateCatalog(name=catalog))
        names = [f"s{number}" for number in range(5)]
        for name in names:
            await sdk.schemas.create_schema(models.CreateSchema(name=name, catalog_name=catalog))
        seen = []
        token = None
        while True:
            page = await sdk.schemas.list_schemas(catalog, max_results=2, page_token=token)
            assert len(page.schemas) <= 2
            seen += [schema.name for schema in page.schemas]
            token = page.next_page_token
            if not token:
                break
        assert sorted(seen) == names
        assert await refused(400, sdk.catalogs.delete_catalog(catalog))
        await sdk.catalogs.delete_catalog(catalog, force=True)

    run(story)


def test_external_tables_live_their_life(run: Callable[[Story], None], tmp_path: Path) -> None:
    async def story(sdk: Sdk) -> None:
        name = fresh("ext")
        full = f"main.default.{name}"
        asked = models.CreateTable(
            name=name, catalog_name="main", schema_name="default", table_type=models.TableType.EXTERNAL,
            data_source_format=models.DataSourceFormat.DELTA, columns=[COLUMN], storage_location=tmp_path.as_uri(),
            comment="one", properties={"a": "b"},
        )  # fmt: skip
        made = await sdk.tables.create_table(asked)
        assert (made.storage_location, made.comment, made.properties) == (tmp_path.as_uri(), "one", {"a": "b"})
        found = await sdk.tables.get_table(full)
        assert [column.type_name for column in found.columns] == [models.ColumnTypeName.LONG]
        assert full.split(".")[2] in [one.name for one in (await sdk.tables.list_tables("main", "default")).tables]
        keys = models.GenerateTemporaryTableCredential(table_id=made.table_id, operation=models.TableOperation.READ)
        vended = await sdk.keys.generate_temporary_table_credentials(keys)
        assert vended.aws_temp_credentials is None, "local files need no keys"
        await sdk.tables.delete_table(full)
        assert await refused(404, sdk.tables.get_table(full))

    run(story)


def append(files: Files, txn: str) -> models.DeltaCommitInfo:
    """A staged append that wants to be version 1."""
    ict = now_ms() + 1
    file = f"{1:020d}.{txn}.json"
    content = delta.lines(delta.info(txn, ict), files.parquet(range(3)))
    modified = files.put(f"_delta_log/_staged_commits/{file}", content)
    return models.DeltaCommitInfo(
        version=1, timestamp=ict, file_name=file, file_size=len(content), file_modification_timestamp=modified
    )


def test_a_managed_table_is_made_and_committed_to_the_older_way(run: Callable[[Story], None]) -> None:
    """As connectors before 0.5 did: staging table, version 0, ``POST /tables``, preview commits."""

    async def story(sdk: Sdk) -> None:
        name = fresh("old")
        place = {"name": name, "catalog_name": "main", "schema_name": "default"}
        staged = await sdk.tables.create_staging_table(models.CreateStagingTable(**place))
        files = Files(staged.staging_location)
        config = {"io.unitycatalog.tableId": staged.id}
        zero = delta.lines(delta.info("zero", now_ms(), "CREATE TABLE"), protocol(), metadata(**config))
        files.put(f"_delta_log/{0:020d}.json", zero)
        asked = models.CreateTable(
            **place, table_type=models.TableType.MANAGED, data_source_format=models.DataSourceFormat.DELTA,
            columns=[COLUMN], storage_location=staged.staging_location, properties=config,
        )  # fmt: skip
        made = await sdk.tables.create_table(asked)
        assert (made.table_id, made.table_type) == (staged.id, models.TableType.MANAGED)

        at = {"table_id": made.table_id, "table_uri": made.storage_location}
        await sdk.commits.commit(models.DeltaCommit(**at, commit_info=append(files, "one")))
        # The SDK's transport drops the body of a GET, so the request says nothing; no server could
        # answer it.
        call = sdk.commits.get_commits(models.DeltaGetCommits(**at, start_version=0))
        assert await refused(400, call) == "INVALID_ARGUMENT"
        late = models.DeltaCommit(**at, commit_info=append(files, "two"))
        assert await refused(409, sdk.commits.commit(late)) == "COMMIT_VERSION_CONFLICT"
        await sdk.tables.delete_table(f"main.default.{name}")

    run(story)


def test_a_table_of_the_delta_api_is_seen_whole(run: Callable[[Story], None], server: Server) -> None:
    table = Engine(server).create().append(range(3))

    async def story(sdk: Sdk) -> None:
        found = await sdk.tables.get_table(f"main.default.{table.name}")
        assert (found.table_id, found.storage_location) == (table.id, table.location)
        assert found.properties["delta.feature.catalogManaged"] == "supported"
        keys = models.GenerateTemporaryTableCredential(table_id=table.id, operation=models.TableOperation.READ_WRITE)
        assert (await sdk.keys.generate_temporary_table_credentials(keys)).aws_temp_credentials is None

    run(story)


def test_keys_for_a_place_of_a_table_are_not_given(
    run: Callable[[Story], None], server: Server, tmp_path: Path
) -> None:
    """I12: who may write a path could write any table's log."""
    table = Engine(server).create()

    async def story(sdk: Sdk) -> None:
        asked = {"url": table.location, "operation": models.PathOperation.PATH_READ_WRITE}
        call = sdk.keys.generate_temporary_path_credentials(models.GenerateTemporaryPathCredential(**asked))
        assert await refused(403, call) == "PERMISSION_DENIED"
        asked = {"url": (tmp_path / "new").as_uri(), "operation": models.PathOperation.PATH_CREATE_TABLE}
        await sdk.keys.generate_temporary_path_credentials(models.GenerateTemporaryPathCredential(**asked))

    run(story)


def test_keys_for_a_place_on_s3_are_of_a_session_that_ends(vending_server: Server) -> None:
    async def story() -> None:
        async with connect(vending_server) as session:
            asked = models.GenerateTemporaryPathCredential(
                url=f"s3://lake/elsewhere/{fresh()}", operation=models.PathOperation.PATH_CREATE_TABLE
            )
            vended = await Sdk(session).keys.generate_temporary_path_credentials(asked)
            assert vended.aws_temp_credentials.session_token
            assert now_ms() < vended.expiration_time < now_ms() + 3_700_000

    asyncio.run(story())


def test_permissions_are_given_shown_and_taken_back(run: Callable[[Story], None], server: Server) -> None:
    table = f"main.default.{Engine(server).create().name}"
    kind = models.SecurableType.TABLE
    select = models.Privilege.SELECT
    modify = models.Privilege.MODIFY

    async def story(sdk: Sdk) -> None:
        async def change(add: list[models.Privilege], remove: list[models.Privilege]) -> models.PermissionsList:
            one = models.PermissionsChange(principal="ada@example.org", add=add, remove=remove)
            return await sdk.grants.update(kind, table, models.UpdatePermissions(changes=[one]))

        async def held() -> dict[str, list[models.Privilege]]:
            found = await sdk.grants.get(kind, table, principal="ada@example.org")
            return {one.principal: sorted(one.privileges) for one in found.privilege_assignments}

        await change([select, modify], [])
        assert await held() == {"ada@example.org": [modify, select]}
        await change([], [modify])
        assert await held() == {"ada@example.org": [select]}

    run(story)


def test_the_metastore_has_an_id(run: Callable[[Story], None]) -> None:
    async def story(sdk: Sdk) -> None:
        one = await sdk.metastores.summary()
        two = await sdk.metastores.summary()
        assert one.metastore_id == two.metastore_id

    run(story)


def test_errors_are_the_sdks_own_exceptions(run: Callable[[Story], None]) -> None:
    async def story(sdk: Sdk) -> None:
        with pytest.raises(NotFoundException):
            await sdk.tables.get_table("main.default.unknown")
        with pytest.raises(BadRequestException):
            await sdk.schemas.create_schema(models.CreateSchema(name="not a name", catalog_name="main"))

    run(story)
