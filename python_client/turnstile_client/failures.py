"""Messages for failures of storage: Arrow's errors say little about the cause on S3, and name no
remedy."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from turnstile_client.errors import ClientError, StorageFailure
from turnstile_http.waiting import WAIT_REPORTER

_KEYS: Final = (
    "give the lake other ones (s3={'access_key': ..., 'secret_key': ...}), or set AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY"
)
_KINDS: Final[tuple[tuple[tuple[str, ...], str, str], ...]] = (
    (("expiredtoken", "expired", "invalid_client_token", "invalidtoken", "unrecognized_client"),
     "the keys are not valid any more", _KEYS),
    (("invalid_access_key", "invalidaccesskey", "signature", "missing_authentication"), "the keys are not the store's",
     _KEYS),
    (("access_denied", "accessdenied", "http status 403"),
     "access was denied: there are no keys, or keys without the right to this table", _KEYS),
    (("no_such_bucket", "nosuchbucket"), "there is no such bucket", "check the endpoint and the account of the keys"),
    (
        ("301", "permanentredirect", "authorizationheadermalformed", "http status 400"),
        "the store refused the request: the region is another one, or the keys are not valid any more",
        "name the bucket's region (s3={'region': ...}); otherwise " + _KEYS,
    ),
    (
        ("slow_down", "slowdown", "throttl", "service_unavailable", "http status 503", "internal_failure",
         "http status 500"),
        "the store is overloaded or failed", "try again later",
    ),
    (
        ("network_connection", "curl", "resolve", "connect", "timeout", "timed out", "unable to connect"),
        "the store cannot be reached", "check the endpoint (s3={'endpoint': ...}) and the network",
    ),
    (("no_such_key", "nosuchkey", "does not exist", "path not found", "http status 404", "resource_not_found",
      "no such file"), "a file is not there",
     "run 'turnstile verify' on the table; a query of an old version finds no files that VACUUM removed"),
)  # fmt: skip
_ERRNOS: Final = {
    errno.ENOENT: _KINDS[-1],
    errno.EACCES: ((), "access was denied by the file system", "give this user the right to the folder"),
    errno.EPERM: ((), "access was denied by the file system", "give this user the right to the folder"),
    errno.ENOSPC: ((), "the disk is full", "make room, and do it again"),
    errno.EROFS: ((), "the file system is read-only", "mount it so that it can be written"),
}


@contextmanager
def failures_at(location: str) -> Iterator[None]:
    """Failures of storage in the block become :class:`turnstile_client.errors.StorageFailure`, and
    a block that lasts is logged as a request to the server is."""
    try:
        with WAIT_REPORTER.of(f"files at {location}"):
            yield
    except ClientError:
        raise
    except OSError as e:
        raise failure(e, location) from e


def failure(error: OSError, location: str) -> StorageFailure:
    """The error with the cause at ``location``, and the remedy."""
    text = str(error)
    known = _ERRNOS.get(error.errno or 0) or next(
        (kind for kind in _KINDS if any(word in text.lower() for word in kind[0])), None
    )
    if known is None:
        return StorageFailure(f"files at {location} cannot be used: {text[:500]}; try again, or look at the store")
    _, why, remedy = known
    return StorageFailure(f"files at {location} cannot be used: {why}; {remedy} ({text[:500]})")
