"""What a deployment accepts, from the environment (template.yaml names the variables).

Fails closed: a deployment that names nothing it accepts does not start, unless it says so (``TURNSTILE_AUTHENTICATION``
is ``none``).
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from turnstile.access.core.grants import OPERATOR, Principal
from turnstile.api.auth.bearer import Authentication, Bearer, Judge, Open, StaticTokens, fingerprint, trustworthy
from turnstile.api.http import env

_KEY: Final = re.compile(r"(?P<id>[A-Za-z0-9_-]{1,64}):(?P<secret>[A-Za-z0-9+/_=-]{43,512})")
_PRINT: Final = re.compile(r"[0-9a-f]{64}")


class SigningKey(msgspec.Struct, frozen=True):
    """A key of our own tokens; ``id`` is their ``kid``."""

    id: str
    secret: str

    def __repr__(self) -> str:
        return f"SigningKey({self.id!r})"


class OidcSettings(msgspec.Struct, frozen=True):
    """An issuer that is trusted.

    Attributes:
        issuer: its URL, exactly as in ``iss``.
        audiences: what ``aud`` must name one of.
        name: claim with the principal's name.
        roles: claims with the principal's roles.
        admins: names of principals that are administrators.
        admin_roles: roles whose members are administrators.
    """

    issuer: str
    audiences: tuple[str, ...]
    name: str = "sub"
    roles: tuple[str, ...] = ("groups",)
    admins: frozenset[str] = frozenset()
    admin_roles: frozenset[str] = frozenset()


class AuthSettings(msgspec.Struct, frozen=True):
    """``tokens`` static tokens' principals by fingerprint; ``keys`` of our own tokens, the first signs; ``seconds``
    that those are valid."""

    realm: str
    tokens: dict[str, Principal]
    keys: tuple[SigningKey, ...]
    seconds: int
    oidc: OidcSettings | None


class _Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    roles: frozenset[str] = frozenset()
    admin: bool = False


def read() -> AuthSettings | None:
    """What is accepted; None: everything, by the deployment's own word.

    Raises:
        BadSetting: nothing is accepted, or a variable has the wrong form.
    """
    mode = env.text("TURNSTILE_AUTHENTICATION", "required")
    if mode not in ("required", "none"):
        raise env.BadSetting(f"TURNSTILE_AUTHENTICATION must be required or none, not {mode!r}")
    found = AuthSettings(
        realm=env.text("TURNSTILE_REALM", "default"),
        tokens=_tokens(),
        keys=_keys(),
        seconds=env.integer("TURNSTILE_TOKEN_SECONDS", 900, 60, 3600),
        oidc=_oidc(),
    )
    if mode == "none":
        if found.tokens or found.oidc or found.keys:
            raise env.BadSetting("TURNSTILE_AUTHENTICATION is none, but tokens, keys or an issuer are configured")
        return None
    if found.tokens or found.oidc:
        return found
    raise env.BadSetting(
        "nobody could authenticate: set TURNSTILE_TOKEN, TURNSTILE_TOKENS or TURNSTILE_OIDC_ISSUER, or, where only "
        "people you trust reach the service, TURNSTILE_AUTHENTICATION=none"
    )


def authentication() -> Authentication:
    """The judge of requests that the environment asks for; raises BadSetting."""
    found = read()
    return Open() if found is None else bearer(found)


def bearer(settings: AuthSettings) -> Bearer:
    """The judge of bearer tokens."""

    def signed() -> Judge:
        from turnstile.api.auth.signed import from_settings  # loads PyJWT

        return from_settings(settings)

    return Bearer(StaticTokens(settings.tokens), signed if settings.keys or settings.oidc else None)


def _tokens() -> dict[str, Principal]:
    found: dict[str, Principal] = {}
    token, listed = env.text("TURNSTILE_TOKEN", ""), env.text("TURNSTILE_TOKENS", "")
    if listed:
        try:
            named = msgspec.json.decode(listed, type=dict[str, _Named])
        except msgspec.DecodeError as error:
            raise env.BadSetting(f"TURNSTILE_TOKENS: {error}") from None
        for print_, one in named.items():
            if not _PRINT.fullmatch(print_) or not one.name:
                raise env.BadSetting("TURNSTILE_TOKENS must map the SHA-256 of tokens, in hex, to named principals")
            found[print_] = Principal(one.name, one.roles, one.admin)
    if token:
        found[fingerprint(token)] = OPERATOR
    return found


def _keys() -> tuple[SigningKey, ...]:
    keys: list[SigningKey] = []
    for text in _list("TURNSTILE_TOKEN_KEYS"):
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
    if not trustworthy(issuer):
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
    return [item.strip() for item in env.text(name, "").split(",") if item.strip()]
