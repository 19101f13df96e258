"""The authentication settings of a deployment, from the environment (template.yaml lists the
variables).

Fails closed: a deployment that accepts no token does not start, except with
``TURNSTILE_AUTHENTICATION=none``.
"""

from __future__ import annotations

import logging
import re
from typing import Final

import msgspec

from turnstile.adapters import secret
from turnstile.api.auth.verifier import fingerprint, is_trusted
from turnstile.api.http import env
from turnstile.rights.grants import OPERATOR, Principal

_LOGGER: Final = logging.getLogger(__name__)
_KEY: Final = re.compile(r"(?P<id>[A-Za-z0-9_-]{1,64}):(?P<secret>[A-Za-z0-9+/_=-]{43,512})")
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}")


class SigningKey(msgspec.Struct, frozen=True):
    """A signing key of Turnstile's own tokens; ``id`` is their ``kid``."""

    id: str
    secret: str

    def __repr__(self) -> str:
        return f"SigningKey({self.id!r})"


class OidcSettings(msgspec.Struct, frozen=True):
    """A trusted issuer: its URL exactly as in ``iss``, audiences of which ``aud`` must name one,
    the claims with the principal's name and roles, and which principals, or members of which roles,
    are administrators.
    """

    issuer: str
    audiences: tuple[str, ...]
    name: str = "sub"
    roles: tuple[str, ...] = ("groups",)
    admins: frozenset[str] = frozenset()
    admin_roles: frozenset[str] = frozenset()


class AuthSettings(msgspec.Struct, frozen=True):
    """The accepted tokens: principals of static ``tokens`` by fingerprint, and tokens of
    Turnstile's own, signed with the first of ``keys`` for ``lifetime_s`` and verified with all of
    them.
    """

    realm: str
    tokens: dict[str, Principal]
    keys: tuple[SigningKey, ...]
    lifetime_s: int
    oidc: OidcSettings | None


class _TokenEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    roles: frozenset[str] = frozenset()
    admin: bool = False


def read() -> AuthSettings | None:
    """Returns the settings; None if the deployment needs no authentication. Raises BadSetting if no
    token is accepted, or a variable has the wrong form."""
    mode = env.text("TURNSTILE_AUTHENTICATION", "required")
    if mode not in ("required", "none"):
        raise env.BadSetting(f"TURNSTILE_AUTHENTICATION must be required or none, not {mode!r}")
    settings = AuthSettings(
        realm=env.text("TURNSTILE_REALM", "default"),
        tokens=_tokens(),
        keys=_keys(),
        lifetime_s=env.integer("TURNSTILE_TOKEN_SECONDS", 900, 60, 3600),
        oidc=_oidc(),
    )
    if mode == "none":
        if settings.tokens or settings.oidc or settings.keys:
            raise env.BadSetting("TURNSTILE_AUTHENTICATION is none, but tokens, keys or an issuer are configured")
        return None
    if settings.tokens or settings.oidc:
        return settings
    raise env.BadSetting(
        "no caller could authenticate: set TURNSTILE_TOKEN (or a secret with a token), TURNSTILE_TOKENS or "
        "TURNSTILE_OIDC_ISSUER, or, where only people you trust reach the service, TURNSTILE_AUTHENTICATION=none"
    )


class Accepted:
    """The present settings of a deployment: read from the environment when it is made, and again
    whenever its secret has changed. A secret by which no token would be accepted, or with a key of
    the wrong form, leaves the old settings in place.
    """

    def __init__(self) -> None:
        """Raises as ``read``, and StorageFault if there is a secret that cannot be read."""
        self._secret = secret.deployed_secret()
        self._members = None if self._secret is None else self._secret.members()
        self._settings = read()

    @property
    def changes(self) -> bool:
        """Whether the settings come from a secret, so that they may change."""
        return self._secret is not None

    def __call__(self) -> AuthSettings | None:
        """The same object while nothing has changed. Raises StorageFault when the secret was not
        read for too long."""
        if self._secret is not None and (members := self._secret.members()) is not self._members:
            self._members = members
            try:
                self._settings = read()
            except env.BadSetting:
                _LOGGER.exception("the secret is not usable by this deployment; the last usable value stays in use")
        return self._settings

    def renew(self) -> AuthSettings | None:
        """The same, by the secret as it is now; it is read again unless that was done just
        before."""
        if self._secret is not None:
            self._secret.renew()
        return self()


def _tokens() -> dict[str, Principal]:
    principals: dict[str, Principal] = {}
    token = secret.text("TURNSTILE_TOKEN")
    listed = env.text("TURNSTILE_TOKENS", "")
    if listed:
        try:
            entries = msgspec.json.decode(listed, type=dict[str, _TokenEntry])
        except msgspec.DecodeError as error:
            raise env.BadSetting(f"TURNSTILE_TOKENS: {error}") from None
        for digest, entry in entries.items():
            if not _FINGERPRINT.fullmatch(digest) or not entry.name:
                raise env.BadSetting("TURNSTILE_TOKENS must map the SHA-256 of tokens, in hex, to named principals")
            principals[digest] = Principal(entry.name, entry.roles, entry.admin)
    if token:
        principals[fingerprint(token)] = OPERATOR
    return principals


def _keys() -> tuple[SigningKey, ...]:
    keys: list[SigningKey] = []
    for text in _items(secret.text("TURNSTILE_TOKEN_KEYS")):
        match = _KEY.fullmatch(text)
        if match is None:  # the text is a secret: it is not repeated
            raise env.BadSetting("TURNSTILE_TOKEN_KEYS must be id:secret,... with secrets of at least 43 characters")
        keys.append(SigningKey(match["id"], match["secret"]))
    if len({key.id for key in keys}) < len(keys):
        raise env.BadSetting("TURNSTILE_TOKEN_KEYS has an id twice")
    return tuple(keys)


def _oidc() -> OidcSettings | None:
    issuer = env.text("TURNSTILE_OIDC_ISSUER", "")
    if not issuer:
        return None
    if not is_trusted(issuer):
        raise env.BadSetting(f"TURNSTILE_OIDC_ISSUER must be an https URL, not {issuer!r}")
    audiences = tuple(_list("TURNSTILE_OIDC_AUDIENCE"))
    if not audiences:
        raise env.BadSetting("TURNSTILE_OIDC_AUDIENCE is not set: tokens for other services would be accepted")
    return OidcSettings(
        issuer=issuer,
        audiences=audiences,
        name=env.text("TURNSTILE_OIDC_NAME_CLAIM", "sub"),
        roles=tuple(_list("TURNSTILE_OIDC_ROLES_CLAIM")) or ("groups",),
        admins=frozenset(_list("TURNSTILE_ADMIN_NAMES")),
        admin_roles=frozenset(_list("TURNSTILE_ADMIN_ROLES")),
    )


def _list(name: str) -> list[str]:
    return _items(env.text(name, ""))


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
