"""Named references: the primitive that tables and catalogs stand on, for other systems (a pointer
per application).

A reference has a value and a *token* that no other write makes, so a swap under "the token is still
t" cannot be misled by a value that came back. A token is the version and a hash of the request id
and of the token that was replaced; for the first one of a life, of the time of creation instead. So
a refused request finds in the row that refused it whether it was applied before, and gets its first
answer again (I3).

``recent`` is a ring: the value of version v is at v modulo its length, and one write replaces one
member. A deleted reference stays as a tombstone: it answers late repetitions of requests, and a
reference that is created again continues its versions. After gc has removed it (``Grace.refs_ms``)
versions begin at 0. No token comes back all the same: every token of a life follows from the time
at which the life began, even if the very request that created the earlier reference is sent once
more.
"""

from __future__ import annotations

import hashlib
import re
from typing import ClassVar, Final, Literal

import msgspec

from turnstile.coordination.core.ref_rights import Rights, owned_by, unchanged_clause
from turnstile.store.core.errors import InvalidRequest, TooLarge
from turnstile.store.core.rows import StoredRow
from turnstile.store.core.writes import Action, Append, Change, Clause, Drop, Equals, Erase, Insert, Row, Set, new_row

RECENT: Final = 20  # values that a reference remembers, the present one included
MAX_VALUE: Final = (
    1024  # bytes: it is meant to name something that is kept elsewhere; a write is charged by the whole row
)

State = Literal["live", "deleted"]
LIVE: Final = "live"
DELETED: Final = "deleted"

# without "." and "..", which clients remove from a URL (RFC 3986, 5.2.4)
_NAME: Final = re.compile(r"(?!\.\.?$)[A-Za-z0-9_@.-]{1,255}")
_REQUEST: Final = re.compile(r"[\x21-\x7e]{1,128}")
_TOKEN: Final = re.compile(r"(0|[1-9][0-9]{0,15})\.[0-9a-f]{24}")


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One value: its version (from 0), its token, the value (None: the reference was deleted), when
    (ms)."""

    version: int
    token: str
    value: str | None
    at: int

    def pack(self) -> bytes:
        return _ENCODER.encode(self)


_ENCODER: Final = msgspec.msgpack.Encoder()


class NamedRef(StoredRow, frozen=True):
    """A reference as it is stored. ``made`` is the token of the value that it was created with,
    ``created`` when that was (ms); ``rights`` as in ``ref_rights``."""

    kind: ClassVar[str] = "ref"

    name: str
    token: str
    version: int
    state: State
    recent: tuple[Entry, ...]
    made: str
    created: int
    changed_at: int
    rights: dict[str, int] = msgspec.field(default_factory=dict)

    def to_row(self) -> Row:
        """Returns the row to be inserted; without ``rights`` where there are none, as
        ``ref_rights.unchanged`` requires."""
        row = super().to_row()
        if not self.rights:
            del row["rights"]
        return row

    @property
    def current(self) -> Entry:
        return self.recent[self.version % RECENT]

    def at(self, version: int) -> Entry | None:
        """The value of a version; None when it is forgotten or was never written."""
        entry = self.recent[version % RECENT] if version % RECENT < len(self.recent) else None
        return entry if entry is not None and entry.version == version else None

    def history(self) -> tuple[Entry, ...]:
        """The remembered values, newest first."""
        return tuple(sorted(self.recent, key=lambda entry: -entry.version))


def token_of(version: int, request_id: str, after: str) -> str:
    """The token of the value that a request wrote as ``version``, in place of the value of the
    token ``after``."""
    return f"{version}.{hashlib.sha256(f'{after}/{request_id}'.encode()).hexdigest()[:24]}"


def first_token(version: int, request_id: str, now: int) -> str:
    """The token of the value that a request created a reference with, as ``version``, at ``now``
    (ms)."""
    return token_of(version, request_id, str(now))


def version_of(token: str) -> int:
    """The version in a token; raises InvalidRequest for an invalid token."""
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise InvalidRequest(
            f"token {token[:40]!r} is none of a reference", field="token", remedy="read the reference: it has its token"
        )
    return int(match[1])


def create(key: str, name: str, value: str, request_id: str, now: int, *, owner: str = "") -> Insert:
    """The first value of a new reference, which belongs to ``owner``; empty: to admins only."""
    entry = Entry(0, first_token(0, request_id, now), value, now)
    ref = NamedRef(key, name, entry.token, 0, LIVE, (entry,), entry.token, now, now, owned_by(owner))
    return Insert(ref.to_row(), (new_row("I6"),))


def revive(key: str, tombstone: NamedRef, value: str, request_id: str, now: int, *, owner: str = "") -> Change:
    """The first value of a reference that was deleted: its next version. Its earlier rights are
    gone."""
    version = tombstone.version + 1
    entry = Entry(version, first_token(version, request_id, now), value, now)
    rights = Set(("rights",), owned_by(owner)) if owner else Drop(("rights",))
    life = (Set(("state",), LIVE), Set(("made",), entry.token), Set(("created",), now), rights)
    return Change(key, (_same(tombstone.current.token),), (*_write(entry), *life))


def swap(key: str, token: str, value: str, request_id: str, now: int, *, authorized: tuple[Clause, ...] = ()) -> Change:
    """Make ``value`` the next one, if the present one is still that of ``token`` and the
    ``authorized`` clauses hold."""
    return Change(key, (_same(token), *authorized), _next(token, value, request_id, now))


def delete(key: str, token: str, request_id: str, now: int, *, authorized: tuple[Clause, ...] = ()) -> Change:
    """Leave a tombstone, if the present value is still that of ``token``; ``authorized`` as for
    ``swap``."""
    return Change(key, (_same(token), *authorized), (*_next(token, None, request_id, now), Set(("state",), DELETED)))


def regrant(key: str, ref: NamedRef, rights: Rights) -> Change:
    """Other rights, if the rights of ``ref`` are still the present ones."""
    live = Clause("live", "I12", "the reference was not deleted meanwhile", Equals(("state",), LIVE))
    action: Action = Set(("rights",), dict(rights)) if rights else Drop(("rights",))
    return Change(key, (live, unchanged_clause(ref.rights)), (action,))


def forget(key: str, tombstone: NamedRef) -> Erase:
    """Remove a tombstone, unless the reference was created again."""
    return Erase(key, (_same(tombstone.current.token),))


def _same(token: str) -> Clause:
    return Clause("same token", "I6", "the value is the one that is to be replaced", Equals(("token",), token))


def _next(token: str, value: str | None, request_id: str, now: int) -> tuple[Action, ...]:
    version = version_of(token) + 1
    return _write(Entry(version, token_of(version, request_id, token), value, now))


def _write(entry: Entry) -> tuple[Action, ...]:
    """The version gives the position in the ring, so the row need not be read."""
    version = entry.version
    packed = entry.pack()
    remember: Action = Append(("recent",), (packed,)) if version < RECENT else Set(("recent", version % RECENT), packed)
    return Set(("token",), entry.token), Set(("version",), version), Set(("changed_at",), entry.at), remember


def replayed_value(ref: NamedRef, token: str, request_id: str) -> Entry | None:
    """The value that this request wrote in place of ``token`` when it was applied before; None when
    it was not, or the row has no record of it any more."""
    version = version_of(token) + 1
    entry = ref.at(version)
    return entry if entry is not None and entry.token == token_of(version, request_id, token) else None


def creation(ref: NamedRef, value: str, request_id: str) -> Entry | None:
    """The value that this request wrote when it created the reference before, in this life or, if
    that is recorded, in an earlier one; None when it did not. If later values have pushed it out of
    the row, ``value`` fills in.
    """
    version = version_of(ref.made)
    if ref.made == first_token(version, request_id, ref.created):
        return ref.at(version) or Entry(version, ref.made, value, ref.created)
    lives = (entry for entry in ref.recent if entry.token == first_token(entry.version, request_id, entry.at))
    return next(lives, None)


def moved_on(ref: NamedRef, token: str) -> bool:
    """Whether ``ref`` still remembers that another value came after ``token``. If not, it is
    unknown whether a request to replace it was applied."""
    version = version_of(token)
    entry = ref.at(version)
    return entry is not None and entry.token == token and ref.at(version + 1) is not None


def check_ref(name: str) -> str:
    """Returns ``name``; raises InvalidRequest if it cannot name a reference."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"name {name[:60]!r} cannot name a reference",
            field="name",
            remedy="use 1 to 255 letters, digits, '_', '-', '.' or '@', but not '.' or '..'",
        )
    return name


def check_value(value: str) -> str:
    """``value`` if it fits; raises InvalidRequest or TooLarge otherwise."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidRequest("value is not text that UTF-8 can hold", field="value") from None
    if size > MAX_VALUE:
        raise TooLarge(
            f"a value of {size} bytes is over the limit",
            field="value",
            remedy="store the content elsewhere and let the reference name it",
            limit=MAX_VALUE,
            size=size,
        )
    return value


def check_request(request_id: str) -> str:
    """``request_id`` if it can identify a request; raises InvalidRequest otherwise."""
    if not _REQUEST.fullmatch(request_id):
        raise InvalidRequest(
            "request_id is not an identifier",
            field="request_id",
            remedy="use 1 to 128 visible ASCII characters, for example a uuid, fresh for every request",
        )
    return request_id
