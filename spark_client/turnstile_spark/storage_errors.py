"""One-line messages for failures of S3: the cause and the remedy, from a chain of Java exceptions.

S3A and the SDK wrap a failure up to six times, and PySpark raises the whole as text of 20,000
characters. A pure function over the classes and messages of the chain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: Class and message of one exception.
Link = tuple[str, str]

_OURS: Final = ("software.amazon.awssdk.", "org.apache.hadoop.fs.s3a.")
_PATH: Final = re.compile(r"s3a?://[^\s,:;'\"\])]+")
_SESSION: Final = "turnstile_spark.session(s3=...)"
_KEYS: Final = (
    f"check the session's keys (fs.s3a.access.key, {_SESSION}), or attach(vended=True) where the server hands out "
    f"credentials"
)
#: Words of a chain -> what they mean and the remedy; the first that is found counts.
_CAUSES: Final[tuple[tuple[re.Pattern[str], str, str], ...]] = (
    (
        re.compile(
            r"Class org\.apache\.hadoop\.fs\.s3a\.S3AFileSystem not found|No FileSystem for scheme \"?s3", re.IGNORECASE
        ),
        "this Spark session has no S3A",
        f"start it with {_SESSION}, or with hadoop-aws among its packages",
    ),
    (
        re.compile(r"ExpiredToken|TokenRefreshRequired|has expired", re.IGNORECASE),
        "the credentials have expired",
        _KEYS,
    ),
    (
        re.compile(r"NoAuthWithAWS|No AWS Credentials|Unable to load credentials|NoAwsCredentials", re.IGNORECASE),
        "this session has no credentials",
        _KEYS,
    ),
    (
        re.compile(r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|Bad Request", re.IGNORECASE),
        "S3 does not accept the credentials",
        _KEYS,
    ),
    (
        re.compile(r"UnknownBucket|NoSuchBucket|bucket does not exist", re.IGNORECASE),
        "there is no such bucket at this endpoint",
        "create it, or correct fs.s3a.endpoint or the lake's root",
    ),
    (
        re.compile(
            r"AWSRedirect|PermanentRedirect|AuthorizationHeaderMalformed|region .*(wrong|expecting)", re.IGNORECASE
        ),
        "the bucket is in another region",
        "set fs.s3a.endpoint.region to the bucket's",
    ),
    (
        re.compile(
            r"UnknownHost|Connection refused|ConnectException|ConnectTimeout|Unable to execute HTTP "
            r"request|NoRouteToHost|SocketTimeout",
            re.IGNORECASE,
        ),
        "the endpoint of S3 cannot be reached",
        "check fs.s3a.endpoint, and that the store is up; nothing was committed by this statement unless it says so",
    ),
    (
        re.compile(r"SlowDown|Status Code: 50[03]|ServiceUnavailable|Throttl", re.IGNORECASE),
        "S3 is busy or failing",
        "run the statement again",
    ),
    (
        re.compile(r"Forbidden|AccessDenied|Access Denied|Status Code: 403", re.IGNORECASE),
        "S3 refuses the access",
        _KEYS,
    ),
    (
        re.compile(r"Status Code: 404|FileNotFound|NoSuchKey", re.IGNORECASE),
        "a file is not there",
        "`turnstile verify` lists missing files",
    ),
)


@dataclass(frozen=True, slots=True)
class S3Failure:
    """``path`` of the file or folder, empty where none is named; ``text``: cause and remedy, one
    line."""

    path: str
    text: str


def storage_failure(chain: Sequence[Link]) -> S3Failure | None:
    """The failure of S3 in the chain (outermost first); None when it is about something else."""
    words = "\n".join(f"{kind}: {message}" for kind, message in chain)
    path = _PATH.search(words)
    own = [(kind, message) for kind, message in chain if kind.startswith(_OURS)]
    for pattern, cause, remedy in _CAUSES:
        if (own or path or pattern is _CAUSES[0][0]) and pattern.search(words):
            at = f" ({path[0].rstrip('.')})" if path else ""
            said = _first_message(own or list(chain))
            return S3Failure(path[0] if path else "", f"{cause}{at}: {remedy}. S3A says: {said}")
    if not own:
        return None
    return S3Failure(path[0] if path else "", f"S3 failed{f' ({path[0]})' if path else ''}: {_first_message(own)}")


def _first_message(chain: list[Link]) -> str:
    """The first line of the innermost message, shortened."""
    for kind, message in reversed(chain):
        if message:
            return f"{kind.rpartition('.')[2]}: {message.splitlines()[0][:200]}"
    return chain[-1][0] if chain else ""
