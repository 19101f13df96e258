"""JSON bodies into Structs, strictly: unknown members are refused so that a typing error is noticed."""

from __future__ import annotations

import functools
import re
from typing import Any, TypeVar

import msgspec

from turnstile.api.http.request import current
from turnstile.store.core.errors import InvalidRequest

T = TypeVar("T")

_AT = re.compile(r" - at `(?P<key>key in )?\$\.?(?P<path>[^`]*)`$")
_NAMED = re.compile(r"^Object (?P<how>contains unknown|missing required) field `(?P<name>[^`]*)`")


@functools.cache
def _decoder(shape: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)


def body(shape: type[T]) -> T:
    """The current request's body as ``shape``, a Struct with ``forbid_unknown_fields``.

    Raises:
        InvalidRequest: not JSON, or a member is missing, unknown or of the wrong type; ``field`` names it.
    """
    return decode(current().body, shape)


def decode(raw: bytes, shape: type[T]) -> T:
    """``raw`` as ``shape``; see ``body``. Of a member given twice the last counts."""
    if not raw:
        raise InvalidRequest("the request has no body", field="body", remedy="send a JSON object")
    try:
        return _decoder(shape).decode(raw)  # type: ignore[arg-type,no-any-return]
    except msgspec.ValidationError as error:
        raise _misfit(str(error)) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidRequest(
            f"the body is not JSON in UTF-8: {error}", field="body", remedy="send one JSON object encoded as UTF-8"
        ) from None
    except RecursionError:
        raise InvalidRequest("the body is nested too deeply", field="body", remedy="send flat JSON") from None


def _misfit(text: str) -> InvalidRequest:
    """msgspec's message ("Expected `int`, got `str` - at `$.version`") with its place as the field."""
    at = _AT.search(text)
    path = at["path"] if at else ""
    plain = text[: at.start()] if at else text
    named = _NAMED.match(plain)
    if named is None:
        return InvalidRequest(
            f"{path or 'the body'}: {plain}", field=path or "body", remedy="send the type the API describes"
        )
    field = f"{path}.{named['name']}" if path else named["name"]
    if named["how"] == "missing required":
        return InvalidRequest(f"{field} is missing", field=field, remedy=f"give {named['name']}")
    return InvalidRequest(f"{field} is not a member of this request", field=field, remedy="check its spelling")
