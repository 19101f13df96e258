"""Names of files and objects: versions, staged commits, identifiers, comments.

Source: Delta protocol, "Delta Log Entries" (20-digit names,
``_staged_commits/<version>.<uuid>.json``).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
import uuid
from typing import Final
from urllib.parse import quote

from turnstile.store.core.errors import InvalidRequest, TooLarge
from turnstile.store.core.limits import EXACT_MAX

MAX_VERSION: Final = EXACT_MAX
MAX_ROW_ID: Final = EXACT_MAX

_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_@-]{1,255}")
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff+]+")
NAME_BYTES_MAX: Final = 255
BRANCH_SIGN: Final = "@"
"""Separates the name of a branch from that of its catalog."""
RESERVED: Final = frozenset(("commit", "config", "credentials", "iceberg", "metrics", "namespaces", "plan",
                             "properties",
    "register", "register-view", "rename", "tables", "tasks", "transactions", "unregister", "v1", "views"))  # fmt: skip
"""The segments of paths of Iceberg's API. A gateway that decodes escapes shows a name with slashes
as several segments, and these must not be taken for parts of the path."""
_COMMIT: Final = re.compile(r"commit/[A-Za-z0-9_-]{1,100}")
_STAGED: Final = re.compile(r"([0-9]{20})\.([0-9a-zA-Z_-]{1,80})\.json")
_INLINE_UNIQUE: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_CANONICAL_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_INLINE_NAMESPACE: Final = uuid.UUID("6f0f3f2e-7d53-5c6c-9b1c-2f6a9a1f54aa")


def version_file(version: int) -> str:
    """Name of a published commit: ``00000000000000000007.json``."""
    return f"{version:020d}.json"


def staged_file(version: int, unique: str) -> str:
    """Name of a staged commit of ``version`` under ``_delta_log/_staged_commits``."""
    return f"{version:020d}.{unique}.json"


def parse_staged_file(name: str) -> tuple[int, str] | None:
    """``(version, unique part)`` of a staged commit's name, or None when it is not one."""
    match = _STAGED.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def inline_unique(txn: str) -> str:
    """The unique part of an inline commit's pre-assigned staged name: a function of its identity
    alone."""
    digest = hashlib.sha1(_INLINE_NAMESPACE.bytes + txn.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]  # ``uuid.uuid5`` in a third of its time
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def is_inline_unique(unique: str) -> bool:
    """Whether the unique part of a staged name has the form of ``inline_unique``. Writers of staged
    files use random uuids."""
    return _INLINE_UNIQUE.fullmatch(unique) is not None


def is_commit_id(value: str) -> bool:
    """Whether ``value`` has the form of a catalog commit's id: the store would refuse a key that is
    empty or too long."""
    return _COMMIT.fullmatch(value) is not None


def check_identifier(value: str, field: str) -> str:
    """Returns ``value`` if it can name a catalog, a namespace level or a table; raises
    InvalidRequest otherwise."""
    if not _IDENTIFIER.fullmatch(value):
        remedy = "use 1 to 255 letters, digits, '_', '-' or '@'"
        raise InvalidRequest(f"{field} {value!r} is not a valid name", field=field, remedy=remedy)
    return value


def is_branch(catalog: str) -> bool:
    """Whether a catalog's name is that of a branch: ``main@dev``."""
    return BRANCH_SIGN in catalog


def branched_catalog(catalog: str) -> str:
    """Returns the catalog that a branch belongs to; of any other catalog its own name."""
    return catalog.partition(BRANCH_SIGN)[0]


def is_identifier(value: str) -> bool:
    """Whether every API can name a catalog, a namespace level or a table so."""
    return _IDENTIFIER.fullmatch(value) is not None


def check_name(value: str, field: str) -> str:
    """Returns ``value`` in Unicode's normal form C if Iceberg's clients can name a namespace level,
    a table or a view so; raises InvalidRequest otherwise. Such a name may hold dots, slashes and
    spaces: it is never part of a path or of a dotted name as it is (``plain``).
    """
    normal = unicodedata.normalize("NFC", value)
    segments = normal.split("/")
    unclear = not {".", "..", ""}.isdisjoint(segments) or (len(segments) > 1 and not RESERVED.isdisjoint(segments))
    if unclear or not _NAME.fullmatch(normal) or len(normal.encode(errors="replace")) > NAME_BYTES_MAX:
        remedy = (
            f"use 1 to {NAME_BYTES_MAX} bytes of UTF-8 without '+' and control characters; between slashes neither '.' "
            f"nor '..',"
            " nor a word of Iceberg's paths such as 'tables'"
        )
        raise InvalidRequest(f"{field} {value[:300]!r} is not a valid name", field=field, remedy=remedy)
    return normal


def plain(name: str) -> str:
    """Returns an identifier as it is, and any other name with every other character as ``%XX``: no
    two names have the same form, and it holds no dot and no slash."""
    return name if is_identifier(name) else quote(name, safe="@").replace(".", "%2E").replace("~", "%7E")


def check_namespace(value: str, field: str = "namespace") -> tuple[str, ...]:
    """The levels of a dotted namespace name, each a valid identifier."""
    return tuple(check_identifier(level, field) for level in value.split("."))


def check_uuid(value: str, field: str = "table_id") -> str:
    """Returns ``value`` as a canonical uuid; raises InvalidRequest otherwise."""
    try:
        if _CANONICAL_UUID.fullmatch(value):  # most by far
            return value
        parsed = uuid.UUID(value)
    except (ValueError, AttributeError, TypeError):
        parsed = None
    if parsed is None or str(parsed) != value.lower():
        remedy = "use the table's table_id" if field == "table_id" else "give the whole id, or make one: a random uuid"
        raise InvalidRequest(f"{field} {value!r} is not a uuid", field=field, remedy=remedy)
    return value.lower()


COMMENT_BYTES_MAX: Final = 32_768
"""Bytes of a comment in UTF-8: short enough for responses that list many things
(``store.core.limits``)."""


def check_comment(comment: str | None, field: str = "comment") -> str | None:
    """Returns ``comment``; raises TooLarge."""
    size = len((comment or "").encode())
    if size > COMMENT_BYTES_MAX:
        raise TooLarge(
            f"{field} takes {size} bytes, and the limit is {COMMENT_BYTES_MAX}",
            field=field,
            remedy="shorten it, or keep the text elsewhere and name the place",
            limit=COMMENT_BYTES_MAX,
            size=size,
        )
    return comment


# -- paths below a table's location ------------------------------------------------------------------------------------

LOG = "_delta_log/"
STAGED = "_delta_log/_staged_commits/"
ASIDE = "_delta_log/_set_aside/"


def published_path(version: int) -> str:
    """``_delta_log/<20 digits>.json``."""
    return LOG + version_file(version)


def staged_path(name: str) -> str:
    """``_delta_log/_staged_commits/<name>``."""
    return STAGED + name


def aside_path(name: str, digest: str) -> str:
    """``_delta_log/_set_aside/<name>.<digest>``: the copy of a file ``name`` with that content
    which is not in use any more. No engine takes it for a file of the log."""
    return f"{ASIDE}{name}.{digest}"
