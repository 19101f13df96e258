"""I12: what each function's role may do, statement by statement. A permission more is a failing test."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.repository import ROOT
from turnstile_local.deployment import read_template

READ = {"GetItem", "BatchGetItem"}
LOG = {"CreateLogStream", "PutLogEvents"}
EXPECTED: dict[str, dict[str, set[str]]] = {
    "CommitRole": {
        "CommitLog": LOG,
        "RefsTable": READ | {"UpdateItem"},
        "ObjsTable": READ | {"PutItem", "BatchWriteItem", "Query"},
    },
    "CatalogRole": {
        "CatalogLog": LOG,
        "RefsTable": READ | {"PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem", "Scan"},
        "ObjsTable": READ | {"PutItem", "BatchWriteItem", "DeleteItem", "Query"},
    },
    "IcebergRole": {
        "IcebergLog": LOG,
        "RefsTable": READ | {"PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"},
        "ObjsTable": READ | {"PutItem", "BatchWriteItem", "DeleteItem"},
    },
    "TokensRole": {
        "TokensLog": LOG,
        "RefsTable": {"GetItem", "PutItem", "UpdateItem", "DeleteItem", "Scan"},
    },
    "AuthorizerRole": {"AuthorizerLog": LOG},
    "PublishRole": {
        "PublishLog": LOG,
        "RefsTable.StreamArn": {"DescribeStream", "GetRecords", "GetShardIterator"},
        "*": {"ListStreams"},
        "PublishFailures": {"SendMessage"},
        "RefsTable": READ | {"UpdateItem"},
        "ObjsTable": READ | {"PutItem", "BatchWriteItem"},
    },
    "SweepRole": {
        "SweepLog": LOG,
        "RefsTable": READ | {"UpdateItem", "Scan"},
        "ObjsTable": READ | {"PutItem", "BatchWriteItem"},
    },
    "CollectRole": {
        "CollectLog": LOG,
        "RefsTable": READ | {"PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem", "Scan"},
        "ObjsTable": READ | {"Query", "DeleteItem"},
    },
}
MANAGED = {
    "CommitRole": {"LakeWriter"},
    "CatalogRole": {"LakeWriter", "LakeCleaner"},
    "IcebergRole": {"LakeWriter", "LakeCleaner"},
    "TokensRole": set(),
    "AuthorizerRole": set(),
    "PublishRole": {"LakeWriter"},
    "SweepRole": {"LakeWriter"},
    "CollectRole": {"LakeCleaner"},
}


USES_OF_KEY = {"LakeWriter": {"Decrypt", "GenerateDataKey"}, "LakeCleaner": {"Decrypt"}}
"""Of a customer's KMS key: S3 decrypts for who reads and asks for a data key for who writes. Deleting needs neither."""


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    return read_template(ROOT / "template.yaml")["Resources"]


def statements(policy: dict[str, Any]) -> list[dict[str, Any]]:
    return policy["PolicyDocument"]["Statement"]


def target(resource: Any) -> str:
    if isinstance(resource, str):
        return resource
    name, attribute = resource["Fn::GetAtt"]
    return name if attribute == "Arn" else f"{name}.{attribute}"


def actions(statement: dict[str, Any]) -> set[str]:
    listed = statement["Action"]
    return {action.split(":")[1] for action in ([listed] if isinstance(listed, str) else listed)}


@pytest.mark.parametrize("role", EXPECTED)
def test_role(resources: dict[str, Any], role: str) -> None:
    properties = resources[role]["Properties"]
    (policy,) = properties["Policies"]
    granted: dict[str, set[str]] = {}
    for statement in statements(policy):
        assert statement["Effect"] == "Allow"
        granted.setdefault(target(statement["Resource"]), set()).update(actions(statement))
    assert granted == EXPECTED[role]
    assert {entry["Ref"] for entry in properties.get("ManagedPolicyArns", ())} == MANAGED[role]


def test_every_function_has_a_role_of_its_own(resources: dict[str, Any]) -> None:
    used = {
        name: found["Properties"]["Role"]["Fn::GetAtt"][0]
        for name, found in resources.items()
        if found["Type"] == "AWS::Serverless::Function"
    }
    assert used == {role.replace("Role", "Function"): role for role in EXPECTED}


def test_lake_policies_stay_below_the_lake(resources: dict[str, Any]) -> None:
    allowed = {
        "LakeWriter": {"ListBucket", "GetObject", "PutObject"},
        "LakeCleaner": {"ListBucket", "GetObject", "DeleteObject"},
    }
    for name, expected in allowed.items():
        found: set[str] = set()
        for entry in statements(resources[name]["Properties"]):
            condition, statement, _ = entry.get("Fn::If", ("", entry, None))
            if condition == "WithLakeKey":
                assert statement["Resource"] == {"Ref": "LakeKey"}
                assert actions(statement) == USES_OF_KEY[name]
                continue
            found |= actions(statement)
            text, variables = statement["Resource"]["Fn::Sub"]
            of_bucket = "ListBucket" in actions(statement)
            assert text.endswith("${Bucket}" if of_bucket else "${Path}/*")
            assert ("ImportRoot" if condition == "WithImports" else "LakeRoot") in str(variables)
        assert found == expected


def test_i12_keys_are_sessions_of_the_vending_role_and_of_no_other(resources: dict[str, Any]) -> None:
    policy = resources["VendingPolicy"]
    assert policy["Condition"] == "WithVending"
    assert [entry["Ref"] for entry in policy["Properties"]["Roles"]] == ["CatalogRole", "IcebergRole"]
    (statement,) = statements(policy["Properties"])
    assert (actions(statement), statement["Resource"]) == ({"AssumeRole"}, {"Ref": "VendingRole"})
    outputs = read_template(ROOT / "template.yaml")["Outputs"]
    for name in ("CatalogRole", "IcebergRole"):  # what the role's trust policy has to name
        assert outputs[name]["Value"] == {"Fn::GetAtt": [name, "Arn"]}
