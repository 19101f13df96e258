"""template.yaml: valid, complete against docs/api.md, and least privilege role by role."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.repository import ROOT
from turnstile.api.settings import spill
from turnstile.maintenance.core.candidates import runs_task
from turnstile.store.core.limits import SpillLimits
from turnstile.store.core.rows import Space
from turnstile_local.deployment import read_template

FUNCTIONS = {
    "CommitFunction": ("commit", "app.app"),
    "CatalogFunction": ("catalog", "app.app"),
    "IcebergFunction": ("iceberg", "app.app"),
    "TokensFunction": ("tokens", "app.app"),
    "ConsoleFunction": ("console", "app.serve"),
    "AuthorizerFunction": ("authorizer", "app.authorize"),
    "PublishFunction": ("publish", "app.on_refs"),
    "EventsFunction": ("events", "app.on_refs"),
    "MaintainFunction": ("maintain", "app.maintain"),
    "PlansFunction": ("plans", "app.app"),
    "BranchesFunction": ("branches", "app.handle"),
    "IngestFunction": ("ingest", "app.app"),
    "RowsFunction": ("rows", "app.on_batch"),
    "SweepFunction": ("gc", "app.sweep"),
    "CollectFunction": ("gc", "app.collect"),
}


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return read_template(ROOT / "template.yaml")


@pytest.fixture(scope="module")
def resources(template: dict[str, Any]) -> dict[str, Any]:
    return template["Resources"]


def of_type(resources: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {name: found["Properties"] for name, found in resources.items() if found["Type"] == kind}


@pytest.mark.slow
@pytest.mark.parametrize("file", ["template.yaml", "infra/alarms.yaml"])
def test_cfn_lint_finds_nothing(file: str) -> None:
    linted = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), ROOT / file], capture_output=True, text=True, check=False
    )
    assert linted.returncode == 0, linted.stdout


def test_sam_translates_it(template: dict[str, Any]) -> None:
    from samtranslator.translator.transform import transform

    packaged = read_template(ROOT / "template.yaml")
    for found in packaged["Resources"].values():
        for member in ("CodeUri", "ContentUri"):
            if member in found.get("Properties", {}):
                found["Properties"][member] = "s3://bucket/code.zip"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        translated = transform(packaged, {}, SimpleNamespace(load=dict))
    kinds = [found["Type"] for found in translated["Resources"].values()]
    assert kinds.count("AWS::Lambda::Function") == len(FUNCTIONS)
    assert kinds.count("AWS::Lambda::EventSourceMapping") == 4
    assert kinds.count("AWS::Events::Rule") == 6
    assert kinds.count("AWS::IAM::Role") == len(FUNCTIONS), "a role of its own making would not be least privilege"


def test_no_yaml_aliases() -> None:
    """CloudFormation refuses them."""
    assert not re.search(r"[:\-] [&*]\w", (ROOT / "template.yaml").read_text())


def test_functions(resources: dict[str, Any]) -> None:
    found = of_type(resources, "AWS::Serverless::Function")
    assert {name: (Path(f["CodeUri"]).name, f["Handler"]) for name, f in found.items()} == FUNCTIONS
    for function in found.values():
        assert (ROOT / function["CodeUri"]).is_dir()
        assert "Policies" not in function


def test_alarms_know_every_function_that_is_always_there(template: dict[str, Any]) -> None:
    """The authorizer is there only with signed tokens; ``ApiFailures`` sees it fail. The function
    for rows of a queue or a stream is watched by infra/more_alarms.yaml."""
    named = {name for name in template["Outputs"] if name in FUNCTIONS}
    assert named == FUNCTIONS.keys() - {"ConsoleFunction"}
    named -= {"AuthorizerFunction", "RowsFunction"}
    alarms = read_template(ROOT / "infra" / "alarms.yaml")
    assert named == {name for name in alarms["Parameters"] if name.endswith("Function")}
    body = alarms["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    errors = next(widget for widget in body.split('{"type": "metric"') if '"title": "Errors"' in widget)
    assert named == set(re.findall(r"\$\{(\w+Function)\}", errors))
    watched = [
        dimension["Value"]["Ref"]
        for alarm in of_type(alarms["Resources"], "AWS::CloudWatch::Alarm").values()
        for dimension in alarm.get("Dimensions", ())
        if isinstance(dimension["Value"], dict)
    ]
    assert named - set(watched) == {"CatalogFunction", "PlansFunction", "BranchesFunction", "IngestFunction"}, (
        "which ApiFailures shows"
    )


def test_sizes_of_an_index_have_the_bounds_that_functions_check(
    template: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for parameter, variable in (
        ("IndexEmbeddedKb", "TURNSTILE_INDEX_EMBEDDED_KB"),
        ("IndexSegmentKb", "TURNSTILE_INDEX_SEGMENT_KB"),
    ):
        assert template["Globals"]["Function"]["Environment"]["Variables"][variable] == {"Ref": parameter}
        found = template["Parameters"][parameter]
        monkeypatch.setenv(variable, str(found["Default"]))
    assert spill() == SpillLimits(), "the template's defaults are the code's"
    monkeypatch.setenv("TURNSTILE_INDEX_SEGMENT_KB", str(template["Parameters"]["IndexSegmentKb"]["MaxValue"]))
    for end in ("MinValue", "MaxValue"):
        monkeypatch.setenv("TURNSTILE_INDEX_EMBEDDED_KB", str(template["Parameters"]["IndexEmbeddedKb"][end]))
        assert spill().embedded == template["Parameters"]["IndexEmbeddedKb"][end] * 1024


def test_time_limits_grow_outwards(resources: dict[str, Any]) -> None:
    integrations = of_type(resources, "AWS::ApiGatewayV2::Integration")
    functions = of_type(resources, "AWS::Serverless::Function")
    for name in ("CommitFunction", "CatalogFunction", "BranchesFunction", "IngestFunction", "TokensFunction"):
        gateway = integrations[name.replace("Function", "Integration")]["TimeoutInMillis"] / 1000
        assert functions[name]["Timeout"] < gateway < 30


def test_every_function_logs_to_a_group_of_its_own_with_retention(resources: dict[str, Any]) -> None:
    groups = of_type(resources, "AWS::Logs::LogGroup")
    used = [f["LoggingConfig"]["LogGroup"]["Ref"] for f in of_type(resources, "AWS::Serverless::Function").values()]
    assert len(set(used)) == len(FUNCTIONS)
    assert set(used) <= set(groups)
    assert all(group["RetentionInDays"] == {"Ref": "LogRetentionDays"} for group in groups.values())


def test_tables(resources: dict[str, Any]) -> None:
    refs, objs = (resources[name]["Properties"] for name in ("RefsTable", "ObjsTable"))
    keys = [[(k["AttributeName"], k["KeyType"]) for k in table["KeySchema"]] for table in (refs, objs)]
    assert keys == [[("key", "HASH")], [("space", "HASH"), ("id", "RANGE")]]
    assert refs["StreamSpecification"]["StreamViewType"] == "NEW_IMAGE"
    assert objs["TimeToLiveSpecification"] == {"AttributeName": "expires", "Enabled": True}
    for name, table in (("RefsTable", refs), ("ObjsTable", objs)):
        assert table["BillingMode"] == "PAY_PER_REQUEST"
        assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
        assert table["DeletionProtectionEnabled"] == {"Ref": "DeletionProtection"}
        # A first deployment that fails could not delete a protected table: its rollback would fail
        # as well.
        assert resources[name]["DeletionPolicy"] == "Retain"
        assert resources[name]["UpdateReplacePolicy"] == "Retain"


def test_a_scheduled_run_that_failed_is_not_repeated_beside_the_next_one(resources: dict[str, Any]) -> None:
    """``RetryPolicy`` is of handing the event over; Lambda has tries of its own, two within six
    hours unless told."""
    sweep, collect = (resources[f"{name}Function"]["Properties"]["EventInvokeConfig"] for name in ("Sweep", "Collect"))
    assert (sweep["MaximumRetryAttempts"], sweep["MaximumEventAgeInSeconds"]) == (0, 60)
    function = resources["CollectFunction"]["Properties"]
    assert collect["MaximumRetryAttempts"] <= 2
    assert collect["MaximumEventAgeInSeconds"] >= collect["MaximumRetryAttempts"] * function["Timeout"]


def test_publish_hears_of_pending_rows_only_and_gives_up_into_a_queue(resources: dict[str, Any]) -> None:
    source = resources["PublishFunction"]["Properties"]["Events"]["Refs"]["Properties"]
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["BisectBatchOnFunctionError"] is True
    assert source["MaximumRecordAgeInSeconds"] == 3600
    assert source["DestinationConfig"]["OnFailure"]["Destination"] == {"Fn::GetAtt": ["PublishFailures", "Arn"]}
    (pattern,) = source["FilterCriteria"]["Filters"]
    assert '"NewImage": {"pending": {"N": [{"exists": true}]}}' in pattern["Pattern"]


def test_i13_events_hear_of_heads_and_runs_only_and_give_nothing_up(resources: dict[str, Any]) -> None:
    source = resources["EventsFunction"]["Properties"]["Events"]["Refs"]["Properties"]
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert not {"MaximumRetryAttempts", "MaximumRecordAgeInSeconds", "ParallelizationFactor"} & source.keys()
    changed, runs, removed = (filter["Pattern"] for filter in source["FilterCriteria"]["Filters"])
    assert '"kind": {"S": ["table", "catalog"]}' in changed and "REMOVE" in removed
    prefix = runs["Fn::Sub"].replace("${Realm}", "default").partition('{"prefix": "')[2].partition('"')[0]
    assert prefix == Space("default").updateable(f"task/{runs_task('')}"), "as events.append.runs_key has it"


def test_i1_a_bucket_that_the_stack_creates_keeps_versions_wants_tls_and_may_refuse_to_overwrite_versions_of_logs(
    template: dict[str, Any], resources: dict[str, Any]
) -> None:
    bucket = resources["LakeBucket"]
    policy = resources["LakeBucketPolicy"]
    assert bucket["Properties"]["VersioningConfiguration"] == {"Status": "Enabled"}
    assert bucket["Condition"] == policy["Condition"] == "WithLakeBucket"
    tls, conditional = policy["Properties"]["PolicyDocument"]["Statement"]
    assert (tls["Effect"], tls["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    name, statement, _ = conditional["Fn::If"]
    recommended = json.loads((ROOT / "infra/policies/log-conditional-writes.json").read_text())["Statement"][0]
    same = ("Sid", "Effect", "Principal", "Action", "Condition")
    assert name == "LogIsPutIfAbsent" and {m: statement[m] for m in same} == {m: recommended[m] for m in same}
    assert statement["Resource"]["Fn::Sub"].endswith(recommended["Resource"].rpartition("LAKE_PREFIX")[2])
    assert template["Parameters"]["LakePutIfAbsent"]["Default"] == "false"
