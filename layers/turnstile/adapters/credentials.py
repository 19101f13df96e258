"""Storage credentials for clients: sessions of a role narrowed by a policy (STS), static
credentials for S3-compatible stores without STS, none for local files. A session policy only
narrows the rights of the role. READ cannot write. READ_WRITE may create files below the prefix,
``_delta_log`` included, because Delta publishes there too; the bucket policy (conditional writes)
ensures that it never replaces a version. It may not delete anything of the log.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec
from botocore.exceptions import ClientError

from turnstile.catalog.core.branches import base_location
from turnstile.delta.core.head import TableHead
from turnstile.store.core.errors import InvalidRequest, PermissionDenied, StorageFault, TurnstileError
from turnstile.store.core.locations import BRANCHES_FOLDER
from turnstile.store.ports import Clock, CredentialVendor, Ids, VendedCredentials

Operation = Literal["READ", "READ_WRITE"]

MAX_POLICY: Final = 2_048
"""Characters of a session policy. Source: STS, ``AssumeRole``, parameter ``Policy``."""

# STS's codes: a role that does not exist, does not trust the caller, or may not be assumed by it; a
# policy that is short enough as text and does not fit as STS packs it.
_REFUSED: Final = ("AccessDenied", "AccessDeniedException")
_POLICY_TOO_LARGE: Final = "PackedPolicyTooLarge"

_RENEWED: Final = 4
"""A cached session is not used in the last quarter of its life: clients need time to use
credentials, and clients that ask again before the end (Java's do five minutes before) must get new
ones.
"""
_KEPT_MS: Final = 5 * 60_000
"""For how long a session is handed out again. STS does not report that a session was revoked
(an operator can revoke sessions of a role by their time of issue), so a process uses its sessions
for this long at most after that."""
_SESSIONS: Final = 1000

SESSION_CHARACTERS: Final = 64
"""Of the name of a session. Source: STS, ``AssumeRole``, parameter ``RoleSessionName``."""
_NOT_IN_SESSIONS: Final = re.compile(r"[^A-Za-z0-9_=,.@-]")
_OURS: Final = "turnstile-"
CLIENT_ENDPOINT: Final = "TURNSTILE_CLIENT_S3_ENDPOINT"
_ANY_REGION: Final = "us-east-1"
"""The region in signatures for a store that has no regions."""


def open_credential_vendor(
    clock: Clock,
    ids: Ids,
    *,
    role: str = "",
    key: str = "",
    static: StaticCredentials | None = None,
    who: Callable[[], str] = str,
) -> VendorByLocation:
    """Returns the vendor for a deployment's settings; it vends nothing without ``role`` and
    ``static``.

    Args:
        role: its sessions are handed out, and may use the KMS ``key``.
        static: handed out as they are, if there is no role.
        who: returns the name of the principal that asks.
    """
    place = place_of_s3(os.environ)
    if role:
        from turnstile.adapters.opening import sts

        sessions = StsCredentialVendor(sts().assume_role, role, clock, ids, key=key, who=who, place=place)
        return VendorByLocation(sessions)
    return VendorByLocation(StaticCredentialVendor(static, clock, place) if static is not None else None)


def place_of_s3(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns where this deployment's S3 is, as Iceberg's clients are told: without it they go to
    AWS, or ask for a region. An endpoint is that of another store than AWS's, which is addressed by
    path; ``CLIENT_ENDPOINT`` says it where clients reach it by another address than the server does
    (empty: they are told none).
    """
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or ""
    own = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""
    endpoint = environment.get(CLIENT_ENDPOINT, own)
    place: dict[str, str] = {}
    if region or endpoint:
        place = {"client.region": region or _ANY_REGION, "s3.region": region or _ANY_REGION}
    if endpoint:
        place |= {"s3.endpoint": endpoint, "s3.path-style-access": "true"}
    return place


def credentials_for(
    vendor: CredentialVendor, of: str | TableHead, operation: Operation, files: Sequence[str] = ()
) -> tuple[VendedCredentials, ...]:
    """Returns credentials for a location, a Delta table, or files of it; none where clients need
    none, or bring their own. Keys of a branch's table read files of the catalog's, too. Raises as
    ``vendor``."""
    location, base = (of, "") if isinstance(of, str) else (of.location, base_location(of))
    try:
        if base:
            return vendor.vend(location, operation, files, base)
        return vendor.vend(location, operation, files) if files else vendor.vend(location, operation)
    except PermissionDenied:
        return ()


class VendorByLocation:
    """Local files need no credentials; ``s3`` vends for ``s3://`` locations (None: this deployment
    vends no credentials)."""

    def __init__(self, s3: StaticCredentialVendor | StsCredentialVendor | None = None) -> None:
        self._s3 = s3

    def vend(
        self, location: str, operation: Operation, files: Sequence[str] = (), base: str = ""
    ) -> tuple[VendedCredentials, ...]:
        if location.startswith("file:"):
            return ()
        if self._s3 is None or not location.startswith("s3://"):
            raise PermissionDenied(
                "this deployment vends no credentials for such locations",
                field="location",
                remedy="set a vending role or static credentials, or give clients credentials of their own",
            )
        return self._s3.vend(location, operation, files, base)


class StaticCredentials(msgspec.Struct, frozen=True):
    """Fixed S3 credentials; ``token`` is empty when the store knows none; clients ask again after
    ``minutes``."""

    id: str
    secret: str
    token: str = ""
    minutes: int = 60


class StaticCredentialVendor:
    """The same credentials for every client: only for stores that have nothing better."""

    def __init__(
        self, static: StaticCredentials, clock: Clock, place: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._static = static
        self._clock = clock
        self._place = place

    def vend(
        self, location: str, operation: Operation, files: Sequence[str] = (), base: str = ""
    ) -> tuple[VendedCredentials, ...]:
        static = self._static
        expires_ms = self._clock.now_ms() + self._static.minutes * 60_000
        config = _config(static.id, static.secret, static.token)
        return (VendedCredentials(location, operation, expires_ms, config, self._place),)


class StsCredentialVendor:
    """One session of ``role`` (an ARN) for each principal, location, operation and scope of files,
    cached for ``_KEPT_MS``, at most three quarters of its life. ``key`` is the ARN of the KMS key
    that the lake is encrypted with; empty: none of the customer's. A session is named for the
    principal, so that the store's audit (CloudTrail, server access logs) has that name at each
    access to files.
    """

    def __init__(
        self,
        assume: Callable[..., Any],
        role: str,
        clock: Clock,
        ids: Ids,
        *,
        key: str = "",
        life_s: int = 3600,
        who: Callable[[], str] = str,
        place: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._place = place
        self._assume = assume
        self._role = role
        self._clock = clock
        self._ids = ids
        self._who = who
        self._key = key
        self._life_s = life_s
        self._partition = role.split(":")[1]
        self._sessions: dict[tuple[str, str, Operation, str], tuple[VendedCredentials, int]] = {}

    def vend(
        self, location: str, operation: Operation, files: Sequence[str] = (), base: str = ""
    ) -> tuple[VendedCredentials, ...]:
        prefix = base if base and operation == "READ" else location
        if files and operation == "READ":
            narrowed = narrowest_policy(location, files, self._partition, self._key, base)
            with suppress(InvalidRequest):  # it does not fit as STS packs it
                return (self._keep(prefix, operation, narrowed),)
        policy = _text(session_policy(location, operation, self._partition, self._key, base))
        if len(policy) > MAX_POLICY:
            raise _too_long(location)
        return (self._keep(prefix, operation, policy),)

    def _keep(self, location: str, operation: Operation, policy: str) -> VendedCredentials:
        now = self._clock.now_ms()
        name = session_name(self._who())
        session, until = self._sessions.get((name, location, operation, policy), (None, 0))
        if session is None or until <= now:
            session = self._session(name, location, operation, policy)
            until = min(now + _KEPT_MS, session.expires_ms - self._life_s * 1000 // _RENEWED)
            if len(self._sessions) > _SESSIONS:
                self._sessions.clear()
            self._sessions[(name, location, operation, policy)] = session, until
        return session

    def _session(self, name: str, location: str, operation: Operation, policy: str) -> VendedCredentials:
        try:
            response = self._assume(
                RoleArn=self._role,
                RoleSessionName=name or f"turnstile-{self._ids.uuid()}",
                DurationSeconds=self._life_s,
                Policy=policy,
            )["Credentials"]
        except Exception as error:  # of any kind: there are no credentials
            raise _not_vended(error, location) from error
        expires_ms = int(response["Expiration"].timestamp() * 1000)
        config = _config(response["AccessKeyId"], response["SecretAccessKey"], response["SessionToken"])
        return VendedCredentials(location, operation, expires_ms, config, self._place)


def session_name(principal: str) -> str:
    """Returns the name of the sessions of a principal, of the characters and the length that STS
    takes; empty for no principal. Names that have others, or are too long, end with a digest of the
    whole, so that two principals never share one.
    """
    plain = _NOT_IN_SESSIONS.sub("-", principal)
    if principal and (plain != principal or len(principal) + len(_OURS) > SESSION_CHARACTERS):
        digest = hashlib.sha256(principal.encode()).hexdigest()[:12]
        plain = f"{plain[: SESSION_CHARACTERS - len(_OURS) - len(digest) - 1]}-{digest}"
    return f"{_OURS}{plain}" if principal else ""


def _too_long(location: str) -> InvalidRequest:
    """A policy, which names the location three or four times, has no room for it."""
    return InvalidRequest(
        f"location {location[:200]!r} ({len(location)} characters) is too long for credentials of its own",
        field="location",
        remedy="use a shorter location; of a managed table, shorter names of catalog and namespaces",
    )


def _not_vended(error: Exception, location: str) -> TurnstileError:
    """STS refused, which an operator has to mend, or it did not answer."""
    code = str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""
    if code == _POLICY_TOO_LARGE:
        return _too_long(location)
    if code in _REFUSED:
        return StorageFault(
            f"the role that credentials are sessions of cannot be assumed ({code})",
            remedy="tell the operator: it has to exist, and to trust this function's role (docs/deploy.md)",
        )
    return StorageFault("STS vended no credentials" + (f" ({code})" if code else ""), remedy="try again")


def _config(id: str, secret: str, token: str) -> dict[str, str]:
    config = {"s3.access-key-id": id, "s3.secret-access-key": secret}
    return {**config, "s3.session-token": token} if token else config


def session_policy(
    location: str, operation: Operation, partition: str = "aws", key: str = "", base: str = ""
) -> dict[str, Any]:
    """The rights of one session, as an IAM policy. ``location`` is normalised:
    ``s3://bucket/prefix``. Of the folder ``base`` above it files are read, too.

    The folder's own key may be read, besides the keys below it: Hadoop's S3A asks for it before it
    lists, and S3 answers "not found" only to a caller that may read it. The listed prefix ends with
    a slash: ``a/t`` without one would list ``a/t2`` as well. Deleting from a log is denied anywhere
    in the bucket; naming less than the whole location keeps the policy short. The KMS ``key`` (an
    ARN, if there is one) may only be used by way of S3.

    A session of a branch's table reads any file of the catalog's table by its name: the branch's
    log has the names of the base. It lists nothing there, and reads nothing of the log, which has
    the names of later versions. A session of the catalog's table writes nothing into the
    folders of branches, and does not read their logs; it reads and deletes their other files, since
    promotions make them its own (VACUUM).
    """
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    arn = f"arn:{partition}:s3:::{_literal(bucket)}"
    own = _literal(prefix)
    root = _literal(base.removeprefix(f"s3://{bucket}/")) or own
    below = {"StringLike": {"s3:prefix": f"{own}/*"}}
    listing = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": arn, "Condition": below}
    anywhere = f"arn:{partition}:s3:::*"
    folder = f"/{BRANCHES_FOLDER}/"
    is_of_catalog = not base and folder not in f"{location}/"
    logs = f"{anywhere}{folder}*/_delta_log/*" if is_of_catalog else f"{arn}/{root}/_delta_log/*" if base else ""
    unread = [{"Effect": "Deny", "Action": "s3:GetObject", "Resource": logs}] if logs else []
    if operation == "READ":
        files = f"{arn}/{root}/*" if base else [f"{arn}/{own}", f"{arn}/{own}/*"]
        reading = [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": files}, *unread]
        return {"Version": "2012-10-17", "Statement": [listing, *reading, *_key_use(key, "kms:Decrypt")]}
    changes = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
    kept = {"Effect": "Deny", "Action": "s3:PutObject", "Resource": f"{anywhere}{folder}*"}
    statements = [
        listing,
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{arn}/{root}/*" if base else f"{arn}/{own}"},
        {"Effect": "Allow", "Action": changes, "Resource": f"{arn}/{own}/*"},
        {"Effect": "Deny", "Action": "s3:DeleteObject", "Resource": f"{anywhere}/_delta_log/*"},
        *unread,
        *([kept] if is_of_catalog else []),
        *_key_use(key, "kms:Decrypt", "kms:GenerateDataKey"),
    ]
    return {"Version": "2012-10-17", "Statement": statements}


def narrowest_policy(location: str, files: Sequence[str], partition: str = "aws", key: str = "", base: str = "") -> str:
    """Returns the policy of a session that only reads, as a text: of these files alone if it is
    short enough, else of their folders, of the folders above them, and so on up to the location.
    Files elsewhere cannot be read by it, as by any session for the location, or for ``base`` above
    it.
    """
    root = base or location
    bucket, _, prefix = root.removeprefix("s3://").partition("/")
    keys = {file.removeprefix(f"s3://{bucket}/") for file in files if file.startswith(f"{root}/")}
    arn = f"arn:{partition}:s3:::{_literal(bucket)}"
    patterns = {_literal(file) for file in keys}
    folders = keys
    while keys:
        read = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": sorted(f"{arn}/{each}" for each in patterns)}
        policy = _text({"Version": "2012-10-17", "Statement": [read, *_key_use(key, "kms:Decrypt")]})
        if len(policy) <= MAX_POLICY:
            return policy
        folders = {folder.rpartition("/")[0] for folder in folders}
        if any(len(folder) <= len(prefix) for folder in folders):
            break
        patterns = {f"{_literal(folder)}/*" for folder in folders}
    return _text(session_policy(location, "READ", partition, key, base))


def _text(policy: dict[str, Any]) -> str:
    return json.dumps(policy, separators=(",", ":"))


def _key_use(key: str, *actions: str) -> list[dict[str, Any]]:
    by_s3 = {"StringLike": {"kms:ViaService": "s3.*.amazonaws.com*"}}
    return [{"Effect": "Allow", "Action": list(actions), "Resource": key, "Condition": by_s3}] if key else []


def _literal(text: str) -> str:
    """``text`` with wildcards and variables of policies escaped."""
    return "".join(f"${{{char}}}" if char in "*?$" else char for char in text)
