"""Hashes of client secrets: scrypt with a salt, the parameters beside the hash so that they can be raised later.

    scrypt$<log2 n>$<r>$<p>$<salt>$<hash>        salt and hash in hex

The secrets are 256 random bits, which nobody guesses however fast the hash is: the moderate cost keeps the token
endpoint, which strangers may call, from being a way to use up processor time and memory.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

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
