"""Every path of every function, run once on tables and buckets of an emulator: each operation of
the API, the records of the stream, each schedule with its own input, and the events that operators
send.

Two runs are two paths if the function asks for other calls of AWS in them. Where a path needs a
long history (a transaction over more than a hundred tables, a log behind a restored table), the
test makes the history under a name that is not recorded.
"""

from __future__ import annotations

import base64
import json
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.support.access import realm as access
from tests.support.access.operations import OPERATIONS, Ask
from tests.support.auth import deployment as auth
from tests.support.delta_table import Table, inline_request, restored, table_id
from tests.support.fakes import delta
from tests.support.fakes.deliveries import message
from tests.support.faults import before_next_write
from tests.support.functions import SCHEDULED, Context, Function, Http, function
from tests.support.gc import stage_table
from tests.support.groups import groups as group_ratifier
from tests.support.iceberg import client as iceberg_client
from tests.support.iceberg import realm as iceberg_realm
from tests.support.iceberg.client import SALES, SCHEMA, T1, Iceberg, at_ref, set_properties, set_ref
from tests.support.iceberg.manifests import Lake
from tests.support.iceberg.small_manifests import SmallManifests
from tests.support.roles.recorder import Recorder
from tests.support.roles.resolved import Resolved
from tests.support.roles.world import StoredWorld
from tests.support.store.backends import Backend
from tests.support.unity import B, metadata, protocol
from turnstile.adapters import clients
from turnstile.adapters.credentials import open_credential_vendor
from turnstile.adapters.dynamo.models import model_of, to_item
from turnstile.adapters.event_targets import open_targets
from turnstile.adapters.follow_up_actions import open_actions
from turnstile.api.event_stream import DELIVER, FULL
from turnstile.api.event_stream import OLD_MS as OLD_EVENTS_MS
from turnstile.api.http.handler import App
from turnstile.api.iceberg.errors import DELTA_PREFIX
from turnstile.api.light_work import ALL, EVERY
from turnstile.catalog.core.policies import Level, policy_of
from turnstile.catalog.reader import CatalogReader
from turnstile.delta.core.decide import Ratified
from turnstile.delta.proposals import CommitRequest, GroupRequest
from turnstile.delta.publish import Publisher
from turnstile.iceberg.core.expiry import EXPIRE, MAX_SNAPSHOT_AGE, REMOVE
from turnstile.iceberg.core.files.manifest_rewrite import MIN_COUNT, REWRITE
from turnstile.store.core.names import published_path, staged_path

REALM: Final = "test"
DAY_MS: Final = 86_400_000
LONG: Final = Context(900_000)
NS: Final = "/v1/catalogs/main/namespaces/sales"
REGIONS: Final = {
    "type": "struct",
    "fields": [
        {"name": name, "type": type, "nullable": True, "metadata": {}}
        for name, type in (("id", "long"), ("region", "string"), ("note", "string"))
    ],
}
"""The columns of a table with partitions."""
LARGE: Final = 101
"""Tables of a group that is more than one transaction."""


class Stopped(BaseException):
    """A process dies."""


class Paths:
    """Runs paths; ``recorder`` records their calls. ``stack`` has the values that the template
    makes of its parameters."""

    def __init__(
        self, tables: Backend, files: Backend, recorder: Recorder, stack: Resolved, patch: pytest.MonkeyPatch
    ) -> None:
        self._tables = tables
        self._files = files
        self._recorder = recorder
        self._stack = stack
        self._patch = patch
        self.failed: dict[str, str] = {}
        self.ran: list[str] = []
        recorder.install(patch)
        for module in (access, iceberg_client, iceberg_realm, auth):
            patch.setattr(module, "fake_world", self.world)
        answer = App.answer

        def answered(app: App, incoming: Any) -> Any:
            name: str = app._telemetry._logger.service  # type: ignore[attr-defined]
            with recorder.acting(f"{name.capitalize()}Function"):
                return answer(app, incoming)

        patch.setattr(App, "answer", answered)

    def world(self, _realm: str = "") -> Any:
        """A world with nothing in it."""
        made = StoredWorld.on(self._tables, self._files, REALM)
        made.refs.empty()  # type: ignore[attr-defined]
        return made

    @contextmanager
    def path(self, name: str) -> Iterator[None]:
        """Runs one path. Its exception is kept, so that the others run."""
        self.ran.append(name)
        try:
            yield
        except Exception as error:  # of whatever a path runs into
            self.failed[name] = repr(error)[:600]

    def vendor(self, world: Any) -> Any:
        """Vends keys as the deployment does."""
        role = self._stack.parameters["VendingRole"]
        key = self._stack.parameters["LakeKey"]
        return open_credential_vendor(world.clock, world.ids, role=role, key=key)

    def all(self) -> None:
        """All of them; the paths that collect come first, while there is little to look at."""
        for run in (
            self.collect, self.collect_iceberg, self.sweep, self.cold_starts, self.operations, self.awaited,
            self.large_groups, self.large_commits, self.branches,
            self.iceberg, self.iceberg_merges, self.ingest, self.rows, self.tokens, self.publish, self.events,
            self.maintain, self.index, self.large_objs,
        ):  # fmt: skip
            with self.path(run.__name__):
                run()

    # -- the API ------------------------------------------------------------------------------------------------------

    def cold_starts(self) -> None:
        """Each function reads its secrets, from either kind of place."""
        for name in ("commit", "catalog", "iceberg", "tokens", "plans", "branches", "ingest", "authorizer"):
            with self._recorder.acting(f"{name.capitalize()}Function"):
                clients.read_secret(self._stack.parameters["Secret"])
        reading = ("commit", "catalog", "iceberg", "publish", "maintain", "plans", "branches", "ingest", "rows")
        for name in (*reading, "sweep", "collect"):
            with self._recorder.acting(f"{name.capitalize()}Function"):
                clients.read_secret(self._stack.parameters["LakeSecret"])

    def operations(self) -> None:
        """Every operation of the functions commit, catalog, plans and ingest.

        A realm serves one operation after the other, until one is refused after what others did: it
        has a realm of its own then.
        """
        realm = access.Realm()
        for name, operation in OPERATIONS.items():
            with self.path(f"operation {name}"):
                try:
                    self._operation(realm, name, operation)
                except AssertionError:
                    realm = access.Realm()
                    self._operation(realm, name, operation)
        with self.path("a commit whose staged file is not there"):
            realm = access.Realm()
            body = {"version": 2, "staged": {"name": f"{2:020d}.aaaa.json", "size": 10, "modified": 1}}
            answer = realm.ask("root", "POST", f"/v1/tables/{realm.table}/commits", body)
            assert 400 <= answer.status < 500, answer.text
        with self.path("a transaction that only reads a table"):
            realm = access.Realm()
            other = realm.create("t8")
            body = {
                "id": str(uuid.uuid4()),
                "commits": [{"table_id": realm.table, **realm.append(2, "mine")}],
                "reads": [{"table_id": other, "version": 0}],
            }
            answer = realm.ask("root", "POST", "/v1/transactions", body)
            assert answer.status < 300, answer.text

    def _operation(self, realm: access.Realm, name: str, operation: Callable[[access.Realm], Ask]) -> None:
        """One operation, by a user without rights and by an admin."""
        realm._vendor = self.vendor(realm.world)
        realm.open()
        if name == "import":
            content = delta.version_zero("outside", realm.world.clock.now_ms())
            realm.world.storages.open("s3://other/free").put_if_absent(published_path(0), content)
        asked = operation(realm)
        realm.ask("bob", asked.method, asked.path, asked.body, **asked.query)  # not an admin: rights are read
        answer = realm.ask("root", asked.method, asked.path, asked.body, **asked.query)
        assert answer.status < 300, answer.text

    def awaited(self) -> None:
        """A table that was registered before its version 0, which came since: whichever request
        names it, its function adopts it."""
        delta_v1 = f"{B}/delta/v1/catalogs/main/schemas/sales/tables/a1"
        old = f"{B}/tables/main.sales.a1"
        own = "/v1/catalogs/main/namespaces/sales/tables/a1"
        preview = f"{B}/delta/preview/commits"
        for method, path in (
            ("GET", own), ("GET", delta_v1), ("HEAD", delta_v1), ("GET", preview), ("GET", old),
            ("POST", f"{B}/tables"),
            ("GET", f"{own}/maintenance-policy"), ("GET", f"{delta_v1}/credentials"), ("POST", f"{own}/rows"),
            ("BATCH", "main.sales.a1"),
        ):  # fmt: skip
            realm = access.Realm()
            realm._vendor = self.vendor(realm.world)
            realm.open()
            names = {"name": "a1", "catalog_name": "main", "schema_name": "sales"}
            staged = realm.must("POST", f"{B}/staging-tables", names).json
            request = {
                **names, "table_type": "MANAGED", "data_source_format": "DELTA", "columns": [],
                "storage_location": staged["staging_location"],
            }  # fmt: skip
            with self.path(f"a table that is awaited, then {method} {path.replace(staged['id'], '{id}')}"):
                realm.must("POST", f"{B}/tables", request)
                if method == "BATCH":
                    realm.grant("catalog", "main", "rows", "USE CATALOG", "USE SCHEMA", "MODIFY")
                    assert self._deliver(message("1", [{"id": 1}], table=path)) == ["1"], "it has no version yet"
                if path.endswith("/rows"):
                    assert realm.ask("root", method, path, [{"id": 1}]).status == 409, "it has no version yet"
                content = delta.lines(
                    delta.info("zero", realm.world.clock.now_ms()), protocol(),
                    metadata(**{"io.unitycatalog.tableId": staged["id"]})
                )  # fmt: skip
                realm.world.storages.open(staged["staging_location"]).put_if_absent(published_path(0), content)
                query = {"table_id": staged["id"], "start_version": "0"} if path == preview else {}
                query |= {"operation": "READ"} if path.endswith("/credentials") else {}
                body = [{"id": 1}] if path.endswith("/rows") else request if method == "POST" else None
                if method == "BATCH":
                    assert self._deliver(message("1", [{"id": 1}], table=path)) == []
                else:
                    answer = realm.ask("root", method, path, body, **query)
                    assert answer.status < 300, answer.text
                row = realm.world.refs.read(realm.world.space.table(staged["id"]))
                assert row is not None and row["state"] == "active", "it was not adopted"

    def large_commits(self) -> None:
        """A commit so large that it is copied in parts, by each function that publishes; the file
        is there when it is done."""
        for module in ("store.ports", "delta.commits", "adapters.s3"):
            self._patch.setattr(f"turnstile.{module}.PIECE_BYTES", 16 * 1024)
        for name in ("catalog", "publish", "sweep"):
            realm = access.Realm()
            world = realm.world
            table = Table(realm.world, table_id(1))
            now = world.clock.now_ms()
            content = delta.lines(delta.info("large", now), *(delta.add(f"{n}.parquet") for n in range(2_000)))
            staged = table.staged_name(1, 1)
            table.storage.put_if_absent(staged_path(staged), content)
            answer = table.ratifier.commit(CommitRequest(table.id, 1, staged=staged, size=len(content)))
            assert isinstance(answer, Ratified), answer
            self._recorder.overtaken["CompleteMultipartUpload"] = lambda table=table, content=content: table.put(
                published_path(1), content
            )
            with self.path(f"{name}: a large commit that another process has published meanwhile"):
                if name == "publish":
                    self._publish(world, table)
                elif name == "sweep":
                    self._gc(world, "sweep", {"full": True})
                else:
                    answered = realm.ask("root", "POST", f"/v1/tables/{table.id}/publish")
                    assert answered.status < 300, answered.text
                assert table.head.floor == 1 and not self._recorder.overtaken
        app = Function("maintain")
        world = self.world()
        table = Table(world, table_id(1))
        for number in range(10):
            now = world.clock.now_ms()
            added = (delta.add(f"{number}-{n}-{uuid.uuid4()}.parquet") for n in range(100))
            content = delta.lines(delta.info(f"c{number}", now), *added)
            answer = table.ratifier.commit(CommitRequest(table.id, number + 1, content=content))
            assert isinstance(answer, Ratified), answer
            Publisher(world).publish(table.id)
        app.use_world(world)
        self._recorder.overtaken["CompleteMultipartUpload"] = lambda: None
        with self.path("maintain: a large checkpoint that another process has written"):
            with self._recorder.acting("MaintainFunction"):
                app.maintain(EVERY, LONG)
            assert not self._recorder.overtaken, "no file was written in parts"

    def large_groups(self) -> None:
        """Commits a transaction over more tables than DynamoDB takes at once, and one with a
        coordinator that died half-way."""
        realm = access.Realm()
        tables = [Table(realm.world, table_id(number)) for number in range(LARGE)]
        commits = [{"table_id": each.id, **realm.append(1, f"t-{each.id}")} for each in tables]
        with self.path("large group"):
            answer = realm.ask("root", "POST", "/v1/transactions", {"id": str(uuid.uuid4()), "commits": commits})
            assert answer.status < 300, answer.text
        for name, act in self._after_half_a_group():
            with self.path(f"half a large group, then {name}"):
                act()

    def _after_half_a_group(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Runs the functions that find tables with entries of a group without a coordinator."""
        for name in ("commit", "ingest", "publish", "sweep", "collect"):
            world = self.world()
            tables = [Table(world, table_id(number)) for number in range(3)]
            group = GroupRequest(str(uuid.uuid4()), tuple(inline_request(each, 1, f"t-{each.id}") for each in tables))

            self._stop_after(1 if name == "ingest" else 2, world, group)
            if name == "commit":
                app = function("commit")
                app.use_world(world)
                content = delta.append("later", world.clock.now_ms()).decode()
                body = {"version": None, "inline": {"content": content}, "base": 0}
                yield name, lambda app=app, body=body: Http(app.app).post(f"/v1/tables/{table_id(0)}/commits", body)
            elif name == "ingest":
                app = function("ingest")
                app.use_world(world)
                world.clock.now += DAY_MS  # the group is past its deadline
                yield name, lambda app=app: Http(app.app).post(f"/v1/tables/{table_id(0)}/rows", [{"id": 1}])
            elif name == "publish":
                yield name, lambda world=world, tables=tables: self._publish(world, *tables)
            elif name == "sweep":
                yield name, lambda world=world: self._gc(world, "sweep", {"full": True})
            else:
                world.clock.now += 40 * DAY_MS
                yield name, lambda world=world: self._gc(world, "collect", SCHEDULED)

    def _stop_after(self, transactions: int, world: Any, group: GroupRequest) -> None:
        """The coordinator dies after this many transactions. One: some tables have their entry, and
        the group is open. Two: all have it."""
        transact = world.refs.transact
        left = [transactions]

        def until_then(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Stopped
            return transact(*arguments)

        world.refs.transact = until_then
        try:
            with suppress(Stopped):
                group_ratifier(world, part=2).commit(group)
        finally:
            world.refs.transact = transact

    def iceberg(self) -> None:
        """Every operation of the Iceberg function."""
        for method, path, body in iceberg_realm.OPERATIONS:
            with self.path(f"iceberg {method} {path}"):
                realm = iceberg_realm.Realm()
                iceberg_realm.guarded().use_world(
                    realm.world, vendor=self.vendor(realm.world), lake_root="file:///lake"
                )
                route, _, query = path.partition("?")
                answer = realm.ask("root", method, route, body, query=query)
                assert answer.status < 500, answer.text

        with self.path("iceberg: a scan of a Delta table"):
            delta_realm = access.Realm()
            iceberg_realm.guarded().use_world(delta_realm.world, lake_root="file:///lake")
            http = Http(iceberg_realm.guarded().app, "root")
            answer = http.post(f"{DELTA_PREFIX}/v1/main/namespaces/sales/tables/t1/plan", {})
            assert answer.status == 200, answer.text

    def iceberg_merges(self) -> None:
        """Appends that are merged, a key of a repeated request, purges, clones and Delta tables
        read as Iceberg ones."""
        api = Iceberg()
        api.create("t1")
        small = SmallManifests(api)
        for _ in range(3):
            small.append()
        with self.path("iceberg: a repeated request"):
            key = {"Idempotency-Key": str(uuid.uuid4())}
            for _ in range(2):
                assert api.commit(set_properties(a="1"), headers=key).status == 200
        with self.path("iceberg: an append that lost is merged"):
            self._merge(api)
        with self.path("iceberg: keys"):
            api.app.use_world(api.world, vendor=self.vendor(api.world), lake_root="s3://lake")
            api.create("k1")
            assert api.get(f"{SALES}/tables/k1/credentials").status == 200
        with self.path("iceberg: a table that is registered again"):
            named = api.load(f"{SALES}/tables/k1")["metadata-location"]
            assert api.post(f"{SALES}/tables/k1/unregister").status in (200, 204)
            answer = api.post(f"{SALES}/register", {"name": "k2", "metadata-location": named})
            assert answer.status == 200, answer.text
        with self.path("iceberg: a refused commit leaves no file"):
            requirement = {"type": "assert-current-schema-id", "current-schema-id": 99}
            assert api.commit(set_properties(a="2"), require=[requirement]).status == 409
        with self.path("iceberg: purge"):
            assert api.delete(T1, purgeRequested="true").status == 204

    def _merge(self, api: Iceberg) -> None:
        """A client appends to a snapshot that is not the newest any more; while it is merged,
        another commit comes first."""
        with tempfile.TemporaryDirectory() as folder:
            lake = Lake(Path(folder))
            first = lake.append(1, None, 1)
            fast = lake.append(2, first, 2)
            slow = lake.append(3, first, 2)
            for file in Path(folder).rglob("*.avro"):
                api.world.storages.files[f"file://{file}"] = (file.read_bytes(), 0)
        made = api.post(f"{SALES}/tables", {"name": "m1", "schema": SCHEMA, "location": lake.location})
        assert made.status == 200, made.text
        path = f"{SALES}/tables/m1"

        def append(snapshot: Any) -> None:
            added = {"action": "add-snapshot", "snapshot": msgspec.to_builtins(snapshot)}
            required = [at_ref(snapshot.parent_snapshot_id)]
            answer = api.commit(added, set_ref(snapshot.snapshot_id), require=required, path=path)
            assert answer.status == 200, answer.text

        append(first)
        append(fast)
        before_next_write(api.world, lambda: api.commit(set_properties(b="1"), path=path))
        append(slow)
        assert len(api.load(path)["metadata"]["snapshots"]) == 3

    def ingest(self) -> None:
        """Rows of many partitions, whose commit is too large for the HEAD; requests that come again
        after their commits were published."""
        realm = access.Realm()
        made = self._partitioned_table(realm)
        many = [{"id": number, "region": uuid.uuid4().hex, "note": uuid.uuid4().hex} for number in range(64)]
        key = {"Idempotency-Key": str(uuid.uuid4())}
        with self.path("ingest: a large commit"):
            assert self._rows(realm, made, many, key)["outcome"] == "added"
        for sequence in (1, 2):
            with self.path(f"ingest: sequence {sequence}"):
                self._rows(realm, made, many[:1], _produced(sequence))
        realm.must("POST", f"/v1/tables/{made}/publish")
        realm.open()
        for headers, rows in ((key, many), (_produced(1), many[:1]), (_produced(2), many[:1])):
            with self.path(f"ingest: {list(headers)[-1]} again"):
                assert self._rows(realm, made, rows, headers)["outcome"] == "replayed"
        with self.path("ingest: the next sequence"):
            self._rows(realm, made, many[:1], _produced(3))
        bad = [*many[:1], {"id": "no number"}]
        for order in ("first", "second"):
            with self.path(f"ingest: rows that do not fit, for the {order} time"):
                answer = realm.must("POST", f"{NS}/tables/r1/rows", bad, on_error="quarantine").json
                assert answer["rejected"]["rows"] == 1
        realm.open()
        with (
            self.path("ingest: a name that leads elsewhere after the first read"),
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(CatalogReader, "guess", lambda *_: None)  # the tree that was cached is another one
            realm.must("POST", f"{NS}/tables/r1/rows", many[:1])

    def _partitioned_table(self, realm: access.Realm) -> str:
        """Creates the table ``r1`` with a partition for each region; returns its id."""
        definition = delta.metadata()
        definition["metaData"] |= {"schemaString": json.dumps(REGIONS), "partitionColumns": ["region"]}
        created = delta.info("zero", realm.world.clock.now_ms(), "CREATE TABLE")
        content = delta.lines(created, delta.protocol(), definition)
        made = realm.must("POST", f"{NS}/staging-tables", {"name": "r1"}).json
        realm.world.storages.open(made["location"]).put_if_absent(published_path(0), content)
        realm.must("POST", f"{NS}/tables", {"name": "r1", "table_id": made["table_id"]})
        return str(made["table_id"])

    def rows(self) -> None:
        """Batches of rows: a commit that is too large for the HEAD, a record that is set aside; the
        same batch after the commit was published; a table with half a group."""
        realm = access.Realm()
        realm.grant("catalog", "main", "rows", "USE CATALOG", "USE SCHEMA", "MODIFY")
        made = self._partitioned_table(realm)
        many = [{"id": number, "region": uuid.uuid4().hex, "note": uuid.uuid4().hex} for number in range(64)]
        records = [message("1", many, table="main.sales.r1"), message("2", "{", table="main.sales.r1")]
        for name in ("a batch", "the same batch"):
            realm.open()
            with self.path(f"rows: {name}"):
                assert self._deliver(*records) == []
            realm.must("POST", f"/v1/tables/{made}/publish")
        ids = [realm.create(f"g{number}") for number in range(3)]
        now_ms = realm.world.clock.now_ms()
        commits = (CommitRequest(id, 1, content=delta.append(f"t-{id}", now_ms), base=0) for id in ids)
        self._stop_after(1, realm.world, GroupRequest(str(uuid.uuid4()), tuple(commits)))
        realm.world.clock.now += DAY_MS  # the group is past its deadline
        realm.open()
        with self.path("rows: half a large group"):
            assert self._deliver(message("3", [{"id": 1}], table="main.sales.g0")) == []

    def _deliver(self, *records: dict[str, Any]) -> list[str]:
        """Returns the records that have to be delivered again."""
        for record in records:
            record["attributes"]["SentTimestamp"] = str(time.time_ns() // 1_000_000)
        with self._recorder.acting("RowsFunction"):
            answer = access.functions()["rows"].on_batch({"Records": list(records)}, LONG)
        return [one["itemIdentifier"] for one in answer["batchItemFailures"]]

    def _rows(self, realm: access.Realm, id: str, rows: list[Any], headers: dict[str, str]) -> Any:
        app = access.functions()["ingest"].app
        answer = Http(app, "root").call("POST", f"/v1/tables/{id}/rows", json_body=rows, headers=headers)
        assert answer.status == 200, answer.text
        return answer.json

    def tokens(self) -> None:
        """Clients of the token endpoint, and the endpoint."""
        with auth.issuer() as trusted:
            here = auth.Deployment(trusted.url)
            made = here.client(roles=["writers"])
            http = here.http("tokens", auth.OPERATOR)
            id = made["client_id"]
            here.access_token(made)
            for method, path, body in (
                ("GET", "/v1/clients", None),
                ("GET", f"/v1/clients/{id}", None),
                ("POST", f"/v1/clients/{id}/rotate", {}),
                ("DELETE", f"/v1/clients/{id}", None),
            ):
                with self.path(f"tokens {method} {path.replace(id, '{id}')}"):
                    answer = http.call(method, path, json_body=body)
                    assert answer.status < 300, answer.text
            with self.path("tokens: an exchange"):
                form = {
                    "grant_type": auth.EXCHANGE, "subject_token": trusted.token(),
                    "subject_token_type": f"{auth.TYPE}jwt",
                }  # fmt: skip
                answer = here.ask_token(form)
                assert answer.status < 500, answer.text
            with self.path("authorizer"), self._recorder.acting("AuthorizerFunction"):
                here.authorizer.authorize({"identitySource": [f"Bearer {trusted.token()}"]}, None)

    # -- branches -----------------------------------------------------------------------------------------------------

    def branches(self) -> None:
        """Each function that finds tables by name asks for the log of a branch's table."""
        realm = access.Realm()
        iceberg = iceberg_realm.guarded()
        branches = self._stack.value({"Fn::GetAtt": ["BranchesFunction", "Arn"]})
        for name in ("commit", "catalog", "ingest", "rows"):
            access.functions()[name].use_world(realm.world, lake_root=access.LAKE, branches_function=branches)
        iceberg.use_world(realm.world, lake_root=access.LAKE, branches_function=branches)
        here = access.functions()["branches"]
        answers: list[dict[str, Any]] = []

        def invoke(payload: bytes) -> bytes:
            answers.append(here.handle(json.loads(payload), None))
            return json.dumps(answers[-1]).encode()

        self._recorder.invoke = invoke
        realm.grant("catalog", "main", "rows", "USE CATALOG", "USE SCHEMA", "MODIFY", "SELECT")
        self._large_own_table(realm)
        planned = f"{DELTA_PREFIX}/v1/main@iceberg/namespaces/sales/tables/t1/plan"
        asked: dict[str, Callable[[], object]] = {
            "commit": lambda: realm.must("GET", "/v1/catalogs/main@commit/namespaces/sales/tables/t1"),
            "catalog": lambda: realm.must("GET", f"{B}/tables/main@catalog.sales.t1"),
            "iceberg": lambda: Http(iceberg.app, "root").post(planned, {}),
            "ingest": lambda: realm.ask(
                "root", "POST", "/v1/catalogs/main@ingest/namespaces/sales/tables/t1/rows", [{"id": 1}]
            ),
            "rows": lambda: self._deliver(message("9", [{"id": 1}], table="main@rows.sales.t1")),
        }
        for name, ask in asked.items():
            realm.must("POST", "/v1/catalogs/main/branches", {"name": name})
            with self.path(f"branches: a table for the function {name}"):
                ask()
                assert answers.pop()["head"]
        dev = realm.must("GET", "/v1/catalogs/main@commit/namespaces/sales/tables/t1").json
        for id, txn in ((dev["table_id"], "mine"), (realm.table, "theirs")):
            content = delta.lines(
                delta.info(txn, realm.world.clock.now_ms(), isBlindAppend=True), delta.add(f"{txn}.parquet")
            )
            body = {"version": dev["latest"] + 1, "inline": {"content": content.decode()}}
            realm.must("POST", f"/v1/tables/{id}/commits", body)
        for method, tail in (("GET", "diff"), ("POST", "update"), ("POST", "promote")):
            with self.path(f"branches: {tail}"):
                realm.must(method, f"/v1/catalogs/main/branches/commit/{tail}", {} if tail == "promote" else None)

    def _large_own_table(self, realm: access.Realm) -> None:
        """The log of a branch's table has a checkpoint in parts, which another request has written
        meanwhile."""
        for number in range(5):
            added = (delta.add(f"{number}-{n}-{uuid.uuid4()}.parquet") for n in range(100))
            content = delta.lines(delta.info(f"large-{number}", realm.world.clock.now_ms(), isBlindAppend=True), *added)
            body = {"version": number + 2, "inline": {"content": content.decode()}}
            realm.must("POST", f"/v1/tables/{realm.table}/commits", body)
        realm.must("POST", "/v1/catalogs/main/branches", {"name": "large"})
        with self.path("branches: a large checkpoint that is there already"), pytest.MonkeyPatch.context() as patch:
            for module in ("store.ports", "delta.commits", "adapters.s3"):
                patch.setattr(f"turnstile.{module}.PIECE_BYTES", 16 * 1024)
            self._recorder.overtaken["CompleteMultipartUpload"] = lambda: None
            realm.must("GET", "/v1/catalogs/main@large/namespaces/sales/tables/t1")
            assert not self._recorder.overtaken, "no file was written in parts"

    # -- the stream ---------------------------------------------------------------------------------------------------

    def _publish(self, world: Any, *tables: Table, **more: Any) -> Any:
        app = Function("publish")
        app.use_world(world)
        records = [self._record(table, **more) for table in tables]
        with self._recorder.acting("PublishFunction"):
            return app.on_refs({"Records": records}, Context())

    def _record(self, table: Table, *, old_ms: int = 0) -> dict[str, Any]:
        image = {name: _as_sent(value) for name, value in to_item(model_of(table.key), dict(table.row)).items()}
        written = (table.world.clock.now - old_ms) / 1000
        change = {
            "Keys": {"key": {"S": table.key}}, "SequenceNumber": "1", "NewImage": image,
            "ApproximateCreationDateTime": written,
        }  # fmt: skip
        return {"eventID": "1", "eventName": "MODIFY", "dynamodb": change}

    def publish(self) -> None:
        """All kinds of commits; records that come late; a table that cannot be published and is
        noted."""
        world = self.world()
        good = Table(world, table_id(1))
        stuck = Table(world, table_id(2))
        for table in (good, stuck):
            table.mixed(8)
        stuck.put(published_path(2), b"foreign\n")
        with self.path("publish a batch"):
            assert self._publish(world, good, stuck) == {"batchItemFailures": []}
            good.check_all_published()
        with self.path("publish late records"):
            good.mixed(2)
            self._publish(world, good, old_ms=DAY_MS)
        with self.path("publish a table that was restored"):
            good.mixed(4)
            self._publish(world, good)
            restored = Table(world, table_id(3))
            restored.mixed(3)
            world.refs.rows[restored.key] = {**restored.row, "state": "recovering"}
            self._publish(world, restored)
            stuck.put(published_path(2), stuck.ratified[2])

    def events(self) -> None:
        """Runs the records of the stream, the sweep after lost ones, and the events that a bus
        misses."""
        world = self.world()
        table = Table(world, table_id(1))
        app = Function("events")
        bus = self._stack.parameters["EventBus"]
        app.use_world(world, event_targets=tuple(open_targets(f"bus=eventbridge:{bus}", "", world.clock)))

        def run(name: str, event: Any) -> None:
            with self.path(f"events: {name}"), self._recorder.acting("EventsFunction"):
                app.on_refs(event, Context())

        run("first records", {"Records": [self._record(table)]})
        for _ in range(3):
            table.mixed(4)
            run("records", {"Records": [self._record(table)]})
        for number in range(40):  # more than one chunk of the log
            table.inline(size=64 * number)
            run("many records", {"Records": [self._record(table)]})
            Publisher(world).publish(table.id)
        run("late records", {"Records": [self._record(table, old_ms=OLD_EVENTS_MS + 60_000)]})
        self._new_table_events(world, run)
        for name, sent in (("schedule", SCHEDULED), ("deliver", DELIVER), ("full", FULL), ("schedule", SCHEDULED)):
            table.inline()
            run(name, sent)
        api = Iceberg()
        app.use_world(api.world)
        api.create("t1")
        run("changes of a catalog", SCHEDULED)

    def _new_table_events(self, world: Any, run: Callable[[str, Any], None]) -> None:
        fresh = Function("events")  # a sandbox that has nothing in its cache
        fresh.use_world(world)
        other = Table(world, table_id(2))
        other.mixed(2)
        run("another table", {"Records": [self._record(other)]})
        other.mixed(2)
        with self.path("events: another sandbox"), self._recorder.acting("EventsFunction"):
            fresh.on_refs({"Records": [self._record(other)]}, Context())
            fresh.on_refs(DELIVER, Context())

    # -- schedules ----------------------------------------------------------------------------------------------------

    def maintain(self) -> None:
        """Checkpoints of tables that events name, of those that failed, of all; follow-ups to
        everything they can name."""
        world = self.world()
        parameters = self._stack.parameters
        function_arn = parameters["FollowUpFunctions"].split(",")[0]
        application = parameters["FollowUpApplication"].rpartition("/")[2]
        job = f"emr-serverless://{application}?role={parameters['FollowUpJobRole']}&entry=s3://lake/job.py"
        described = f"call=lambda:{function_arn} spark={job} bus=eventbridge:{parameters['EventBus']}"
        app = Function("maintain")
        services = app.use_world(world, follow_ups=tuple(open_actions(described, "", world.clock)))
        rules = "call on publish, spark on publish, bus on publish"
        own = policy_of([Level("table", "main.default.t", {"turnstile.maintenance.follow-ups": rules})])
        follow_ups = services.follow_ups
        follow_ups._policy = lambda _: own  # type: ignore[method-assign,assignment]
        tables = [Table(world, table_id(number)) for number in range(2)]
        for table in tables:
            for _ in range(11):
                table.inline()
            Publisher(world).publish(table.id)
        events = Function("events")
        events.use_world(world)
        events.on_refs({"Records": [self._record(table) for table in tables]}, Context())
        tables[1].put(published_path(4), b"{")
        for name, sent in (("schedule", SCHEDULED), ("schedule", SCHEDULED), ("all", ALL), ("every", EVERY)):
            with self.path(f"maintain: {name}"), self._recorder.acting("MaintainFunction"):
                app.maintain(sent, LONG)
            world.clock.now += DAY_MS
            tables[1].put(published_path(4), tables[1].ratified[4])
            for table in tables:
                table.inline()
                Publisher(world).publish(table.id)
            events.on_refs({"Records": [self._record(table) for table in tables]}, Context())

        self._maintain_dropped(app, events)

    def _maintain_dropped(self, app: Function, events: Function) -> None:
        """The tasks of a table go with it."""
        realm = access.Realm()
        world = realm.world
        table = Table(realm.world, table_id(1))
        for each in (app, events):
            each.use_world(world)
        for _ in range(11):
            table.inline()
        Publisher(world).publish(table.id)
        events.on_refs({"Records": [self._record(table)]}, Context())
        with self.path("maintain: a table that was dropped"), self._recorder.acting("MaintainFunction"):
            app.maintain(SCHEDULED, LONG)
        world.refs.rows[table.key] = {**table.row, "state": "dropped", "reason": "purge"}
        events.on_refs({"Records": [self._record(table)]}, Context())
        world.clock.now += DAY_MS
        with self.path("maintain: after a table was dropped"), self._recorder.acting("MaintainFunction"):
            app.maintain(SCHEDULED, LONG)
            app.maintain(EVERY, LONG)

    def index(self) -> None:
        """File indexes: one of a history that was taken back."""
        world = self.world()
        table = Table(world, table_id(1))
        app = Function("maintain")
        app.use_world(world)

        def maintained(name: str) -> None:
            with self.path(f"maintain: {name}"), self._recorder.acting("MaintainFunction"):
                app.maintain(EVERY, LONG)

        for _ in range(25):
            table.inline()
        Publisher(world).publish(table.id)
        maintained("an index")
        for name in list(table.published())[1:]:
            content = table.ratified[name] + b"\n"
            table.put(published_path(name), content)
        for _ in range(12):
            table.inline()
        Publisher(world).publish(table.id)
        world.clock.now += DAY_MS
        maintained("an index of another history")
        plans = function("plans")
        plans.use_world(world)
        with self.path("plans: by an index"):
            answer = Http(plans.app).post(f"/v1/tables/{table.id}/plan", {})
            assert answer.status < 300, answer.text

    def _gc(self, world: Any, name: str, event: Any, **settings: Any) -> Any:
        app = Function("gc")
        app.use_world(world, **settings)
        with self._recorder.acting(f"{name.capitalize()}Function"):
            return getattr(app, name)(event, LONG)

    def sweep(self) -> None:
        """Runs the sweep: lost records of the stream, tables that fail, tables that were
        restored."""
        world = self.world()
        tables = [Table(world, table_id(number)) for number in range(3)]
        for table in tables:
            table.mixed(8)
        tables[2].put(published_path(2), b"foreign\n")
        for name, sent in (("schedule", SCHEDULED), ("full", {"full": True}), ("restored", {"restored": True})):
            with self.path(f"sweep: {name}"):
                self._gc(world, "sweep", sent)
        tables[2].put(published_path(2), tables[2].ratified[2])
        for _ in range(2):
            with self.path("sweep: after a restore"):
                self._gc(world, "sweep", SCHEDULED)
        self._restored_behind_its_log()

    def _restored_behind_its_log(self) -> None:
        world = self.world()
        table = Table(world, table_id(1))
        table.mixed(3)
        backup = dict(table.row)
        table.mixed(6)
        Publisher(world).publish(table.id)
        world.refs.rows[table.key] = {**backup, "state": "recovering"}
        with self.path("sweep: a table behind its log"):
            self._gc(world, "sweep", {"full": True})
        for name in ("sweep", "publish"):
            world = self.world()
            table = Table(world)
            restored(table)
            world.refs.rows[table.key] = {**table.row, "state": "recovering"}
            with self.path(f"{name}: a table whose metadata changed after the backup"):
                if name == "publish":
                    self._publish(world, table)
                else:
                    self._gc(world, "sweep", {"full": True})
                assert table.head.state == "active"

    def collect(self) -> None:
        """All that a Delta table leaves behind, on a schedule and when asked; also by the catalog
        function."""
        for name, event in (("schedule", SCHEDULED), ("event", {})):
            realm = access.Realm()
            world = realm.world
            table = Table(world, table_id(1))
            stage_table(world, table_id(7))
            for _ in range(3):
                table.stage(lose=True)
                table.mixed(8)
            Publisher(world).publish(table.id)
            realm.must("DELETE", "/v1/catalogs/main/namespaces/sales/tables/t1")
            ref = realm.must("GET", "/v1/refs/app").json
            realm.must("DELETE", "/v1/refs/app", token=ref["token"])
            realm.must("POST", "/v1/catalogs", {"name": "gone"})
            realm.must("DELETE", f"{access.B}/catalogs/gone", force="true")
            content = realm.append(table.head.latest + 1, "announced")
            realm.must("PUT", f"/v1/transactions/{uuid.uuid4()}", {"commits": [{"table_id": table.id, **content}]})
            world.clock.now += 60 * DAY_MS
            with self.path(f"collect: {name}"):
                done = self._gc(world, "collect", event)
                assert done["problems"] in (0, ()), done
            world.clock.now += 60 * DAY_MS
            with self.path(f"collect: {name}, again"):
                done = self._gc(world, "collect", event)
                assert done["problems"] in (0, ()), done

    def collect_iceberg(self) -> None:
        """The daily maintenance of Iceberg tables: snapshots expire, manifests are put together,
        files that nothing names go."""
        spec = {"spec-id": 0, "fields": [{"source-id": 2, "field-id": 1000, "name": "region", "transform": "identity"}]}
        properties = {
            EXPIRE: "true", REMOVE: "true", REWRITE: "true", MIN_COUNT: "4", MAX_SNAPSHOT_AGE: "0",
            "write.metadata.previous-versions-max": "1",
        }  # fmt: skip
        for name in ("collect", "catalog"):
            api = Iceberg()
            api.create("t1", properties=properties, **{"partition-spec": spec})
            small = SmallManifests(api)
            for _ in range(5):
                small.append()
            location = small.metadata["location"]
            api.world.storages.files[f"{location}/data/stray.parquet"] = (b"rows", 0)
            before = len(small.listed())
            for _ in range(3):
                api.world.clock.now += 10 * DAY_MS
                with self.path(f"{name}: Iceberg maintenance"):
                    self._maintained(api.world, name)
            with self.path(f"{name}: Iceberg maintenance was done"):
                assert before == 5 and len(small.listed()) == 1, "manifests are not put together"
                assert len(small.metadata["snapshots"]) == 1, "snapshots do not expire"

    def _maintained(self, world: Any, name: str) -> None:
        if name == "collect":
            done = self._gc(world, "collect", SCHEDULED)
            assert not done["problems"], done
            return
        app = function("catalog")
        app.use_world(world, lake_root="file:///lake")
        answer = Http(app.app).post("/v1/gc", {"dry_run": False})
        assert answer.status < 300 and not answer.json["problems"], answer.text

    def large_objs(self) -> None:
        """Objs that are more than one row: parts are written and removed with them."""
        self._patch.setattr("turnstile.store.stored_objs.OBJ_BUDGET", 500)
        for run in (
            self._large_of_api,
            self.iceberg_merges,
            self.ingest,
            self.rows,
            self.publish,
            self.index,
            self.sweep,
            self.collect,
        ):
            with self.path(f"{run.__name__}, large objs"):
                run()

    def _large_of_api(self) -> None:
        for name in (
            "commit",
            "append rows",
            "delta create own",
            "drop",
            "clone table",
            "rename",
            "load",
            "reset catalog",
        ):
            with self.path(f"operation {name}, large objs"):
                realm = access.Realm()
                asked = OPERATIONS[name](realm)
                answer = realm.ask("root", asked.method, asked.path, asked.body, **asked.query)
                assert answer.status < 300, answer.text


def _produced(sequence: int) -> dict[str, str]:
    """The headers of a request of a producer."""
    return {"Turnstile-Producer": "sensors", "Turnstile-Sequence": str(sequence)}


def _as_sent(value: Any) -> Any:
    """An attribute value as Lambda hands it on."""
    ((kind, stored),) = value.items()
    if kind == "B":
        return {kind: base64.b64encode(stored).decode() if isinstance(stored, bytes) else stored}
    return {kind: [_as_sent(member) for member in stored]} if kind == "L" else {kind: stored}
