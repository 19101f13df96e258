"""Requests that the transport signs, sends and parses: signed as botocore signs them, answers
parsed as botocore parses them, and a damaged answer never taken for an acceptance (I3)."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import botocore.session
import pytest
from botocore import UNSIGNED
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import ClientError, NoCredentialsError
from hypothesis import given
from hypothesis import strategies as st

from tests.support.store.canned import CannedAnswer, answer, refusal, serving
from tests.support.store.clients import plain_dynamodb, wiretap
from turnstile.adapters.dynamo.calls import Caller
from turnstile.adapters.dynamo.transport import install, signature
from turnstile.store.core.errors import OutcomeUnknown, StorageFault
from turnstile.store.retry import Patience

ITEM = {
    "key": {"S": "contract/table/t"},
    "latest": {"N": "7"},
    "tail": {"L": [{"B": b"\x00\xff"}, {"M": {"a": {"SS": ["x", "é"]}, "b": {"NS": ["1"]}}}, {"L": []}]},
    "data": {"BS": [b"", b"a"]},
    "on": {"BOOL": False},
    "none": {"NULL": True},
}
KEY = {"key": {"S": "contract/table/t"}}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "GetItem": ("get_item", {"TableName": "refs", "Key": KEY}),
    "PutItem": ("put_item", {"TableName": "refs", "Item": ITEM}),
    "UpdateItem": ("update_item", {"TableName": "refs", "Key": KEY, "UpdateExpression": "SET a = b"}),
    "DeleteItem": ("delete_item", {"TableName": "refs", "Key": KEY}),
    "Query": ("query", {"TableName": "refs", "KeyConditionExpression": "a = b"}),
    "Scan": ("scan", {"TableName": "refs"}),
    "BatchGetItem": ("batch_get_item", {"RequestItems": {"refs": {"Keys": [KEY]}}}),
    "BatchWriteItem": ("batch_write_item", {"RequestItems": {"refs": [{"PutRequest": {"Item": ITEM}}]}}),
    "TransactGetItems": (
        "transact_get_items",
        {"TransactItems": [{"Get": {"TableName": "refs", "Key": KEY}}]},
    ),
    "TransactWriteItems": ("transact_write_items", {"TransactItems": [], "ClientRequestToken": "token"}),
}
PAGE = {"Items": [ITEM, KEY], "Count": 2, "ScannedCount": 3, "LastEvaluatedKey": KEY}
LEFT = {"refs": {"Keys": [KEY], "ConsistentRead": True}}
UNWRITTEN = {"refs": [{"PutRequest": {"Item": ITEM}}, {"DeleteRequest": {"Key": KEY}}]}
CAPACITY = {"TableName": "refs", "CapacityUnits": 2.5}
ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("GetItem", {}),
    ("GetItem", {"Item": ITEM, "ConsumedCapacity": CAPACITY}),
    ("PutItem", {}),
    ("PutItem", {"Attributes": None, "Newer": {"of": "a later release"}}),
    ("UpdateItem", {"Attributes": ITEM}),
    ("UpdateItem", {"Attributes": ITEM | {"new": {"Z": "of a later release", "S": "x"}}}),
    ("DeleteItem", {"Attributes": ITEM}),
    ("Query", PAGE),
    ("Scan", PAGE | {"Items": []}),
    ("BatchGetItem", {"Responses": {"refs": [ITEM]}, "UnprocessedKeys": LEFT, "ConsumedCapacity": [CAPACITY]}),
    ("BatchGetItem", {"Responses": {"refs": []}, "UnprocessedKeys": {}}),
    ("BatchWriteItem", {"UnprocessedItems": UNWRITTEN}),
    ("TransactGetItems", {"Responses": [{"Item": ITEM}, {}, {"Item": KEY}], "ConsumedCapacity": [CAPACITY]}),
    ("TransactGetItems", {"Responses": [None, {"Item": None}]}),
    ("TransactWriteItems", {"ConsumedCapacity": [CAPACITY]}),
]
NAMESPACE = "com.amazonaws.dynamodb.v20120810#"
REASONS = [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Message": "no", "Item": ITEM}]


def _error(code: str, status: int = 400, **members: Any) -> CannedAnswer:
    return CannedAnswer(status, answer({"__type": NAMESPACE + code, **members}).body)


ERRORS = [
    refusal(ITEM),
    _error("ConditionalCheckFailedException", message="no"),
    _error("ConditionalCheckFailedException", message="no", Item=None),
    _error("TransactionCanceledException", Message="no [None]", CancellationReasons=REASONS),
    _error("TransactionCanceledException", Message="no", CancellationReasons=[{"Code": "None", "Message": None}]),
    _error("ProvisionedThroughputExceededException", message="slower"),
    _error("ThrottlingException", message="slower", throttlingReasons=[{"reason": "a", "resource": "b"}]),
    _error("ValidationException", message="Item size has exceeded the maximum allowed size"),
    _error("SomethingNew", message="of a later release", Item=ITEM),
    _error("InternalServerError", 500, message="sorry"),
    CannedAnswer(500, b"<html>no</html>"),
    CannedAnswer(500, b""),
    CannedAnswer(400, b"this is no JSON"),
    CannedAnswer(400, b"{}"),
]


def _ours(url: str, **more: Any) -> Any:
    client = plain_dynamodb(url, **more)
    install(client)
    return client


def _outcome(client: Any, operation: str) -> tuple[str, dict[str, Any]]:
    """The parsed answer, or the class of the error and what it holds; without the headers, and
    without botocore's word that its retries are over."""
    method, request = REQUESTS[operation]
    try:
        kind = "accepted"
        parsed = getattr(client, method)(**request)
    except ClientError as error:
        kind = type(error).__name__
        parsed = dict(error.response)
    for member in ("HTTPHeaders", "MaxAttemptsReached"):
        parsed["ResponseMetadata"].pop(member, None)
    return kind, parsed


@pytest.mark.parametrize(("operation", "members"), ACCEPTED)
def test_i2_an_answer_is_parsed_as_botocore_parses_it(operation: str, members: dict[str, Any]) -> None:
    with serving({operation: answer(members)}) as url:
        kind, parsed = _outcome(_ours(url), operation)
        assert (kind, parsed) == _outcome(plain_dynamodb(url), operation)
    assert kind == "accepted" and parsed["ResponseMetadata"]["HTTPStatusCode"] == 200


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.body[:60].decode())
@pytest.mark.parametrize("operation", ["UpdateItem", "TransactGetItems", "TransactWriteItems"])
def test_i3_an_error_is_parsed_as_botocore_parses_it(operation: str, error: CannedAnswer) -> None:
    with serving({operation: error}) as url:
        kind, parsed = _outcome(_ours(url), operation)
        assert (kind, parsed) == _outcome(plain_dynamodb(url), operation)
    assert kind != "accepted"


@pytest.mark.parametrize(
    "damaged",
    [
        CannedAnswer(200, b"<html>Welcome to the hotel's network</html>", checksum=False),
        CannedAnswer(200, b'{"Attributes": {"key": {"S": "contra', checksum=False),
        CannedAnswer(200, b'{"Attributes": {"key": {"S": "\xff"}}}', checksum=False),
        CannedAnswer(200, b"[]", checksum=False),
        CannedAnswer(200, b"", checksum=False),
    ],
    ids=["html", "cut off", "not UTF-8", "no object", "empty"],
)
@pytest.mark.parametrize("operation", list(REQUESTS))
def test_i3_what_is_no_answer_of_the_service_is_lost_whatever_its_status(operation: str, damaged: CannedAnswer) -> None:
    """botocore takes it for an answer without members: a write would be accepted, and a row
    absent."""
    _require_lost(operation, damaged)


def test_i3_an_answer_that_is_not_what_its_checksum_says_is_lost() -> None:
    class Mistaken(CannedAnswer, frozen=True):
        def packed(self) -> bytes:
            return super().packed().replace(b'"N":"7"', b'"N":"8"')

    _require_lost("UpdateItem", Mistaken(200, answer({"Attributes": ITEM}).body))


def _require_lost(operation: str, damaged: CannedAnswer) -> None:
    method, request = REQUESTS[operation]
    with serving({operation: damaged}) as url:
        caller = Caller(_ours(url), patience=Patience(deadline_s=0.05, first_s=0.001, longest_s=0.01))
        with pytest.raises(OutcomeUnknown):
            caller.write(method, request)
        with pytest.raises(StorageFault):
            caller.read(method, request)


@given(
    body=st.binary(max_size=200),
    token=st.sampled_from(["", "a+session/token=="]),
    trace=st.sampled_from([{}, {"X-Amzn-Trace-Id": "Root=1"}, {"X-Amz-Custom": "  two   words "}]),
    host=st.sampled_from(["dynamodb.us-east-1.amazonaws.com", "localhost:8000"]),
)
def test_a_request_is_signed_as_botocore_signs_it(body: bytes, token: str, trace: dict[str, str], host: str) -> None:
    credentials = ReadOnlyCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", token or None)
    headers = {"X-Amz-Target": "DynamoDB_20120810.UpdateItem", "Content-Type": "application/x-amz-json-1.0"}
    headers |= {"User-Agent": "any", "Host": host, **trace}
    made = signature(headers, body, credentials, "us-east-1", "dynamodb")
    moment = dt.datetime.strptime(made["X-Amz-Date"], "%Y%m%dT%H%M%SZ")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.auth.get_current_datetime", lambda: moment)
        request = AWSRequest("POST", f"https://{host}/", headers, body)
        SigV4Auth(credentials, "dynamodb", "us-east-1").add_auth(request)
    assert {name: request.headers[name] for name in made} == made


def test_requests_go_out_as_botocore_builds_them_and_can_be_watched_and_answered() -> None:
    """``before-send`` is where tests and tracing look."""
    with serving({"GetItem": answer({"Item": ITEM})}) as url:
        client = _ours(url)
        seen = []
        client.meta.events.register("before-send.dynamodb.GetItem", lambda request, **_: seen.append(request))
        with wiretap(client) as sent:
            _outcome(client, "GetItem")
    assert sent == ["GetItem"]
    assert seen[0].method == "POST" and seen[0].url == f"{url}/"
    assert json.loads(seen[0].body) == REQUESTS["GetItem"][1]
    assert seen[0].headers["X-Amz-Target"] == "DynamoDB_20120810.GetItem"


def test_what_the_transport_does_not_know_is_left_to_botocore() -> None:
    """Another operation, an endpoint with a path, requests that are not to be signed."""
    answers = {"GetItem": answer({"Item": ITEM}), "ListTables": answer({"TableNames": ["refs"]})}
    with serving(answers) as url:
        assert _ours(url).list_tables()["TableNames"] == ["refs"]
        for client in (_ours(f"{url}/store"), _ours(url, signature_version=UNSIGNED)):
            response = client.get_item(**REQUESTS["GetItem"][1])
            assert response["Item"] == ITEM
            assert "HTTPHeaders" in response["ResponseMetadata"]


def test_without_credentials_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    session = botocore.session.get_session()
    monkeypatch.setattr(session, "get_credentials", lambda: None)
    with serving({"GetItem": answer({})}) as url:
        client = session.create_client("dynamodb", "us-east-1", endpoint_url=url)
        install(client)
        with pytest.raises(NoCredentialsError):
            client.get_item(**REQUESTS["GetItem"][1])
