"""The request a view is answering, typed. Held in a context variable, so that concurrent handlers
cannot mix theirs."""

from __future__ import annotations

import base64
import functools
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Any, Final, TypeVar, overload
from urllib.parse import parse_qs

import msgspec

from turnstile.access.authorizer import Guard
from turnstile.catalog.history.core import AsOf, parse_as_of
from turnstile.rights.grants import ANONYMOUS, Principal
from turnstile.store.core.errors import InvalidRequest, TooLarge
from turnstile.store.core.names import MAX_VERSION

T = TypeVar("T")

MAX_BODY = 1024 * 1024
"""Largest request body in bytes: the largest inline commit (256 KiB) survives JSON escaping with
room to spare."""

MAX_QUERY = 8 * 1024

IDEMPOTENCY_KEY: Final = "Idempotency-Key"

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class BodyLimit(msgspec.Struct, frozen=True):
    """The largest bodies of an API, in bytes, and the remedy for a client with a larger one;
    ``is_text``: they are texts in UTF-8."""

    bytes: int = MAX_BODY
    remedy: str = "stage a large commit as a file instead of sending it inline"
    is_text: bool = True


class Request(msgspec.Struct):
    """One HTTP request with its state until it is answered.

    ``route`` is the matched template (``/v1/tables/{table_id}``), empty when none matched;
    ``headers`` have lower-case names; ``query`` maps each member to all its values; ``correlation``
    identifies the request in logs and errors; ``services`` are the services of the app that
    answers; ``rest`` is entered while a view waits for other work; ``notes`` are further members of
    the request's log line.
    """

    method: str
    path: str
    route: str
    headers: Mapping[str, str]
    query: Mapping[str, list[str]]
    body: bytes
    correlation: str
    principal: Principal = ANONYMOUS
    services: Any = None
    guard: Guard | None = None
    rest: Callable[[], AbstractContextManager[None]] = nullcontext
    notes: dict[str, Any] = {}
    _parsed: Any = None

    def parse_as(self, shape: type[T], decoder: Callable[[bytes, type[T]], T]) -> T:
        """Returns the body as ``shape``, decoded once however often it is asked for. Raises as
        ``decoder``, and TypeError when it was decoded as something else before, which is a defect
        of the view.
        """
        if self._parsed is None:
            self._parsed = decoder(self.body, shape)
        elif not isinstance(self._parsed, shape):
            raise TypeError(f"the body is a {type(self._parsed).__name__}, and {shape.__name__} was asked for")
        return self._parsed


_current: ContextVar[Request] = ContextVar("turnstile_http_request")


def current() -> Request:
    """Returns the request being answered; only meaningful inside a view."""
    return _current.get()


def pause(seconds: float) -> None:
    """Waits inside a view, and lets other requests be worked on meanwhile."""
    with current().rest():
        time.sleep(seconds)


class answering:  # noqa: N801 - a context manager, as a class since a generator takes twice as long
    """Makes ``request`` the current one."""

    __slots__ = ("_request", "_token")

    def __init__(self, request: Request) -> None:
        self._request = request

    def __enter__(self) -> None:
        self._token = _current.set(self._request)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def idempotency_key() -> str | None:
    """Returns the request's ``Idempotency-Key``, if it carries one; raises InvalidRequest for one
    that is no uuid."""
    key = current().headers.get(IDEMPOTENCY_KEY.lower())
    if key is not None and not _UUID.fullmatch(key):
        raise InvalidRequest("the idempotency key is no uuid", field=IDEMPOTENCY_KEY, remedy="send a uuid, version 7")
    return key


def note(**members: Any) -> None:
    """Adds members to this request's log line (an outcome, a version)."""
    current().notes.update(members)


def body_of(event: Mapping[str, Any], limit: BodyLimit | None = None) -> bytes:
    """Returns the body's bytes of a gateway event. Raises TooLarge over ``limit`` (our own API's by
    default), InvalidRequest for bad base64 and for text that is not UTF-8."""
    limit = limit or BodyLimit()
    body = event.get("body") or ""
    _require_fits(len(body), limit.bytes * 4 // 3 + 4, limit)
    try:
        raw = base64.b64decode(body, validate=True) if event.get("isBase64Encoded") else body.encode()
    except ValueError:
        raise InvalidRequest("the body is not UTF-8 text", field="body", remedy="send JSON encoded as UTF-8") from None
    _require_fits(len(raw), limit.bytes, limit)
    return bytes(raw)


def _require_fits(size: int, most: int, limit: BodyLimit) -> None:
    if size > most:
        text = f"the body of {size} bytes is over the limit of {limit.bytes}"
        raise TooLarge(text, field="body", remedy=limit.remedy, limit=limit.bytes, size=size)


def query_of(text: str) -> dict[str, list[str]]:
    """Returns the members of a query, decoded once; a member without a value counts as empty."""
    if not text:
        return {}
    if len(text) > MAX_QUERY:
        raise InvalidRequest("the query is too long", field="query", remedy=f"use at most {MAX_QUERY} characters")
    return parse_qs(text, keep_blank_values=True)


# -- bodies -----------------------------------------------------------------------------------------------------------
# JSON bodies into Structs, strictly: unknown members are refused so that a typing error is noticed.

_AT = re.compile(r" - at `(?P<key>key in )?\$\.?(?P<path>[^`]*)`$")
_NULL = re.compile(r"^Expected `(?:array|object)`, got `null` - at `\$(?P<path>(?:\.\w+|\[\d+\])+)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_NULLS_MOST = 20
"""Null lists and maps of one body that count as left out."""
_NAMED = re.compile(r"^Object (?P<how>contains unknown|missing required) field `(?P<name>[^`]*)`")


@functools.cache
def _decoder(shape: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)


def body(shape: type[T]) -> T:
    """Returns the current request's body as ``shape``, a Struct with ``forbid_unknown_fields``.
    Raises InvalidRequest if it is not JSON, or a member is missing, unknown or of the wrong type;
    ``field`` names it.
    """
    return current().parse_as(shape, decode)


def decode(raw: bytes, shape: type[T]) -> T:
    """Returns ``raw`` as ``shape``; see ``body``. Of a member given twice the last counts. A null
    list or map that may be left out counts as left out: clients generated from Java send it."""
    if not raw:
        raise InvalidRequest("the request has no body", field="body", remedy="send a JSON object")
    try:
        return _decode(raw, _decoder(shape))  # type: ignore[arg-type,no-any-return]
    except msgspec.ValidationError as error:
        raise _misfit(str(error)) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        remedy = "send one JSON object encoded as UTF-8"
        raise InvalidRequest(f"the body is not JSON in UTF-8: {error}", field="body", remedy=remedy) from None
    except RecursionError:
        raise InvalidRequest("the body is nested too deeply", field="body", remedy="send flat JSON") from None


def _decode(raw: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    for _ in range(_NULLS_MOST):
        try:
            return decoder.decode(raw)
        except msgspec.ValidationError as error:
            raw = _without_null(raw, error)
    return decoder.decode(raw)


def _without_null(raw: bytes, error: msgspec.ValidationError) -> bytes:
    """Returns ``raw`` without the null list or map that ``error`` names. Raises ``error`` where it
    names another problem."""
    null = _NULL.match(str(error))
    if null is None:
        raise error
    document = msgspec.json.decode(raw)
    *above, (name, _) = _STEP.findall(null["path"])
    parent = document
    for member, index in above:
        parent = parent[member or int(index)]
    if not name or parent[name] is not None:
        raise error
    del parent[name]
    return msgspec.json.encode(document)


def _misfit(text: str) -> InvalidRequest:
    """msgspec's message ("Expected `int`, got `str` - at `$.version`") with its place as the
    field."""
    at = _AT.search(text)
    path, plain = (at["path"], text[: at.start()]) if at else ("", text)
    named = _NAMED.match(plain)
    if named is None:
        place = path or "the body"
        return InvalidRequest(f"{place}: {plain}", field=path or "body", remedy="send the type the API describes")
    field = f"{path}.{named['name']}" if path else named["name"]
    if named["how"] == "missing required":
        return InvalidRequest(f"{field} is missing", field=field, remedy=f"give {named['name']}")
    return InvalidRequest(f"{field} is not a member of this request", field=field, remedy="check its spelling")


# -- query ------------------------------------------------------------------------------------------------------------
# Members of the query, with their ranges. Unknown and repeated members are refused, like unknown
# body members.


class Query:
    """The current request's query. Raises InvalidRequest for a member that is not ``allowed``, or
    is there twice."""

    def __init__(self, *allowed: str) -> None:
        self._values: dict[str, str] = {}
        for name, values in current().query.items():
            if name not in allowed:
                remedy = f"members known here: {', '.join(allowed) or 'none'}"
                raise InvalidRequest(f"query member {name!r} is not known here", field=name, remedy=remedy)
            if len(values) != 1:
                raise InvalidRequest(f"query member {name!r} is given twice", field=name, remedy="give it once")
            self._values[name] = values[0]

    def text(self, name: str) -> str | None:
        """Returns the member, None when absent or empty."""
        return self._values.get(name) or None

    @overload
    def integer(self, name: str, default: int, least: int = 0, most: int = MAX_VERSION) -> int: ...
    @overload
    def integer(self, name: str, default: None = None, least: int = 0, most: int = MAX_VERSION) -> int | None: ...
    def integer(self, name: str, default: int | None = None, least: int = 0, most: int = MAX_VERSION) -> int | None:
        value = self.text(name)
        if value is None:
            return default
        number = int(value) if value.isascii() and value.isdigit() and len(value) <= 20 else -1
        if not least <= number <= most:
            text = f"{name} must be a whole number between {least} and {most}, not {value[:40]!r}"
            raise InvalidRequest(text, field=name, remedy=f"give {name} in that range")
        return number

    def as_of(self, name: str = "as_of") -> AsOf | None:
        """The member as a moment of a catalog, None when absent or empty."""
        value = self.text(name)
        return None if value is None else parse_as_of(value, name)

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.text(name) or str(default)
        if value.lower() not in ("true", "false"):
            text = f"{name} must be true or false, not {value[:40]!r}"
            raise InvalidRequest(text, field=name, remedy="true or false")
        return value.lower() == "true"
