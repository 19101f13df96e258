"""Requests of Iceberg's clients: names, and bodies.

Levels of a namespace are joined by the unit separator; a warehouse is a catalog, ``lake``, or its
past, ``lake@snapshot:month_end``. Unknown members of bodies are skipped, as the specification
requires; unknown kinds of updates and requirements are refused. Other bodies are in
``iceberg.tables`` and ``iceberg.views``.
"""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.catalog.core.paths import Path, check_path, dotted_name
from turnstile.catalog.history.core import GRAMMAR, AsOf, as_of_text, parse_as_of
from turnstile.iceberg.core.metadata import without_nulls
from turnstile.iceberg.core.requirements import TableRequirement
from turnstile.iceberg.core.updates import TableUpdate
from turnstile.store.core.errors import InvalidRequest, NotFound
from turnstile.store.core.names import check_identifier, check_name

SEPARATOR: Final = "\x1f"


def namespace(text: str) -> Path:
    """The levels of a namespace in a path or query; raises NotFound for an impossible name."""
    levels = tuple(_decode_text(text).split(SEPARATOR))
    try:
        return check_path(levels)
    except InvalidRequest:
        raise NotFound("namespace", dotted_name("", *levels)[:300], field="namespace") from None


def name(text: str, what: str) -> str:
    """The name of a table or view in a path; raises NotFound for an impossible name."""
    try:
        return check_name(_decode_text(text), what)
    except InvalidRequest:
        raise NotFound(what, f".{text[:300]}", field=what) from None


def _decode_text(text: str) -> str:
    """``text`` with decoded escapes: Java's clients write a space as ``+``, which no name holds."""
    return text.replace("+", " ")


def warehouse(text: str, field: str = "warehouse") -> tuple[str, AsOf | None]:
    """Returns the catalog that a warehouse or a prefix names, and the time in its past (None: the
    present). A catalog's name may have ``@`` but no colon: the last ``@`` before the first colon is
    the separator. Raises InvalidRequest.
    """
    before, colon, _ = text.partition(":")
    if not colon:
        return check_identifier(text, field), None
    catalog, at, _ = before.rpartition("@")
    if not at:
        remedy = f"write lake, or lake@ and {GRAMMAR}"
        raise InvalidRequest(f"{field} {text[:100]!r} names no catalog", field=field, remedy=remedy)
    return check_identifier(catalog, field), parse_as_of(text[len(catalog) + 1 :], field)


def catalog_of(prefix: str) -> str:
    """Returns the catalog that a prefix names, now or in the past; raises InvalidRequest."""
    return warehouse(prefix, "prefix")[0]


def is_past(prefix: str) -> bool:
    """Whether a prefix names a moment of the past."""
    return warehouse(prefix, "prefix")[1] is not None


def prefix(catalog: str, as_of: AsOf) -> str:
    """The prefix of a catalog's past, in characters that a path segment has unescaped (RFC 3986,
    pchar)."""
    return f"{catalog}@{as_of_text(as_of)}"


MAX_BODY: Final = 4_500_000
"""Bytes of a body. Lambda accepts 6 MB with the body as text within JSON, which is about 4.5 MB of
usual JSON."""


class Body(msgspec.Struct, frozen=True, rename="kebab"):
    """Members in kebab-case."""


class Identifier(Body, frozen=True):
    """The full name of a table or view in its catalog."""

    namespace: tuple[str, ...]
    name: str

    def path(self, field: str) -> Path:
        """The path; raises InvalidRequest, naming the member ``field``, unless all levels are
        names."""
        return (*check_path(self.namespace, f"{field}.namespace"), check_name(self.name, f"{field}.name"))


class CreateNamespace(Body, frozen=True):
    """A namespace to create."""

    namespace: tuple[str, ...]
    properties: dict[str, str] = {}


class UpdateProperties(Body, frozen=True):
    """Properties of a namespace to remove and to set."""

    removals: tuple[str, ...] = ()
    updates: dict[str, str] = {}


class RegisterTable(Body, frozen=True):
    """A table that exists in storage."""

    name: str
    metadata_location: str
    overwrite: bool = False


class RegisterView(Body, frozen=True):
    """A view with a metadata file that exists in storage."""

    name: str
    metadata_location: str


class CommitTable(Body, frozen=True):
    """Changes of one table; ``identifier`` is compulsory in a transaction. A list that is left out,
    or null, is empty, as for Java's parser: iceberg-go sends null."""

    requirements: tuple[TableRequirement, ...] = ()
    updates: tuple[TableUpdate, ...] = ()
    identifier: Identifier | None = None


class CommitTransaction(Body, frozen=True):
    """Changes of several tables, all or none."""

    table_changes: tuple[CommitTable, ...]


class Rename(Body, frozen=True):
    """A table or view, and its new name."""

    source: Identifier
    destination: Identifier

    def paths(self) -> tuple[Path, Path]:
        return self.source.path("source"), self.destination.path("destination")


class Report(Body, frozen=True):
    """A metrics report; only its kind is read."""

    report_type: str


def without_null_members(raw: bytes) -> bytes:
    """Returns ``raw`` without members that are null; ``raw`` itself when it is not JSON."""
    if b"null" not in raw:
        return raw
    try:
        return msgspec.json.encode(without_nulls(msgspec.json.decode(raw)))
    except (msgspec.MsgspecError, RecursionError, OverflowError, UnicodeError):
        return raw
