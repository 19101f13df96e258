"""Ways in which a table is used: each compares rows, and raises the refusal of its client or the
service."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest
from mcp.client import Client as AgentClient
from mcp.types import ElicitResult

from tests.support.clients import duck
from tests.support.clients.delta_jvm import Client, Kernel, Table
from tests.support.fakes import delta
from tests.support.journeys.origins import client, iceberg_catalog, rows
from tests.support.journeys.places import Failure, Journey, data_file, folder_of
from tests.support.journeys.reading import by_duckdb, planned_table
from tests.support.stack import now_ms
from turnstile_cli.agent_tools import Lakehouse, server
from turnstile_cli.api import Api
from turnstile_client import connect


def client_reads(journey: Journey) -> None:
    with connect(journey.place.url, token=journey.place.token or None) as lake:
        table = lake.table(journey.name)
        assert sorted(table.read()["id"].to_pylist()) == sorted(journey.ids)
        assert table.read(where=[("id", "=", 2)])["id"].to_pylist() == [2]


def client_appends(journey: Journey) -> None:
    with connect(journey.place.url, token=journey.place.token or None) as lake:
        lake.table(journey.name).append(rows([3]))
    journey.ids.append(3)
    client_reads(journey)


def client_optimizes(journey: Journey) -> None:
    """Two small files, and all others, become one."""
    with connect(journey.place.url, token=journey.place.token or None) as lake:
        table = lake.table(journey.name)
        for id in (6, 7):
            table.append(rows([id]))
        journey.ids += [6, 7]
        done = table.optimize()
        assert done.rewritten_files >= 2 and done.files_after == 1, done
    client_reads(journey)


def rows_added(journey: Journey) -> None:
    with connect(journey.place.url, token=journey.place.token or None) as lake:
        table = lake.table(journey.name)
        key = str(uuid.uuid4())
        version = table.append_rows([{"id": 5}], id=key)
        assert table.append_rows([{"id": 5}], id=key) == version
    journey.ids.append(5)
    client_reads(journey)


def rows_set_aside(journey: Journey) -> None:
    """By the table's uuid: the row that fits is added, the other one is in the table beside it."""
    path = f"/v1/tables/{journey.load()['table_id']}/rows"
    answer = journey.place.ask("POST", path, [{"id": 8}, {"id": "eight"}], on_error="quarantine")
    assert (answer["rows"], answer["rejected"]["rows"]) == (1, 1), answer
    journey.ids.append(8)
    client_reads(journey)
    with connect(journey.place.url, token=journey.place.token or None) as lake:
        assert lake.table(f"{journey.name}_rejected").read()["column"].to_pylist() == ["id"]


def expected(journey: Journey) -> None:
    """The table gets an expectation of each commit: a row that breaks it is refused, another one is
    added."""
    loaded = journey.load()
    properties = {"turnstile.expect.few": "id < 1000", "turnstile.expect.few.on": "commit"}
    commit = delta.redefinition(loaded, properties, now_ms())
    path = f"/v1/tables/{loaded['table_id']}"
    journey.place.ask("POST", f"{path}/commits", commit)
    with pytest.raises(Failure, match="expectation 'few'"):
        journey.place.ask("POST", f"{path}/rows", [{"id": 2000}])
    journey.place.ask("POST", f"{path}/rows", [{"id": 32}])
    journey.ids.append(32)
    client_reads(journey)


def duckdb_reads(journey: Journey) -> None:
    assert sorted(by_duckdb(journey, "id")["id"].to_pylist()) == sorted(journey.ids)


def pyiceberg_reads(journey: Journey) -> None:
    table = planned_table(journey)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == sorted(journey.ids)
    assert table.scan(row_filter="id = 2").to_arrow()["id"].to_pylist() == [2]


def planned(journey: Journey) -> None:
    table_id = journey.load()["table_id"]
    plan = journey.place.ask("POST", f"/v1/tables/{table_id}/plan", {"predicate": "id >= 0"})
    assert len(plan["files"]) >= 1 and not plan.get("next_page_token")


def sampled(journey: Journey) -> None:
    sample = journey.place.ask("GET", f"/v1/tables/{journey.load()['table_id']}/sample")
    assert sorted(row["id"] for row in sample["rows"]) == sorted(journey.ids)
    assert (sample["complete"], sample["cut"]) == (True, 0)


def found(journey: Journey) -> None:
    query = "/main/" + journey.name.replace(".", "/")
    (entry,) = journey.place.ask("GET", "/v1/find", query=query)["found"]
    assert entry["name"] == f"main.{journey.name}"


def maintained(journey: Journey) -> None:
    answer = journey.place.ask("GET", f"/v1/tables/{journey.load()['table_id']}/maintenance")
    assert "due" in answer or "plan" in answer, answer


def verified(journey: Journey) -> None:
    answer = journey.place.ask("GET", f"/v1/tables/{journey.load()['table_id']}/verification")
    assert answer["deviations"] == []


def transaction(journey: Journey) -> None:
    other = client(journey.place)
    commits = []
    for each in (journey, other):
        loaded = each.load()
        commits.append({"table_id": loaded["table_id"], **each.staged_append(loaded, [4])})
    journey.place.ask("POST", "/v1/transactions", {"id": str(uuid.uuid4()), "commits": commits})
    for each in (journey, other):
        each.ids.append(4)
        client_reads(each)


def branched(journey: Journey) -> None:
    """A branch shows the table, gets a row, is updated and promoted."""
    place = journey.place
    name = place.fresh("b")
    branches = "/v1/catalogs/main/branches"
    place.ask("POST", branches, {"name": name})
    is_iceberg = _entry(journey)["format"] == "iceberg"
    if is_iceberg:
        table = iceberg_catalog(place, warehouse=f"main@{name}").load_table(journey.name)
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == sorted(journey.ids)
        table.append(rows([31]))
    else:
        with connect(place.url, token=place.token or None, catalog=f"main@{name}") as lake:
            assert sorted(lake.table(journey.name).read()["id"].to_pylist()) == sorted(journey.ids)
            lake.table(journey.name).append_rows([{"id": 31}])
    (pyiceberg_reads if is_iceberg else client_reads)(journey)
    if not is_iceberg and not _is_pinned(journey):
        with connect(place.url, token=place.token or None) as lake:
            lake.table(journey.name).append_rows([{"id": 32}])
        journey.ids.append(32)
    place.ask("POST", f"{branches}/{name}/update")
    place.ask("POST", f"{branches}/{name}/promote", {})
    journey.ids.append(31)
    (pyiceberg_reads if is_iceberg else client_reads)(journey)


def _is_pinned(journey: Journey) -> bool:
    """Whether a Delta table is a clone, which takes no commits."""
    head = journey.place.ask("GET", f"/v1/tables/{journey.load()['table_id']}/head")
    return bool(head["state"] == "pinned")


def agent_writes(journey: Journey) -> None:
    """A program adds a row on a branch, and a person promotes it."""
    place = journey.place
    branch = place.fresh("a")

    async def approve(_context: Any, _asked: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"approve": True})

    async def program() -> None:
        tools = server(Lakehouse(Api(place.url, place.token), "main"))
        calls: list[tuple[str, dict[str, Any]]] = [
            ("create_branch", {"branch": branch}),
            ("add_rows", {"branch": branch, "table": journey.name, "rows": [{"id": 41}]}),
            ("promote_branch", {"branch": branch}),
        ]
        async with AgentClient(tools, elicitation_callback=approve) as client:
            for tool, arguments in calls:
                answer = await client.call_tool(tool, arguments)
                refusal = str(answer.content) if answer.is_error else ""
                if refusal:
                    break
        if refusal:
            raise Failure(refusal)

    asyncio.run(program())
    journey.ids.append(41)
    client_reads(journey)


def renamed(journey: Journey) -> None:
    name = journey.place.fresh("renamed")
    before = _entry(journey)
    full = f"{journey.name.partition('.')[0]}.{name}"
    if before["format"] == "iceberg":
        iceberg_catalog(journey.place).rename_table(journey.name, full)
    else:
        journey.place.ask("POST", f"{journey.path}/rename", {"name": name})
    journey.name = full
    assert _entry(journey)["id"] == before["id"]
    _drop(journey, before)
    assert journey.place.http.get(f"{journey.path}/entry").status_code == 404


def undropped(journey: Journey) -> None:
    """The one table comes back, with its rows; those of an external one are at its location."""
    before = _entry(journey)
    _drop(journey, before)
    assert journey.place.ask("POST", f"{journey.path}/undrop", {})["name"] == before["name"]
    assert _entry(journey)["id"] == before["id"]
    is_external = "is external" in journey.place.http.get(journey.path).text
    reads = {"iceberg": pyiceberg_reads, "delta": duckdb_reads if is_external else client_reads}
    reads[before["format"]](journey)


def exported(journey: Journey) -> None:
    location = journey.load()["location"]
    journey.place.ask("POST", f"{journey.path}/export", {"dry_run": False})
    with duck.connect(journey.place.work) as db:
        read = db.execute(f"SELECT id FROM delta_scan('{folder_of(location)}')").fetchall()
    assert sorted(id for (id,) in read) == sorted(journey.ids)


def _drop(journey: Journey, entry: dict[str, Any]) -> None:
    """Drops a table by the API of its format."""
    if entry["format"] == "iceberg":
        iceberg_catalog(journey.place).drop_table(journey.name)
    else:
        journey.place.ask("DELETE", journey.path)


def _entry(journey: Journey) -> dict[str, Any]:
    return dict(journey.place.ask("GET", f"{journey.path}/entry"))


def spark_reads(journey: Journey, spark: Any, lake: Any) -> None:
    found = spark.sql(f"SELECT id FROM {lake.name}.{journey.name}").collect()
    assert sorted(row.id for row in found) == sorted(journey.ids)


def spark_writes(journey: Journey, spark: Any, lake: Any) -> None:
    """Rows of its own come and go."""
    table = f"{lake.name}.{journey.name}"
    spark.sql(f"INSERT INTO {table} (id) VALUES (101), (102)")
    spark.sql(f"UPDATE {table} SET id = 103 WHERE id = 102")
    journey.ids += [101, 103]
    spark_reads(journey, spark, lake)
    spark.sql(f"DELETE FROM {table} WHERE id > 100")
    journey.ids[:] = [id for id in journey.ids if id <= 100]
    spark_reads(journey, spark, lake)


def spark_optimizes(journey: Journey, spark: Any, lake: Any) -> None:
    lake.table(journey.name).optimize()
    spark_reads(journey, spark, lake)


def java_reads(journey: Journey, spark: Any, lake: Any) -> None:
    """By the Java kernel, as Delta's V2 connector and Flink read."""
    assert sorted(Kernel(_java(journey, spark)).ids(journey.name)) == sorted(journey.ids)


def java_appends(journey: Journey, spark: Any, lake: Any) -> None:
    """Delta's coordinator writes the staged commit, proposes it and publishes it."""
    client = _java(journey, spark)
    table = Table.existing(client, *journey.name.rsplit(".", 1))
    _, latest = table.commits()
    add = data_file(Path(folder_of(table.location)), [9])
    assert table.commit(latest + 1, add).getCommit().getVersion() == latest + 1
    journey.ids.append(9)
    client_reads(journey)


def _java(journey: Journey, spark: Any) -> Client:
    """Delta's client in the session's JVM."""
    return Client(spark.sparkContext._gateway, journey.place.url, journey.place.token)


PLAIN: Final[dict[str, Callable[[Journey], None]]] = {
    "client_reads": client_reads, "duckdb_reads": duckdb_reads, "pyiceberg_reads": pyiceberg_reads, "planned": planned,
    "sampled": sampled, "found": found,
    "maintained": maintained, "verified": verified, "client_appends": client_appends,
    "client_optimizes": client_optimizes, "rows_added": rows_added, "rows_set_aside": rows_set_aside,
    "expected": expected,
    "transaction": transaction, "branched": branched, "agent_writes": agent_writes,
    "undropped": undropped, "exported": exported, "renamed": renamed,
}  # fmt: skip
BY_SPARK: Final[dict[str, Callable[[Journey, Any, Any], None]]] = {
    "spark_reads": spark_reads, "spark_writes": spark_writes, "spark_optimizes": spark_optimizes,
    "java_reads": java_reads, "java_appends": java_appends,
}  # fmt: skip
ENDS: Final = frozenset({"renamed", "undropped", "exported"})
"""Uses after which the table is no longer there, or not as it was: each has a table of its own."""
ERRORS: Final = (Failure, duckdb.Error)
