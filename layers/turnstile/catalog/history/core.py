"""Moments of a catalog's past, and the one way to write them: in queries, in warehouses, on the command line.

    head:<id>            a HEAD
    seq:<number>         a number of the catalog's log
    time:<moment>        ISO 8601 with its zone, or ms since 1970: the newest commit not after it
    snapshot:<name>      a named snapshot

No name of a catalog holds a colon, so ``lake@snapshot:month_end`` can only be read in one way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from turnstile.catalog.core.paths import Path, fold
from turnstile.store.core.errors import InvalidRequest, NotFound
from turnstile.store.core.names import MAX_VERSION, check_identifier, is_commit_id

FIELD: Final = "as_of"
"""Where a moment is given unless something else is said: the parameter of a query."""

GRAMMAR: Final = "head:<id>, seq:<number>, time:<ISO 8601 or ms> or snapshot:<name>"

_HEAD: Final = "commit/"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class AsOf(msgspec.Struct, frozen=True):
    """Which tree is meant: exactly one of a HEAD, a number, a time (ms; the newest commit not after it), or the name of
    a snapshot."""

    head: str | None = None
    seq: int | None = None
    time: int | None = None
    snapshot: str | None = None


def parse(text: str, field: str = FIELD) -> AsOf:
    """The moment that ``text`` names; ``field`` is where it was given.

    Raises:
        InvalidRequest: it names none.
    """
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


def checked(as_of: AsOf, field: str) -> AsOf:
    """A moment whose members a request's body gave one by one, below ``field``.

    Raises:
        InvalidRequest: not exactly one of them, a HEAD (``field.head``) or a name (``field.snapshot``) that can be none.
    """
    given = [name for name in as_of.__struct_fields__ if getattr(as_of, name) is not None]
    if len(given) != 1:
        raise InvalidRequest(
            f"{field} names {' and '.join(given) or 'no moment'}",
            field=field,
            remedy="give exactly one of head, seq, time and snapshot",
        )
    if as_of.head is not None:
        return AsOf(head=_head(as_of.head, f"{field}.head"))
    if as_of.snapshot is not None:
        check_identifier(as_of.snapshot, f"{field}.snapshot")
    return as_of


@contextmanager
def told_of(field: str) -> Iterator[None]:
    """A moment that is not there is told of ``field``, the member of the request that named it."""
    try:
        yield
    except NotFound as error:
        if error.field == FIELD:
            error.field = field
        raise


def to_text(as_of: AsOf) -> str:
    """The moment as ``parse`` reads it: one text for what is one moment, without characters that a path would escape."""
    if as_of.head is not None:
        return f"head:{as_of.head.removeprefix(_HEAD)}"
    if as_of.seq is not None:
        return f"seq:{as_of.seq}"
    return f"time:{as_of.time}" if as_of.time is not None else f"snapshot:{fold(as_of.snapshot or '')}"


def _head(value: str, field: str) -> str:
    id = _HEAD + value.removeprefix(_HEAD)
    if not is_commit_id(id):
        raise InvalidRequest(
            f"{field} {value[:100]!r} is not the id of a HEAD", field=field, remedy="list the catalog's log"
        )
    return id


def _number(value: str, field: str) -> int:
    number = int(value) if value.isascii() and value.isdigit() and len(value) <= 16 else -1
    if not 0 <= number <= MAX_VERSION:
        raise InvalidRequest(
            f"{field} {value[:100]!r} is not a number of the log", field=field, remedy="list the catalog's log"
        )
    return number


def _time(value: str, field: str) -> int:
    """Milliseconds since 1970; a part of one counts for nothing, since commits are looked for up to its end."""
    if value.isascii() and value.isdigit():
        return _number(value, field)
    try:
        given = datetime.fromisoformat(value)
    except ValueError:
        given = None
    if given is None or given.tzinfo is None or given < _EPOCH:
        raise InvalidRequest(
            f"{field} {value[:100]!r} is not a time with its zone",
            field=field,
            remedy="write 2026-11-01T00:00:00Z or +01:00 for Z ('+' is %2B in a URL), or ms since 1970",
        )
    return (given - _EPOCH) // timedelta(milliseconds=1)


# -- core snapshots ---------------------------------------------------------------------------------------------------
# Named snapshots of a catalog: a HEAD that keeps its tree for as long as it has a name (TreeCat, "snapshot").
#
# They are entries of the tree itself, beside everything that users name: under a key that no name can have and that sorts
# before all of them. So naming one is a change like every other, and a snapshot costs one small obj.


SNAPSHOT: Final = "snapshot"
_ROOT: Final = "\x01snapshot"

PARENT: Final[Path] = (_ROOT,)
"""What they are the children of."""

ALL: Final = (_ROOT + "\x00", _ROOT + "\x01")
"""The range of their keys."""


class Snapshot(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag=SNAPSHOT):
    """A name for a HEAD.

    Attributes:
        name: as it was written.
        head, seq, at: the commit it names: id, number, time (microseconds).
        created: when it was named (ms).
        versions: version of each Delta table by uuid when it was named; empty for a HEAD of the past, whose tables are to
            be read as of its time.
    """

    name: str
    head: str
    seq: int
    at: int
    created: int
    comment: str | None = None
    versions: dict[str, int] = {}


def snapshot_path(name: str) -> Path:
    """Where a snapshot is in the tree."""
    return (_ROOT, name)
