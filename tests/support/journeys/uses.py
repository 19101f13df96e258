"""Ways in which a table is used: each compares rows, and raises what its client or the service says of a refusal."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

import duckdb

from tests.support.clients import duck
from tests.support.journeys.origins import client, iceberg_catalog, rows
from tests.support.journeys.places import Failure, Journey, folder_of
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


def duckdb_reads(journey: Journey) -> None:
    namespace, _, table = journey.name.partition(".")
    with duck.connect(journey.place.work) as db:
        duck.attach(db, journey.place, ", READ_ONLY")  # type: ignore[arg-type]
        found = db.execute(f"SELECT id FROM lake.{namespace}.{table}").fetchall()
    assert sorted(id for (id,) in found) == sorted(journey.ids)


def pyiceberg_reads(journey: Journey) -> None:
    table = iceberg_catalog(journey.place, **{"scan-planning-mode": "server"}).load_table(journey.name)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == sorted(journey.ids)
    assert table.scan(row_filter="id = 2").to_arrow()["id"].to_pylist() == [2]


def planned(journey: Journey) -> None:
    table_id = journey.load()["table_id"]
    plan = journey.place.ask("POST", f"/v1/tables/{table_id}/plan", {"predicate": "id >= 0"})
    assert len(plan["files"]) >= 1 and not plan.get("next_page_token")


def found(journey: Journey) -> None:
    query = "/main/" + journey.name.replace(".", "/")
    (entry,) = journey.place.ask("GET", "/v1/find", query=query)["entries"]
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


def renamed(journey: Journey) -> None:
    name = journey.place.fresh("renamed")
    before = _entry(journey)
    journey.place.ask("POST", f"{journey.path}/rename", {"name": name})
    journey.name = f"{journey.name.partition('.')[0]}.{name}"
    assert _entry(journey)["id"] == before["id"]
    journey.place.ask("DELETE", journey.path)
    try:
        _entry(journey)
    except Failure as gone:
        assert str(gone).startswith("404")
    else:
        raise AssertionError("it is still there")


def undropped(journey: Journey) -> None:
    before, moment = _entry(journey), journey.place.fresh("before")
    journey.place.ask("POST", "/v1/catalogs/main/snapshots", {"name": moment})
    journey.place.ask("DELETE", journey.path)
    journey.place.ask("POST", "/v1/catalogs/main/reset", {"to": {"snapshot": moment}})
    assert _entry(journey)["id"] == before["id"]
    (pyiceberg_reads if before["format"] == "iceberg" else client_reads)(journey)


def exported(journey: Journey) -> None:
    location = journey.load()["location"]
    journey.place.ask("POST", f"{journey.path}/export", {"dry_run": False})
    with duck.connect(journey.place.work) as db:
        read = db.execute(f"SELECT id FROM delta_scan('{folder_of(location)}')").fetchall()
    assert sorted(id for (id,) in read) == sorted(journey.ids)


def _entry(journey: Journey) -> dict[str, Any]:
    return dict(journey.place.ask("GET", f"{journey.path}/entry"))



PLAIN: Final[dict[str, Callable[[Journey], None]]] = {
    "client_reads": client_reads, "duckdb_reads": duckdb_reads, "pyiceberg_reads": pyiceberg_reads, "planned": planned, "found": found,
    "maintained": maintained, "verified": verified, "client_appends": client_appends, "transaction": transaction,
    "undropped": undropped, "exported": exported, "renamed": renamed,
}  # fmt: skip
ENDS: Final = frozenset({"renamed", "undropped", "exported"})
"""Uses after which the table is no longer there, or not as it was: each has a table of its own."""
ERRORS: Final = (Failure, duckdb.Error)
