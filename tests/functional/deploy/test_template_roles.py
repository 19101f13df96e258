"""I12: the permissions of each function's role, statement by statement. One permission more is a
failing test."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.fakes.storage import FakeIds
from tests.support.iceberg.client import SCHEMA
from tests.support.iceberg.manifests import Lake
from tests.support.repository import ROOT
from turnstile.adapters import FileStorages
from turnstile.iceberg.append_merger import AppendMerger
from turnstile.iceberg.core.draft import new_table
from turnstile.iceberg.core.requirements import AssertRefSnapshotId, AssertTableUuid
from turnstile.iceberg.core.schema import Schema
from turnstile.iceberg.core.table_updates import apply_updates
from turnstile.iceberg.core.updates import AddSnapshot, SetSnapshotRef
from turnstile.iceberg.files import MetadataFiles
from turnstile.store.core.names import aside_path, published_path, staged_file, staged_path, version_file
from turnstile.store.core.rows import Space
from turnstile_local.deployment import read_template

READ = {"GetItem", "BatchGetItem"}
LOG = {"CreateLogStream", "PutLogEvents"}
EXPECTED: dict[str, dict[str, set[str]]] = {
    "CommitRole": {
        "CommitLog": LOG,
        "BranchesFunction": {"InvokeFunction"},
        "RefsTable": READ | {"PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"},
        "ObjsTable": READ | {"PutItem", "BatchWriteItem", "Query"},
    },
    "CatalogRole": {
        "CatalogLog": LOG,
        "BranchesFunction": {"InvokeFunction"},
        "RefsTable": READ | {"PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem", "Scan"},
        "ObjsTable": READ | {"PutItem", "BatchWriteItem", "DeleteItem", "Query"},
    },
    "IcebergRole": {
        "IcebergLog": LOG,
        "BranchesFunction": {"InvokeFunction"},
        "RefsTable": READ | {"PutItem", "UpdateItem", "DeleteItem"},
        "ObjsTable": READ | {"BatchWriteItem", "DeleteItem", "Query"},
    },
    "TokensRole": {
        "TokensLog": LOG,
        "RefsTable": {"GetItem", "PutItem", "UpdateItem", "DeleteItem", "Scan"},
    },
    "AuthorizerRole": {"AuthorizerLog": LOG},
    "ConsoleRole": {"ConsoleLog": LOG},
    "PublishRole": {
        "PublishLog": LOG,
        "RefsTable.StreamArn": {"DescribeStream", "GetRecords", "GetShardIterator"},
        "*": {"ListStreams"},
        "PublishFailures": {"SendMessage"},
        "RefsTable": {"GetItem", "PutItem", "UpdateItem"},
        "ObjsTable": READ | {"PutItem", "BatchWriteItem"},
    },
    "EventsRole": {
        "EventsLog": LOG,
        "RefsTable.StreamArn": {"DescribeStream", "GetRecords", "GetShardIterator"},
        "*": {"ListStreams"},
        "RefsTable": READ | {"PutItem", "UpdateItem", "Scan"},
        "ObjsTable": {"BatchGetItem", "PutItem", "Query"},
        "BackgroundFailures": {"SendMessage"},
    },
    "MaintainRole": {
        "MaintainLog": LOG,
        "RefsTable": READ | {"Scan", "PutItem", "UpdateItem", "DeleteItem"},
        "ObjsTable": READ | {"Query", "PutItem", "BatchWriteItem", "DeleteItem"},
        "BackgroundFailures": {"SendMessage"},
    },
    "PlansRole": {
        "PlansLog": LOG,
        "RefsTable": READ | {"PutItem", "UpdateItem"},
        "ObjsTable": READ | {"Query"},
    },
    "BranchesRole": {
        "BranchesLog": LOG,
        "RefsTable": READ | {"PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"},
        "ObjsTable": READ | {"PutItem", "BatchWriteItem"},
    },
    "IngestRole": {
        "IngestLog": LOG,
        "BranchesFunction": {"InvokeFunction"},
        "RefsTable": READ | {"PutItem", "UpdateItem", "DeleteItem"},
        "ObjsTable": READ | {"PutItem", "BatchWriteItem", "Query"},
    },
    "RowsRole": {
        "RowsLog": LOG,
        "BranchesFunction": {"InvokeFunction"},
        "RefsTable": READ | {"PutItem", "UpdateItem", "DeleteItem"},
        "ObjsTable": READ | {"PutItem", "BatchWriteItem", "Query"},
    },
    "SweepRole": {
        "SweepLog": LOG,
        "RefsTable": READ | {"PutItem", "UpdateItem", "Scan"},
        "ObjsTable": READ | {"PutItem", "BatchWriteItem"},
        "BackgroundFailures": {"SendMessage"},
    },
    "CollectRole": {
        "CollectLog": LOG,
        "RefsTable": READ | {"PutItem", "UpdateItem", "DeleteItem", "Scan"},
        "ObjsTable": READ | {"Query", "BatchWriteItem", "DeleteItem"},
        "BackgroundFailures": {"SendMessage"},
    },
}
MANAGED = {
    "CommitRole": {"LakeReader", "LogWriter", "NoClients"},
    "CatalogRole": {
        "LakeReader",
        "LogWriter",
        "LogCopier",
        "MetadataWriter",
        "ManifestWriter",
        "LakeCleaner",
        "NoClients",
    },
    "IcebergRole": {"LakeReader", "MetadataWriter", "MetadataCleaner", "NoClients"},
    "TokensRole": set(),
    "AuthorizerRole": set(),
    "ConsoleRole": set(),
    "PublishRole": {"LakeReader", "LogWriter", "LogCopier", "NoClients"},
    "EventsRole": {"NoClients"},
    "MaintainRole": {"LakeReader", "LogWriter", "LogCopier", "NoClients"},
    "PlansRole": {"LakeReader", "NoClients"},
    "BranchesRole": {"LakeReader", "LogWriter", "LogCopier", "NoClients"},
    "IngestRole": {"LakeReader", "DataWriter", "TableCreator", "NoClients"},
    "RowsRole": {"LakeReader", "DataWriter", "RefusedRowsWriter", "NoClients"},
    "SweepRole": {"LakeReader", "LogWriter", "LogCopier", "NoClients"},
    "CollectRole": {"LakeReader", "MetadataWriter", "ManifestWriter", "LakeCleaner", "NoClients"},
}
ENCRYPTERS = {
    "CommitRole", "CatalogRole", "IcebergRole", "PublishRole", "MaintainRole", "BranchesRole", "IngestRole", "RowsRole",
    "SweepRole",
    "CollectRole",
}  # fmt: skip
"""The roles that write files of a lake, which may be encrypted with a key of the customer's."""

SPACE = Space("default")
ROWS = {
    "table": SPACE.table("1"),
    "catalog": SPACE.catalog("client"),
    "gone": SPACE.dropped_catalog("main"),
    "staging": SPACE.staging("1"),
    "location": SPACE.location("s3://default/client/client/1"),
    "external": SPACE.external("1"),
    "request": SPACE.request("main", "ada", "1"),
    "client": SPACE.client("client-1"),
    "ref": SPACE.ref("client/1"),
    "attention": SPACE.attention(),
    "attention of events": SPACE.attention("events"),
    "attention of maintenance": SPACE.attention("maintenance"),
    "updateable": SPACE.updateable("client/1"),
    "task of a table": SPACE.updateable("task/maintain.1"),
    "runs of a table": SPACE.updateable("task/rewrite.1"),
    "follow-ups of a table": SPACE.updateable("task/follow-up.1"),
    "follow-ups": SPACE.updateable("task/follow-ups"),
    "transaction": SPACE.transaction("client/1"),
    "event-log": SPACE.event_log("client"),
    "event-delivery": SPACE.event_delivery("main", "bus"),
    "event-mark": SPACE.event_mark(SPACE.table("client")),
}
"""A key of each kind of row; those of other kinds look like a client's as much as they can."""
CHANGED = {
    "CommitRole": {"table", "catalog", "transaction", "staging", "location", "external"},
    "CatalogRole": ROWS.keys() - {"client"},
    "IcebergRole": ROWS.keys() - {"client"},
    "TokensRole": {"client"},
    "AuthorizerRole": set(),
    "ConsoleRole": set(),
    "PublishRole": {"table", "attention"},
    "EventsRole": {"event-log", "event-mark", "event-delivery", "attention of events"},
    "MaintainRole": {
        "attention of maintenance",
        "event-delivery",
        "task of a table",
        "runs of a table",
        "follow-ups of a table",
        "follow-ups",
    },
    "PlansRole": {"runs of a table"},
    "BranchesRole": ROWS.keys() - {"client"},
    "IngestRole": {"table", "catalog", "request", "staging", "location", "external"},
    "RowsRole": {"table", "catalog", "request", "staging", "location", "external"},
    "SweepRole": {"table", "attention"},
    "CollectRole": ROWS.keys() - {"client"},
}
"""The kinds of rows that a function may change, which for ``UpdateItem`` is to make them, too."""


USES_OF_KEY = {"LakeReader": {"Decrypt"}, "LakeEncrypter": {"GenerateDataKey"}}
"""Of a customer's KMS key: S3 decrypts for readers. Writers also ask for a data key. Deleting needs
neither."""


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    return read_template(ROOT / "template.yaml")["Resources"]


def statements(policy: dict[str, Any]) -> list[dict[str, Any]]:
    return policy["PolicyDocument"]["Statement"]


def target(resource: Any) -> str:
    if isinstance(resource, str) or "Fn::GetAtt" not in resource:
        return str(resource)
    name, attribute = resource["Fn::GetAtt"]
    return name if attribute == "Arn" else f"{name}.{attribute}"


def actions(statement: dict[str, Any]) -> set[str]:
    listed = statement["Action"]
    return {action.split(":")[1] for action in ([listed] if isinstance(listed, str) else listed)}


def conditional(entries: list[Any]) -> dict[str, list[Any]]:
    """Entries by the condition under which they are there; empty for those that always are."""
    found: dict[str, list[Any]] = {}
    for entry in entries:
        condition, there, otherwise = entry.get("Fn::If", ("", entry, {"Ref": "AWS::NoValue"}))
        assert otherwise == {"Ref": "AWS::NoValue"}
        found.setdefault(condition, []).append(there)
    return found


def inline(properties: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The statements of a role's own policy, by condition."""
    (policy,) = properties["Policies"]
    return conditional(statements(policy))


@pytest.mark.parametrize("role", EXPECTED)
def test_role(resources: dict[str, Any], role: str) -> None:
    properties = resources[role]["Properties"]
    granted: dict[str, set[str]] = {}
    for statement in inline(properties)[""]:
        assert statement["Effect"] == "Allow"
        granted.setdefault(target(statement["Resource"]), set()).update(actions(statement))
    assert granted == EXPECTED[role]
    managed = conditional(properties.get("ManagedPolicyArns", []))
    assert {entry["Ref"] for entry in managed.pop("", [])} == MANAGED[role]
    encrypter = {"WithLakeKey": [{"Ref": "LakeEncrypter"}]} if role in ENCRYPTERS else {}
    assert managed == {"WithVpc": [{"Ref": "VpcUser"}], **encrypter}


@pytest.mark.parametrize("role", EXPECTED)
def test_i12_a_function_changes_only_rows_that_are_its_own_and_no_client_but_the_tokens_functions(
    resources: dict[str, Any], role: str
) -> None:
    properties = resources[role]["Properties"]
    listed = list(inline(properties)[""])
    for name in MANAGED[role]:
        listed += conditional(statements(resources[name]["Properties"]))[""]
    changed = {kind for kind, key in ROWS.items() if any(may(listed, action, key) for action in CHANGES)}
    assert changed == CHANGED[role]
    assert not any(may(listed, action, "other/table/1") for action in CHANGES if role in CONDITIONED)


CHANGES = ("PutItem", "UpdateItem", "DeleteItem")
CONDITIONED = {"CommitRole", "IngestRole", "RowsRole", "TokensRole", "PublishRole", "SweepRole"}


def may(listed: list[dict[str, Any]], action: str, key: str) -> bool:
    """Whether the statements allow an action on the row of ``refs`` under a key, as IAM evaluates
    them."""
    effects = {
        statement["Effect"]
        for statement in listed
        if target(statement["Resource"]) == "RefsTable"
        and (action in actions(statement) or actions(statement) == {"*"})
        and holds(statement.get("Condition", {}), key)
    }
    return effects == {"Allow"}


def holds(condition: dict[str, Any], key: str) -> bool:
    """Whether a condition on the leading keys holds for a request about one key."""
    for operator, tests in condition.items():
        assert operator in ("ForAllValues:StringLike", "ForAnyValue:StringLike")  # the same where there is one key
        ((variable, patterns),) = tests.items()
        assert variable == "dynamodb:LeadingKeys"
        if not any(fnmatchcase(key, pattern["Fn::Sub"].replace("${Realm}", SPACE.realm)) for pattern in patterns):
            return False
    return True


MANAGED_MAX = 10
"""Managed policies of a role, unless an account asks for more. Source: IAM, quotas."""


@pytest.mark.parametrize("role", EXPECTED)
def test_a_role_has_no_more_managed_policies_than_an_account_allows(resources: dict[str, Any], role: str) -> None:
    assert len(resources[role]["Properties"].get("ManagedPolicyArns", ())) <= MANAGED_MAX


def test_every_function_has_a_role_of_its_own(resources: dict[str, Any]) -> None:
    used = {
        name: found["Properties"]["Role"]["Fn::GetAtt"][0]
        for name, found in resources.items()
        if found["Type"] == "AWS::Serverless::Function"
    }
    assert used == {role.replace("Role", "Function"): role for role in EXPECTED}


LAKE_POLICIES = {
    "LakeReader": ({"ListBucket", "GetObject"}, {"*"}),
    "LogWriter": ({"PutObject"}, {"*_delta_log/*"}),
    "LogCopier": ({"AbortMultipartUpload"}, {"*_delta_log/*"}),
    "DataWriter": ({"PutObject"}, {f"*part-{'-'.join('?' * size for size in (8, 4, 4, 4, 12))}.snappy.parquet"}),
    "TableCreator": ({"PutObject"}, {"*/_delta_log/00000000000000000000.json"}),
    "MetadataWriter": ({"PutObject"}, {"*.metadata.json", "*metadata/snap-*.avro"}),
    "ManifestWriter": ({"PutObject"}, {"*metadata/*-m0.avro"}),
    "MetadataCleaner": ({"DeleteObject"}, {"*.metadata.json", "*metadata/snap-*.avro"}),
    "LakeCleaner": ({"DeleteObject"}, {"*"}),
}
"""The actions of each, and the names of files below the lake that they are for."""


@pytest.mark.parametrize("name", LAKE_POLICIES)
def test_lake_policies_stay_below_the_lake(resources: dict[str, Any], name: str) -> None:
    expected, files = LAKE_POLICIES[name]
    found: set[str] = set()
    for entry in statements(resources[name]["Properties"]):
        condition, statement, _ = entry.get("Fn::If", ("", entry, None))
        if condition == "WithLakeKey":
            assert statement["Resource"] == {"Ref": "LakeKey"}
            assert actions(statement) == USES_OF_KEY[name]
            continue
        found |= actions(statement)
        places = statement["Resource"]
        named = [place["Fn::Sub"] for place in (places if isinstance(places, list) else [places])]
        whole = "${Bucket}" if "ListBucket" in actions(statement) else None
        assert {text.removeprefix("arn:${AWS::Partition}:s3:::") for text, _ in named} == (
            {whole} if whole else {f"${{Path}}/{file}" for file in files}
        )
        root = "ImportRoot" if condition == "WithImports" else "LakeRoot"
        assert all(root in str(variables) for _, variables in named)
    assert found == expected


def test_i10_every_file_that_a_function_writes_or_removes_is_one_that_its_role_may(tmp_path: Path) -> None:
    """As the code names them: of a log, of an Iceberg table, and of an append that was merged and
    lost."""
    log = LAKE_POLICIES["LogWriter"][1]
    iceberg = LAKE_POLICIES["MetadataWriter"][1]
    for path in (published_path(7), staged_path(staged_file(7, "x")), aside_path(version_file(7), "0f")):
        assert matches(f"main/sales/u/{path}", log)
        assert matches(path, log), "of a table that was imported from the import root itself"
    lake = Lake(tmp_path)
    storages = FileStorages()
    ids = FakeIds()
    schema = msgspec.convert(SCHEMA, Schema)
    uuid = ids.uuid()
    empty = new_table(uuid=uuid, location=lake.location, schema=schema, spec=None, order=None, properties={}, now_ms=1)
    first = lake.append(1, None, 1)
    fast = lake.append(2, first, 2)
    slow = lake.append(3, first, 2)
    table = empty
    for snapshot in (first, fast):
        table = apply_updates(
            table, (AddSnapshot(snapshot), SetSnapshotRef("main", snapshot.snapshot_id, "branch")), 10**13
        )
    requirements = (AssertTableUuid(uuid), AssertRefSnapshotId("main", 1))
    merged = AppendMerger(storages, ids).merge(
        table, requirements, (AddSnapshot(slow), SetSnapshotRef("main", 3, "branch"))
    )
    assert merged is not None
    for written in (MetadataFiles(storages, ids).write(lake.location, table).path, merged.manifest_list):
        assert matches(written.removeprefix("file:///"), iceberg), written


def matches(path: str, patterns: set[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def holders(resources: dict[str, Any], condition: str) -> dict[str, list[dict[str, Any]]]:
    """By role, the statements that it has under a condition."""
    found = {role: inline(resources[role]["Properties"]).get(condition, []) for role in EXPECTED}
    return {role: statements for role, statements in found.items() if statements}


def test_only_functions_that_send_events_put_them_on_the_bus_and_on_no_other(resources: dict[str, Any]) -> None:
    found = holders(resources, "WithEventBus")
    assert found.keys() == {"EventsRole", "MaintainRole"}
    for (statement,) in found.values():
        assert (actions(statement), statement["Resource"]) == ({"PutEvents"}, {"Ref": "EventBus"})
    variables = resources["EventsFunction"]["Properties"]["Environment"]["Variables"]
    assert variables["TURNSTILE_EVENT_TARGETS"] == {
        "Fn::If": ["WithEventBus", {"Fn::Sub": "bus=eventbridge:${EventBus}"}, ""]
    }


def test_follow_ups_invoke_and_start_what_the_parameters_name_and_nothing_else(resources: dict[str, Any]) -> None:
    functions = holders(resources, "WithFollowUpFunctions")
    application = holders(resources, "WithFollowUpApplication")
    assert functions.keys() == application.keys() == {"MaintainRole"}
    (invoke,) = functions["MaintainRole"]
    assert (actions(invoke), invoke["Resource"]) == ({"InvokeFunction"}, {"Ref": "FollowUpFunctions"})
    start, give = application["MaintainRole"]
    assert (actions(start), start["Resource"]) == ({"StartJobRun"}, {"Ref": "FollowUpApplication"})
    assert (actions(give), give["Resource"]) == ({"PassRole"}, {"Ref": "FollowUpJobRole"})
    assert give["Condition"] == {"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}}


def test_i12_keys_are_sessions_of_the_vending_role_and_of_no_other(resources: dict[str, Any]) -> None:
    found = holders(resources, "WithVending")
    assert found.keys() == {"CatalogRole", "IcebergRole"}
    for (statement,) in found.values():
        assert (actions(statement), statement["Resource"]) == ({"AssumeRole"}, {"Ref": "VendingRole"})
    outputs = read_template(ROOT / "template.yaml")["Outputs"]
    for name in ("CatalogRole", "IcebergRole"):  # what the role's trust policy has to name
        assert outputs[name]["Value"] == {"Fn::GetAtt": [name, "Arn"]}
