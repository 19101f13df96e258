"""An OIDC issuer for tests: keys, their public halves as a key set, and tokens of every good and
bad kind."""

from __future__ import annotations

import base64
import functools
import json
import time
from collections.abc import Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from turnstile.api.auth.jwks import IssuerKeys, Unreachable
from turnstile.api.auth.settings import OidcSettings, SigningKey
from turnstile.api.auth.signed import OidcTokens, OwnTokens, SignedTokens

ISSUER = "https://issuer.test/realm"
AUDIENCE = "turnstile"
KEY = SigningKey("k1", "A" * 43)


@functools.cache
def private(name: str) -> Any:
    """A private key, one for each name: ``rsa...``, ``ec...`` or ``ed...``."""
    if name.startswith("rsa"):
        return rsa.generate_private_key(public_exponent=65537, key_size=1024 if "weak" in name else 2048)
    return ec.generate_private_key(ec.SECP256R1()) if name.startswith("ec") else ed25519.Ed25519PrivateKey.generate()


def jwk(name: str, **more: Any) -> dict[str, Any]:
    """Returns the public half as a JWK with the name as its ``kid``; a member that is None is left
    out."""
    public = private(name).public_key()
    maker: Any = RSAAlgorithm if name.startswith("rsa") else ECAlgorithm if name.startswith("ec") else OKPAlgorithm
    made = {**json.loads(maker.to_jwk(public)), "kid": name, "use": "sig", **more}
    made.pop("key_ops", None) if "key_ops" not in more else None
    return {member: value for member, value in made.items() if value is not None}


def pem(name: str) -> bytes:
    """The public half, which is known to every client: the key of an HMAC confusion."""
    return bytes(
        private(name)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def claims(**more: Any) -> dict[str, Any]:
    """Claims of a good token; a claim that is None is left out."""
    now = int(time.time())
    made = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 300, "groups": ["etl"], **more}
    return {name: value for name, value in made.items() if value is not None}


def token(
    said: Mapping[str, Any] | None = None, *, key: str = "rsa", alg: str = "RS256", kid: str | None = "", **headers: Any
) -> str:
    """A token signed with the private key of that name; ``kid`` None leaves it out."""
    told = {"kid": kid or key, **headers} if kid is not None else headers
    return jwt.encode(dict(said if said is not None else claims()), private(key), alg, told)


def raw(header: Any, payload: Any, signature: bytes = b"") -> str:
    """A token put together by hand."""
    parts = (json.dumps(header).encode(), json.dumps(payload).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


class Issuer:
    """An issuer's documents in memory. ``fetched`` lists the requests; ``down`` makes it not
    answer."""

    def __init__(self, *keys: dict[str, Any], name: str = ISSUER) -> None:
        self.keys: Any = list(keys)
        self.name = name
        self.down = False
        self.fetched: list[str] = []

    def fetch(self, url: str) -> Mapping[str, Any]:
        self.fetched.append(url)
        if self.down:
            raise Unreachable(url)
        if url == ISSUER + "/.well-known/openid-configuration":
            return {"issuer": self.name, "jwks_uri": ISSUER + "/keys"}
        assert url == ISSUER + "/keys"
        return {"keys": self.keys}

    @property
    def rounds(self) -> int:
        """How often the discovery document was asked for."""
        return sum(url.endswith("openid-configuration") for url in self.fetched)


class Ticks:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def verifier(
    issuer: Issuer | None = None, *, own: tuple[SigningKey, ...] = (KEY,), ticks: Ticks | None = None, **more: Any
) -> SignedTokens:
    """A verifier of the issuer's tokens and of our own; ``more`` are members of
    ``OidcSettings``."""
    source = issuer or Issuer(jwk("rsa"))
    settings = OidcSettings(**{"issuer": ISSUER, "audiences": (AUDIENCE,), **more})
    keys = IssuerKeys(ISSUER, fetch=source.fetch, now=ticks or Ticks())
    return SignedTokens(OwnTokens(own, "test", 900) if own else None, OidcTokens(settings, keys))
