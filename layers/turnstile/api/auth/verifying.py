"""One way to verify a signed token, and one to say what is wrong with it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

import jwt

from turnstile.api.auth.judged import invalid

LEEWAY_S: Final = 60
"""Seconds that an issuer's clock may differ from ours."""

P = ParamSpec("P")
T = TypeVar("T")

_WORDS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (jwt.ExpiredSignatureError, "it has expired"),
    (jwt.ImmatureSignatureError, "it is not valid yet"),
    (jwt.InvalidAudienceError, "it is meant for another service (aud)"),
    (jwt.InvalidIssuerError, "another issuer made it (iss)"),
    (jwt.InvalidSignatureError, "its signature is wrong"),
    (jwt.InvalidAlgorithmError, "its algorithm is not the key's"),
)


def guarded(function: Callable[P, T]) -> Callable[P, T]:
    """``function``, its errors told as ``NotAuthenticated``: a stranger's bytes are never our fault."""

    @functools.wraps(function)
    def inner(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except jwt.MissingRequiredClaimError as error:
            raise invalid(f"it has no claim {error.claim!r}") from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise invalid(
                next((words for kind, words in _WORDS if isinstance(error, kind)), "it is malformed")
            ) from None

    return inner


@guarded
def verified(
    token: str, key: Any, *, algorithm: str, issuer: str, audience: Sequence[str], required: Sequence[str] = ()
) -> dict[str, Any]:
    """The claims of a token that ``key`` signed with ``algorithm``, that is valid now, and that is meant for us.

    Raises:
        NotAuthenticated: anything of this does not hold.
    """
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=[algorithm],
        issuer=issuer,
        audience=list(audience),
        leeway=LEEWAY_S,
        options={"require": ["exp", "iss", "aud", *required], "enforce_minimum_key_length": True},
    )
    return claims


def ends(claims: dict[str, Any]) -> int:
    """Seconds since the epoch when a verified token ends, the leeway included."""
    return int(claims["exp"]) + LEEWAY_S
