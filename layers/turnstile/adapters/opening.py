"""Opens a world: every port of one realm, built once per process. Refs and objs are on DynamoDB
(``adapters/dynamo``); storage is chosen by the scheme of a location. Another store is another
folder here that implements ``Refs`` and ``ObjRows`` (``store/ports.py``, ``store/stored_objs.py``),
passes ``tests/contract``, and gets a function beside ``open_world``. Nothing of AWS is imported
before it is needed.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from turnstile.adapters import secret
from turnstile.adapters.clients import forget_sessions, make_client
from turnstile.adapters.files import FileStorage
from turnstile.adapters.machine import RandomIds, SystemClock
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.rows import Space
from turnstile.store.ports import LogStorage, World

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

CONNECTIONS: Final = 32

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_S3_SCHEMES: Final = ("s3", "s3a", "s3n")
_STATIC_KEYS: Final = {
    "TURNSTILE_S3_ACCESS_KEY_ID": "aws_access_key_id",
    "TURNSTILE_S3_SECRET_ACCESS_KEY": "aws_secret_access_key",
    "TURNSTILE_S3_SESSION_TOKEN": "aws_session_token",
}


def open_world(*, refs_table: str, objs_table: str, realm: str, endpoint_url: str | None = None) -> World:
    """Returns the ports on DynamoDB, S3 and the local file system. Sends no request. Clients are
    cached per process; S3's is built when a table on S3 is opened first. Every key starts with
    ``realm``, the tenant; ``endpoint_url`` is the address of an emulator (None: AWS, or the one in
    AWS_ENDPOINT_URL).
    """
    from turnstile.adapters.dynamo.objs import DynamoObjs
    from turnstile.adapters.dynamo.refs import DynamoRefs

    clock = SystemClock()
    client = dynamodb(endpoint_url)
    return World(
        refs=DynamoRefs(client, refs_table, realm=realm),
        objs=DynamoObjs(client, objs_table, clock=clock),
        storages=FileStorages(endpoint_url),
        clock=clock,
        ids=RandomIds(),
        space=Space(realm),
    )


# -- AWS clients ------------------------------------------------------------------------------------------------------


@cache
def dynamodb(endpoint_url: str | None) -> DynamoDBClient:
    """The DynamoDB client. It leaves out work that botocore would repeat for every request:
    validation (the models serialise), composing the name of the agent; and the parts that
    ``transport`` replaces.
    """
    from botocore import __version__

    from turnstile.adapters.dynamo.transport import install

    own: dict[str, Any] = {"parameter_validation": False, "user_agent": f"Botocore/{__version__} turnstile"}
    client = make_client("dynamodb", endpoint_url, max_pool_connections=CONNECTIONS, tcp_keepalive=True, **own)
    install(client)
    return cast("DynamoDBClient", client)


@cache
def dynamodb_streams(endpoint_url: str | None) -> Any:
    """The client of DynamoDB's streams."""
    return make_client("dynamodbstreams", endpoint_url, tcp_keepalive=True)


@cache
def s3(endpoint_url: str | None) -> S3Client:
    """The S3 client; other stores than AWS's are addressed by path, since bucket host names need
    not resolve there. A store that has static keys for clients (``TURNSTILE_S3_...``) takes them
    from us, too: it knows no roles.
    """
    emulator = endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    style = {"addressing_style": "path" if emulator else "auto"}
    static = {argument: value for name, argument in _STATIC_KEYS.items() if (value := secret.text(name))}
    client = make_client(
        "s3", endpoint_url, keys=static, max_pool_connections=CONNECTIONS, tcp_keepalive=True, s3=style
    )
    return cast("S3Client", client)


@cache
def sts() -> Any:
    """The STS client, which calls the region's own endpoint."""
    return make_client("sts", None, attempts=2)


@cache
def events() -> Any:
    """The client of EventBridge."""
    return make_client("events", None, attempts=2)


@cache
def functions() -> Any:
    """The client of Lambda, for invocations that are not waited for."""
    return make_client("lambda", None, attempts=2)


@cache
def answering_functions(read_s: float) -> Any:
    """The client of Lambda for invocations that wait for an answer: each is sent once."""
    return make_client("lambda", None, read_s=read_s)


@cache
def emr_serverless() -> Any:
    """The client of EMR Serverless."""
    return make_client("emr-serverless", None, attempts=2)


def forget_clients() -> None:
    """Forgets all clients of this process, and their common state. Call it before the process
    forks: a connection that two processes share mixes their requests."""
    forget_sessions()
    for kept in (dynamodb, dynamodb_streams, s3, sts, events, functions, answering_functions, emr_serverless):
        kept.cache_clear()


class FileStorages:
    """``turnstile.store.ports.Storages`` by scheme: ``file:`` in all slash forms, ``s3:`` (``s3a:``
    is the same). Paths are taken as they are: percent signs are not decoded, as in Hadoop's
    ``Path``.
    """

    def __init__(self, endpoint_url: str | None = None) -> None:
        self._endpoint_url = endpoint_url

    def open(self, location: str) -> LogStorage:
        """Storage below ``location``. Raises InvalidRequest for a scheme that is not served, or no
        absolute location."""
        match = _SCHEME.fullmatch(location)
        scheme, rest = (match[1].lower(), match[2]) if match else ("", location)
        if scheme == "file":
            return FileStorage(_local_path(location, rest))
        if scheme in _S3_SCHEMES:
            from turnstile.adapters.s3 import S3Storage

            bucket, prefix = _bucket_and_prefix(location, rest)
            return S3Storage(s3(self._endpoint_url), bucket, prefix)
        raise InvalidRequest(
            f"storage of {location!r} is not served", field="location", remedy="use s3://bucket/prefix or file:///path"
        )


def _local_path(location: str, rest: str) -> str:
    if rest.startswith("//"):
        host, _, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise InvalidRequest(f"{location!r} names another host", field="location", remedy="use file:///path")
        rest = "/" + path
    path = "/" + rest.strip("/")
    if not rest.startswith("/") or path == "/" or any(segment in (".", "..") for segment in path.split("/")):
        raise InvalidRequest(f"{location!r} is not an absolute path", field="location", remedy="use file:///path")
    return path


def _bucket_and_prefix(location: str, rest: str) -> tuple[str, str]:
    bucket, _, prefix = rest.removeprefix("//").partition("/")
    prefix = prefix.strip("/")
    if not rest.startswith("//") or not bucket or any(segment in (".", "..") for segment in prefix.split("/")):
        raise InvalidRequest(f"{location!r} is not s3://bucket/prefix", field="location")
    return bucket, prefix
