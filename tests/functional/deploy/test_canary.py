"""A canary of new code: the template of one is valid, and a bad version is taken back before most
requests meet it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.functions import Answer
from tests.support.lake import Lake, make_lake
from tests.support.repository import ROOT
from turnstile.delta.ratify import Ratifier
from turnstile_local.deployment import read_template

SCRIPT = ROOT / "infra" / "canary.py"
_spec = importlib.util.spec_from_file_location("canary_script", SCRIPT)
assert _spec is not None and _spec.loader is not None
script = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(script)

REQUESTS = 20
"""A minute."""


def packaged(release: str, kind: str = "Canary10Percent5Minutes", start: str = "cold") -> dict[str, Any]:
    """The template as SAM translates it on AWS."""
    from samtranslator.translator.transform import transform

    template = script.canary(read_template(ROOT / "template.yaml"), release, kind, start)
    for found in template["Resources"].values():
        for member in ("CodeUri", "ContentUri"):
            if member in found.get("Properties", {}):
                found["Properties"][member] = "s3://bucket/code.zip"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        translated: dict[str, Any] = transform(template, {}, SimpleNamespace(load=dict))["Resources"]
    return translated


def of_type(resources: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {name: one["Properties"] for name, one in resources.items() if one["Type"] == kind}


def test_each_function_that_answers_requests_is_called_by_its_alias_and_moved_by_a_deployment_that_alarms_stop() -> (
    None
):
    resources = packaged("one")
    groups = of_type(resources, "AWS::CodeDeploy::DeploymentGroup")
    integrations = of_type(resources, "AWS::ApiGatewayV2::Integration")
    permissions = of_type(resources, "AWS::Lambda::Permission")
    for name in script.ANSWERING:
        alias = {"Ref": f"{name}FunctionAlias{script.ALIAS}"}
        assert integrations[f"{name}Integration"]["IntegrationUri"]["Fn::Sub"][1] == {"Function": alias}
        assert permissions[f"{name}Permission"]["FunctionName"] == alias
        group = groups[f"{name}FunctionDeploymentGroup"]
        watched = {alarm["Name"]["Ref"] for alarm in group["AlarmConfiguration"]["Alarms"]}
        assert watched == {f"{name}CanaryErrors", "CanaryFailures"} and watched <= resources.keys()
        assert "DEPLOYMENT_STOP_ON_ALARM" in group["AutoRollbackConfiguration"]["Events"]
        dimensions = {one["Name"]: one["Value"] for one in resources[f"{name}CanaryErrors"]["Properties"]["Dimensions"]}
        assert dimensions["ExecutedVersion"]["Fn::GetAtt"][0] in of_type(resources, "AWS::Lambda::Version")
    others = {name for name in integrations if name.removesuffix("Integration") not in script.ANSWERING}
    assert others == {"ConsoleIntegration"}


def test_another_release_makes_new_versions_though_the_code_of_the_function_is_the_same() -> None:
    versions = [set(of_type(packaged(release), "AWS::Lambda::Version")) for release in ("one", "two", "two")]
    assert not versions[0] & versions[1]
    assert versions[1] == versions[2]


@pytest.mark.slow
def test_every_way_to_move_an_alias_is_one_that_sam_knows_and_no_other_is_taken() -> None:
    for kind in script.TYPES:
        group = of_type(packaged("one", kind), "AWS::CodeDeploy::DeploymentGroup")["CommitFunctionDeploymentGroup"]
        assert group["DeploymentConfigName"]["Fn::Sub"][1] == {"ConfigName": kind}
    with pytest.raises(ValueError, match="Canary10Percent5Minutes"):
        script.canary(read_template(ROOT / "template.yaml"), "one", "Slowly")


def test_the_script_writes_a_template_beside_the_built_one_with_versions_of_its_own_each_time(tmp_path: Path) -> None:
    built = tmp_path / "template.yaml"
    assert script.main(["--template", str(built)]) == 1
    built.write_text((ROOT / "template.yaml").read_text())
    digests = set()
    for _ in range(2):
        run = [sys.executable, str(SCRIPT), "--template", str(built)]
        told = subprocess.run(run, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
        assert f"--template-file {tmp_path / 'canary.json'}" in told
        made = json.loads((tmp_path / "canary.json").read_text())
        digests.add(made["Resources"]["CommitFunction"]["Properties"]["AutoPublishCodeSha256"])
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("start", "kind", "member", "value"),
    [
        ("snapstart", "AWS::Lambda::Function", "SnapStart", {"ApplyOn": "PublishedVersions"}),
        ("provisioned=3", "AWS::Lambda::Alias", "ProvisionedConcurrencyConfig", {"ProvisionedConcurrentExecutions": 3}),
    ],
)
def test_the_commit_function_alone_may_start_warm(start: str, kind: str, member: str, value: Any) -> None:
    warm = {
        name: found[member] for name, found in of_type(packaged("one", start=start), kind).items() if member in found
    }
    assert list(warm.values()) == [value]
    assert next(iter(warm)).startswith("CommitFunction")
    assert not any(member in found for found in of_type(packaged("one"), kind).values())


@pytest.mark.parametrize("start", ["", "warm", "provisioned", "provisioned=", "provisioned=0", "provisioned=x"])
def test_no_other_start_is_taken(start: str) -> None:
    with pytest.raises(ValueError, match="cold, snapstart and provisioned"):
        script.start_of(start)


def test_what_starting_warm_costs_is_what_the_prices_say() -> None:
    """docs/deploy.md, "A canary": of one GB, for a month of 730 hours."""
    prices = json.loads((ROOT / "infra/turnstile_cost/prices.json").read_text())
    month_s = 730 * 3600
    page = (ROOT / "docs/deploy.md").read_text()
    for name in ("snapstart_gb_second", "provisioned_gb_second"):
        assert f"${prices[name] * month_s:.2f} a month" in page, name
    assert f"${prices['snapstart_restored_gb']:.5f}" in page


# -- a deployment, minute by minute ------------------------------------------------------------------------------------


@dataclass
class Deployment:
    """CodeDeploy moving an alias: a tenth of the requests to the new version for five minutes, then
    all; back on an alarm.

    ``old`` and ``new`` answer a request, or raise where an invocation fails. The alarms are those
    of the template.
    """

    alarms: dict[str, dict[str, Any]]
    old: Callable[[], Answer]
    new: Callable[[], Answer]
    series: dict[str, list[float]] = field(default_factory=lambda: {"Errors": [], "5xx": []})
    failed: int = 0

    def carry_out(self, minutes: int = 5) -> bool:
        """Whether the alias moved; else it is back at the old version."""
        for _ in range(minutes):
            self.minute(every=10)
            if any(map(self._is_over, self.alarms.values())):
                return False
        return True

    def minute(self, every: int) -> None:
        """A minute's requests, every n-th of which the new version gets; 0: none of them."""
        errors = refused = 0
        for number in range(REQUESTS):
            is_new = every > 0 and number % every == 0
            try:
                refused += (self.new if is_new else self.old)().status >= 500
            except Exception:  # what Lambda counts as an error, and the gateway answers with 500
                errors = errors + is_new
                refused = refused + 1
        self.series["Errors"].append(errors)
        self.series["5xx"].append(refused / REQUESTS)
        self.failed += refused

    def _is_over(self, alarm: dict[str, Any]) -> bool:
        """As CloudWatch evaluates it: so many of the last periods are over the threshold."""
        assert alarm["ComparisonOperator"] == "GreaterThanThreshold" and alarm["Period"] == 60
        last = self.series[alarm["MetricName"]][-alarm["EvaluationPeriods"] :]
        return sum(value > alarm["Threshold"] for value in last) >= alarm["DatapointsToAlarm"]


class Traffic:
    """Commits of one table, by the real commit function; ``acknowledged`` those that were
    ratified."""

    def __init__(self) -> None:
        self.lake: Lake = make_lake()
        self.sent = self.acknowledged = 0

    def commit(self) -> Answer:
        self.sent += 1
        answer = self.lake.append(self.lake.head.latest + 1, f"t{self.sent}")
        self.acknowledged += answer.status == 200
        return answer


def alarms() -> dict[str, dict[str, Any]]:
    made = of_type(
        script.canary(read_template(ROOT / "template.yaml"), "one", script.TYPES[0])["Resources"],
        "AWS::CloudWatch::Alarm",
    )
    return {name: made[name] for name in ("CommitCanaryErrors", "CanaryFailures")}


def test_a_good_version_gets_all_requests() -> None:
    traffic = Traffic()
    deployment = Deployment(alarms(), traffic.commit, traffic.commit)
    assert deployment.carry_out()
    assert (deployment.failed, traffic.acknowledged) == (0, 5 * REQUESTS)


def test_i3_a_version_that_answers_500_is_taken_back_in_the_second_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    traffic = Traffic()

    def broken(*_: Any) -> Any:
        raise RuntimeError("planted")

    def bad() -> Answer:
        with monkeypatch.context() as planted:
            planted.setattr(Ratifier, "commit", broken)
            return traffic.commit()

    deployment = Deployment(alarms(), traffic.commit, bad)
    assert not deployment.carry_out()
    assert len(deployment.series["5xx"]) == 2
    assert deployment.failed == 2 * REQUESTS // 10
    deployment.minute(every=0)
    assert deployment.series["5xx"][-1] == 0
    assert traffic.lake.head.latest == traffic.acknowledged == 3 * REQUESTS - deployment.failed


def test_a_version_that_cannot_be_imported_is_taken_back_in_the_second_minute() -> None:
    traffic = Traffic()

    def bad() -> Answer:
        raise ImportError("planted")

    deployment = Deployment(alarms(), traffic.commit, bad)
    assert not deployment.carry_out()
    assert deployment.series["Errors"] == [2, 2]
    assert traffic.lake.head.latest == traffic.acknowledged == 2 * REQUESTS - deployment.failed
