"""Signs, sends and parses the adapter's requests in the place of botocore's own endpoint, which
takes twice the CPU time (docs/performance.md).

botocore calls ``before-call`` once a request is built, and takes the handler's answer instead of
sending it. Parameters, endpoint, credentials, configuration, connections and the exceptions that
are raised stay botocore's. This handler leaves unknown requests (another operation, another
signature, an endpoint with a path) to botocore, by answering nothing; an error is parsed by
botocore's parser, except for the row that a condition was refused with.
"""

from __future__ import annotations

import hashlib
import hmac
import time
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypedDict
from urllib.parse import urlsplit

import msgspec
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ChecksumError, NoCredentialsError
from botocore.parsers import ResponseParserError, create_parser

if TYPE_CHECKING:
    from botocore.model import OperationModel
    from botocore.signers import RequestSigner
    from mypy_boto3_dynamodb import DynamoDBClient

_OPERATIONS: Final = (
    "BatchGetItem",
    "BatchWriteItem",
    "DeleteItem",
    "GetItem",
    "PutItem",
    "Query",
    "Scan",
    "TransactGetItems",
    "TransactWriteItems",
    "UpdateItem",
)


def install(client: DynamoDBClient) -> None:
    """Lets ``client`` send the adapter's operations this way. The client does not try again by
    itself."""
    handler: Any = Transport(client).handle
    for operation in _OPERATIONS:
        client.meta.events.register_last(f"before-call.dynamodb.{operation}", handler)


class Transport:
    """The handler of ``before-call`` of one client."""

    def __init__(self, client: Any) -> None:
        self._events = client.meta.events
        self._connections = client._endpoint.http_session  # noqa: SLF001  it has the timeouts, proxies and certificates

    def handle(
        self,
        *,
        model: OperationModel,
        params: dict[str, Any],
        request_signer: RequestSigner,
        context: dict[str, Any],
        **_: Any,
    ) -> tuple[AWSResponse, dict[str, Any]] | None:
        """Returns the HTTP response and its content, as botocore parses it; None leaves the request
        to botocore.

        Raises:
            BotoCoreError: no answer came, or a damaged one, as from botocore.
            ResponseParserError: the status says that the request was accepted, but the body is not
                DynamoDB's.
        """
        host = _host(params["url"])
        version = context.get("auth_type") or request_signer.signature_version
        if host is None or version != "v4" or context.get("signing"):
            return None
        auth = request_signer.get_auth_instance(request_signer.signing_name, request_signer.region_name, "v4")
        if auth.credentials is None:
            raise NoCredentialsError
        body: bytes = params["body"]
        headers: Any = {**params["headers"], "Host": host}
        headers |= signature(headers, body, auth.credentials, request_signer.region_name, request_signer.signing_name)
        request = AWSPreparedRequest("POST", params["url"], headers, body, stream_output=False)
        answers = self._events.emit(f"before-send.dynamodb.{model.name}", request=request)
        response = next((answer for _, answer in answers if answer is not None), None)
        if response is None:
            response = self._connections.send(request)
        _check(response)
        return response, (_parse_error if response.status_code >= 300 else _parse_answer)(response, model)


# -- requests ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _host(url: str) -> str | None:
    """The host that a request to ``url`` names; None if the URL has more than that."""
    parts = urlsplit(url)
    plain = parts.path in ("", "/") and not parts.query and parts.username is None
    return parts.netloc if plain else None


def signature(headers: dict[str, str], body: bytes, credentials: Any, region: str, service: str) -> dict[str, str]:
    """Returns the headers that sign a POST of ``body`` to the root of a host, as
    ``botocore.auth.SigV4Auth`` does."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    added = {"X-Amz-Date": stamp}
    if credentials.token:
        added["X-Amz-Security-Token"] = credentials.token
    signed = {name.lower(): value for name, value in (headers | added).items()}
    signed = {name: signed[name] for name in sorted(signed) if name not in _UNSIGNED}
    names = ";".join(signed)
    lines = "".join(f"{name}:{' '.join(value.split())}\n" for name, value in signed.items())
    canonical = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = _signing_key(credentials.secret_key, stamp[:8], region, service)
    signed_by = f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, SignedHeaders={names}"
    return added | {"Authorization": f"{signed_by}, Signature={hmac.digest(key, text.encode(), 'sha256').hex()}"}


_UNSIGNED: Final = ("user-agent", "x-amzn-trace-id")  # what a proxy may change


@lru_cache(maxsize=2)
def _signing_key(secret: str, *scope: str) -> bytes:
    """The key of a day, a region and a service."""
    key = f"AWS4{secret}".encode()
    for part in (*scope, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


# -- answers ----------------------------------------------------------------------------------------------------------


class _Value(TypedDict, total=False):
    """An attribute value; msgspec decodes ``bytes`` from base64."""

    S: str
    N: str
    B: bytes
    SS: list[str]
    NS: list[str]
    BS: list[bytes]
    M: dict[str, _Value]
    L: list[_Value]
    NULL: bool
    BOOL: bool


_Values = dict[str, _Value]


class _Keys(TypedDict, total=False):
    Keys: list[_Values]
    AttributesToGet: list[str]
    ConsistentRead: bool
    ProjectionExpression: str
    ExpressionAttributeNames: dict[str, str]


class _TransactedRow(TypedDict, total=False):
    Item: _Values


class _Put(TypedDict, total=False):
    Item: _Values


class _Delete(TypedDict, total=False):
    Key: _Values


class _BatchedWrite(TypedDict, total=False):
    PutRequest: _Put
    DeleteRequest: _Delete


class _Answer(TypedDict, total=False):
    """The members of all answers of ``_OPERATIONS`` that the adapter asks for."""

    Attributes: _Values
    Item: _Values
    Items: list[_Values]
    Count: int
    ScannedCount: int
    LastEvaluatedKey: _Values
    Responses: dict[str, list[_Values]] | list[_TransactedRow | None]
    UnprocessedKeys: dict[str, _Keys]
    UnprocessedItems: dict[str, list[_BatchedWrite]]
    ConsumedCapacity: Any


class _RefusedWrite(TypedDict, total=False):
    message: str
    Item: _Values


class _Reason(TypedDict, total=False):
    Item: _Values
    Code: str
    Message: str


class _RefusedTransaction(TypedDict, total=False):
    Message: str
    CancellationReasons: list[_Reason]


_ANSWER: Final = msgspec.json.Decoder(_Answer)
_REFUSALS: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    "ConditionalCheckFailedException": msgspec.json.Decoder(_RefusedWrite),
    "TransactionCanceledException": msgspec.json.Decoder(_RefusedTransaction),
}
_PARSER: Final[Any] = create_parser("json")


def _check(response: AWSResponse) -> None:
    """Raises ChecksumError for a body other than the one that was sent. Not every emulator sends a
    checksum."""
    expected = response.headers.get("x-amz-crc32")
    actual = str(zlib.crc32(response.content))
    if expected not in (None, actual):
        raise ChecksumError(checksum_type="crc32", expected_checksum=expected, actual_checksum=actual)


def _parse_answer(response: AWSResponse, model: OperationModel) -> dict[str, Any]:
    """The parsed answer to an accepted request. Of the headers its metadata has one, the date: the
    service's clock."""
    try:
        parsed = _members(response, model)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ResponseParserError(f"an answer of {len(response.content)} bytes is not DynamoDB's: {error}") from error
    metadata: dict[str, Any] = {"HTTPStatusCode": response.status_code, "RetryAttempts": 0}
    if (date := response.headers.get("date")) is not None:
        metadata["HTTPHeaders"] = {"date": date}
    if (id := response.headers.get("x-amzn-requestid")) is not None:
        metadata["RequestId"] = id
    return parsed | {"ResponseMetadata": metadata}


def _members(response: AWSResponse, model: OperationModel) -> dict[str, Any]:
    try:
        return {**_ANSWER.decode(response.content)}
    except msgspec.ValidationError:  # a null member, for example, which some emulators send
        msgspec.json.decode(response.content, type=dict[str, Any])  # botocore takes what is no JSON for an empty object
        return dict(_PARSER.parse(_raw(response), model.output_shape))


def _parse_error(response: AWSResponse, model: OperationModel) -> dict[str, Any]:
    """An error, with the members that its kind has beyond code and message."""
    raw = _raw(response)
    parsed: dict[str, Any] = _PARSER.parse(raw, model.output_shape)
    code = parsed.get("Error", {}).get("Code")
    shape = model.service_model.shape_for_error_code(code) if code is not None else None
    if shape is not None:
        try:
            parsed |= _REFUSALS[shape.name].decode(response.content)
        except (KeyError, msgspec.DecodeError):
            parsed |= _PARSER.parse(raw, shape)
    parsed["ResponseMetadata"]["RetryAttempts"] = 0
    return parsed


def _raw(response: AWSResponse) -> dict[str, Any]:
    """The response as botocore's parsers take it."""
    return {
        "status_code": response.status_code,
        "headers": response.headers,
        "body": response.content,
        "context": {},
    }
