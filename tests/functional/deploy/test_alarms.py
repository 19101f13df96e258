"""infra/alarms.yaml watches figures that the functions really report, and publishing that is down
is among them (I11)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.delta_table import Table, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.functions import SCHEDULED, Context, Function
from tests.support.gc import GRACE
from tests.support.repository import ROOT
from turnstile.api.figures import WATCHED
from turnstile.store.core.errors import StorageFault
from turnstile.store.core.names import published_path
from turnstile_local.deployment import read_template

DAY = 86_400
NAMES = {"sweep": "SweepFunction", "collect": "CollectFunction"}

Figures = dict[str, float]
"""By metric, of one function: values with their namespace and dimensions checked."""


@pytest.fixture(scope="module")
def alarms() -> dict[str, dict[str, Any]]:
    resources = read_template(ROOT / "infra" / "alarms.yaml")["Resources"]
    return {name: r["Properties"] for name, r in resources.items() if r["Type"] == "AWS::CloudWatch::Alarm"}


def watched(alarm: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The metrics of the functions' own that an alarm looks at."""
    metrics = [one["MetricStat"]["Metric"] for one in alarm.get("Metrics", ()) if "MetricStat" in one] or [alarm]
    yield from (one for one in metrics if one["Namespace"] == "Turnstile")


def reported(
    run: str, world: FakeWorld, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Figures:
    """The figures of one run of the deployed function, as CloudWatch reads them from its log. What
    is not there counts as 0."""
    app = Function("gc")
    app.use_world(world, grace=GRACE)
    capsys.readouterr()
    with monkeypatch.context() as deployed:
        deployed.setenv("AWS_LAMBDA_FUNCTION_NAME", NAMES[run])
        getattr(app, run)(SCHEDULED, Context())
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("{") and '"_aws"' in line]
    if not lines:
        return defaultdict(float)
    (line,) = lines
    told = json.loads(line)
    (described,) = told["_aws"]["CloudWatchMetrics"]
    assert described["Namespace"] == "Turnstile"
    (dimensions,) = described["Dimensions"]
    assert {name: told[name] for name in dimensions} == {"service": "gc", "run": run, "function_name": NAMES[run]}
    return {metric["Name"]: max(told[metric["Name"]]) for metric in described["Metrics"]}


@pytest.mark.parametrize("run", NAMES)
def test_every_watched_figure_is_one_that_the_function_reports(
    run: str, alarms: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNSTILE_METRICS", "all")
    figures = reported(run, fake_world(), capsys, monkeypatch)
    seen = []
    for metric in (one for alarm in alarms.values() for one in watched(alarm)):
        dimensions = {one["Name"]: one["Value"] for one in metric["Dimensions"]}
        if dimensions.get("run") == run:
            assert dimensions == {"service": "gc", "run": run, "function_name": {"Ref": NAMES[run]}}
            assert metric["MetricName"] in figures
            assert metric["MetricName"] in WATCHED["gc"][run], "it is sent by default"
            seen.append(metric["MetricName"])
    assert set(seen) == set(WATCHED["gc"][run]), "nothing is sent that no alarm looks at"


def failing(alarms: dict[str, Any], figures: Figures) -> float:
    """What ``PublishFailing`` compares with its threshold."""
    (expression,) = [one["Expression"] for one in alarms["PublishFailing"]["Metrics"] if "Expression" in one]
    words = expression.split()
    total = figures[words[0]]
    for sign, name in zip(words[1::2], words[2::2], strict=True):
        total += figures[name] if sign == "+" else -figures[name]
    return total


def test_i11_storage_that_refuses_every_write_is_an_alarm_although_no_function_fails(
    alarms: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = fake_world()
    for number in range(3):
        Table(world, table_id(number)).mixed(2)

    def denied(*_: object) -> bool:
        raise StorageFault("could not write: AccessDenied")

    with monkeypatch.context() as patch:
        for number in range(3):
            location = world.refs.rows[world.space.table(table_id(number))]["location"]
            patch.setattr(type(world.storages.open(location)), "put_if_absent", denied)
        assert failing(alarms, reported("sweep", world, capsys, patch)) == 3
    assert failing(alarms, reported("sweep", world, capsys, monkeypatch)) == 0


def test_i11_a_stuck_table_is_an_alarm_of_its_own(
    alarms: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = fake_world()
    table = Table(world)
    table.mixed(2)
    table.put(published_path(1), b"foreign\n")
    for _ in range(2):
        figures = reported("sweep", world, capsys, monkeypatch)
        assert (figures["stuck"], failing(alarms, figures)) == (1, 0)
    assert alarms["TablesStuck"]["MetricName"] == "stuck"


def test_alarms_look_back_no_further_than_cloudwatch_does(alarms: dict[str, Any]) -> None:
    """A day, or a week where a period is an hour or longer."""
    for name, alarm in alarms.items():
        stats = [one["MetricStat"]["Period"] for one in alarm.get("Metrics", ()) if "MetricStat" in one]
        period = max(stats) if stats else alarm["Period"]
        assert period * alarm["EvaluationPeriods"] <= (7 * DAY if period >= 3600 else DAY), name
