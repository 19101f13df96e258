"""Hashes of client secrets: scrypt with a salt, the parameters beside the hash so that they can be raised later.

    scrypt$<log2 n>$<r>$<p>$<salt>$<hash>        salt and hash in hex

The secrets are 256 random bits, which nobody guesses however fast the hash is: the moderate cost keeps the token
endpoint, which strangers may call, from being a way to use up processor time and memory.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from turnstile.access.core.client_rows import Client, delete_client, new_client, rotate_secret
from turnstile.access.core.grants import CLIENT_PREFIX, Principal, reserved
from turnstile.store.core.errors import InvalidRequest, NotFound, StateConflict
from turnstile.store.core.writes import Row
from turnstile.store.ports import Rejected, World

LOG_N: Final = 12
R: Final = 8
P: Final = 1
"""4 MiB, some 20 ms."""

SALT_BYTES: Final = 16
_LENGTH: Final = 32


def hashed(secret: str, salt: bytes) -> str:
    """The hash to keep. ``salt`` is random and of ``SALT_BYTES``."""
    return f"scrypt${LOG_N}${R}${P}${salt.hex()}${_scrypt(secret, salt, LOG_N, R, P).hex()}"


def matches(secret: str, kept: str) -> bool:
    """Whether ``kept`` is the hash of ``secret``; in a time that depends on neither."""
    _, log_n, r, p, salt, expected = kept.split("$")
    given = _scrypt(secret, bytes.fromhex(salt), int(log_n), int(r), int(p))
    return hmac.compare_digest(given, bytes.fromhex(expected))


def _scrypt(secret: str, salt: bytes, log_n: int, r: int, p: int) -> bytes:
    n = 1 << log_n
    return hashlib.scrypt(
        secret.encode(errors="surrogatepass"), salt=salt, n=n, r=r, p=p, maxmem=256 * n * r, dklen=_LENGTH
    )


# -- clients ----------------------------------------------------------------------------------------------------------
# Registered clients: services that get access tokens for an id and a secret (OAuth 2.0 client credentials).
#
# A secret is shown once, when it is made. Who may manage clients is the caller's to judge (I12).


SECRET_BYTES: Final = 32
MAX_NAME: Final = 255
MAX_ROLES: Final = 100
MAX_KEEP_S: Final = 7 * 86_400
"""Longest time that a secret counts after its rotation: a week."""


_ID: Final = re.compile(CLIENT_PREFIX + r"[0-9A-Za-z-]{1,64}")


class Registered(NamedTuple):
    """A client, and its new secret in the clear."""

    client: Client
    secret: str


class Clients:
    """Registers clients and judges their secrets.

    Args:
        world: where they are kept: refs, one row each.
        random: so many random bytes, fit for secrets.
    """

    def __init__(self, world: World, random: Callable[[int], bytes]) -> None:
        self._world, self._random = world, random
        self._nobody = hashed("", bytes(SALT_BYTES))

    def create(self, name: str, roles: Sequence[str], *, admin: bool, creator: Principal) -> Registered:
        """Register a client under a fresh id.

        Raises:
            InvalidRequest: a name or role that cannot be one.
        """
        _check(name, "name")
        for role in roles:
            _check(role, "roles")
            if reserved(role):
                raise InvalidRequest(f"{role!r} cannot be a role", field="roles", remedy="choose another name")
        if len(roles) > MAX_ROLES:
            raise InvalidRequest(f"more than {MAX_ROLES} roles", field="roles")
        client_id, secret = CLIENT_PREFIX + self._world.ids.uuid(), self._secret()
        write = new_client(
            key=self._world.space.client(client_id),
            client_id=client_id,
            name=name,
            roles=frozenset(roles),
            admin=admin,
            secret=hashed(secret, self._random(SALT_BYTES)),
            creator=creator.name,
            now=self._world.clock.now_ms(),
        )
        if isinstance(self._world.refs.write(write), Rejected):
            raise StateConflict("ConcurrentChange", "the client's id is taken", remedy="send the request again")
        return Registered(Client.from_row(write.row), secret)

    def get(self, client_id: str) -> Client:
        """The client; raises NotFound."""
        row = self._row(client_id)
        if row is None:
            raise NotFound("client", client_id, field="client_id", remedy="list the clients to see their ids")
        return Client.from_row(row)

    def list(self) -> list[Client]:
        """All clients, oldest first. A scan: for people, not for programs."""
        found = [Client.from_row(row) for row in self._world.refs.scan("client")]
        return sorted(found, key=lambda client: (client.created, client.client_id))

    def rotate(self, client_id: str, *, keep_s: int) -> Registered:
        """Another secret; the present one counts for ``keep_s`` seconds more (0: no more).

        Raises:
            NotFound: no such client.
            InvalidRequest: ``keep_s`` is out of range.
            StateConflict: it was rotated or deleted at the same moment (``ConcurrentChange``).
        """
        if not 0 <= keep_s <= MAX_KEEP_S:
            raise InvalidRequest(f"keep_seconds must be between 0 and {MAX_KEEP_S}, not {keep_s}", field="keep_seconds")
        client, secret, now = self.get(client_id), self._secret(), self._world.clock.now_ms()
        write = rotate_secret(client, hashed(secret, self._random(SALT_BYTES)), keep_until=now + keep_s * 1000, now=now)
        written = self._world.refs.write(write)
        if isinstance(written, Rejected) or written.row is None:
            raise StateConflict(
                "ConcurrentChange", f"client {client_id!r} was changed at the same moment", remedy="look at it again"
            )
        return Registered(Client.from_row(written.row), secret)

    def delete(self, client_id: str) -> None:
        """Forget a client. Tokens that it has are good until they end. Raises NotFound."""
        key = self._world.space.client(client_id)
        if not _ID.fullmatch(client_id) or isinstance(self._world.refs.write(delete_client(key)), Rejected):
            raise NotFound("client", client_id, field="client_id", remedy="list the clients to see their ids")

    def principal(self, client_id: str, secret: str) -> Principal | None:
        """Who shows this id and secret; None if they do not belong together."""
        row = self._row(client_id)
        client = None if row is None else Client.from_row(row)
        hashes = (self._nobody,) if client is None else client.hashes(self._world.clock.now_ms())
        right = any(matches(secret, kept) for kept in hashes)
        return client.principal if client is not None and right else None

    def _row(self, client_id: str) -> Row | None:
        return self._world.refs.read(self._world.space.client(client_id)) if _ID.fullmatch(client_id) else None

    def _secret(self) -> str:
        return base64.urlsafe_b64encode(self._random(SECRET_BYTES)).decode().rstrip("=")


def _check(text: str, field: str) -> None:
    if not 0 < len(text) <= MAX_NAME or not text.isprintable() or text != text.strip():
        raise InvalidRequest(
            f"{field}: {text[:40]!r} cannot be a name", field=field, remedy=f"1 to {MAX_NAME} printable characters"
        )
