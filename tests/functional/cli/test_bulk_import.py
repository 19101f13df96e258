"""``turnstile import --all`` and ``export --all``: a real server, trees of real tables, and
catalogs as sources."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Canned, ask, run, service, show
from tests.support.fakes import delta
from tests.support.legacy import legacy_info, legacy_metadata, legacy_protocol
from tests.support.server import ServerOnS3
from turnstile_cli.errors import Exit
from turnstile_cli.sources import tables_of
from turnstile_server import Server

ICEBERG_SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
FIRST = delta.lines(legacy_protocol(), legacy_metadata(), legacy_info("CREATE TABLE"))


def write(folder: Path, *, broken: bool = False) -> str:
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_bytes(b"{}" if broken else FIRST)
    (log / f"{1:020d}.json").write_bytes(delta.lines(legacy_info(), delta.add("f1")))
    return f"file://{folder}"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Path]:
    """Two tables in sales.db, one whose log cannot be read, one at the top, and folders that are no
    tables."""
    root = tmp_path / "old lake"
    for name in ("sales.db/orders", "sales.db/order items", "top"):
        write(root / name)
    write(root / "sales.db" / "broken", broken=True)
    write(root / "_hidden" / "t")
    (root / "plain" / "day=1" / "_delta_log").mkdir(parents=True)
    yield root
    shutil.rmtree(root)


def outcomes(answer: Any) -> dict[str, str]:
    return {row["table"]: row["outcome"] for row in answer["tables"]}


def test_a_tree_of_tables_is_tried_imported_imported_again_and_exported(
    server: Server, lake: Path, tmp_path: Path
) -> None:
    bulk = ("import", "--all", f"file://{lake}", "--into", "main.bulk")
    tried = run(*bulk, "--dry-run", "-o", "json", TURNSTILE_HOME=str(server.home))
    assert tried.exit_code == Exit.REFUSED
    expected = {"main.bulk.sales.orders": "possible", "main.bulk.sales.order_items": "possible",
                "main.bulk.top": "possible", "main.bulk.sales.broken": "refused"}  # fmt: skip
    assert outcomes(json.loads(tried.stdout)) == expected
    assert ask(server, "namespaces", "--under", "bulk", exit=3)["error"]["type"] == "NoSuchNamespace"

    report = tmp_path / "report.jsonl"
    done = run(*bulk, "--report", str(report), "-o", "json", TURNSTILE_HOME=str(server.home))
    assert done.exit_code == Exit.REFUSED
    answer = json.loads(done.stdout)
    assert answer["counts"] == {"imported": 3, "refused": 1}
    (broken,) = [row for row in answer["tables"] if row["outcome"] == "refused"]
    assert broken["problem"] and broken["remedy"]
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert sorted(lines, key=lambda row: row["table"]) == sorted(answer["tables"], key=lambda row: row["table"])
    assert ask(server, "head", "main.bulk.sales.order_items")["latest"] == 2

    again = run(*bulk, "--match", "sales.db.order*", "-o", "json", TURNSTILE_HOME=str(server.home))
    assert again.exit_code == 0
    assert json.loads(again.stdout)["counts"] == {"imported before": 2}
    assert ask(server, "head", "main.bulk.sales.orders")["latest"] == 2

    assert ask(server, "export", "--all", "main.bulk", "--dry-run")["counts"] == {"possible": 3}
    text = show(server, "export", "--all", "main.bulk")
    assert "export of main.bulk: 3 exported" in text
    assert (lake / "top" / "_delta_log" / f"{3:020d}.json").exists()
    assert ask(server, "export", "--all", "main.bulk", exit=3)["error"]["type"] == "NoTables"


def test_a_folder_that_is_a_table_itself_goes_into_default(server: Server, tmp_path: Path) -> None:
    location = write(tmp_path / "alone")
    assert outcomes(ask(server, "import", "--all", location)) == {"main.default.alone": "imported"}
    ask(server, "export", "default.alone")


def test_tables_that_would_get_one_name_are_refused_and_the_others_go_on(server: Server, tmp_path: Path) -> None:
    for name in ("a b", "a_B", "c"):
        write(tmp_path / "twins" / "x" / name)
    done = run(
        "import", "--all", str(tmp_path / "twins"), "--into", "main.twins", "-o", "json",
        TURNSTILE_HOME=str(server.home),
    )  # fmt: skip
    assert done.exit_code == Exit.REFUSED
    rows = {row["source"]: row for row in json.loads(done.stdout)["tables"]}
    assert {name: row["outcome"] for name, row in rows.items()} == {
        "x.a b": "refused",
        "x.a_B": "refused",
        "x.c": "imported",
    }
    assert "x.a_B would get the same name" in rows["x.a b"]["problem"]


@pytest.mark.parametrize(
    ("arguments", "exit", "message"),
    [
        (("import",), Exit.USAGE, "needs a table and its location"),
        (("import", "a.b", "--all", "file:///x"), Exit.USAGE, "leave TABLE out"),
        (("import", "--all", "hive:x"), Exit.USAGE, "is not a source"),
        (("import", "--all", "file:///not/there"), Exit.NOT_FOUND, "no such folder"),
        (("import", "--all", "unity:nowhere"), Exit.USAGE, "names no catalog"),
        (("import", "--all", "unity:http://127.0.0.1:9/main"), Exit.UNREACHABLE, "cannot be read"),
        (("import", "--all", "list:/not/there.csv"), Exit.REFUSED, "cannot be read"),
        (("export",), Exit.USAGE, "write TABLE, or --all"),
        (("export", "a.b", "--all", "main.a"), Exit.USAGE, "write TABLE, or --all"),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_said_and_changes_nothing(arguments: tuple[str, ...], exit: Exit, message: str) -> None:
    with service({}) as canned:
        ended = run(*arguments, "--url", canned.url)
        assert (ended.exit_code, canned.seen) == (exit, [])
    assert message in " ".join(ended.output.split())


def test_a_folder_without_tables_is_no_success(server: Server, tmp_path: Path) -> None:
    assert ask(server, "import", "--all", tmp_path.as_uri(), exit=3)["error"]["type"] == "NoTables"


# -- Iceberg -----------------------------------------------------------------------------------------------------------


def iceberg_metadata(server: Server, name: str) -> tuple[str, str]:
    """Location and metadata file of an Iceberg table that a catalog made and gave up."""
    prefix = "/iceberg/v1/main/namespaces/ice"
    with server.client() as api:
        api.post("/v1/catalogs/main/namespaces", json={"name": "ice"})
        made = api.post(f"{prefix}/tables", json={"name": name, "schema": ICEBERG_SCHEMA})
        assert made.status_code == 200, made.text
        assert api.post(f"{prefix}/tables/{name}/unregister", json={}).status_code == 200
    return made.json()["metadata"]["location"], made.json()["metadata-location"]


def test_commands_for_delta_tables_say_that_a_table_is_of_another_format(server: Server) -> None:
    prefix = "/iceberg/v1/main/namespaces"
    with server.client() as api:
        api.post(prefix, json={"namespace": ["other"]})
        assert api.post(f"{prefix}/other/tables", json={"name": "t", "schema": ICEBERG_SCHEMA}).is_success
    for command in ("plan", "detail", "repair", "verify"):
        ended = run(command, "other.t", "--url", server.url)
        assert ended.exit_code == Exit.NOT_FOUND, ended.stderr
        assert "its format: iceberg" in ended.stderr and "docs/iceberg.md" in ended.stderr


def test_iceberg_tables_of_a_list_are_registered_once(server: Server, tmp_path: Path) -> None:
    location, metadata = iceberg_metadata(server, "listed")
    file = tmp_path / "tables.csv"
    file.write_text(
        f"name,location,format,metadata_location\nhive.listed,{location},iceberg,{metadata}\n"
        f"hive.nameless,{location},iceberg,\nhive.raw,file:///raw,parquet,\n"
    )
    listed = ("import", "--all", f"list:{file}", "--into", "main.ice")
    tried = ask(server, *listed, "--match", "hive.listed", "--dry-run")
    assert outcomes(tried) == {"main.ice.hive.listed": "possible"}
    first = run(*listed, "-o", "json", TURNSTILE_HOME=str(server.home))
    assert first.exit_code == Exit.REFUSED
    assert outcomes(json.loads(first.stdout)) == {
        "main.ice.hive.listed": "imported", "main.ice.hive.nameless": "refused", "main.ice.hive.raw": "refused",
    }  # fmt: skip
    assert ask(server, *listed, "--match", "hive.listed")["counts"] == {"imported before": 1}
    assert ask(server, "describe", "main.ice.hive.listed")["metadata_location"] == metadata


def test_the_newest_metadata_file_of_a_folder_counts_and_a_tie_is_refused(server: Server, tmp_path: Path) -> None:
    location, metadata = iceberg_metadata(server, "tree")
    content = Path(metadata.removeprefix("file://")).read_bytes()
    for name, files in {"tie": ("00003-a", "00003-b"), "newest": ("00002-a", "00010-b")}.items():
        folder = tmp_path / "trees" / name / "metadata"
        folder.mkdir(parents=True)
        for file in files:
            (folder / f"{file}.metadata.json").write_bytes(
                content.replace(location.encode(), folder.parent.as_uri().encode())
            )
    done = run(
        "import", "--all", (tmp_path / "trees").as_uri(), "--into", "main.trees", "-o", "json",
        TURNSTILE_HOME=str(server.home),
    )  # fmt: skip
    assert outcomes(json.loads(done.stdout)) == {"main.trees.newest": "imported", "main.trees.tie": "refused"}
    assert ask(server, "describe", "trees.newest")["metadata_location"].endswith("/metadata/00010-b.metadata.json")


# -- catalogs as sources -----------------------------------------------------------------------------------------------


def test_a_unity_catalog_is_a_source(server: Server, tmp_path: Path) -> None:
    """Its open REST API, which another server of ours speaks, with external tables as Databricks
    keeps them."""
    prefix = "/api/2.1/unity-catalog"
    with Server.start(tmp_path / "unity", 0, "source-token") as unity:
        with unity.client() as api:
            assert api.post(f"{prefix}/schemas", json={"name": "eu", "catalog_name": "main"}).is_success
            for name in ("orders", "items"):
                table = {
                    "name": name, "catalog_name": "main", "schema_name": "eu", "table_type": "EXTERNAL",
                    "data_source_format": "DELTA", "storage_location": write(tmp_path / "ext" / name), "columns": [],
                }  # fmt: skip
                created = api.post(f"{prefix}/tables", json=table)
                assert created.is_success, created.text
        source = f"unity:{unity.url}/main.eu"
        denied = ask(server, "import", "--all", source, "--source-token", "wrong", exit=4)
        assert denied["error"]["type"] == "SourceRefused"
        found = ask(server, "import", "--all", source, "--into", "main.unity", "--source-token", "source-token")
    assert outcomes(found) == {"main.unity.eu.items": "imported", "main.unity.eu.orders": "imported"}


def test_all_pages_of_a_unity_catalog_are_read() -> None:
    def view(name: str) -> dict[str, str]:
        return {"name": name, "table_type": "VIEW"}

    prefix = "/api/2.1/unity-catalog"
    of_a, of_b = (f"{prefix}/tables?catalog_name=main&schema_name={schema}&max_results=1000" for schema in "ab")
    schemas = f"{prefix}/schemas?catalog_name=main&max_results=1000"
    with service(
        {
            f"GET {schemas}": (200, {"schemas": [{"name": "a"}], "next_page_token": "2"}),
            f"GET {schemas}&page_token=2": (200, {"schemas": [{"name": "b"}]}),
            f"GET {of_a}": (200, {"tables": [view("one")], "next_page_token": "x"}),
            f"GET {of_a}&page_token=x": (200, {"tables": [], "next_page_token": "y"}),
            f"GET {of_a}&page_token=y": (200, {"tables": [view("two")]}),
            f"GET {of_b}": (200, {"tables": [view("three")]}),
        }
    ) as unity:
        found = [(*table.levels, table.name) for table in tables_of(f"unity:{unity.url}/main")]
    assert found == [("a", "one"), ("a", "two"), ("b", "three")]


def test_a_unity_table_of_another_format_is_refused_with_its_format() -> None:
    tables = [
        {"name": "v", "table_type": "VIEW"},
        {"name": "c", "data_source_format": "CSV", "storage_location": "s3://b/c"},
    ]
    prefix = "/api/2.1/unity-catalog"
    with service(
        {
            f"GET {prefix}/schemas": (200, {"schemas": [{"name": "s"}]}),
            f"GET {prefix}/tables": (200, {"tables": tables}),
        }
    ) as unity:
        ended = run("import", "--all", f"unity:{unity.url}/main", "--url", unity.url, "-o", "json")
    assert ended.exit_code == Exit.REFUSED
    problems = [row["problem"] for row in json.loads(ended.stdout)["tables"]]
    assert problems == ["it is no Delta or Iceberg table (view)", "it is no Delta or Iceberg table (csv)"]


@pytest.fixture
def bucket(server_on_s3: ServerOnS3, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in server_on_s3.env.items():
        monkeypatch.setenv(name, value)
    s3 = server_on_s3.aws("s3")
    s3.create_bucket(Bucket="old")
    return s3


def put_table(s3: Any, folder: str) -> None:
    s3.put_object(Bucket="old", Key=f"{folder}/_delta_log/{0:020d}.json", Body=FIRST)


def test_a_bucket_glue_and_a_log_store_are_read_with_the_keys_of_the_environment(
    server_on_s3: ServerOnS3, bucket: Any
) -> None:
    home = {"TURNSTILE_HOME": str(server_on_s3.home)}
    for name in ("a", "b"):
        put_table(bucket, f"tree/sales/{name}")
    found = ask(server_on_s3, "import", "--all", "s3://old/tree", "--into", "main.bucket")
    assert outcomes(found) == {"main.bucket.sales.a": "imported", "main.bucket.sales.b": "imported"}
    missing = ask(server_on_s3, "import", "--all", "s3://not-there/tree", exit=4)
    assert missing["error"]["type"] == "SourceRefused"

    glue = server_on_s3.aws("glue")
    glue.create_database(DatabaseInput={"Name": "legacy"})
    for name, parameters in (("d", {"spark.sql.sources.provider": "delta"}), ("e", {"table_type": "DELTA"}), ("f", {})):
        put_table(bucket, f"glue/{name}")
        storage = {"Location": f"s3://old/glue/{name}", "SerdeInfo": {"Parameters": {}}}
        glue.create_table(
            DatabaseName="legacy", TableInput={"Name": name, "Parameters": parameters, "StorageDescriptor": storage}
        )
    done = run("import", "--all", "glue:legacy", "--into", "main.glue", "-o", "json", **home)
    assert outcomes(json.loads(done.stdout)) == {
        "main.glue.legacy.d": "imported", "main.glue.legacy.e": "imported", "main.glue.legacy.f": "refused",
    }  # fmt: skip

    dynamodb = server_on_s3.aws("dynamodb")
    keys = [("tablePath", "HASH"), ("fileName", "RANGE")]
    dynamodb.create_table(
        TableName="delta_log", BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
    )  # fmt: skip
    for name, complete in (("whole", "true"), ("open", "false")):
        put_table(bucket, f"stored/{name}")
        entry = {"tablePath": f"s3a://old/stored/{name}", "fileName": f"{1:020d}.json", "complete": complete}
        dynamodb.put_item(TableName="delta_log", Item={member: {"S": value} for member, value in entry.items()})
    stored = ("import", "--all", "s3://old/stored", "--into", "main.stored", "--log-store", "delta_log")
    done = run(*stored, "-o", "json", **home)
    rows = {row["table"]: row for row in json.loads(done.stdout)["tables"]}
    assert rows["main.stored.whole"]["outcome"] == "imported"
    assert rows["main.stored.open"]["outcome"] == "refused"
    assert f"{1:020d}.json" in rows["main.stored.open"]["problem"]


# -- what goes wrong on the way ----------------------------------------------------------------------------------------


def imports(answers: dict[str, Any]) -> dict[str, Any]:
    return {"GET /v1/catalogs/main/namespaces/default": (200, {"name": "default"}), **answers}


def only(canned: Canned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("turnstile_cli.bulk.PAUSES", (0.0, 0.0))
    ended = run("import", "--all", write(tmp_path / "t"), "--url", canned.url, "-o", "json")
    (row,) = json.loads(ended.stdout)["tables"]
    return row, ended.exit_code


PATH = "POST /v1/catalogs/main/namespaces/default/imports"


@pytest.mark.parametrize(
    ("answer", "told", "attempts"),
    [
        ((409, "ConcurrentChange"), ("refused", Exit.REFUSED), 3),
        ((409, "LocationOwned"), ("refused", Exit.REFUSED), 1),
        ((503, "StorageFault"), ("failed", Exit.FAILURE), 3),
        ((500, "CommitStateUnknown"), ("unknown", Exit.UNKNOWN), 3),
    ],
)  # fmt: skip
def test_a_table_is_tried_again_where_that_may_help_and_its_outcome_is_reported(
    answer: tuple[int, str], told: tuple[str, Exit], attempts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = {"error": {"type": answer[1], "message": "no", "remedy": "do otherwise"}}
    with service(imports({PATH: (answer[0], error)})) as canned:
        row, code = only(canned, tmp_path, monkeypatch)
        assert sum(1 for method, *_ in canned.seen if method == "POST") == attempts
    assert (row["outcome"], code) == told
    assert row["remedy"] == "do otherwise"


def test_a_table_whose_answer_is_lost_every_time_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service(imports({PATH: (0, None)})) as canned:
        row, code = only(canned, tmp_path, monkeypatch)
    assert (row["outcome"], code) == ("unknown", Exit.UNKNOWN)
