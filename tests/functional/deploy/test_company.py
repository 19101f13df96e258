"""A deployment in a guarded account: bounded roles below a path, a VPC, keys of the customer's, a
lake in another account (I12)."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document

from tests.support.repository import ROOT
from tests.support.roles.parameters import EVERYTHING
from tests.support.roles.resolved import ACCOUNT, Resolved
from tests.support.roles.translated import references, translated
from turnstile.adapters.credentials import session_policy
from turnstile_local.deployment import read_template

POLICIES = ROOT / "infra" / "policies"


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return read_template(ROOT / "template.yaml")


@pytest.fixture(scope="module")
def stack(template: dict[str, Any]) -> Resolved:
    return Resolved(template, EVERYTHING)


def of(stack: Resolved, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, resource in stack.resources.items():
        if resource["Type"] == kind:
            yield name, resource.get("Properties", {})


def test_every_role_is_bounded_and_below_the_path(stack: Resolved) -> None:
    roles = dict(of(stack, "AWS::IAM::Role"))
    assert len(roles) == 15
    for name, role in roles.items():
        assert (role["PermissionsBoundary"], role["Path"]) == (EVERYTHING["PermissionsBoundary"], "/data/turnstile/"), (
            name
        )
    policies = dict(of(stack, "AWS::IAM::ManagedPolicy"))
    assert policies and {policy["Path"] for policy in policies.values()} == {"/data/turnstile/"}


def test_without_parameters_nothing_of_it_is_there(template: dict[str, Any]) -> None:
    plain = Resolved(template, {"LakeRoot": "s3://lake/w"})
    assert all("PermissionsBoundary" not in role and role["Path"] == "/" for _, role in of(plain, "AWS::IAM::Role"))
    settings = plain.value(template["Globals"]["Function"])
    assert "VpcConfig" not in settings and "KmsKeyArn" not in settings
    text = json.dumps(plain.resources)
    assert (
        "ec2:" not in text
        and "KmsKeyId" not in text
        and "KmsMasterKeyId" not in text
        and "SSESpecification" not in text
    )


def test_what_is_stored_is_encrypted_with_the_keys_that_are_given(template: dict[str, Any], stack: Resolved) -> None:
    for _, table in of(stack, "AWS::DynamoDB::Table"):
        given = {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": EVERYTHING["TablesKey"]}
        assert table["SSESpecification"] == given
    for _, queue in of(stack, "AWS::SQS::Queue"):
        assert queue["KmsMasterKeyId"] == EVERYTHING["QueuesKey"] and "SqsManagedSseEnabled" not in queue
    logs = dict(of(stack, "AWS::Logs::LogGroup"))
    assert len(logs) == 16 and {log["KmsKeyId"] for log in logs.values()} == {EVERYTHING["LogsKey"]}
    settings = stack.value(template["Globals"]["Function"])
    assert settings["KmsKeyArn"] == EVERYTHING["EnvironmentKey"]
    assert settings["VpcConfig"] == {
        "SubnetIds": ["subnet-0a1b2c3d", "subnet-1a1b2c3d"],
        "SecurityGroupIds": ["sg-0a1b2c3d"],
    }
    assert stack.resources["Api"]["Properties"]["DisableExecuteApiEndpoint"] == "true"


# -- every combination of conditions, by pairs ------------------------------------------------------------------------

OFF = {**dict.fromkeys(EVERYTHING, ""), "CreateLakeBucket": "false", "LakePutIfAbsent": "false", "RolePath": "/"}
OFF |= {"IssueTokens": "false", "Console": "false", "Tracing": "PassThrough", "DisableExecuteApiEndpoint": "false"}
OFF |= {"FollowUpFunctions": "", "Exposure": "private", "VpcEndpointIds": "vpce-0a1b2c3d"}
OFF |= {"WebAcl": "arn:aws:wafv2:us-east-1:123456789012:regional/webacl/company/0a1b"}
OFF |= {"RowsFrom": "none", "RowsTable": EVERYTHING["RowsTable"]}
FIXED = {"LakeRoot": EVERYTHING["LakeRoot"], "Realm": "test"}
TOGETHER = (
    ("OidcIssuer", "OidcAudience"),
    ("FollowUpApplication", "FollowUpJobRole"),
    ("DomainName", "DomainCertificate"),
    ("SubnetIds", "SecurityGroupIds"),
    ("Exposure", "VpcEndpointIds", "WebAcl"),
)
"""Parameters that the template's rules want together."""


def choices() -> list[tuple[str, ...]]:
    """Parameters that are given or not."""
    together = {name for group in TOGETHER for name in group}
    return [*TOGETHER, *((name,) for name in EVERYTHING if name not in together and name not in FIXED)]


def pairwise(count: int) -> list[tuple[bool, ...]]:
    """Rows in which each two choices are given and left out in all four ways."""
    rng = random.Random(7)
    rows = [(True,) * count, (False,) * count]
    missing = {
        (a, b, x, y) for a, b in itertools.combinations(range(count), 2) for x in (True, False) for y in (True, False)
    }

    def covers(row: tuple[bool, ...]) -> set[tuple[int, int, bool, bool]]:
        return {(a, b, row[a], row[b]) for a, b in itertools.combinations(range(count), 2)}

    for row in rows:
        missing -= covers(row)
    while missing:
        tried = [tuple(rng.random() < 0.5 for _ in range(count)) for _ in range(50)]
        best = max(tried, key=lambda row: len(covers(row) & missing))
        rows.append(best)
        missing -= covers(best)
    return rows


def combinations() -> list[dict[str, str]]:
    listed = choices()
    made = []
    for row in pairwise(len(listed)):
        given = {name: EVERYTHING[name] for group, on in zip(listed, row, strict=True) if on for name in group}
        made.append({**OFF, **FIXED, **given})
    return made


def test_every_pair_of_choices_makes_a_template_in_which_all_that_is_named_is_there(template: dict[str, Any]) -> None:
    whole = translated(template)
    rows = combinations()
    assert 8 <= len(rows) <= 30
    for given in rows:
        stack = Resolved({**template, "Resources": whole}, given)
        here = {name for name, each in whole.items() if "Condition" not in each or stack.holds(each["Condition"])}
        for name in here:
            kept = pruned(stack, whole[name].get("Properties", {}))
            named = references(kept) & whole.keys()
            assert named <= here, f"{name} refers to {named - here} with {sorted(n for n, v in given.items() if v)}"
            depends = whole[name].get("DependsOn", [])
            assert {*([depends] if isinstance(depends, str) else depends)} <= here, name


@pytest.mark.slow
@pytest.mark.parametrize("number", range(16))
def test_every_pair_of_choices_makes_a_template_that_cfn_lint_takes(template: dict[str, Any], number: int) -> None:
    from cfnlint.api import lint

    rows = combinations()
    assert len(rows) <= 16
    if number >= len(rows):
        return
    given = rows[number]
    whole = translated(template)
    stack = Resolved(template, given)
    resources = {
        name: {member: pruned(stack, value) for member, value in resource.items() if member != "Condition"}
        for name, resource in whole.items()
        if "Condition" not in resource or stack.holds(resource["Condition"])
    }
    parameters = {
        name: {**each, "Default": given.get(name, each.get("Default", ""))}
        for name, each in template["Parameters"].items()
    }
    made = {
        "AWSTemplateFormatVersion": template["AWSTemplateFormatVersion"],
        "Parameters": parameters,
        "Resources": without_nothing(resources),
    }
    unused = ("W2001", "W8001", "W1030")  # parameters, conditions, and defaults that stand for nothing
    found = [str(match) for match in lint(json.dumps(made), regions=["eu-central-1"]) if match.rule.id not in unused]
    assert found == []


def without_nothing(node: Any) -> Any:
    """A node without what is AWS::NoValue."""
    if isinstance(node, list):
        return [without_nothing(member) for member in node if member != {"Ref": "AWS::NoValue"}]
    if not isinstance(node, dict):
        return node
    return {name: without_nothing(member) for name, member in node.items() if member != {"Ref": "AWS::NoValue"}}


def pruned(stack: Resolved, node: Any) -> Any:
    """A node with its conditions decided and its references kept."""
    if isinstance(node, list):
        return [pruned(stack, member) for member in node]
    if not isinstance(node, dict):
        return node
    if "Fn::If" in node and len(node) == 1:
        condition, yes, no = node["Fn::If"]
        return pruned(stack, yes if stack.holds(condition) else no)
    return {name: pruned(stack, member) for name, member in node.items()}


# -- a lake in another account ----------------------------------------------------------------------------------------

OTHER = "111122223333"
BUCKET = "lake"
KEY = f"arn:aws:kms:us-east-1:{OTHER}:key/lake"
ROLE = f"arn:aws:iam::{OTHER}:role/turnstile-lake"


def policy(name: str) -> dict[str, Any]:
    """A policy of infra/policies with its words replaced as its own account would."""
    text = (POLICIES / name).read_text()
    words = {
        "TURNSTILE_ACCOUNT": ACCOUNT, "LAKE_ACCOUNT": OTHER, "LAKE_BUCKET": BUCKET, "LAKE_PREFIX": "warehouse",
        "LAKE_KEY_ARN": KEY, "ROLE_PATH": "data/turnstile/", "STACK_NAME": "turnstile", "DEPLOYED_REGION": "us-east-1",
        "CODE_BUCKET": "code", "BOUNDARY_ARN": EVERYTHING["PermissionsBoundary"],
    }  # fmt: skip
    for word, value in words.items():
        text = text.replace(word, value)
    assert not re.search(r"[A-Z]+_[A-Z_]+", text), "a word is left"
    return dict(json.loads(text))


def allowed(document: dict[str, Any], action: str, resource: str, principal: str, **context: str) -> bool:
    """Whether a policy of a resource allows it to a role of another account: IAM takes this and the
    role's own, which is tested elsewhere."""
    fits = []
    for statement in document["Statement"]:
        named = statement["Principal"]
        if (
            named == "*"
            or principal in ([named["AWS"]] if isinstance(named.get("AWS"), str) else named.get("AWS", []))
            or named.get("AWS") == f"arn:aws:iam::{ACCOUNT}:root"
        ):
            fits.append({name: value for name, value in statement.items() if name != "Principal"})
    asked = EvalContext(
        principal, "AssumedRole", ACCOUNT, action, resource, "us-east-1",
        service_context={name.replace("_", ":", 1).lower(): value for name, value in context.items()},
        principal_keys={"aws:principalarn": principal},
    )  # fmt: skip
    asked.secure_transport = context.get("tls", "true") == "true"
    return evaluate(asked, [parse_policy_document({"Version": "2012-10-17", "Statement": fits})]).decision == "Allow"


def role(name: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:role/data/turnstile/turnstile-{name}-1A2B3C"


@pytest.mark.parametrize("name", ["CommitRole", "CatalogRole", "IcebergRole", "PublishRole", "CollectRole"])
def test_i12_the_bucket_of_another_account_lets_the_roles_of_the_stack_do_what_their_policies_allow(name: str) -> None:
    document = policy("lake-of-another-account-bucket.json")
    files = f"arn:aws:s3:::{BUCKET}/warehouse/main/sales/t/_delta_log/1.json"
    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"):
        assert allowed(document, action, files, role(name)), action
        assert not allowed(document, action, files, f"arn:aws:iam::{ACCOUNT}:role/somebody"), action
        assert not allowed(document, action, files, role(name), tls="false"), action
        assert not allowed(document, action, f"arn:aws:s3:::{BUCKET}/other/f", role(name)), action
    assert allowed(document, "s3:ListBucket", f"arn:aws:s3:::{BUCKET}", role(name))
    assert not allowed(document, "s3:PutBucketPolicy", f"arn:aws:s3:::{BUCKET}", role(name))


def test_i12_the_key_of_another_account_is_used_through_s3_alone() -> None:
    document = policy("lake-of-another-account-key.json")
    via = {"kms_ViaService": "s3.us-east-1.amazonaws.com"}
    for action in ("kms:Decrypt", "kms:GenerateDataKey"):
        assert allowed(document, action, KEY, role("PublishRole"), **via), action
        assert not allowed(document, action, KEY, role("PublishRole"), kms_ViaService="sqs.us-east-1.amazonaws.com")
        assert not allowed(document, action, KEY, f"arn:aws:iam::{ACCOUNT}:role/somebody", **via)
    assert not allowed(document, "kms:ScheduleKeyDeletion", KEY, role("PublishRole"), **via)


def test_i12_the_vending_role_of_another_account_trusts_the_two_roles_that_give_out_keys() -> None:
    document = policy("lake-of-another-account-trust.json")
    for name in ("CatalogRole", "IcebergRole"):
        assert allowed(document, "sts:AssumeRole", ROLE, role(name))
    for name in ("CommitRole", "TokensRole", "CollectRole"):
        assert not allowed(document, "sts:AssumeRole", ROLE, role(name))


def test_i12_a_session_of_that_role_reaches_one_table_of_the_other_accounts_lake() -> None:
    own = policy("lake-of-another-account-role.json")
    session = session_policy(f"s3://{BUCKET}/warehouse/main/sales/t", "READ_WRITE", key=KEY)
    asked = [
        ("s3:PutObject", f"arn:aws:s3:::{BUCKET}/warehouse/main/sales/t/part-1.parquet", True),
        ("s3:GetObject", f"arn:aws:s3:::{BUCKET}/warehouse/main/sales/t/part-1.parquet", True),
        ("s3:GetObject", f"arn:aws:s3:::{BUCKET}/warehouse/main/sales/u/part-1.parquet", False),
        ("s3:GetObject", f"arn:aws:s3:::{BUCKET}/other/part-1.parquet", False),
        ("s3:PutBucketPolicy", f"arn:aws:s3:::{BUCKET}", False),
    ]
    for action, resource, expected in asked:
        context = EvalContext(ROLE, "AssumedRole", OTHER, action, resource, "us-east-1")
        found = evaluate(context, [parse_policy_document(own)], [parse_policy_document(session)]).decision
        assert (found == "Allow") == expected, (action, resource)


# -- who deploys ------------------------------------------------------------------------------------------------------

CREATES = {
    "AWS::Lambda::Function": {
        "lambda:CreateFunction",
        "lambda:GetFunction",
        "lambda:UpdateFunctionCode",
        "lambda:DeleteFunction",
    },
    "AWS::Lambda::Version": {"lambda:PublishVersion", "lambda:GetFunction", "lambda:DeleteFunction"},
    "AWS::Lambda::Alias": {"lambda:CreateAlias", "lambda:GetAlias", "lambda:UpdateAlias", "lambda:DeleteAlias"},
    "AWS::Lambda::LayerVersion": {"lambda:PublishLayerVersion", "lambda:GetLayerVersion", "lambda:DeleteLayerVersion"},
    "AWS::Lambda::EventSourceMapping": {"lambda:CreateEventSourceMapping", "lambda:DeleteEventSourceMapping"},
    "AWS::Lambda::EventInvokeConfig": {"lambda:PutFunctionEventInvokeConfig", "lambda:DeleteFunctionEventInvokeConfig"},
    "AWS::Lambda::Permission": {"lambda:AddPermission", "lambda:RemovePermission"},
    "AWS::DynamoDB::Table": {"dynamodb:CreateTable", "dynamodb:DescribeTable", "dynamodb:UpdateTable"},
    "AWS::IAM::Role": {"iam:CreateRole", "iam:PutRolePolicy", "iam:AttachRolePolicy", "iam:PassRole", "iam:DeleteRole"},
    "AWS::IAM::ManagedPolicy": {"iam:CreatePolicy", "iam:CreatePolicyVersion", "iam:DeletePolicy"},
    "AWS::Logs::LogGroup": {"logs:CreateLogGroup", "logs:PutRetentionPolicy", "logs:DeleteLogGroup"},
    "AWS::SQS::Queue": {"sqs:CreateQueue", "sqs:GetQueueAttributes", "sqs:DeleteQueue"},
    "AWS::Events::Rule": {"events:PutRule", "events:PutTargets", "events:RemoveTargets", "events:DeleteRule"},
    "AWS::S3::Bucket": {"s3:CreateBucket", "s3:PutLifecycleConfiguration", "s3:PutBucketVersioning"},
    "AWS::S3::BucketPolicy": {"s3:PutBucketPolicy"},
    "AWS::WAFv2::WebACLAssociation": {
        "wafv2:AssociateWebACL",
        "wafv2:DisassociateWebACL",
        "wafv2:GetWebACLForResource",
        "wafv2:GetWebACL",
        "apigateway:SetWebACL",
    },
    "AWS::Route53::RecordSet": {"route53:ChangeResourceRecordSets", "route53:GetChange"},
}
"""Actions that CloudFormation asks for in the deployer's name, as its resource types document their
handlers; those of API Gateway are by method."""


def test_a_deployer_has_the_rights_for_every_kind_of_resource_and_passes_roles_of_the_path_alone(
    template: dict[str, Any],
) -> None:
    document = policy("deployer.json")
    granted = {action for statement in document["Statement"] for action in listed(statement["Action"])}
    kinds = {resource["Type"] for resource in translated(template).values()}
    gateway = {kind for kind in kinds if kind.startswith(("AWS::ApiGatewayV2::", "AWS::ApiGateway::"))}
    assert kinds - gateway == CREATES.keys() - {"AWS::Route53::RecordSet"} | ({"AWS::Route53::RecordSet"} & kinds)
    for kind in kinds - gateway:
        assert CREATES[kind] <= granted, kind
    assert {f"apigateway:{method}" for method in ("GET", "POST", "PUT", "PATCH", "DELETE")} <= granted
    assert not any("*" in action for action in granted)
    for statement in document["Statement"]:
        if "iam:CreateRole" in listed(statement["Action"]):
            assert statement["Condition"]["StringEquals"]["iam:PermissionsBoundary"], "no role without the boundary"
        if any(action.startswith("iam:") for action in listed(statement["Action"])):
            assert all("data/turnstile/" in place for place in listed(statement["Resource"]))


def listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def test_policies_are_small_enough_for_what_they_are_for() -> None:
    limits = {"deployer.json": 6_144, "lake-of-another-account-key.json": 32_768}
    for file in sorted(Path(POLICIES).glob("*.json")):
        size = len(json.dumps(json.loads(file.read_text()), separators=(",", ":")))
        assert size <= limits.get(file.name, 20_480), file.name
