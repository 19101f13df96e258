"""Records a function's calls of AWS, in botocore, and refuses calls that its role does not allow,
as AWS would.

Only calls inside ``acting`` are recorded: a test's own requests belong to no role. Services without
an emulator in the tests (EventBridge, Lambda, EMR Serverless, STS, secrets) are answered here.
"""

from __future__ import annotations

import io
import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from tests.support.roles.policies import Call, Role
from tests.support.roles.resolved import ACCOUNT, REGION
from tests.support.store.backends import OBJS_TABLE, REFS_TABLE
from turnstile.api.row_batches import REFUSED
from turnstile.store.core.names import published_path

TABLES: Final = {REFS_TABLE: "RefsTable", OBJS_TABLE: "ObjsTable"}
_KEY: Final = {"RefsTable": "key", "ObjsTable": "space"}
_TRANSACTED: Final = {
    "ConditionCheck": "ConditionCheckItem",
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "Get": "GetItem",
}
_S3: Final = {
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "PutObject": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "DeleteObject": "s3:DeleteObject",
    "ListObjectsV2": "s3:ListBucket",
}
_PARTS: Final = ("UploadPart", "CompleteMultipartUpload")
_DATA_FILE: Final = re.compile(r"part-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.snappy\.parquet")
VERSION_ZERO: Final = published_path(0)
_ABSENT: Final = ("NoSuchKey", "404", "NotFound")
SESSION: Final = {
    "AccessKeyId": "ASIAAAAAAAAAAAAAAAAA",
    "SecretAccessKey": "s",
    "SessionToken": "t",
    "Expiration": datetime.now(UTC) + timedelta(hours=1),
}


class Recorder:
    """``calls`` by function, each different one once, with how often; ``refused`` calls that the
    role does not allow.

    ``lake`` and ``imports`` are the two roots, ``bucket/prefix``; a call for a file below the first
    counts as one for a file below the second, since an imported table takes the same paths. An
    operation in ``overtaken`` comes too late the next time: before it is sent, what is there
    happens, and it is refused. ``invoke`` is the branches function, which others call.
    """

    def __init__(self, roles: Mapping[str, Role], *, lake: str, imports: str, parameters: Mapping[str, str]) -> None:
        self.calls: dict[Call, int] = {}
        self.refused: dict[Call, int] = {}
        self.overtaken: dict[str, Callable[[], object]] = {}
        self.invoke: Callable[[bytes], bytes] = bytes
        self._roles = roles
        self._lake = lake
        self._imports = imports
        self._key, self._secret_key, self._tables_key = (
            parameters[name] for name in ("LakeKey", "SecretKey", "TablesKey")
        )
        self._function = ""
        self._lock = threading.Lock()

    @contextmanager
    def acting(self, function: str) -> Iterator[None]:
        """The calls of the block are this function's."""
        before = self._function
        self._function = function
        try:
            yield
        finally:
            self._function = before

    def of(self, function: str) -> list[Call]:
        """The different calls of a function."""
        return [call for call in self.calls if call.function == function]

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Records all clients of botocore from now on."""
        make = BaseClient._make_api_call  # type: ignore[attr-defined]
        recorder = self

        def made(client: Any, operation: str, params: dict[str, Any]) -> Any:
            service = client.meta.service_model.service_name
            if not recorder._function:
                return make(client, operation, params)
            function = recorder._function
            for action, resource, keys, context in _asked(service, operation, params):
                recorder._judge(Call(function, action, resource, keys, context), operation)
            if service == "lambda" and params["InvocationType"] == "RequestResponse":
                with recorder.acting("BranchesFunction"):
                    return {"Payload": io.BytesIO(recorder.invoke(params["Payload"]))}
            answer = _ANSWERS.get(service)
            if answer is not None:
                return answer(params)
            if operation in recorder.overtaken:
                recorder.overtaken.pop(operation)()
                raise ClientError(
                    {"Error": {"Code": "PreconditionFailed"}, "ResponseMetadata": {"HTTPStatusCode": 412}}, operation
                )
            try:
                return make(client, operation, params)
            except ClientError as error:
                if service == "s3" and error.response.get("Error", {}).get("Code") in _ABSENT:
                    # S3 says that a file is absent only to those who may list, and AccessDenied to
                    # all others.
                    bucket = f"arn:aws:s3:::{params['Bucket']}"
                    recorder._judge(Call(function, "s3:ListBucket", bucket), operation)
                raise

        patch.setattr(BaseClient, "_make_api_call", made)

    def _judge(self, call: Call, operation: str) -> None:
        for each in self._and_its_likes(call, operation):
            plain = each._replace(keys=tuple(sorted({_pattern(key) for key in each.keys})))
            with self._lock:
                self.calls[plain] = self.calls.get(plain, 0) + 1
            if not self._roles[each.function].allows(each):
                with self._lock:
                    self.refused[plain] = self.refused.get(plain, 0) + 1
                says = f"{each.function} is not authorized to perform: {each.action} on resource: {each.resource}"
                code = "AccessDenied" if each.action.startswith("s3:") else "AccessDeniedException"
                meta = {"HTTPStatusCode": 403 if code == "AccessDenied" else 400}
                raise ClientError({"Error": {"Code": code, "Message": says}, "ResponseMetadata": meta}, operation)

    def _and_its_likes(self, call: Call, operation: str) -> Iterator[Call]:
        yield call._replace(resource=_plain(call.resource, self._lake))
        if call.action in ("ssm:GetParameter", "secretsmanager:GetSecretValue"):
            yield Call(call.function, "kms:Decrypt", self._secret_key)
        if call.action.startswith("dynamodb:"):
            yield Call(call.function, "kms:Decrypt", self._tables_key)
        if not call.action.startswith("s3:"):
            return
        lake, imports = (f"arn:aws:s3:::{root}" for root in (self._lake, self._imports))
        is_created = call.action == "s3:PutObject" and call.resource.endswith(VERSION_ZERO)  # tables of the lake only
        if call.resource.startswith(lake + "/") and REFUSED not in call.resource and not is_created:
            yield call._replace(resource=_plain(imports + call.resource.removeprefix(lake), self._imports))
        if call.resource == lake.partition("/")[0]:
            yield call._replace(resource=imports.partition("/")[0])
        if call.action == "s3:GetObject" or operation in _PARTS:
            yield Call(call.function, "kms:Decrypt", self._key)
        if call.action == "s3:PutObject":
            yield Call(call.function, "kms:GenerateDataKey", self._key)


def _asked(service: str, operation: str, params: dict[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...], Any]]:
    """Action, resource, keys and context of everything that AWS authorises of a request."""
    if service == "dynamodb":
        for action, table, keys in _rows_asked(operation, params):
            yield f"dynamodb:{action}", f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}", keys, ()
    elif service == "s3":
        place = f"arn:aws:s3:::{params['Bucket']}"
        action = _S3[operation]
        yield action, place if action == "s3:ListBucket" else f"{place}/{params['Key']}", (), ()
    elif service == "sts":
        yield "sts:AssumeRole", params["RoleArn"], (), ()
    elif service == "events":
        for name in {entry["EventBusName"] for entry in params["Entries"]}:
            yield "events:PutEvents", name, (), ()
    elif service == "lambda":
        yield "lambda:InvokeFunction", params["FunctionName"], (), ()
    elif service == "emr-serverless":
        application = f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:/applications/{params['applicationId']}"
        yield "emr-serverless:StartJobRun", application, (), ()
        to = (("iam:PassedToService", "emr-serverless.amazonaws.com"),)
        yield "iam:PassRole", params["executionRoleArn"], (), to
    elif service == "ssm":
        name = params["Name"]
        here = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter{name}"
        yield "ssm:GetParameter", name if name.startswith("arn:") else here, (), ()
    elif service == "secretsmanager":
        yield "secretsmanager:GetSecretValue", params["SecretId"], (), ()
    else:
        raise AssertionError(f"a function calls {service}.{operation}, of which the recorder knows nothing")


def _rows_asked(operation: str, params: dict[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    if operation in ("TransactWriteItems", "TransactGetItems"):
        for item in params["TransactItems"]:
            ((kind, request),) = item.items()
            table = TABLES[request["TableName"]]
            yield _TRANSACTED[kind], table, (_key_of(table, request.get("Key") or request["Item"]),)
    elif operation == "BatchGetItem":
        for name, asked in params["RequestItems"].items():
            yield operation, TABLES[name], tuple(_key_of(TABLES[name], key) for key in asked["Keys"])
    elif operation == "BatchWriteItem":
        for name, writes in params["RequestItems"].items():
            items = [(each.get("PutRequest") or each["DeleteRequest"]) for each in writes]
            yield (
                operation,
                TABLES[name],
                tuple(_key_of(TABLES[name], each.get("Item") or each["Key"]) for each in items),
            )
    elif operation == "Scan":
        yield operation, TABLES[params["TableName"]], ()
    elif operation == "Query":
        yield operation, TABLES[params["TableName"]], (params["ExpressionAttributeValues"][":space"]["S"],)
    else:
        table = TABLES[params["TableName"]]
        yield operation, table, (_key_of(table, params.get("Key") or params["Item"]),)


def _key_of(table: str, item: dict[str, Any]) -> str:
    return str(item[_KEY[table]]["S"])


_HEX: Final = "0123456789abcdef"


def _pattern(key: str) -> str:
    """A row's key without its own part, so that calls of one kind are one."""
    realm, _, rest = key.partition("/")
    if rest.startswith("attention"):
        return key
    kinds = rest.split("/")
    kind = kinds[0]
    if kind == "updateable":
        name, dot, _ = "/".join(kinds[1:3]).partition(".")
        return f"{realm}/{kind}/{name}{dot}{'x' if dot else ''}"
    return f"{realm}/{kind}/x"


def _plain(resource: str, root: str) -> str:
    """A file's address without its own part: a policy can see the kind of file."""
    start = f"arn:aws:s3:::{root}/"
    if not resource.startswith(start):
        return resource
    path = resource.removeprefix(start)
    folder, _, name = path.rpartition("/")
    if _DATA_FILE.fullmatch(name):
        return f"{start}main/sales/x/data/part-{uuid.UUID(int=0)}.snappy.parquet"
    if REFUSED in folder.split("/"):
        return f"{start}{REFUSED}/x/x.json"
    if path.endswith(VERSION_ZERO):
        return f"{start}main/sales/x/{VERSION_ZERO}"
    below = next((part for part in ("_delta_log", "metadata") if f"/{part}" in f"/{folder}"), "data")
    more = folder.partition(below)[2] if below != "data" else ""
    dash = name.split("-")[0] + "-" if name.startswith("snap-") else ""
    marker = "-m0" if name.endswith("-m0.avro") else ""
    extension = ".".join(part for part in name.split(".")[1:] if not set(part.lower()) <= set(_HEX + "-"))
    return f"{start}main/sales/x/{below}{more}/{dash}x{marker}.{extension}"


def _secret(_: dict[str, Any]) -> dict[str, Any]:
    value = json.dumps({"token": "s3cret", "token_keys": "k1:" + "A" * 43})
    return {"Parameter": {"Value": value}, "SecretString": value}


_ANSWERS: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "sts": lambda _: {"Credentials": SESSION},
    "events": lambda params: {"FailedEntryCount": 0, "Entries": [{"EventId": "1"} for _ in params["Entries"]]},
    "lambda": lambda _: {"StatusCode": 202, "Payload": io.BytesIO()},
    "emr-serverless": lambda _: {"jobRunId": "1"},
    "ssm": _secret,
    "secretsmanager": _secret,
}
