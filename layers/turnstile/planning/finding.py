"""Answers path queries that go down to files: ``/main/sales/[tier = "gold"]/files[day =
'2026-11-01' and size < 16mb]``.

    1  the levels         as every path query, a page at a time (``turnstile.catalog.query``)
    2  the Delta tables   among the matches, that the principal may read (I12); others have no files
                          here
    3  the files          of each, by the planner: the files that may have rows for which the
                          predicate holds (I16)

A page ends after so many files, or so many tables. A table without a column of the predicate, or
that cannot be planned, has no files and is named with the reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

import msgspec

from turnstile.catalog.core.entities import Table
from turnstile.catalog.core.paths import Path, dotted_name, fold
from turnstile.catalog.paging import bad_token, page_size
from turnstile.catalog.query.core.parser import parse
from turnstile.catalog.query.core.query import to_text
from turnstile.catalog.query.find import Finder, MatchPage
from turnstile.delta.core.head import TableHead
from turnstile.planning.core.plans import PlannedFile, ScanPlanner
from turnstile.planning.core.sql import parsed_of_files
from turnstile.store.core.errors import InvalidRequest, NotFound, StateConflict, UnsupportedTable
from turnstile.store.core.opaque import Damaged, seal, unseal

MAX_TABLES: Final = 20
"""Tables that are planned for one page."""


class FilesOfTable(msgspec.Struct, frozen=True):
    """Files of a table at a version; ``name`` is its full name."""

    name: str
    table_id: str
    version: int
    files: tuple[PlannedFile, ...]


class LeftOut(msgspec.Struct, frozen=True):
    """A table that was not searched, and the reason."""

    name: str
    reason: str


class FilesPage(msgspec.Struct, frozen=True):
    """A page, in the order of the tables' names; it may be empty although there are more."""

    tables: tuple[FilesOfTable, ...]
    left_out: tuple[LeftOut, ...]
    next_token: str | None


class _Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a page begins: on the page of the levels that ``levels`` leads to, at the table
    ``table_id`` (empty: the first one), there at ``page`` of its plan."""

    query: str
    levels: str | None = None
    table_id: str = ""
    page: str | None = None


_PLACE: Final = msgspec.msgpack.Decoder(_Place)


class FileFinder:
    """Answers one request's queries. ``finder`` sees the entities that the principal may see;
    ``may_read``: whether it may read the table of a uuid."""

    def __init__(
        self, finder: Finder, planner: ScanPlanner, head_of: Callable[[str], TableHead], may_read: Callable[[str], bool]
    ) -> None:
        self._finder = finder
        self._planner = planner
        self._head_of = head_of
        self._may_read = may_read

    def find(self, query: str, *, page_token: str | None = None, max_results: int | None = None) -> FilesPage:
        """Returns a page of the files that ``query`` leads to.

        Raises:
            InvalidRequest: the query or its predicate cannot be read, or does not ask for files;
                the token is damaged, expired, or of another query.
            NotFound: no such catalog.
        """
        parsed = parse(query, files=True)
        size = page_size(max_results)
        predicate = parsed_of_files(parsed.files) if parsed.files else None
        levels = to_text(msgspec.structs.replace(parsed, catalog=fold(parsed.catalog), files=None))
        digest = digest_of(levels, parsed.files)
        place = _Place(digest) if page_token is None else _place(page_token, digest)
        matches = self._finder.find(levels, page_token=place.levels, max_results=MAX_TABLES)
        found = list[FilesOfTable]()
        left_out = list[LeftOut]()
        count = 0
        for path, table_id in _tables(matches, place):
            if count == size:
                return FilesPage(tuple(found), tuple(left_out), seal(_Place(digest, place.levels, table_id)))
            name = dotted_name(matches.catalog, *path)
            page = place.page if table_id == place.table_id else None
            if not self._may_read(table_id):
                continue
            try:
                head = self._head_of(table_id)
                plan = self._planner.plan(head, predicate, page=page, limit=size - count)
            except (UnsupportedTable, NotFound, StateConflict) as error:
                left_out.append(LeftOut(name, error.public_message))
                continue
            except InvalidRequest as error:
                if error.field != "predicate":
                    raise
                left_out.append(LeftOut(name, error.public_message))
                continue
            if plan.files:
                found.append(FilesOfTable(name, table_id, plan.version, tuple(plan.files)))
                count += len(plan.files)
            if plan.next_page is not None:
                token = seal(_Place(digest, place.levels, table_id, plan.next_page))
                return FilesPage(tuple(found), tuple(left_out), token)
        following = None if matches.next_token is None else seal(_Place(digest, matches.next_token))
        return FilesPage(tuple(found), tuple(left_out), following)


def _tables(matches: MatchPage, place: _Place) -> list[tuple[Path, str]]:
    """Names and uuids of the Delta tables among matches, from the one on that the page begins
    with."""
    tables = [
        (match.path, match.entity.table_id)
        for match in matches.items
        if isinstance(match.entity, Table) and match.entity.external is None
    ]
    if not place.table_id:
        return tables
    at = next((at for at, (_, table_id) in enumerate(tables) if table_id == place.table_id), None)
    if at is None:
        raise bad_token("goes on at a table that is not there any more")
    return tables[at:]


def digest_of(levels: str, files: str | None) -> str:
    """Returns the digest of a query in page tokens: of the part for tables, and of the predicate of
    files."""
    return hashlib.sha256(f"{levels}\0{files}".encode()).hexdigest()[:24]


def _place(text: str, digest: str) -> _Place:
    try:
        place = unseal(text, _PLACE, "page token")
    except Damaged as damaged:
        raise bad_token(str(damaged)) from None
    if place.query != digest:
        raise bad_token("is of another query")
    return place
