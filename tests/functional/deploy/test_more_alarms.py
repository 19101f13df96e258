"""What is watched besides, and where failed runs go: every function, every throttle, at the price
that the page says."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.repository import ROOT
from turnstile_local.deployment import read_template

Resources = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return read_template(ROOT / "template.yaml")


@pytest.fixture(scope="module")
def more() -> dict[str, Any]:
    return read_template(ROOT / "infra" / "more_alarms.yaml")


def functions(template: dict[str, Any]) -> Resources:
    return {name: one for name, one in template["Resources"].items() if one["Type"] == "AWS::Serverless::Function"}


def metrics(alarms: dict[str, Any]) -> list[tuple[str, str]]:
    """What the alarms of a template look at, each as often as it is paid for: metric, and whose it
    is."""
    seen = []
    for resource in alarms["Resources"].values():
        if resource["Type"] != "AWS::CloudWatch::Alarm":
            continue
        alarm = resource["Properties"]
        found = [one["MetricStat"]["Metric"] for one in alarm.get("Metrics", ()) if "MetricStat" in one] or [alarm]
        for metric in found:
            (*_, dimension) = metric["Dimensions"]
            seen.append((metric["MetricName"], str(dimension["Value"]["Ref"])))
    return seen


def test_errors_and_throttles_of_every_function_are_watched_by_one_template_or_the_other(
    template: dict[str, Any], more: dict[str, Any]
) -> None:
    both = set(metrics(more)) | set(metrics(read_template(ROOT / "infra" / "alarms.yaml")))
    watched = functions(template).keys() - {"ConsoleFunction"}
    assert {("Errors", name) for name in watched} <= both
    assert {("Throttles", name) for name in watched - {"AuthorizerFunction", "RowsFunction"}} <= both
    for table in ("RefsTable", "ObjsTable"):
        assert {("ReadThrottleEvents", table), ("WriteThrottleEvents", table)} <= both
    assert ("Latency", "ApiId") in both


def test_the_page_says_how_many_metrics_are_paid_for_and_names_every_alarm(more: dict[str, Any]) -> None:
    count = len(metrics(more))
    assert f"{count} here, ${count / 10:.2f} a month" in (ROOT / "docs/deploy.md").read_text()
    runbook = (ROOT / "docs/operations.md").read_text().partition("## More alarms")[2].partition("\n## ")[0]
    assert more["Resources"].keys() == set(
        re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.*?) \|", runbook, re.MULTILINE)))
    )


def test_the_command_for_more_alarms_gives_every_parameter_and_takes_what_the_template_puts_out(
    template: dict[str, Any], more: dict[str, Any]
) -> None:
    page = (ROOT / "docs/deploy.md").read_text()
    command = page.partition("**More alarms**")[2].partition("## Credentials")[0]
    looped = re.search(r"for name in (.+?); do", command, re.DOTALL)
    assert looped is not None
    names = looped[1].replace("\\", " ").split()
    assert {name for name, one in more["Parameters"].items() if "Default" not in one} == set(names)
    assert {*names, "AuthorizerFunction", "RowsFunction", "RowsQueueName"} <= template["Outputs"].keys()


def test_a_run_that_failed_for_good_leaves_its_event_in_a_queue(template: dict[str, Any]) -> None:
    resources = template["Resources"]
    scheduled = {
        name: one["Properties"]
        for name, one in functions(template).items()
        if any(event["Type"] == "Schedule" for event in one["Properties"].get("Events", {}).values())
    }
    queue = {"Fn::GetAtt": ["BackgroundFailures", "Arn"]}
    for name, function in scheduled.items():
        destination = function["EventInvokeConfig"]["DestinationConfig"]["OnFailure"]
        assert destination == {"Type": "SQS", "Destination": queue}, name
    send = {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": queue}
    senders = {name for name, role in roles(resources).items() if send in role}
    assert senders == {name.replace("Function", "Role") for name in scheduled}


def roles(resources: dict[str, Any]) -> dict[str, list[Any]]:
    """The statements of each role's own policy."""
    found = {name: one["Properties"] for name, one in resources.items() if one["Type"] == "AWS::IAM::Role"}
    return {name: one["Policies"][0]["PolicyDocument"]["Statement"] for name, one in found.items()}


def test_limits_of_concurrency_are_there_only_when_they_are_given(template: dict[str, Any]) -> None:
    limited = {}
    for name, function in functions(template).items():
        limit = function["Properties"].get("ReservedConcurrentExecutions")
        if limit is not None:
            condition, given, otherwise = limit["Fn::If"]
            assert otherwise == {"Ref": "AWS::NoValue"}
            assert condition == f"With{given['Ref']}"
            assert template["Conditions"][condition] == {"Fn::Not": [{"Fn::Equals": [given, 0]}]}
            assert template["Parameters"][given["Ref"]]["Default"] == 0
            limited[name.removesuffix("Function")] = given["Ref"]
    assert limited == {
        "Commit": "CommitConcurrency",
        **dict.fromkeys(("Catalog", "Iceberg", "Plans", "Branches", "Ingest", "Tokens"), "ApiConcurrency"),
        **dict.fromkeys(("Publish", "Events", "Rows"), "StreamConcurrency"),
    }


def test_tracing_is_off_unless_asked_for_and_every_role_may_send_segments_then(template: dict[str, Any]) -> None:
    assert template["Globals"]["Function"]["Tracing"] == {"Ref": "Tracing"}
    assert template["Parameters"]["Tracing"]["Default"] == "PassThrough"
    segments = {"Effect": "Allow", "Action": ["xray:PutTraceSegments", "xray:PutTelemetryRecords"], "Resource": "*"}
    entry = {"Fn::If": ["WithTracing", segments, {"Ref": "AWS::NoValue"}]}
    senders = {name for name, role in roles(template["Resources"]).items() if entry in role}
    assert senders == {name.replace("Function", "Role") for name in functions(template)}
