"""CloudFormation creates nothing before the right that AWS checks when it is created (I12).

The template is translated by SAM's own translator. A resource waits for the resources that it
refers to, however far, and that its DependsOn names. AWS checks a function's role when it is
created with active tracing or in a VPC, when its failures get a destination, and when it begins to
follow a stream: the rights are to be among the resources that the role itself waits for, since a
policy that is attached to a role that is there may come later.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.repository import ROOT
from tests.support.roles.translated import references, translated
from turnstile_local.deployment import read_template

ROLE = "AWS::IAM::Role"
POLICY = "AWS::IAM::Policy"
MANAGED = "AWS::IAM::ManagedPolicy"
CHECKED = {
    "AWS::Lambda::Function",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Events::Rule",
    "AWS::ApiGatewayV2::Integration",
    "AWS::ApiGatewayV2::Authorizer",
}


def awaited(resources: dict[str, Any], name: str) -> set[str]:
    """Everything that is there before the resource is created."""
    found = set[str]()
    left = [name]
    while left:
        resource = resources[left.pop()]
        named = resource.get("DependsOn", [])
        for other in references(resource.get("Properties", {})) | {*([named] if isinstance(named, str) else named)}:
            if other in resources and other not in found:
                found.add(other)
                left.append(other)
    return found


def late(resources: dict[str, Any]) -> list[str]:
    """Resources that may be created before a right of their role: by an attached policy that it
    does not wait for."""
    found = []
    attached: dict[str, set[str]] = {}
    for name, resource in resources.items():
        if resource["Type"] in (POLICY, MANAGED):
            for role in references(resource["Properties"].get("Roles", [])):
                attached.setdefault(role, set()).add(name)
    for name, resource in resources.items():
        if resource["Type"] in CHECKED:
            before = awaited(resources, name)
            roles = {other for other in before if resources[other]["Type"] == ROLE}
            missing = {policy for role in roles for policy in attached.get(role, set())} - before
            found += [f"{name} does not wait for {policy}" for policy in sorted(missing)]
    return found


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return read_template(ROOT / "template.yaml")


@pytest.fixture(scope="module")
def resources(template: dict[str, Any]) -> dict[str, Any]:
    return translated(template)


def test_i12_nothing_is_created_before_a_right_that_aws_checks_for_it(resources: dict[str, Any]) -> None:
    assert late(resources) == []


def test_every_function_stream_and_destination_waits_for_its_role(resources: dict[str, Any]) -> None:
    kinds = {resource["Type"] for resource in resources.values()}
    assert {"AWS::Lambda::EventSourceMapping", "AWS::Lambda::EventInvokeConfig", "AWS::Events::Rule"} <= kinds
    for name, resource in resources.items():
        if resource["Type"] in (
            "AWS::Lambda::Function",
            "AWS::Lambda::EventSourceMapping",
            "AWS::Lambda::EventInvokeConfig",
        ):
            assert any(resources[other]["Type"] == ROLE for other in awaited(resources, name)), name


@pytest.mark.parametrize("condition", ["WithTracing", "WithSecret", "WithVending", "WithEventBus"])
def test_i12_a_policy_that_is_attached_later_is_noticed(template: dict[str, Any], condition: str) -> None:
    given = copy.deepcopy(template)
    given["Resources"]["Planted"] = {
        "Type": POLICY,
        "Condition": condition,
        "Properties": {
            "PolicyName": "planted",
            "Roles": [{"Ref": "EventsRole"}],
            "PolicyDocument": {"Version": "2012-10-17", "Statement": []},
        },
    }
    found = late(translated(given))
    assert any(text.startswith("EventsFunction does not wait for Planted") for text in found)
    assert any("EventInvokeConfig does not wait for Planted" in text for text in found)
    assert any(text.startswith("EventsFunctionRefs does not wait for Planted") for text in found)


def test_what_every_invocation_needs_is_there_before_the_first_one(resources: dict[str, Any]) -> None:
    for name, resource in resources.items():
        if resource["Type"] == "AWS::Lambda::Function":
            group = resource["Properties"]["LoggingConfig"]["LogGroup"]["Ref"]
            assert group in awaited(resources, name), "Lambda would create the group itself, without an end to its logs"
