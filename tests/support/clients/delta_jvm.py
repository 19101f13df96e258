"""Delta's own Unity clients in a JVM of their own, driven by py4j: the jars as they were released,
no Spark session.

Everything that Delta's Spark connector hands to these clients is made by Delta's own classes, too:
actions are read from the commit's JSON by Delta's parser, files are written by Delta's log store.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from tests.support.clients.engine import now_ms
from tests.support.fakes import delta
from tests.support.unity import metadata, protocol

if TYPE_CHECKING:
    from turnstile_server import Server

COMMIT = "io.delta.storage.commit"
UC = f"{COMMIT}.uccommitcoordinator"
WANTED = ("io.delta_delta-spark", "io.delta_delta-storage", "io.unitycatalog_unitycatalog-client")


def classpath() -> str:
    """PySpark's jars, and Delta's and Unity Catalog's out of the Ivy cache that ``make setup``
    fills."""
    found = [jar for home in Path.home().glob(".ivy2*") for jar in home.glob("jars/io.[du]*_*.jar")]
    missing = [name for name in WANTED if not any(jar.name.startswith(name) for jar in found)]
    if missing:
        pytest.fail(f"not in the Ivy cache: {', '.join(missing)}; run `make setup`")
    return ":".join(map(str, [*found, Path(pyspark.__file__).parent / "jars" / "*"]))


def start() -> JavaGateway:
    """A JVM that ends with this process."""
    (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    options = ["-XX:TieredStopAtLevel=1", "-Xmx256m", "-Dlog4j.rootLogger=OFF", "-Dlog4j2.level=OFF"]
    port = launch_gateway(jarpath=str(py4j), classpath=classpath(), javaopts=options, die_on_exit=True)
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_field=True))


def thrown(error: Py4JJavaError) -> str:
    """The simple class name of a client's exception."""
    return str(error.java_exception.getClass().getSimpleName())


class Client:
    """One of the two Unity clients, and the coordinator that Delta Spark puts over it, for one
    table."""

    def __init__(self, jvm: JavaGateway, url: str, token: str = "", *, preview: bool = False) -> None:
        self.view = jvm.jvm
        self._gateway = jvm
        self.url = url
        self.preview = preview
        self.conf = self.new("org.apache.hadoop.conf.Configuration")
        self.store = self.new("io.delta.storage.LocalLogStore", self.conf)
        settings = self.map({"uri": url, "token": token or "none", "appVersions.Delta": "4.4.0"})
        if preview:
            provider = self.cls("io.unitycatalog.client.auth.TokenProvider").create(
                self.map({"type": "static", "token": token or "none"})
            )
            self.uc = self.new(f"{UC}.UCTokenBasedRestClient", url, provider, self.map({"Delta": "4.4.0"}))
        else:
            self.uc = self.new(f"{UC}.UCDeltaTokenBasedRestClient", settings, None)
        self.coordinator = self.new(f"{UC}.UCCommitCoordinatorClient", self.map({}), self.uc)

    # -- Java values --------------------------------------------------------------------------------------------------

    def cls(self, name: str) -> Any:
        found = self.view
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def new(self, name: str, *args: Any) -> Any:
        return self.cls(name)(*args)

    def map(self, values: dict[str, str]) -> Any:
        made = self.new("java.util.HashMap")
        for key, value in values.items():
            made.put(key, value)
        return made

    def list(self, values: Iterable[Any] = ()) -> Any:
        made = self.new("java.util.ArrayList")
        for value in values:
            made.add(value)
        return made

    def maybe(self, value: Any = None) -> Any:
        optional = self.cls("java.util.Optional")
        return optional.empty() if value is None else optional.of(value)

    def maybe_long(self, value: int | None) -> Any:
        """An ``Optional<Long>``; py4j would make an ``Integer`` of a small number."""
        return self.maybe() if value is None else self.cls("java.util.stream.LongStream").of(value).boxed().findFirst()

    def action(self, action: dict[str, Any]) -> Any:
        """The action as Delta's own class."""
        return self.cls("org.apache.spark.sql.delta.actions.Action").fromJson(json.dumps(action))

    def identifier(self, name: str, schema: str = "default") -> Any:
        space = self._gateway.new_array(self.view.java.lang.String, 2)
        space[0] = "main"
        space[1] = schema
        return self.new(f"{COMMIT}.TableIdentifier", space, name)


class Table:
    """A table made by Delta's client: staged, version 0 written, registered."""

    def __init__(self, client: Client, name: str, *features: str, **config: str) -> None:
        self.adopt(client, name, client.uc.createStagingTable(client.identifier(name)), *features, **config)
        self.write_zero()
        kind = client.cls(f"{UC}.UCDeltaModels$TableType").valueOf("MANAGED")
        self.info = client.uc.createTable(
            self.uri, self.identifier, kind, client.action(self.metadata), client.action(self.protocol),
            client.list(), self.created, client.maybe(),
        )  # fmt: skip

    def adopt(self, client: Client, name: str, staged: Any, *features: str, **config: str) -> None:
        """Starts from the answer to the staging request."""
        self.client = client
        self.name = name
        self.identifier = client.identifier(name)
        self.id = staged.getTableId().toString()
        self.location = staged.getLocation()
        self.uri = client.cls("java.net.URI").create(self.location)
        self.log = client.new("org.apache.hadoop.fs.Path", self.location + "/_delta_log")
        self.metadata = metadata(**{"io.unitycatalog.tableId": self.id}, **config)
        self.protocol = protocol(*features)
        self.descriptor = client.new(
            f"{COMMIT}.TableDescriptor", self.log, client.maybe(self.identifier),
            client.map({"io.unitycatalog.tableId": self.id}),
        )  # fmt: skip

    @classmethod
    def existing(cls, client: Client, schema: str, name: str) -> Table:
        """A table that is there, however it came to be: as the client loads it."""
        table = cls.__new__(cls)
        table.client = client
        table.name = name
        table.identifier = client.identifier(name, schema)
        table.info = client.uc.loadTable(table.identifier)
        table.id = table.info.getTableId().toString()
        table.location = table.info.getLocation()
        table.uri = client.cls("java.net.URI").create(table.location)
        table.log = client.new("org.apache.hadoop.fs.Path", table.location + "/_delta_log")
        table.metadata = metadata(**{"io.unitycatalog.tableId": table.id})
        table.protocol = protocol()
        table.descriptor = client.new(
            f"{COMMIT}.TableDescriptor", table.log, client.maybe(table.identifier),
            client.map({"io.unitycatalog.tableId": table.id}),
        )  # fmt: skip
        return table

    def write_zero(self) -> None:
        """Version 0, through Delta's log store."""
        client = self.client
        self.created = now_ms()
        staged_commits = client.new("org.apache.hadoop.fs.Path", self.log, "_staged_commits")
        assert self.log.getFileSystem(client.conf).mkdirs(staged_commits)
        zero = delta.lines(delta.info(str(uuid.uuid4()), self.created, "CREATE TABLE"), self.protocol, self.metadata)
        path = client.new("org.apache.hadoop.fs.Path", self.log, f"{0:020d}.json")
        client.store.write(path, client.list(zero.decode().splitlines()).iterator(), False, client.conf)

    def commit(
        self, version: int, *actions: dict[str, Any], metadata: dict[str, Any] | None = None, txn: str | None = None
    ) -> Any:
        """Through the coordinator: it writes the staged file, proposes, and publishes in the
        background."""
        client = self.client
        info = delta.info(txn or str(uuid.uuid4()), now_ms())
        changed = [metadata] if metadata else []
        lines = delta.lines(info, *changed, *(actions or (delta.add(f"{uuid.uuid4()}.parquet"),)))
        old = client.action(self.metadata)
        same = client.action(self.protocol)
        new = client.action(metadata) if metadata else old
        updated = client.new(f"{COMMIT}.UpdatedActions", client.action(info), new, same, old, same)
        lines = client.list(lines.decode().splitlines()).iterator()
        return client.coordinator.commit(client.store, client.conf, self.descriptor, version, lines, updated)

    def commits(self, start: int | None = None, end: int | None = None) -> tuple[list[int], int]:
        """The answer of getCommits: versions not yet published, and the latest."""
        answer = self.client.coordinator.getCommits(self.descriptor, start, end)
        return [commit.getVersion() for commit in answer.getCommits()], answer.getLatestTableVersion()

    def staged_commit(self, version: int, txn: str | None = None) -> Any:
        """A staged append written by Delta's log store, as the bare client is given it."""
        client = self.client
        path = client.new("org.apache.hadoop.fs.Path", self.log, f"_staged_commits/{version:020d}.{uuid.uuid4()}.json")
        content = delta.append(txn or str(uuid.uuid4()), stamp := now_ms() + version)
        client.store.write(path, client.list(content.decode().splitlines()).iterator(), False, client.conf)
        return client.new(f"{COMMIT}.Commit", version, path.getFileSystem(client.conf).getFileStatus(path), stamp)

    def propose(self, commit: Any = None, backfilled: int | None = None) -> None:
        """The bare client, without the coordinator's retries: a commit, a claim of published
        versions, or both."""
        client = self.client
        none = client.maybe()
        known = client.maybe_long(backfilled)
        client.uc.commit(
            self.id, self.uri, self.identifier, client.maybe(commit), known, none, none, none, none, client.list(), none
        )  # fmt: skip


class Kernel:
    """Delta's Java kernel with its catalog client, as Delta's own V2 connector and Flink use it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._managed = client.new("io.delta.kernel.unitycatalog.UCCatalogManagedClient", client.uc)
        self._engine = client.cls("io.delta.kernel.defaults.engine.DefaultEngine").create(client.conf)
        self._utils = client.cls("io.delta.kernel.internal.util.Utils")

    def ids(self, full_name: str) -> list[int]:
        """The first column of all rows of ``<schema>.<table>``, whole numbers."""
        client = self._client
        schema, _, name = full_name.rpartition(".")
        info = client.uc.loadTable(client.identifier(name, schema))
        named = client.new("io.delta.kernel.unitycatalog.UCTableIdentifier", "main", schema, name)
        table_id = info.getTableId().toString()
        none = client.maybe()
        snapshot = self._managed.loadSnapshot(self._engine, table_id, info.getLocation(), named, none, none)
        scan = snapshot.getScanBuilder().build()
        state = scan.getScanState(self._engine)
        files = _each(self._utils.intoRows(scan.getScanFiles(self._engine)))
        return [id for file in files for id in self._of_file(state, file)]

    def _of_file(self, state: Any, file: Any) -> Iterator[int]:
        """Those of a file, less what its deletion vector has."""
        client = self._client
        status = client.cls("io.delta.kernel.internal.InternalScanFileUtils").getAddFileStatus(file)
        schema = client.cls("io.delta.kernel.internal.data.ScanStateRow").getPhysicalDataReadSchema(state)
        wanted = self._utils.singletonCloseableIterator(status)
        for part in _each(self._engine.getParquetHandler().readParquetFiles(wanted, schema, client.maybe())):
            batch = self._utils.singletonCloseableIterator(part.getData())
            logical = client.cls("io.delta.kernel.Scan").transformPhysicalData(self._engine, state, file, batch)
            for row in _each(self._utils.intoRows(logical)):
                yield row.getLong(0)


def _each(found: Any) -> Iterator[Any]:
    """The items of a Java iterator."""
    while found.hasNext():
        yield found.next()


def client(jvm: JavaGateway, server: Server, *, preview: bool = False) -> Client:
    return Client(jvm, server.url, server.token, preview=preview)
