"""Pages of a plan: the question, the files of one page, and the token of the next one.

question = PageRequest(predicate, position_of(token), limit=100, stats=False, explain=False)
digest, files = question.files(columns)
files.take(leaves, alive, at, schema, row)          # of leaves in order, until ``files.full``
token_of(source, version, digest, files.next)
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import compute

from turnstile.planning.core.generated import with_generated
from turnstile.planning.core.plans import PlannedFile, PlanStatistics, Position, PredicateOf
from turnstile.planning.core.predicates import And, Predicate, TableColumns
from turnstile.planning.judging import may_match
from turnstile.planning.leaves import Leaf, bounds_of
from turnstile.planning.totals import Totals
from turnstile.store.core.errors import InvalidRequest
from turnstile_predicates.file_stats import TableSchema


def resolve_predicate(predicate: PredicateOf, columns: TableColumns) -> Predicate | None:
    """Returns the predicate on a table's columns, with its consequences for generated ones. Raises
    InvalidRequest for an unknown column."""
    bound = predicate(columns) if callable(predicate) else predicate
    return None if bound is None else with_generated(bound, columns)


class PageRequest(msgspec.Struct, frozen=True):
    """A request for a page of files: the predicate, and the place where the page begins."""

    predicate: PredicateOf
    position: Position | None
    limit: int
    stats: bool
    explain: bool

    def files(self, columns: TableColumns) -> tuple[str, PageFiles]:
        """The digest of the predicate, and the files of the page, none yet. Raises InvalidRequest
        for a page of another predicate."""
        predicate = self.resolve(columns)
        digest = digest_of(predicate)
        if self.position is not None and self.position.predicate != digest:
            raise expired_token()
        return digest, PageFiles(predicate, self)

    def resolve(self, columns: TableColumns) -> Predicate | None:
        """The predicate on these columns, with its consequences for generated ones. Raises
        InvalidRequest for an unknown column."""
        return resolve_predicate(self.predicate, columns)

    @property
    def start(self) -> tuple[int, int]:
        """The leaf and the row in it that the page begins with."""
        return (0, 0) if self.position is None else (self.position.leaf, self.position.row)


class PageFiles:
    """The files of a page in the form of leaves, and the counts of an explained plan."""

    def __init__(self, predicate: Predicate | None, question: PageRequest) -> None:
        self.predicate = predicate
        self.explain = question.explain
        self._limit = question.limit
        self._stats = question.stats
        self.files = list[PlannedFile]()
        self.next: tuple[int, int] | None = None
        self._totals = Totals()
        self._matched = [0, 0]
        self._parts = predicate.parts if isinstance(predicate, And) else () if predicate is None else (predicate,)
        self._dropped: dict[str, int] = {str(part): 0 for part in self._parts}

    @property
    def full(self) -> bool:
        """Whether nothing more has to be looked at."""
        return self.next is not None and not self.explain

    def take(
        self, leaves: Sequence[Leaf], alive: Sequence[Any], at: Sequence[int], schema: TableSchema, row: int
    ) -> None:
        """Takes the matching files of the leaves at positions ``at``, one at least, of the first
        from ``row`` on."""
        of_column = bounds_of(leaves, schema)
        ones = pa.repeat(pa.scalar(value=True), sum(map(len, leaves)))
        lives = pa.chunked_array(list(alive))
        mask = lives if self.predicate is None else compute.and_(lives, may_match(self.predicate, of_column, ones))
        if self.explain:
            self._count(leaves, alive, mask)
            for part in self._parts:
                excluded = compute.and_(lives, compute.invert(may_match(part, of_column, ones)))
                self._dropped[str(part)] += compute.sum(excluded).as_py() or 0
        start = 0
        for leaf, position in zip(leaves, at, strict=True):
            if self.next is not None:
                return
            rows = compute.indices_nonzero(mask.slice(start, len(leaf)).combine_chunks())
            self._add(leaf, position, rows.filter(compute.greater_equal(rows, row)) if row else rows)
            start += len(leaf)
            row = 0

    def _add(self, leaf: Leaf, position: int, rows: pa.Array) -> None:
        room = self._limit - len(self.files)
        self.files += leaf.planned_files(rows.slice(0, room), stats=self._stats)
        if len(rows) > room:
            self.next = (position, rows[room].as_py())

    def _count(self, leaves: Sequence[Leaf], alive: Sequence[Any], mask: Any) -> None:
        for leaf, files in zip(leaves, alive, strict=True):
            self._totals.add(leaf, files)
        sizes = pa.chunked_array([leaf.table["size"].combine_chunks() for leaf in leaves])
        matched = (compute.sum(mask), compute.sum(sizes.filter(mask)))
        self._matched = [before + (value.as_py() or 0) for before, value in zip(self._matched, matched, strict=True)]

    def statistics(self, leaves: int, read: int, tail_versions: int, index_version: int) -> PlanStatistics:
        """The numbers of the plan."""
        if not self.explain:
            size = sum(file.size for file in self.files)
            return PlanStatistics(len(self.files), size, leaves, read, tail_versions, index_version)
        files, size = self._matched
        totals = self._totals
        return PlanStatistics(
            files,
            size,
            leaves,
            read,
            tail_versions,
            index_version,
            total_files=totals.files,
            total_bytes=totals.bytes,
            total_records=totals.records,
            files_without_records=totals.without_records,
            total_deleted_rows=totals.deleted_rows,
            total_partitions=totals.partitions,
            dropped=self._dropped,
        )


def digest_of(predicate: Predicate | None) -> str:
    """An identity of a predicate."""
    return hashlib.blake2b(repr(predicate).encode(errors="backslashreplace"), digest_size=8).hexdigest()


def token_of(source: str, version: int, predicate: str, following: tuple[int, int] | None) -> str | None:
    """Returns the name of the page that begins at a leaf and a row; None if there is none."""
    if following is None:
        return None
    packed = msgspec.msgpack.encode(Position(source, version, predicate, *following))
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def position_of(page: str | None) -> Position | None:
    """Returns where a page begins; None for the first one. Raises InvalidRequest for a token that
    is none."""
    if page is None:
        return None
    try:
        packed = base64.urlsafe_b64decode(page + "=" * (-len(page) % 4))
        return msgspec.msgpack.decode(packed, type=Position)
    except (binascii.Error, ValueError, msgspec.DecodeError, UnicodeError):
        raise expired_token() from None


def expired_token() -> InvalidRequest:
    """Returns the refusal of a page's token."""
    problem = "the page is of another plan, or its index is not kept any more"
    return InvalidRequest(problem, field="page_token", remedy="begin with the first page again")
