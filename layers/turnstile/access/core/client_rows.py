"""refs rows of registered clients, and the conditional writes on them.

    client     {key, kind, client_id, name, roles?, admin, secret, former?, former_until?, creator, created, changed_at}

``secret`` and ``former`` are hashes (``access.clients``); the secrets themselves are not stored.
"""

from __future__ import annotations

import msgspec

from turnstile.access.core.grants import Principal
from turnstile.store.core.writes import Change, Clause, Drop, Equals, Erase, Insert, Present, Row, Set, new_row


class Client(msgspec.Struct, frozen=True):
    """A registered client: a service that gets access tokens for its id and secret.

    Attributes:
        client_id: name of its principal.
        name: for people; grants do not use it.
        former: hash of the secret before the last rotation, which counts until ``former_until`` (ms).
        creator: who registered it; times in ms.
    """

    key: str
    client_id: str
    name: str
    roles: frozenset[str]
    admin: bool
    secret: str
    former: str
    former_until: int
    creator: str
    created: int
    changed_at: int

    @classmethod
    def from_row(cls, row: Row) -> Client:
        """Parse a refs row of kind ``client``."""
        return cls(
            key=row["key"],
            client_id=row["client_id"],
            name=row["name"],
            roles=frozenset(row.get("roles") or ()),
            admin=row["admin"],
            secret=row["secret"],
            former=row.get("former") or "",
            former_until=row.get("former_until") or 0,
            creator=row["creator"],
            created=row["created"],
            changed_at=row["changed_at"],
        )

    @property
    def principal(self) -> Principal:
        """The principal of requests that it makes."""
        return Principal(self.client_id, self.roles, self.admin)

    def hashes(self, now_ms: int) -> tuple[str, ...]:
        """Returns the hashes of the secrets that count at ``now_ms``."""
        return (self.secret, self.former) if self.former and now_ms < self.former_until else (self.secret,)


def new_client(
    *, key: str, client_id: str, name: str, roles: frozenset[str], admin: bool, secret: str, creator: str, now: int
) -> Insert:
    """Returns the first write of a client. Its id has never been another's."""
    row: Row = {
        "key": key,
        "kind": "client",
        "client_id": client_id,
        "name": name,
        "admin": admin,
        "secret": secret,
        "creator": creator,
        "created": now,
        "changed_at": now,
    }
    if roles:
        row["roles"] = set(roles)
    return Insert(row, (new_row("I12"),))


def rotate_secret(client: Client, secret: str, *, keep_until: int, now: int) -> Change:
    """Replace the secret. The present one counts until ``keep_until`` (ms) as well; the one before it no more.

    Two rotations at once would each hand out a secret of which only one counts, so the later one is refused.
    """
    keep: tuple[Set | Drop, ...] = (
        (Set(("former",), client.secret), Set(("former_until",), keep_until))
        if keep_until > now
        else (Drop(("former",)), Drop(("former_until",)))
    )
    return Change(
        client.key,
        (Clause("same secret", "I12", "it was not rotated or deleted meanwhile", Equals(("secret",), client.secret)),),
        (Set(("secret",), secret), *keep, Set(("changed_at",), now)),
    )


def delete_client(key: str) -> Erase:
    """Delete the client: it gets no further tokens."""
    return Erase(key, (Clause("registered", "I12", "there is such a client", Present(("key",))),))
