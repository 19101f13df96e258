"""A damaged row is shown by key to operators, and the other tables are shown and served as
before."""

from __future__ import annotations

from tests.support.delta_table import Table, table_id
from tests.support.fakes.world import fake_world
from tests.support.functions import Http, function
from turnstile.delta.publish import Publisher
from turnstile.delta.sweep import Sweeper


def test_every_look_at_all_tables_names_the_damaged_row_and_goes_on() -> None:
    world = fake_world()
    damaged = Table(world, table_id(1))
    good = Table(world, table_id(2))
    world.refs.damage(damaged.key)
    catalog = function("catalog")
    catalog.use_world(world)
    http = Http(catalog.app)
    listed = http.get("/v1/tables").json
    assert [head["table_id"] for head in listed["tables"]] == [good.id]
    (row,) = listed["unreadable"]
    assert row["key"] == damaged.key and damaged.key in row["message"]
    refused = http.get(f"/v1/tables/{damaged.id}/repair")
    assert (refused.status, refused.error["type"]) == (503, "StorageFault")
    assert damaged.key in refused.error["message"] and "backup" in refused.error["remedy"]
    assert http.get(f"/v1/tables/{good.id}/repair").status == 200
    checks = {check["name"]: check for check in http.post("/v1/checks", {}).json["checks"]}
    assert checks["rows"]["result"] == "failed" and damaged.key in checks["rows"]["message"]
    assert checks["tables"]["message"].startswith("1 tables")
    swept = Sweeper(world, Publisher(world)).sweep(until_ms=world.clock.now + 1_000, each_ms=1_000)
    assert [each.table_id for each in swept.unreadable] == [damaged.id]


def test_an_operator_is_shown_that_a_clock_was_ahead() -> None:
    world = fake_world()
    table = Table(world, table_id(1))
    world.refs.rows[table.key] |= {"reserved_by": "h", "reserved_until": world.clock.now + 40 * 86_400_000}
    catalog = function("catalog")
    catalog.use_world(world)
    checks = {check["name"]: check for check in Http(catalog.app).post("/v1/checks", {}).json["checks"]}
    assert checks["clocks"]["result"] == "warning"
    assert f"reserved_until of {table.key} is 40.0 days ahead" in checks["clocks"]["message"]
