"""Moments of a catalog's past as text, and named snapshots.

A moment is written in one way, in queries, in warehouses and on the command line (``GRAMMAR``). No
name of a catalog holds a colon, so ``lake@snapshot:month_end`` is not ambiguous.

A named snapshot is a HEAD that keeps its tree for as long as it has a name (TreeCat, "snapshot").
It is an entry of the tree itself, under a key that no name can have and that sorts before all of
them. So naming one is a change like every other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from turnstile.catalog.core.paths import Path, fold
from turnstile.store.core.errors import InvalidRequest, NotFound
from turnstile.store.core.names import BRANCH_SIGN, MAX_VERSION, check_identifier, is_commit_id

FIELD: Final = "as_of"
"""The parameter of a query that names a moment: the default field of errors."""

GRAMMAR: Final = "head:<id>, seq:<number>, time:<ISO 8601 or ms> or snapshot:<name>"

_HEAD: Final = "commit/"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class AsOf(msgspec.Struct, frozen=True):
    """A moment: exactly one of a HEAD, a number, a time (ms; the newest commit not after it), or
    the name of a snapshot."""

    head: str | None = None
    seq: int | None = None
    time: int | None = None
    snapshot: str | None = None


def parse_as_of(text: str, field: str = FIELD) -> AsOf:
    """Returns the moment that ``text`` names. Raises InvalidRequest for ``field`` if it names
    none."""
    kind, _, value = text.partition(":")
    if kind == "head":
        return AsOf(head=_head(value, field))
    if kind == "seq":
        return AsOf(seq=_number(value, field))
    if kind == "time":
        return AsOf(time=_time(value, field))
    if kind == "snapshot":
        return AsOf(snapshot=check_identifier(value, field))
    raise InvalidRequest(f"{field} {text[:100]!r} names no moment", field=field, remedy=f"write {GRAMMAR}")


def check_as_of(as_of: AsOf, field: str) -> AsOf:
    """Returns a moment from its members, which were read one by one below ``field`` of a request's
    body. Raises InvalidRequest."""
    names = [name for name in as_of.__struct_fields__ if getattr(as_of, name) is not None]
    if len(names) != 1:
        problem = f"{field} names {' and '.join(names) or 'no moment'}"
        raise InvalidRequest(problem, field=field, remedy="give exactly one of head, seq, time and snapshot")
    if as_of.head is not None:
        return AsOf(head=_head(as_of.head, f"{field}.head"))
    if as_of.snapshot is not None:
        check_identifier(as_of.snapshot, f"{field}.snapshot")
    return as_of


@contextmanager
def report_field(field: str) -> Iterator[None]:
    """A NotFound for a moment names ``field``, the member of the request that gave the moment."""
    try:
        yield
    except NotFound as error:
        if error.field == FIELD:
            error.field = field
        raise


def as_of_text(as_of: AsOf) -> str:
    """Returns the moment as ``parse_as_of`` reads it: one text for each, without characters that a
    path would escape."""
    if as_of.head is not None:
        return f"head:{as_of.head.removeprefix(_HEAD)}"
    if as_of.seq is not None:
        return f"seq:{as_of.seq}"
    return f"time:{as_of.time}" if as_of.time is not None else f"snapshot:{fold(as_of.snapshot or '')}"


def _head(value: str, field: str) -> str:
    id = _HEAD + value.removeprefix(_HEAD)
    if not is_commit_id(id):
        raise _not(value, "the id of a HEAD", field)
    return id


def _number(value: str, field: str) -> int:
    number = int(value) if value.isascii() and value.isdigit() and len(value) <= 16 else -1
    if not 0 <= number <= MAX_VERSION:
        raise _not(value, "a number of the log", field)
    return number


def _time(value: str, field: str) -> int:
    """Milliseconds since 1970. Fractions are cut off: commits are looked for up to the end of the
    millisecond."""
    if value.isascii() and value.isdigit():
        return _number(value, field)
    with suppress(ValueError):
        time = datetime.fromisoformat(value)
        if time.tzinfo is not None and time >= _EPOCH:
            return (time - _EPOCH) // timedelta(milliseconds=1)
    remedy = "write 2026-11-01T00:00:00Z or +01:00 for Z ('+' is %2B in a URL), or ms since 1970"
    raise _not(value, "a time with its zone", field, remedy)


def _not(value: str, what: str, field: str, remedy: str = "list the catalog's log") -> InvalidRequest:
    return InvalidRequest(f"{field} {value[:100]!r} is not {what}", field=field, remedy=remedy)


SNAPSHOT: Final = "snapshot"
_ROOT: Final = "\x01snapshot"

PARENT: Final[Path] = (_ROOT,)
"""The path above named snapshots: they are its children."""

ALL: Final = (_ROOT + "\x00", _ROOT + "\x01")
"""The range of the keys of named snapshots."""


class NamedSnapshot(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag=SNAPSHOT):
    """A name for a HEAD.

    Attributes:
        head, seq, at: the commit that it names: id, number, time (microseconds).
        created: when it was named (ms).
        versions: version of each Delta table by uuid when it was named; empty for a HEAD of the
            past: tables are read as of its time.
        branch: the full name of the branch of which it is the base; empty for other snapshots.
        until: when that branch ends (ms).
        owner: the principal that created that branch; empty for the operator.
        dropping: whether a drop of that branch has begun.
        delta_registry: whether commits of that branch name it in Delta's registry of branches.
    """

    name: str
    head: str
    seq: int
    at: int
    created: int
    comment: str | None = None
    versions: dict[str, int] = {}
    branch: str = ""
    until: int = 0
    owner: str = ""
    dropping: bool = False
    delta_registry: bool = False


def snapshot_path(name: str) -> Path:
    """The path of a snapshot in the tree."""
    return (_ROOT, name)


def base_name(branch: str) -> str:
    """The name of the snapshot that is the base of the branch ``branch`` (without its catalog)."""
    return f"{BRANCH_SIGN}{branch}"
