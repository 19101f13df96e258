"""Reads of a catalog inside a transaction: path queries that must have the same answers when it
commits (TreeCat, "precision locking"; docs/decisions/0033).

    1  the query's answer as it was read    the tree of the HEAD that answered it, which the
                                            catalog's history keeps; or ids
    2  its answer in the tree that is changed
    3  the difference                       ``core.differences``: none, or the transaction is
                                            refused

A tree is one HEAD, and the swap that commits the transaction requires that the catalog still has
it. So the transaction is committed on top of the very tree in which its reads were checked, and no
lock is held (I9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from turnstile.catalog.core.entities import Entity
from turnstile.catalog.core.paths import fold
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import AsOf, check_as_of, report_field
from turnstile.catalog.history.reader import AsOfReader
from turnstile.catalog.query.core.differences import Difference, differences, differences_of_ids
from turnstile.catalog.query.core.parser import parse
from turnstile.catalog.query.core.query import Query
from turnstile.catalog.query.find import MAX_VISITS, whole_answer
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import ErrorType, InvalidRequest, StateConflict, TurnstileError
from turnstile.store.core.names import check_uuid

MAX_READS: Final = 100
MAX_IDS: Final = 1_000
"""Ids that one read names."""

NAMED_MAX: Final = 10
"""Differences that a refusal names."""


class CatalogRead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``{"query", "head"}`` or ``{"query", "ids"}``: a path query, and the HEAD that answered it or
    the ids of its matches (none: an empty list). Its answer must be the same when the transaction
    commits.
    """

    query: str
    head: str | UnsetType = UNSET
    ids: list[str] | UnsetType = UNSET


class _Parsed(msgspec.Struct, frozen=True):
    """A read that was checked."""

    text: str
    query: Query
    head: AsOf | None
    ids: frozenset[str]


class CatalogReads:
    """The reads of one transaction of ``catalog``. ``reader`` has the request's authorizer: a
    principal's reads cover the entities that it may see, and a refusal contains no other names
    (I12).

    Raises InvalidRequest, naming the read: too many, not one of ``head`` and ``ids``, or an invalid
    query, or one of another catalog.
    """

    def __init__(
        self, catalog: str, reads: Sequence[CatalogRead], reader: CatalogReader, as_of_reader: AsOfReader
    ) -> None:
        if len(reads) > MAX_READS:
            problem = f"{len(reads)} reads of the catalog"
            remedy = f"send at most {MAX_READS}; one query may cover several"
            raise InvalidRequest(problem, field="catalog_reads", remedy=remedy)
        self._reads = [_parse(catalog, index, read) for index, read in enumerate(reads)]
        self._reader = reader
        self._as_of_reader = as_of_reader
        self._before: dict[int, Mapping[str, Entity]] = {}
        self._visits = 0

    def __len__(self) -> int:
        return len(self._reads)

    def require_same(self, tree: Tree) -> None:
        """Requires that all reads hold in ``tree``, the one that is about to be changed. Called
        again for every tree.

        Raises StateConflict ``RequirementFailed`` for the first that does not; NotFound: its HEAD
        is none, or its history is gone; InvalidRequest: it takes too long, or depends on properties
        of Delta tables. The ``field`` begins with the read.
        """
        self._visits = 0
        for index, read in enumerate(self._reads):
            try:
                changes = self._differences(index, read, tree)
            except TurnstileError as error:
                error.field = f"catalog_reads[{index}].{error.field}" if error.field else f"catalog_reads[{index}]"
                raise
            if changes:
                raise self._refusal(index, read, changes)

    def _differences(self, index: int, read: _Parsed, tree: Tree) -> tuple[Difference, ...]:
        if read.head is None:
            return differences_of_ids(read.ids, self._answer(tree, read))
        if read.head.head == tree.head:
            return ()
        if index not in self._before:
            with report_field("head"):
                past = self._as_of_reader.kept_tree(tree, read.head).tree
            self._before[index] = self._answer(past, read)
        return differences(self._before[index], self._answer(tree, read))

    def _answer(self, tree: Tree, read: _Parsed) -> Mapping[str, Entity]:
        answer, visits = whole_answer(self._reader, tree, read.query, MAX_VISITS - self._visits)
        self._visits += visits
        return answer

    def _refusal(self, index: int, read: _Parsed, changes: Sequence[Difference]) -> StateConflict:
        """The refusal. Only principals that see everything get the names of removed entities: the
        rights on them are not known any more."""
        if self._reader.authorizer is not None and read.head is not None:
            changes = [change for change in changes if change.change == "appeared"]
        named: list[dict[str, Any]] = [
            {"change": change.change, "name": change.name, **({"to": change.to} if change.to else {})}
            for change in changes[:NAMED_MAX]
        ]
        what = "; ".join(f"{change['name']} {change['change']}" for change in named) or "something is gone"
        return StateConflict(
            ErrorType.REQUIREMENT_FAILED,
            f"'{read.text[:200]}' leads to something else since it was read: {what}",
            field=f"catalog_reads[{index}]",
            remedy="read the catalog again, and send a new transaction",
            changes=named,
        )


def _parse(catalog: str, index: int, read: CatalogRead) -> _Parsed:
    place = f"catalog_reads[{index}]"
    try:
        query = parse(read.query)
    except InvalidRequest as error:
        error.field = f"{place}.query"
        raise
    if fold(query.catalog) != fold(catalog):
        problem = f"the query is about catalog '{query.catalog}', and the transaction is one of '{catalog}'"
        raise InvalidRequest(problem, field=f"{place}.query", remedy=f"begin it with /{catalog}/")
    if (read.head is UNSET) == (read.ids is UNSET):
        remedy = "give the HEAD that answered the query, or the ids of its matches"
        raise InvalidRequest("exactly one of head and ids is needed", field=place, remedy=remedy)
    ids = [] if read.ids is UNSET else read.ids
    if len(ids) > MAX_IDS:
        raise InvalidRequest(
            f"{len(ids)} ids", field=f"{place}.ids", remedy=f"name at most {MAX_IDS}, or give the head"
        )
    head = None if read.head is UNSET else check_as_of(AsOf(head=read.head), place)
    return _Parsed(read.query, query, head, frozenset(check_uuid(id, f"{place}.ids") for id in ids))
