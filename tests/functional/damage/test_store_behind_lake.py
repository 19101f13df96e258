"""``doctor`` beside a store that is behind its lake: it names the tables with commits that the
store does not know (I1, I2)."""

from __future__ import annotations

import copy
from typing import Any

from tests.support.delta_table import Table, publish, restored, table_id, with_metadata
from tests.support.fakes.world import FakeWorld
from tests.support.functions import Http, function
from tests.support.gc import days
from tests.support.iceberg.client import SALES, T1, VIEW, Iceberg, set_properties
from turnstile.api.doctor.folders import ATTEMPT_MS
from turnstile.catalog.history.core import AsOf


def behind(world: FakeWorld) -> dict[str, Any] | None:
    catalog = function("catalog")
    catalog.use_world(world)
    checks = {check["name"]: check for check in Http(catalog.app).post("/v1/checks", {}).json["checks"]}
    assert checks["folders"]["result"] == "ok"
    return checks.get("behind")


def test_i1_a_delta_table_whose_log_goes_on_after_its_head_is_named() -> None:
    table = with_metadata()
    Table(table.world, table_id(7))
    assert behind(table.world) is None
    restored(table)
    found = behind(table.world)
    assert found is not None and found["result"] == "failed"
    assert table.head.name in found["message"] and f"{table.head.latest + 1:020d}.json" in found["message"]
    assert "repair --all" in found["remedy"]


def test_i1_a_version_that_is_published_while_doctor_looks_is_no_sign() -> None:
    table = with_metadata()
    publish(table)
    read = table.world.refs.scan
    done = list[bool]()

    def scan(kind: str, **more: Any) -> Any:
        rows = list(read(kind, **more))
        if kind == "table" and len(done) < 2:
            done.append(True)
            table.inline()
            publish(table)
        return iter(rows)

    table.world.refs.scan = scan  # type: ignore[method-assign]
    assert behind(table.world) is None and done


def lost(client: Iceberg, count: int) -> None:
    """Commits that the store forgets."""
    client.create()
    rows = copy.deepcopy(client.world.refs.rows)
    for number in range(count):
        days(client.world, 0.001)
        assert client.commit(set_properties(a=str(number)), path=T1).status == 200
    client.world.refs.rows.clear()
    client.world.refs.rows.update(rows)
    client.world.clock.now += ATTEMPT_MS + 1


def test_i2_an_iceberg_table_with_later_metadata_files_is_named() -> None:
    client = Iceberg()
    lost(client, 2)
    found = behind(client.world)
    assert found is not None and found["result"] == "failed"
    assert "main.sales.t1 (metadata/00001-" in found["message"] and "register" in found["remedy"]


def test_i2_an_iceberg_view_with_later_metadata_files_is_named() -> None:
    client = Iceberg()
    assert client.post(f"{SALES}/views", VIEW).status == 200
    rows = copy.deepcopy(client.world.refs.rows)
    for value in ("1", "2"):
        days(client.world, 0.001)
        change = {"requirements": [], "updates": [set_properties(a=value)]}
        assert client.post(f"{SALES}/views/v1", change).status == 200
    client.world.refs.rows.clear()
    client.world.refs.rows.update(rows)
    client.world.clock.now += ATTEMPT_MS + 1
    found = behind(client.world)
    assert found is not None and found["result"] == "failed"
    assert "main.sales.v1 (metadata/00001-" in found["message"]


def test_i2_one_later_metadata_file_is_a_warning_once_its_writer_cannot_commit_any_more() -> None:
    client = Iceberg()
    lost(client, 1)
    client.world.clock.now -= ATTEMPT_MS // 2
    assert behind(client.world) is None
    client.world.clock.now += ATTEMPT_MS // 2
    found = behind(client.world)
    assert found is not None and found["result"] == "warning" and "main.sales.t1" in found["message"]
    client.world.clock.now += 1
    assert client.commit(set_properties(b="1"), path=T1).status == 200
    assert behind(client.world) is None, "the next commit has the number, too"


def test_files_of_commits_that_a_reset_has_given_up_are_no_sign() -> None:
    client = Iceberg()
    client.create()
    head = client.world.refs.rows[client.world.space.catalog("main")]["head"]
    for number in range(3):
        days(client.world, 0.001)
        client.commit(set_properties(a=str(number)), path=T1)
    days(client.world, 0.001)
    client.services.open_catalog.resetter.reset("main", AsOf(head=head))
    days(client.world, 0.1)
    assert behind(client.world) is None
