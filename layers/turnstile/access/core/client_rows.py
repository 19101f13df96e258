"""refs rows of registered clients, and the conditional writes on them."""

from __future__ import annotations

from typing import ClassVar, Final

from turnstile.rights.grants import Principal
from turnstile.store.core.rows import StoredRow
from turnstile.store.core.terms import is_over
from turnstile.store.core.writes import Change, Clause, Drop, Equals, Erase, Insert, Present, Set, new_row

MAX_KEEP_S: Final = 7 * 86_400
"""For how long a secret may still count after it was replaced."""


class Client(StoredRow, frozen=True):
    """A registered client: a service that gets access tokens for its id and secret.

    Attributes:
        client_id: name of its principal.
        name: for people; grants do not use it.
        secret: its hash (``access.clients``); the secret itself is not stored.
        creator: the principal that registered it; times in ms.
        former: hash of the secret before the last rotation, which counts until ``former_until``.
    """

    kind: ClassVar[str] = "client"

    client_id: str
    name: str
    admin: bool
    secret: str
    creator: str
    created: int
    changed_at: int
    roles: frozenset[str] = frozenset()
    former: str = ""
    former_until: int = 0

    @property
    def principal(self) -> Principal:
        return Principal(self.client_id, self.roles, self.admin)

    def hashes(self, now_ms: int) -> tuple[str, ...]:
        """Returns the hashes of the secrets that count at ``now_ms``."""
        is_former_over = not self.former or is_over(self.former_until, now_ms, MAX_KEEP_S * 1000)
        return (self.secret,) if is_former_over else (self.secret, self.former)


def new_client(client: Client) -> Insert:
    """Returns the first write of a client. Its id has never been another's."""
    return Insert(client.to_row(), (new_row("I12"),))


def rotate_secret(client: Client, secret: str, *, keep_until: int, now: int) -> Change:
    """Replace the secret. The present one counts until ``keep_until`` (ms) as well; the one before
    it no more.

    Two rotations at once would each hand out a secret of which only one counts, so the later one is
    refused.
    """
    keep: tuple[Set | Drop, ...] = (Drop(("former",)), Drop(("former_until",)))
    if keep_until > now:
        keep = (Set(("former",), client.secret), Set(("former_until",), keep_until))
    return Change(
        client.key,
        (Clause("same secret", "I12", "it was not rotated or deleted meanwhile", Equals(("secret",), client.secret)),),
        (Set(("secret",), secret), *keep, Set(("changed_at",), now)),
    )


def delete_client(key: str) -> Erase:
    """Delete the client: it gets no further tokens."""
    return Erase(key, (Clause("registered", "I12", "there is such a client", Present(("key",))),))
