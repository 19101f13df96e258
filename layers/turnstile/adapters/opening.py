"""Opens a world: every port of one realm, built once per process. Refs and objs are on DynamoDB
(``adapters/dynamo``); storage is chosen by the scheme of a location. Another store is another
folder here that implements ``Refs`` and ``ObjRows`` (``store/ports.py``, ``store/stored_objs.py``),
passes ``tests/contract``, and gets a function beside ``open_world``. Nothing of AWS is imported
before it is needed.
"""

from __future__ import annotations

import os
import random
import re
import secrets
import threading
import time
import uuid
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from turnstile.adapters import secret
from turnstile.adapters.files import FileStorage
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.rows import Space
from turnstile.store.ports import LogStorage, World

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

CONNECT_S: Final = 1.0
READ_S: Final = 3.0
CONNECTIONS: Final = 32

_DEFAULT_REGION: Final = "us-east-1"  # emulators serve any; on AWS the function's environment names it
_RANDOM_BITS: Final = 80
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


class SystemClock:
    """``turnstile.store.ports.Clock`` on the wall clock. Correctness does not depend on it (design,
    I7): the HEAD orders versions, and a proposal from too far in the future is refused."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets the last reading of the clock: a process that was stopped and copied finds it far
        ahead of the time that has passed."""
        self._began_ms = self.now_ms()
        self._boot_began_ms = _elapsed_ms()
        self._seen: tuple[int, int] | None = None

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def jumped_ms(self) -> int:
        """By how much the wall clock has moved on since this was made beyond the time that has
        passed; negative: it was set back. 0 once that has been so for ``BELIEVED_MS``: it was
        behind before.
        """
        passed_ms = _elapsed_ms() - self._boot_began_ms
        jumped_ms = self.now_ms() - self._began_ms - passed_ms
        if abs(jumped_ms) <= JITTER_MS or passed_ms - self._steady_ms(jumped_ms, passed_ms) >= BELIEVED_MS:
            return 0
        return jumped_ms

    def _steady_ms(self, jumped_ms: int, passed_ms: int) -> int:
        """Since when (ms after the beginning) the clock has been as far away as it is now, as far
        as anything has looked."""
        if self._seen is None or abs(self._seen[0] - jumped_ms) > JITTER_MS:
            self._seen = jumped_ms, passed_ms
        return self._seen[1]


JITTER_MS: Final = 60_000
"""The largest allowed difference of clocks (docs/invariants.md, "Assumptions")."""

BELIEVED_MS: Final = 24 * 3_600_000
"""A clock that was set forward is believed after so long: then it was wrong before, and is right
now."""


def _elapsed_ms() -> int:
    """Time that passes independently of the wall clock, also while the machine sleeps, if the
    system has such a clock."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.monotonic_ns() if boot is None else time.clock_gettime_ns(boot)) // 1_000_000


def clock_ahead_ms(world: World) -> int:
    """By how much this machine's clock is ahead of two references: the store's own clock, if it has
    one, and the time that has passed since the process began; 0: it is not, or there is no
    reference.
    """
    store_ms = world.refs.clock_ms()
    ahead_ms = 0 if store_ms is None else world.clock.now_ms() - store_ms
    jumped_ms = world.clock.jumped_ms() if isinstance(world.clock, SystemClock) and store_ms is None else 0
    return max(0, ahead_ms, jumped_ms)


def begin_anew(world: World) -> None:
    """Separates this process from the process that it is a copy of, which has sent nothing but
    reads of secrets (SnapStart). Ids and secrets come from the operating system, and differ in each
    copy. The random numbers that spread retries are seeded anew: copies would all retry at the same
    moments. Credentials, secrets and other cached values end by the wall clock, which is right in a
    copy.
    """
    random.seed()
    if isinstance(world.clock, SystemClock):
        world.clock.begin_anew()


class RandomIds:
    """``turnstile.store.ports.Ids`` from the operating system's random numbers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def uuid(self) -> str:
        return str(uuid.uuid4())

    def obj_id(self) -> str:
        """32 hex digits: 48 bits of milliseconds, then 80 random bits, as in a version 7 uuid
        without its tag bits. Ids of one process strictly increase, also within a millisecond, so
        ``Objs.newest`` is the latest one.
        """
        fresh = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
        with self._lock:
            self._last = max(fresh, self._last + 1)
            return f"{self._last:032x}"


# -- AWS clients ------------------------------------------------------------------------------------------------------
# Time limits grow outwards: these clients < function < gateway < HTTP client. The clients' own
# retries are off, because ``dynamo/calls.py`` and ``s3.py`` retry themselves, count every request,
# and know which faults may have had effect.


def _client(
    service: str, endpoint_url: str | None, *, attempts: int = 1, keys: Mapping[str, str] | None = None, **config: Any
) -> Any:
    from botocore.config import Config

    config |= {"retries": {"mode": "standard", "total_max_attempts": attempts}}
    limits = Config(connect_timeout=CONNECT_S, read_timeout=READ_S, **config)
    with _MAKING:
        session = _session()
        region = session.get_config_variable("region") or _DEFAULT_REGION
        return session.create_client(service, region, endpoint_url=endpoint_url, config=limits, **(keys or {}))


_MAKING: Final = threading.Lock()
"""Clients of one session are made one after the other; used, they are, by any thread."""


def _session() -> Any:
    """Common state of this process's clients: descriptions of services that were read, and
    credentials."""
    return _session_with(*(os.environ.get(name) for name in _KEYS))


_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")


@cache
def _session_with(access_key: str | None, secret_key: str | None, token: str | None, profile: str | None) -> Any:
    """Returns a session with the environment's keys, and with the handlers of the called services.

    A session reads its credentials once, so a process with other keys has another session. Without
    the keys it would make a dozen providers, of which ``EnvProvider`` is the first, to find them.
    To register the handlers of all services takes longer than to make a client.
    """
    import botocore.session
    from botocore import handlers

    session = botocore.session.Session(include_builtin_handlers=False)
    events = session.get_component("event_emitter")
    order = {handlers.REGISTER_FIRST: events.register_first, handlers.REGISTER_LAST: events.register_last}
    for name, handler, *when in handlers.BUILTIN_HANDLERS:
        kind, service = [*name.split("."), ""][:2]
        if kind != "docs" and service in _HANDLED:
            register = order[when[0]] if when else events.register
            register(name, handler)
    if access_key and secret_key and not profile and not _UNUSUAL & os.environ.keys():
        session.set_credentials(access_key, secret_key, token)
    return session


_UNUSUAL: Final = frozenset(("AWS_CREDENTIAL_EXPIRATION", "AWS_SECURITY_TOKEN"))
"""Variables that ``EnvProvider`` reads too."""

_HANDLED: Final = frozenset(
    (
        "",
        "*",
        "dynamodb",
        "dynamodb-streams",
        "emr-serverless",
        "eventbridge",
        "lambda",
        "s3",
        "secrets-manager",
        "ssm",
        "sts",
    )
)
"""Called services, by their names in botocore's events. An event of every service has none, or
``*``."""


@cache
def dynamodb(endpoint_url: str | None) -> DynamoDBClient:
    """The DynamoDB client. It leaves out work that botocore would repeat for every request:
    validation (the models serialise), composing the name of the agent; and the parts that
    ``transport`` replaces.
    """
    from botocore import __version__

    from turnstile.adapters.dynamo.transport import install

    own: dict[str, Any] = {"parameter_validation": False, "user_agent": f"Botocore/{__version__} turnstile"}
    client = _client("dynamodb", endpoint_url, max_pool_connections=CONNECTIONS, tcp_keepalive=True, **own)
    install(client)
    return cast("DynamoDBClient", client)


@cache
def dynamodb_streams(endpoint_url: str | None) -> Any:
    """The client of DynamoDB's streams."""
    return _client("dynamodbstreams", endpoint_url, tcp_keepalive=True)


@cache
def s3(endpoint_url: str | None) -> S3Client:
    """The S3 client; other stores than AWS's are addressed by path, since bucket host names need
    not resolve there. A store that has static keys for clients (``TURNSTILE_S3_...``) takes them
    from us, too: it knows no roles.
    """
    emulator = endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    style = {"addressing_style": "path" if emulator else "auto"}
    static = {argument: value for name, argument in _STATIC_KEYS.items() if (value := secret.text(name))}
    client = _client("s3", endpoint_url, keys=static, max_pool_connections=CONNECTIONS, tcp_keepalive=True, s3=style)
    return cast("S3Client", client)


@cache
def sts() -> Any:
    """The STS client, which calls the region's own endpoint."""
    return _client("sts", None, attempts=2)


@cache
def events() -> Any:
    """The client of EventBridge."""
    return _client("events", None, attempts=2)


@cache
def functions() -> Any:
    """The client of Lambda."""
    return _client("lambda", None, attempts=2)


@cache
def emr_serverless() -> Any:
    """The client of EMR Serverless."""
    return _client("emr-serverless", None, attempts=2)


def forget_clients() -> None:
    """Forgets all clients of this process, and their common state. Call it before the process
    forks: a connection that two processes share mixes their requests."""
    for kept in (_session_with, dynamodb, dynamodb_streams, s3, sts, events, functions, emr_serverless):
        kept.cache_clear()


def read_secret(arn: str) -> str:
    """The value of a secret of Secrets Manager, or of a parameter of Systems Manager's Parameter
    Store, deciphered. A parameter of the deployment's own account (``TURNSTILE_ACCOUNT``) is read
    by its name, as emulators know it; one of another account by its whole ARN, since its name would
    be that of a parameter here. Raises the errors of botocore.
    """
    parts = arn.split(":")
    if parts[2:3] == ["ssm"]:
        is_own = parts[4:5] == [os.environ.get("TURNSTILE_ACCOUNT", "")]
        name = arn.partition(":parameter")[2] if is_own else arn
        return str(_client("ssm", None, attempts=2).get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"])
    return str(_client("secretsmanager", None, attempts=2).get_secret_value(SecretId=arn)["SecretString"])


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
