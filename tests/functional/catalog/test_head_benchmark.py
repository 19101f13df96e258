"""The benchmark of one catalog's HEAD: it runs, checks its logs, and says what a commit costs."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from benchmarks import catalog_commits
from benchmarks.catalog_commits import figures
from benchmarks.catalog_racing import heats
from benchmarks.catalog_racing.heats import Race
from benchmarks.catalog_racing.metering import Meter, units
from benchmarks.catalog_racing.worlds import fresh_realm, world_of
from tests.support.store.backends import FAKE, Backend
from turnstile.store.core.writes import Check
from turnstile.store.ports import Obj

APP = typer.Typer()
APP.command()(catalog_commits.run)


def ran(*args: str) -> str:
    result = CliRunner().invoke(APP, ["--seconds", "0.5", "--names", "5", *args])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.slow
def test_every_way_to_share_is_raced_with_every_number_of_writers() -> None:
    told: dict[str, Any] = json.loads(ran("--writers", "1", "--writers", "3", "--output", "json"))
    shown = told["heats"]
    assert [(one["writers"], one["mode"]) for one in shown[:6]] == [
        (count, mode) for count in (1, 3) for mode in ("line", "no line", "sandboxes")
    ]
    assert [(one["large"], one["turns"]) for one in shown[6:]] == [(1, True), (1, False)]
    assert shown[0]["ratio"] == 1
    assert all(one["violations"] == [] and one["per_second"] > 0 for one in shown)


def test_the_tables_say_what_each_column_is() -> None:
    said = ran("--writers", "2")
    for heading in ("commits/s", "attempts", "requests", "write units", "tidied", "p95 ms", "turns", "given up"):
        assert heading in said
    assert "VIOLATED" not in said


@pytest.mark.parametrize("mode", ["line", "sandboxes"])
def test_an_undisturbed_commit_is_one_attempt_of_three_requests(mode: heats.Mode) -> None:
    heat = heats.run(Backend(FAKE), Race(mode, ("update",), commits=20))
    each = figures(heat)
    assert each["attempts"] == 1
    assert each["objs_written"] == 2 and each["objs_deleted"] == 0
    assert sum(heat.counts.requests.values()) == 3 * 20 + 1, "row, objs, swap; and the tree once"
    assert 3 <= each["write_units"] < 3.5


def test_what_is_metered_is_what_was_written() -> None:
    backend = Backend(FAKE)
    meter = Meter()
    realm = fresh_realm(backend)
    world = world_of(backend, realm, meter)
    key = world.space.catalog("main")
    row = world.refs.read(key)
    world.refs.write(Check(key, ()))
    world.refs.transact([Check(key, ())], "t")
    world.objs.put(Obj(world.space.objs("main"), "entity/a", "namespace", b"x" * 2000, 1))
    world.objs.delete(world.space.objs("main"), "entity/a")
    assert row is not None and units(row) == 1 and units(None) == 1
    assert meter.counts.requests == {
        "get_item": 1, "update_item": 1, "transact_write_items": 1, "put_item": 1, "delete_item": 1,
    }  # fmt: skip
    assert (meter.counts.written, meter.counts.deleted) == (1, 1)
    assert meter.counts.write_units == 1 + 2 + 3 + 1
    assert 2000 < meter.counts.bytes < 2200
