"""Registered clients: services that get access tokens for an id and a secret (OAuth 2.0 client
credentials).

A secret is shown once, when it is created. Its hash is stored, ``scrypt$<log2
n>$<r>$<p>$<salt>$<hash>`` (hex). A secret is 256 random bits, which cannot be guessed however fast
the hash is; the cost is moderate because anyone may call the token endpoint, which must not become
a way to use up processor time and memory. The caller decides who may manage clients (I12).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from turnstile.access.core.client_rows import MAX_KEEP_S, Client, delete_client, new_client, rotate_secret
from turnstile.rights.grants import CLIENT_PREFIX, Principal, is_reserved
from turnstile.store.core.errors import ErrorType, InvalidRequest, NotFound, StateConflict
from turnstile.store.ports import DamagedRow, Rejected, World, parse_rows

# 4 MiB, some 20 ms
LOG_N = 12
R = 8
P = 1
SALT_BYTES: Final = 16
SECRET_BYTES: Final = 32
MAX_NAME: Final = 255
MAX_ROLES: Final = 100

_ID: Final = re.compile(CLIENT_PREFIX + r"[0-9A-Za-z-]{1,64}")


def hash_of(secret: str, salt: bytes) -> str:
    """Returns the hash to keep. ``salt`` is random, of ``SALT_BYTES`` bytes."""
    return f"scrypt${LOG_N}${R}${P}${salt.hex()}${_scrypt(secret, salt, LOG_N, R, P).hex()}"


def matches(secret: str, kept: str) -> bool:
    """Whether ``kept`` is the hash of ``secret``. Takes the same time for every secret."""
    _, log_n, r, p, salt, expected = kept.split("$")
    actual = _scrypt(secret, bytes.fromhex(salt), int(log_n), int(r), int(p))
    return hmac.compare_digest(actual, bytes.fromhex(expected))


def _scrypt(secret: str, salt: bytes, log_n: int, r: int, p: int) -> bytes:
    n = 1 << log_n
    text = secret.encode(errors="surrogatepass")
    return hashlib.scrypt(text, salt=salt, n=n, r=r, p=p, maxmem=256 * n * r, dklen=32)


class ClientWithSecret(NamedTuple):
    """A client and its new secret, in the clear."""

    client: Client
    secret: str


class Clients:
    """Registers clients and verifies their secrets. ``random`` returns so many random bytes, fit
    for secrets."""

    def __init__(self, world: World, random: Callable[[int], bytes]) -> None:
        self._world = world
        self._random = random
        self._no_client = hash_of("", bytes(SALT_BYTES))  # so that an unknown id takes as long as a wrong secret

    def create(self, name: str, roles: Sequence[str], *, admin: bool, creator: Principal) -> ClientWithSecret:
        """Register a client under a fresh id. Raises InvalidRequest for a name or role that cannot
        be one."""
        _check(name, "name")
        for role in roles:
            _check(role, "roles")
            if is_reserved(role):
                raise InvalidRequest(f"{role!r} cannot be a role", field="roles", remedy="choose another name")
        if len(roles) > MAX_ROLES:
            raise InvalidRequest(f"more than {MAX_ROLES} roles", field="roles")
        client_id = CLIENT_PREFIX + self._world.ids.uuid()
        now = self._world.clock.now_ms()
        secret = self._secret()
        client = Client(
            self._world.space.client(client_id),
            client_id,
            name,
            admin,
            hash_of(secret, self._random(SALT_BYTES)),
            creator.name,
            created=now,
            changed_at=now,
            roles=frozenset(roles),
        )
        if isinstance(self._world.refs.write(new_client(client)), Rejected):
            raise StateConflict(
                ErrorType.CONCURRENT_CHANGE, "the client's id is taken", remedy="send the request again"
            )
        return ClientWithSecret(client, secret)

    def get(self, client_id: str) -> Client:
        client = self._find(client_id)
        if client is None:
            raise _missing(client_id)
        return client

    def list(self) -> tuple[list[Client], list[DamagedRow]]:
        """Returns all clients, oldest first, and the rows that cannot be read. A scan: for people,
        not for programs."""
        damaged: list[DamagedRow] = []
        clients = parse_rows(Client, self._world.refs.scan(Client.kind), damaged)
        return sorted(clients, key=lambda client: (client.created, client.client_id)), damaged

    def rotate(self, client_id: str, *, keep_s: int) -> ClientWithSecret:
        """Replace the secret; the present one counts for ``keep_s`` seconds more (0: no more).

        Raises:
            NotFound: no such client.
            InvalidRequest: ``keep_s`` is out of range.
            StateConflict: it was rotated or deleted at the same moment (``ConcurrentChange``).
        """
        if not 0 <= keep_s <= MAX_KEEP_S:
            raise InvalidRequest(f"keep_seconds must be between 0 and {MAX_KEEP_S}, not {keep_s}", field="keep_seconds")
        client = self.get(client_id)
        secret = self._secret()
        now = self._world.clock.now_ms()
        write = rotate_secret(
            client, hash_of(secret, self._random(SALT_BYTES)), keep_until=now + keep_s * 1000, now=now
        )
        response = self._world.refs.write(write)
        if isinstance(response, Rejected) or response.row is None:
            problem = f"client {client_id!r} was changed at the same moment"
            raise StateConflict(
                ErrorType.CONCURRENT_CHANGE, problem, remedy="read the client again, and repeat the change"
            )
        return ClientWithSecret(Client.from_row(response.row), secret)

    def delete(self, client_id: str) -> None:
        """Delete a client. Tokens that it has count until they end. Raises NotFound."""
        key = self._world.space.client(client_id)
        if not _ID.fullmatch(client_id) or isinstance(self._world.refs.write(delete_client(key)), Rejected):
            raise _missing(client_id)

    def principal(self, client_id: str, secret: str) -> Principal | None:
        """Returns the principal of this id and secret; None if they do not belong together."""
        client = self._find(client_id)
        hashes = (self._no_client,) if client is None else client.hashes(self._world.clock.now_ms())
        verified = any(matches(secret, kept) for kept in hashes)
        return client.principal if client is not None and verified else None

    def _find(self, client_id: str) -> Client | None:
        row = self._world.refs.read(self._world.space.client(client_id)) if _ID.fullmatch(client_id) else None
        return None if row is None else Client.from_row(row)

    def _secret(self) -> str:
        return base64.urlsafe_b64encode(self._random(SECRET_BYTES)).decode().rstrip("=")


def _missing(client_id: str) -> NotFound:
    return NotFound("client", client_id, field="client_id", remedy="list the clients to see their ids")


def _check(text: str, field: str) -> None:
    if not 0 < len(text) <= MAX_NAME or not text.isprintable() or text != text.strip():
        remedy = f"1 to {MAX_NAME} printable characters"
        raise InvalidRequest(f"{field}: {text[:40]!r} cannot be a name", field=field, remedy=remedy)
