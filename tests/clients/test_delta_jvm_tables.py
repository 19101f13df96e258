"""Delta 4.4.0's own clients in the JVM, unmodified: tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from py4j.protocol import Py4JJavaError

from tests.support.clients import delta_jvm
from tests.support.clients.delta_jvm import UC, Client, Table, thrown
from tests.support.clients.engine import B, Engine, fresh

if TYPE_CHECKING:
    from turnstile_server import Server


@pytest.fixture
def client(jvm: Any, server: Server) -> Client:
    return delta_jvm.client(jvm, server)


def test_a_staged_table_asks_for_what_the_client_must_write(client: Client) -> None:
    staged = client.uc.createStagingTable(client.identifier(fresh()))
    required = staged.getRequiredProtocol()
    suggested = staged.getSuggestedProtocol()
    assert "catalogManaged" in required.getWriterFeatures() and "inCommitTimestamp" in required.getWriterFeatures()
    assert "rowTracking" in suggested.getWriterFeatures()
    assert staged.getRequiredProperties()["io.unitycatalog.tableId"] == staged.getTableId().toString()
    assert staged.getSuggestedProperties()["delta.columnMapping.maxColumnId"] is None, "null: the engine makes it up"


def test_a_created_table_is_what_its_version_0_says(client: Client) -> None:
    table = Table(client, fresh())
    loaded = client.uc.loadTable(table.identifier)
    for info in (table.info, loaded):
        assert info.getTableId().toString() == table.id
        assert info.getLocation() == table.location
        assert info.getTableType().toString() == "MANAGED"
        assert info.getMetadata().getConfiguration()["delta.feature.catalogManaged"] == "supported"
        assert '"name":"id"' in info.getMetadata().getSchemaString().replace(" ", "")
        assert not info.getStorageProperties(), "local files need no keys"


def test_an_unknown_table_is_no_such_table(client: Client) -> None:
    with pytest.raises(Py4JJavaError) as caught:
        client.uc.loadTable(client.identifier(fresh("unknown")))
    assert thrown(caught.value) == "NoSuchTableException"


def test_a_name_that_is_taken_is_refused_when_staging(client: Client) -> None:
    table = Table(client, fresh())
    with pytest.raises(Py4JJavaError) as caught:
        client.uc.createStagingTable(table.identifier)
    assert "HTTP 409" in str(caught.value.java_exception.getMessage())


def test_a_table_that_is_not_delta_makes_the_client_fall_back(client: Client, server: Server) -> None:
    name = fresh("csv")
    asked = {"name": name, "catalog_name": "main", "schema_name": "default", "table_type": "EXTERNAL",
             "data_source_format": "CSV", "columns": [], "storage_location": f"file://{server.home}/csv/{name}",
             "properties": {}}  # fmt: skip
    Engine(server).ask("POST", f"{B}/tables", asked)
    with pytest.raises(Py4JJavaError) as caught:
        client.uc.loadTable(client.identifier(name))
    assert thrown(caught.value) == "UnsupportedTableFormatException"


def test_a_report_of_metrics_is_taken(client: Client) -> None:
    table = Table(client, fresh())
    one = client.maybe_long(1)
    report = client.new(
        f"{UC}.UCDeltaModels$CommitReport", 1, 0, 10, 0, one, client.maybe(), client.maybe(), client.maybe()
    )
    client.uc.reportMetrics(table.id, table.identifier, report)


@pytest.mark.parametrize("preview", [False, True])
def test_the_metastore_has_an_id(jvm: Any, server: Server, preview: bool) -> None:
    one, other = (delta_jvm.client(jvm, server, preview=preview).uc.getMetastoreId() for _ in range(2))
    assert one == other


def test_the_kernels_create_registers_a_table(client: Client, server: Server) -> None:
    """``finalizeCreate`` is what the Java kernel and Flink call; columns come as the older
    API's."""
    staged = client.uc.createStagingTable(client.identifier(name := fresh()))
    table = Table.__new__(Table)
    table.adopt(client, name, staged)
    table.write_zero()
    column = client.new(
        f"{UC}.UCClient$ColumnDef",
        "id",
        "LONG",
        "bigint",
        '{"name":"id","type":"long","nullable":true,"metadata":{}}',
        True,
        0,
    )
    client.uc.finalizeCreate(
        name, "main", "default", table.location, client.list([column]), client.action(table.protocol),
        client.action(table.metadata).getConfiguration(), table.created, client.list(),
    )  # fmt: skip
    loaded = client.uc.loadTable(table.identifier)
    assert loaded.getTableId().toString() == table.id
    assert table.commit(1).getCommit().getVersion() == 1


def test_the_kernel_reads_a_table_whose_commits_are_not_published(jvm: Any, held_server: Server) -> None:
    """The Java kernel's catalog client, as Delta's own V2 connector and Flink use it: snapshot,
    then publish."""
    client = delta_jvm.client(jvm, held_server)
    engine = Engine(held_server).create().append(range(3), range(3, 5)).append_inline(range(5, 6))
    assert engine.files.published() == [0]
    kernel = client.new("io.delta.kernel.unitycatalog.UCCatalogManagedClient", client.uc)
    work = client.cls("io.delta.kernel.defaults.engine.DefaultEngine").create(client.conf)
    name = client.new("io.delta.kernel.unitycatalog.UCTableIdentifier", "main", "default", engine.name)
    none = client.maybe()
    snapshot = kernel.loadSnapshot(work, engine.id, engine.location, name, none, none)
    assert snapshot.getVersion() == 3
    snapshot.publish(work)
    assert engine.files.published() == [0, 1, 2, 3]


def test_i12_a_table_on_s3_comes_with_keys_for_hadoop(jvm: Any, vending_server: Server) -> None:
    """Of a session, and they open the place: the client hands them to S3A as they are."""
    client = delta_jvm.client(jvm, vending_server)
    staged = client.uc.createStagingTable(client.identifier(fresh()))
    given = staged.getStorageProperties()
    names = ("fs.s3a.init.access.key", "fs.s3a.init.secret.key", "fs.s3a.init.session.token")
    id, secret, token = (given[name] for name in names)
    s3 = boto3.client("s3", endpoint_url=vending_server.s3_endpoint, region_name="us-east-1", aws_access_key_id=id,
                      aws_secret_access_key=secret, aws_session_token=token)  # fmt: skip
    bucket, _, prefix = staged.getLocation().removeprefix("s3://").partition("/")
    s3.put_object(Bucket=bucket, Key=f"{prefix}/file", Body=b"1")
    assert s3.get_object(Bucket=bucket, Key=f"{prefix}/file")["Body"].read() == b"1"


def test_names_with_odd_characters_arrive_whole(client: Client) -> None:
    """Java's client percent-encodes path segments; some other clients do not."""
    table = Table(client, fresh("t@x-"))
    assert client.uc.loadTable(table.identifier).getTableId().toString() == table.id
    assert table.commit(1).getCommit().getVersion() == 1
