"""Metrics are few, cost nothing while all is well, and the cost model counts those that the
functions write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.delta_table import Table
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.functions import SCHEDULED, Context, Function, Http
from tests.support.repository import ROOT
from tests.support.roles.parameters import EVERYTHING
from tests.support.roles.resolved import Resolved
from tests.support.roles.translated import translated
from turnstile.api.event_stream import DELIVER
from turnstile.api.figures import WATCHED, count, figures_to_send
from turnstile.api.http.env import BadSetting
from turnstile.api.light_work import ALL
from turnstile.delta.publish import Publisher
from turnstile.events.append import Appender
from turnstile.store.core.names import published_path
from turnstile_cost import Idle, dollars, idle, model, most_metrics, prices, watching
from turnstile_local.deployment import read_template

RUNS = (
    ("gc", "sweep", SCHEDULED),
    ("gc", "collect", SCHEDULED),
    ("maintain", "maintain", SCHEDULED),
    ("maintain", "maintain", ALL),
    ("events", "on_refs", SCHEDULED),
    ("events", "on_refs", DELIVER),
)
"""Every schedule: function, handler, event."""


def metrics_of(capsys: pytest.CaptureFixture[str]) -> set[tuple[str, ...]]:
    """Each combination of name and dimensions that was written, with the values."""
    found = set()
    for line in capsys.readouterr().out.splitlines():
        told = json.loads(line) if line.startswith("{") and '"_aws"' in line else None
        for described in told["_aws"]["CloudWatchMetrics"] if told else ():
            dimensions = [f"{name}={told[name]}" for name in sorted(described["Dimensions"][0])]
            found |= {(metric["Name"], *dimensions) for metric in described["Metrics"]}
    return found


def run_all(world: FakeWorld, capsys: pytest.CaptureFixture[str], runs: Any = RUNS) -> set[tuple[str, ...]]:
    capsys.readouterr()
    for name, handler, event in runs:
        app = Function(name)
        app.use_world(world)
        getattr(app, handler)(event, Context(900_000))
    return metrics_of(capsys)


def quiet_world() -> FakeWorld:
    """A table of which all is published, and in the log of events."""
    world = fake_world()
    table = Table(world)
    table.mixed(3)
    Publisher(world).publish(table.id)
    Appender(world).append([table.key])
    return world


def test_schedules_write_no_metric_while_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_all(quiet_world(), capsys) == set()


def test_a_deployment_in_trouble_has_ten_metrics_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    world = quiet_world()
    table = Table(world, "00000009-1111-4111-8111-111111111111")
    table.mixed(12)
    table.put(published_path(1), b"foreign\n")
    found = run_all(world, capsys)
    assert {name for name, *_ in found} >= {"stuck", "failures"}
    by_default = [name for runs in WATCHED.values() for names in runs.values() for name in names]
    assert len(found) <= most_metrics("alarms") == len(by_default) <= 10
    for name, *dimensions in found:
        told = dict(each.split("=", 1) for each in dimensions)
        assert name in WATCHED[told["service"]][told.get("run", "")]
        assert told.keys() <= {"service", "run", "function_name"}


def test_the_figures_that_an_alarm_computes_with_are_sent_together() -> None:
    figures = {"failures": 2, "stuck": 0, "unreadable": 0, "incomplete": 0, "lag_ms": 5}
    assert figures_to_send("alarms", "gc", "sweep", figures) == {name: figures[name] for name in WATCHED["gc"]["sweep"]}
    assert figures_to_send("alarms", "gc", "sweep", {**figures, "failures": 0}) == {}
    assert figures_to_send("alarms", "publish", "", figures) == {} == figures_to_send("none", "gc", "sweep", figures)
    assert figures_to_send("all", "publish", "", figures) == figures


def test_a_figure_of_trouble_is_no_line_that_a_log_of_warnings_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    count("maintenance", {"failures": 1})
    told = json.loads(capsys.readouterr().out)
    assert told["level"] == "ERROR" and told["timestamp"].endswith("Z")


def test_the_model_counts_the_metrics_that_the_functions_write(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNSTILE_METRICS", "all")
    by_run = {
        "sweep": RUNS[:1],
        "collect": RUNS[1:2],
        "maintenance": RUNS[2:4],
    }
    counted = {run: len(run_all(quiet_world(), capsys, runs)) for run, runs in by_run.items()}
    assert counted == {run: model.FIGURES[run] for run in model.IDLE_HOURS}
    world = quiet_world()
    table = Table(world, "00000009-1111-4111-8111-111111111111")
    table.mixed(3)
    record = {"dynamodb": {"Keys": {"key": {"S": table.key}}, "SequenceNumber": "1"}, "eventName": "MODIFY"}
    for name in ("publish", "events"):
        assert len(run_all(world, capsys, [(name, "on_refs", {"Records": [record]})])) == model.FIGURES[name]
    app = Function("commit")
    app.use_world(world)
    Http(app.app).get("/v1")
    assert len(metrics_of(capsys)) == model.FIGURES_OF_OPERATION
    assert most_metrics("all", 10) == sum(model.FIGURES.values()) + 30


def test_an_idle_month_costs_ten_cents_with_the_default_of_metrics_and_without_any() -> None:
    for detail, most in (("none", 0.10), ("alarms", 0.10), ("all", 6.0)):
        deployment = Idle(metrics=detail)  # type: ignore[arg-type]
        month = sum(sum(dollars(usage, prices()).values()) for usage in idle(deployment).values())
        month += watching(deployment, prices())["metrics"]
        assert month < most, detail
    assert watching(Idle(metrics="all"), prices())["metrics"] > 5, "what no choice was before"


def test_the_gateway_counts_each_route_only_where_every_figure_is_wanted() -> None:
    template = read_template(ROOT / "template.yaml")
    assert template["Parameters"]["MetricsDetail"]["Default"] == "alarms"
    for detail in ("alarms", "all", "none"):
        stack = Resolved(template, {**EVERYTHING, "MetricsDetail": detail})
        stage = stack.resources["ApiStage"]["Properties"]
        settings = [stage["DefaultRouteSettings"], *stage["RouteSettings"].values()]
        assert {each["DetailedMetricsEnabled"] for each in settings} == {detail == "all"}
        variables = template["Globals"]["Function"]["Environment"]["Variables"]
        assert stack.value(variables["TURNSTILE_METRICS"]) == detail


def test_another_word_is_a_bad_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_METRICS", "some")
    with pytest.raises(BadSetting, match="TURNSTILE_METRICS must be one of alarms, all, none"):
        Function("commit")


@pytest.mark.parametrize(
    ("level", "of_lambda"), [("DEBUG", "DEBUG"), ("INFO", "INFO"), ("WARNING", "WARN"), ("ERROR", "ERROR")]
)
def test_the_level_of_the_log_is_lambdas_own(level: str, of_lambda: str) -> None:
    template = read_template(ROOT / "template.yaml")
    stack = Resolved(template, {**EVERYTHING, "LogLevel": level})
    logging = stack.value(template["Globals"]["Function"]["LoggingConfig"])
    assert logging == {"LogFormat": "JSON", "ApplicationLogLevel": of_lambda, "SystemLogLevel": "WARN"}
    assert of_lambda in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")


def test_every_function_has_that_level_in_what_cloudformation_gets() -> None:
    template = read_template(ROOT / "template.yaml")
    functions = {
        name: resource["Properties"]["LoggingConfig"]
        for name, resource in translated(template).items()
        if resource["Type"] == "AWS::Lambda::Function"
    }
    assert len(functions) == 15
    for name, config in functions.items():
        assert config.keys() == {"LogFormat", "ApplicationLogLevel", "SystemLogLevel", "LogGroup"}, name


def test_the_bucket_forgets_markers_of_files_that_are_gone() -> None:
    template = read_template(ROOT / "template.yaml")
    bucket = Resolved(template, EVERYTHING).resources["LakeBucket"]["Properties"]
    expiry = next(each for each in bucket["LifecycleConfiguration"]["Rules"] if each["Id"] == "expire-earlier-versions")
    assert expiry["ExpiredObjectDeleteMarker"] is True and expiry["NoncurrentVersionExpiration"]
