"""The cost model agrees with the requests of the real services to the stores, and with the goals
(docs/deploy.md)."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from dataclasses import asdict
from functools import partial
from random import Random
from typing import Any

import pytest
import yaml

from tests.support.cli import run
from tests.support.delta_table import Table, table_id
from tests.support.fakes import delta
from tests.support.fakes.deliveries import BatchLake, message
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.functions import Context, Function
from tests.support.meter import Meter, bytes_of, metered
from tests.support.repository import ROOT
from turnstile.api import event_stream, light_work
from turnstile.api.light_work import ALL
from turnstile.api.settings import Settings
from turnstile.delta.core.decide import Ratified
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.events.append import Appender
from turnstile.events.deliver import Deliverer
from turnstile.gc import collector
from turnstile.gc.core import LOG_RETENTION_MS
from turnstile.maintenance.work import Maintainer, MaintenanceTarget
from turnstile.store.core.names import staged_path
from turnstile_cost import (
    Idle,
    Messages,
    Workload,
    commits,
    dollars,
    firehose,
    idle,
    messages,
    model,
    prices,
    watching,
)
from turnstile_cost.model import COUNTED, LIGHT_COMMITS, LIGHT_WORK, Usage

ROUNDS = 32


class Counted:
    """A table on fakes that count requests by DynamoDB's rules."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.world = fake_world()
        self.meter = Meter()
        self.table = Table(self.world)
        self.metered = metered(self.world, self.meter)
        self.ratifier = Ratifier(self.metered)
        self._random = Random(3)
        self.ratifier.heads.facts(self.table.id)
        self.used: dict[str, Usage] = {}

    def count(self, step: str, do: Any) -> None:
        self.meter.reset()
        self.world.storages.requests.clear()
        do()
        storage = Counter(self.world.storages.requests)
        used = Usage(
            write_units=self.meter.write_units,
            read_units=self.meter.read_units,
            puts=storage["put"] + storage["replace"] + storage["list"],
            gets=storage["read"],
        )
        self.used[step] = self.used.get(step, Usage()) + used

    def commit(self) -> None:
        version = self.table.head.latest + 1
        stamp = max(self.world.clock.now_ms(), self.table.head.last_ict + 1)
        content = delta.append(self._uuid(), stamp, rows=1000)
        request = CommitRequest(self.table.id, version, content=content)
        if self.kind == "staged":
            name = f"{version:020d}.{self._uuid()}.json"
            self.table.storage.put_if_absent(staged_path(name), content)
            self.world.storages.requests.clear()
            request = CommitRequest(self.table.id, version, staged=name, size=len(content))
        assert isinstance(self.ratifier.commit(request), Ratified)

    def round(self, batch: int) -> None:
        for _ in range(batch):
            self.count("commit", self.commit)
        self.count("publish", lambda: Publisher(self.metered).publish(self.table.id))
        self.count("events", lambda: Appender(self.metered).append([self.table.key]))

    def light_work(self) -> None:
        target = MaintenanceTarget(Maintainer(self.metered))
        self.count("light work", lambda: Deliverer(self.metered, target).deliver("main", go_on=lambda: True))

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("kind", ["inline", "staged"])
def test_every_step_asks_of_the_stores_what_the_model_says(kind: str, batch: int) -> None:
    counted = Counted(kind)
    for _ in range(ROUNDS):
        counted.round(batch)
    counted.used.clear()
    for _ in range(ROUNDS):
        counted.round(batch)
    for step, used in counted.used.items():
        expected = COUNTED["events" if step == "events" else f"{step} {kind}"].batch(batch)
        assert asdict(used * (1 / ROUNDS)) == pytest.approx(asdict(expected), rel=0.01), step


@pytest.mark.parametrize("batch", [1, 16, 90])
def test_messages_with_rows_ask_of_the_stores_what_the_model_says(batch: int) -> None:
    lake = BatchLake()
    meter = Meter()
    lake.open(metered(lake.lake.world, meter))
    used = Usage()
    for round_ in range(2 * ROUNDS):
        first = round_ * batch
        records = [message(f"m{id}", [{"id": id, "name": "x" * 900}]) for id in range(first, first + batch)]
        meter.reset()
        lake.lake.world.storages.requests.clear()
        assert lake.deliver(*records) == []
        puts = Counter(lake.lake.world.storages.requests)["put"]
        if round_ >= ROUNDS:
            used += Usage(write_units=meter.write_units, read_units=meter.read_units, puts=puts)
        lake.lake.lake.publish()
    expected = COUNTED["rows"].batch(batch)
    assert asdict(used * (1 / ROUNDS)) == pytest.approx(asdict(expected), rel=0.01)


def test_a_million_messages_of_a_kilobyte_cost_what_the_page_says() -> None:
    def price(**workload: Any) -> float:
        used = messages(Messages(**workload))
        return sum(sum(dollars(usage, prices()).values()) for usage in used.values())

    assert price() < 3
    assert price(count=4_000, bytes_each=250_000) < price() / 20, "a GB in few messages"
    assert firehose(Messages(), prices()) == pytest.approx(0.145)


def test_light_work_asks_of_the_stores_what_the_model_says() -> None:
    counted = Counted("inline")
    for _ in range(3):
        counted.used.clear()
        for _ in range(LIGHT_COMMITS // 10):
            counted.round(10)
        counted.light_work()
    assert counted.used["light work"] == LIGHT_WORK


def total(workload: Workload, *steps: str) -> float:
    used = commits(workload)
    return sum(sum(dollars(used[step], prices()).values()) for step in (steps or used))


def test_a_million_commits_are_ratified_and_published_for_what_is_promised() -> None:
    assert total(Workload(), "requests", "commit", "publish") < 11.05
    assert total(Workload(staged=1), "requests", "commit", "publish", "staged files") < 19
    assert total(Workload(per_batch=16)) < 12.5, "with events and light work, where they come often"
    assert total(Workload(), "events") < 5
    assert total(Workload(), "light work") < 1.5


def test_an_idle_month_costs_cents() -> None:
    dollars_of = [sum(dollars(usage, prices()).values()) for usage in idle(Idle(tables=10)).values()]
    assert sum(dollars_of) < 0.15


def test_an_idle_month_costs_less_than_ten_cents_at_any_number_of_tables() -> None:
    for tables in (0, 10, 1_000, 100_000, 10_000_000):
        month = sum(sum(dollars(usage, prices()).values()) for usage in idle(Idle(tables=tables)).values())
        assert month < 0.10, tables


SCHEDULES = {
    "sweep": ("gc", "sweep", {"source": "aws.events"}),
    "events": ("events", "on_refs", {"source": "aws.events"}),
    "new events": ("maintain", "maintain", {"source": "aws.events"}),
    "light work": ("maintain", "maintain", ALL),
    "collect": ("gc", "collect", {"source": "aws.events"}),
}


def idle_world(tables: int) -> FakeWorld:
    """Tables with all commits published, in the log of events and maintained, and without further
    changes."""
    world = fake_world()
    for number in range(tables):
        table = Table(world, table_id(number))
        table.inline()
        Publisher(world).publish(table.id)
        Appender(world).append([table.key])
        Maintainer(world).maintain(table.id)
    world.clock.now += LOG_RETENTION_MS + 86_400_000
    return world


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("tables", [12, pytest.param(400, marks=pytest.mark.slow)])
def test_idle_schedules_ask_of_the_stores_what_the_model_says_at_any_number_of_tables(
    tables: int, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On average over a round: parts have rows of different kinds. The limits are smaller here, so
    that a round has several parts."""
    limits = {"sweep": 64, "events": 64, "light work": 200, "collect": 400, "idle tables": 100}
    monkeypatch.setattr(model, "PARTS", limits)
    monkeypatch.setattr(event_stream, "ROWS_MAX", limits["events"])
    monkeypatch.setattr(light_work, "ROWS_MAX", limits["light work"])
    monkeypatch.setattr(collector, "ROWS_MAX", limits["collect"])
    monkeypatch.setattr(collector, "IDLE_MAX", limits["idle tables"])
    name, method, event = SCHEDULES[schedule]
    world = idle_world(tables)
    meter = Meter()
    function = Function(name)
    function.use_world(metered(world, meter))
    call = partial(getattr(function, method), event, Context(900_000))
    for _ in range(3):
        call()
    rows = sum(row["key"] != world.space.attention() for row in world.refs.rows.values())
    runs = -(-rows // limits.get("idle tables" if schedule == "collect" else schedule, rows))
    meter.reset()
    world.storages.requests.clear()
    for _ in range(2 * runs):
        call()
    assert {row["state"] for row in world.refs.rows.values() if row["kind"] == "table"} == {"active"}
    bytes_a_table = sum(map(bytes_of, world.refs.rows.values())) / tables
    expected = model.run_of(schedule, Idle(tables=tables, table_bytes=round(bytes_a_table)))
    lists = Counter(world.storages.requests)["list"]
    read_units = meter.read_units / (2 * runs)
    assert 0.75 * expected.read_units - 1 < read_units < expected.read_units + 2, (
        "the last part of a round is a short one"
    )
    assert meter.write_units / (2 * runs) == pytest.approx(expected.write_units, abs=0.15)
    assert lists / (2 * runs) == pytest.approx(max(0, expected.puts - 1), rel=0.1, abs=1)


def test_the_model_knows_how_many_rows_a_run_passes() -> None:
    assert {
        "sweep": Settings().sweep_rows,
        "events": event_stream.ROWS_MAX,
        "light work": light_work.ROWS_MAX,
        "collect": collector.ROWS_MAX,
        "idle tables": collector.IDLE_MAX,
    } == model.PARTS
    assert model.round_days(Idle(tables=1_000))["collect"] == 1


def test_costs_follow_the_workload() -> None:
    assert total(Workload(commits=2e6)) == pytest.approx(2 * total(Workload()))
    assert total(Workload(staged=0.5)) == pytest.approx((total(Workload()) + total(Workload(staged=1))) / 2)
    assert total(Workload(bus=True), "bus") == pytest.approx(2.0)
    assert total(Workload(commits=0)) == 0


def test_the_alarms_that_are_priced_are_those_of_the_template() -> None:
    class Any_(yaml.SafeLoader):
        pass

    Any_.add_multi_constructor("!", lambda loader, tag, node: None)
    resources = yaml.load((ROOT / "infra" / "alarms.yaml").read_text(), Any_)["Resources"]
    alarms = [name for name, resource in resources.items() if resource["Type"] == "AWS::CloudWatch::Alarm"]
    assert Idle().alarms == len(alarms)
    assert set(watching(Idle(), prices())) == {"alarms", "metrics", "dashboard"}


def test_the_command_prints_the_model() -> None:
    answer = json.loads(run("cost", "--commits", "2e6", "--staged", "1", "-o", "json").stdout)
    assert answer["totals"]["commits"] == pytest.approx(total(Workload(commits=2e6, staged=1)))
    assert answer["total"] == pytest.approx(sum(answer["totals"].values()))
    assert answer["as_of"] == prices().as_of
    shown = run("cost").stdout
    assert "publish" in shown
    assert prices().as_of in shown
    assert json.loads(run("cost", "--unwatched", "-o", "json").stdout)["dollars"]["watching"] == {}
