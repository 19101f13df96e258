"""Keys for clients: STS with a session policy, static keys for S3-compatible stores without STS, none for files.

A session policy only narrows what the role may do anyway. READ cannot write. READ_WRITE may create files below the
prefix, ``_delta_log`` included, because Delta publishes there too: that it never replaces a version is the bucket
policy's business (conditional writes). It may not delete anything of the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec
from botocore.exceptions import ClientError

from turnstile.store.core.errors import InvalidRequest, PermissionDenied, StorageFault, TurnstileError
from turnstile.store.ports import Clock, Ids, VendedCredentials, Vendor

Operation = Literal["READ", "READ_WRITE"]

_REFUSED: Final = ("AccessDenied", "AccessDeniedException")
"""What STS says of a role that is not there, does not trust the caller, or may not be assumed by it."""

_TOO_LONG: Final = "PackedPolicyTooLarge"
"""What STS says of a policy that is short enough as text and does not fit as STS packs it."""

MAX_POLICY: Final = 2_048
"""Characters of a session policy. Source: STS, ``AssumeRole``, parameter ``Policy``."""

_LEFT: Final = 4
"""A cached session is given out until the last quarter of its life: whoever gets keys has time to use them, and to ask
for others (Java's clients do so five minutes before the end) without being handed the same ones."""


class Keys(msgspec.Struct, frozen=True):
    """Static keys; ``token`` empty when the store knows none, ``minutes`` after which clients ask again."""

    id: str
    secret: str
    token: str = ""
    minutes: int = 60


class FileVendor:
    """Local files need no keys; everything else is passed on.

    Args:
        s3: vends for ``s3://`` locations; None: this deployment gives no keys out.
    """

    def __init__(self, s3: StaticVendor | StsVendor | None = None) -> None:
        self._s3 = s3

    def vend(self, location: str, operation: Operation) -> tuple[VendedCredentials, ...]:
        """See ``ports.Vendor``."""
        if location.startswith("file:"):
            return ()
        if self._s3 is None or not location.startswith("s3://"):
            raise PermissionDenied(
                "this deployment gives out no keys for such locations",
                field="location",
                remedy="set a vending role or static keys, or give clients keys of their own",
            )
        return self._s3.vend(location, operation)


class StaticVendor:
    """The same keys for everybody: only for stores that have nothing better."""

    def __init__(self, keys: Keys, clock: Clock) -> None:
        self._keys, self._clock = keys, clock

    def vend(self, location: str, operation: Operation) -> tuple[VendedCredentials, ...]:
        """See ``ports.Vendor``."""
        expires = self._clock.now_ms() + self._keys.minutes * 60_000
        return (
            VendedCredentials(
                location, operation, expires, _config(self._keys.id, self._keys.secret, self._keys.token)
            ),
        )


class StsVendor:
    """One role session for each location and operation, kept for three quarters of its life.

    Args:
        assume: STS's AssumeRole.
        role: ARN of the role whose rights are narrowed.
        key: ARN of the KMS key that the lake is encrypted with; empty: none of the customer's.
        seconds: how long a session lives.
    """

    def __init__(
        self, assume: Callable[..., Any], role: str, clock: Clock, ids: Ids, *, key: str = "", seconds: int = 3600
    ) -> None:
        self._assume, self._role, self._clock, self._ids = assume, role, clock, ids
        self._key, self._seconds = key, seconds
        self._partition = role.split(":")[1]
        self._sessions: dict[tuple[str, Operation], VendedCredentials] = {}

    def vend(self, location: str, operation: Operation) -> tuple[VendedCredentials, ...]:
        """See ``ports.Vendor``."""
        now = self._clock.now_ms()
        known = self._sessions.get((location, operation))
        if known is None or known.expires_ms - self._seconds * 1000 // _LEFT <= now:
            known = self._session(location, operation)
            if len(self._sessions) > 1000:
                self._sessions.clear()
            self._sessions[(location, operation)] = known
        return (known,)

    def _session(self, location: str, operation: Operation) -> VendedCredentials:
        policy = json.dumps(session_policy(location, operation, self._partition, self._key), separators=(",", ":"))
        if len(policy) > MAX_POLICY:
            raise _too_long(location)
        try:
            found = self._assume(
                RoleArn=self._role,
                RoleSessionName=f"turnstile-{self._ids.uuid()}",
                DurationSeconds=self._seconds,
                Policy=policy,
            )["Credentials"]
        except Exception as error:  # whatever went wrong, there are no keys
            raise _no_keys(error, location) from error
        expires = int(found["Expiration"].timestamp() * 1000)
        keys = _config(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])
        return VendedCredentials(location, operation, expires, keys)


def _too_long(location: str) -> InvalidRequest:
    """The refusal: a policy names the location three times, and STS limits it."""
    return InvalidRequest(
        f"location {location[:200]!r} ({len(location)} characters) is too long for keys that open it alone",
        field="location",
        remedy="use a shorter location; of a managed table, shorter names of catalog and namespaces",
    )


def _no_keys(error: Exception, location: str) -> TurnstileError:
    """Told apart: STS refused, which somebody has to mend, or could not be asked."""
    said = str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""
    if said == _TOO_LONG:
        return _too_long(location)
    if said in _REFUSED:
        return StorageFault(
            f"the role that keys are sessions of cannot be assumed ({said})",
            remedy="tell the operator: it has to exist, and to trust this function's role (docs/deploy.md)",
        )
    return StorageFault("the issuer of keys could not be asked" + (f" ({said})" if said else ""), remedy="try again")


def session_policy(location: str, operation: Operation, partition: str = "aws", key: str = "") -> dict[str, Any]:
    """The rights of one session, as an IAM policy. ``location`` is normalised: ``s3://bucket/prefix``.

    The key of the folder itself may be read, besides what is below: Hadoop's S3A asks for it before it lists, and S3
    says that nothing is there only to those who might read it. What is listed ends with a slash: ``a/t`` without one
    would list ``a/t2`` as well. Nobody deletes from a log, wherever below the bucket; that it is not named by its whole
    location keeps the policy short. The KMS key ``key`` (an ARN, if there is one) is for what S3 does with it: so it opens
    nothing that S3 does not.
    """
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    bucket, prefix = _literal(bucket), _literal(prefix)
    arn = f"arn:{partition}:s3:::{bucket}"
    listed = {"StringLike": {"s3:prefix": f"{prefix}/*"}}
    read = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": [f"{arn}/{prefix}", f"{arn}/{prefix}/*"]}
    listing = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": arn, "Condition": listed}
    if operation == "READ":
        return _policy(listing, read, *_uses(key, "kms:Decrypt"))
    changes = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
    return _policy(
        listing,
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{arn}/{prefix}"},
        {"Effect": "Allow", "Action": changes, "Resource": f"{arn}/{prefix}/*"},
        {"Effect": "Deny", "Action": "s3:DeleteObject", "Resource": f"{arn}/*/_delta_log/*"},
        *_uses(key, "kms:Decrypt", "kms:GenerateDataKey"),
    )


def _uses(key: str, *actions: str) -> list[dict[str, Any]]:
    by_s3 = {"StringLike": {"kms:ViaService": "s3.*.amazonaws.com*"}}
    return [{"Effect": "Allow", "Action": list(actions), "Resource": key, "Condition": by_s3}] if key else []


def _policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _literal(text: str) -> str:
    """``text`` without a meaning of its own in a policy: wildcards and variables."""
    return "".join(f"${{{char}}}" if char in "*?$" else char for char in text)


def _config(id: str, secret: str, token: str) -> dict[str, str]:
    found = {"s3.access-key-id": id, "s3.secret-access-key": secret}
    return {**found, "s3.session-token": token} if token else found


def vended(vendor: Vendor, location: str, operation: Operation) -> tuple[VendedCredentials, ...]:
    """Keys for a location; none where clients need none, or bring their own.

    Raises:
        InvalidRequest: the location is too long for keys of its own.
        StorageFault: the issuer of keys could not be asked; try again.
    """
    try:
        return vendor.vend(location, operation)
    except PermissionDenied:
        return ()


def open_vendor(
    clock: Clock,
    ids: Ids,
    *,
    role: str = "",
    key: str = "",
    keys: Keys | None = None,
    endpoint_url: str | None = None,
) -> FileVendor:
    """The vendor that a deployment's settings ask for: a role, whose sessions may use the KMS ``key``, or static keys, or
    neither."""
    if role:
        from turnstile.adapters.opening import sts

        return FileVendor(StsVendor(sts(endpoint_url).assume_role, role, clock, ids, key=key))
    return FileVendor(StaticVendor(keys, clock) if keys is not None else None)
