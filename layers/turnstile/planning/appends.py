"""Plans of the appends to a Delta table between two of its versions: the files that commits added,
from the commits themselves.

    appended(world, planner, head, Appended(after=3, version=7)).files

As in Iceberg's append scans, commits that change no data (OPTIMIZE) are skipped. A commit that
removes rows, by removing a file or marking its rows, is refused by its version: a reader of appends
would not learn of it. Work and memory are bounded by ``MAX_VERSIONS`` and ``MAX_ADDED``, and every
page reads the commits again.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec
import pyarrow as pa
from pyarrow import compute

from turnstile.delta.core.actions import Add
from turnstile.delta.core.head import TableHead
from turnstile.delta.log.lines import where_of
from turnstile.maintenance.file_actions import actions_of_line
from turnstile.planning.changes import commits_of
from turnstile.planning.core.plans import Plan, PlanStatistics, PredicateOf, ScanPlanner
from turnstile.planning.core.predicates import Predicate, TableColumns
from turnstile.planning.core.roots import columns_of_table
from turnstile.planning.judging import may_match
from turnstile.planning.leaves import Leaf, LeafMaker, bounds_of
from turnstile.planning.pages import resolve_predicate
from turnstile.store.core.errors import InvalidRequest, UnsupportedTable
from turnstile.store.core.opaque import Damaged, seal, unseal
from turnstile.store.ports import World

MAX_VERSIONS: Final = 1_000
"""Commits that are read for one page."""
MAX_ADDED: Final = 100_000
"""Files that they may have added."""


class Appended(msgspec.Struct, frozen=True):
    """The question: the files that the versions after ``after``, up to ``version``, added;
    ``limit`` files, from the first after ``page`` on; ``stats``: with their statistics."""

    after: int
    version: int
    predicate: PredicateOf = None
    page: str | None = None
    limit: int = MAX_ADDED
    stats: bool = False


class _Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a page begins: at a row of the files that were added after a version, up to a version;
    for which predicate."""

    after: int
    version: int
    predicate: str
    row: int


_PLACE: Final = msgspec.msgpack.Decoder(_Place)


def page_of_appends(world: World, planner: ScanPlanner, table: TableHead, question: Appended) -> Plan:
    """Returns a page of the added files that may have rows which satisfy the predicate. ``planner``
    resolves the columns of the version.

    Raises:
        UnsupportedTable: a commit removes rows, is missing, or cannot be read.
        InvalidRequest: there are too many commits or files; the page is of another question.
        NotFound: there is no such version.
    """
    after = question.after
    version = question.version
    definition = planner.plan(table, version=version, limit=1)
    columns = TableColumns(definition.metadata)
    predicate = resolve_predicate(question.predicate, columns)
    digest = digest_of(predicate)
    first = 0 if question.page is None else _row(question.page, _Place(after, version, digest, 0))
    leaf = Leaf(
        LeafMaker(columns.schema, columns_of_table(columns.schema)).table(_added_files(world, table, after, version))
    )
    mask = pa.repeat(pa.scalar(value=True), len(leaf))
    if predicate is not None:
        mask = may_match(predicate, bounds_of([leaf], columns.schema), pa.chunked_array([mask]))
    rows = compute.indices_nonzero(mask)
    rows = rows.filter(compute.greater_equal(rows, first))
    files = leaf.planned_files(rows.slice(0, question.limit), stats=question.stats)
    more = rows.slice(question.limit, 1).to_pylist()
    following = seal(_Place(after, version, digest, more[0])) if more else None
    statistics = PlanStatistics(len(files), sum(file.size for file in files), tail_versions=version - after)
    return Plan(version, files, statistics, following, definition.protocol, definition.metadata)


def digest_of(predicate: Predicate | None) -> str:
    """Returns the digest of a predicate in page tokens."""
    return hashlib.sha256(str(predicate).encode()).hexdigest()[:16]


def _added_files(world: World, table: TableHead, after: int, version: int) -> list[Add]:
    """The files that commits added, in their order."""
    if version - after > MAX_VERSIONS:
        problem = f"versions {after} to {version} are {version - after} commits"
        raise InvalidRequest(problem, field="version", remedy=f"ask for at most {MAX_VERSIONS} commits at once")
    added = list[Add]()
    for at, content in commits_of(world, table, after + 1, version):
        where = where_of(at)
        for line in content:
            add, remove = actions_of_line(line, where)
            if remove is not None and remove.dataChange:
                remedy = "read the table as of a version, or its change data with Delta"
                raise UnsupportedTable(f"{where} removes rows, so it is no append", field="version", remedy=remedy)
            if add is not None and add.dataChange:
                added.append(add)
        if len(added) > MAX_ADDED:
            problem = f"versions {after} to {version} added more than {MAX_ADDED} files"
            raise InvalidRequest(problem, field="version", remedy="ask for fewer versions at once")
    return added


def _row(page: str, asked: _Place) -> int:
    try:
        place = unseal(page, _PLACE, "page")
    except Damaged as damaged:
        raise _bad_page(str(damaged)) from None
    if msgspec.structs.replace(place, row=0) != asked:
        raise _bad_page("is of another question")
    return place.row


def _bad_page(why: str) -> InvalidRequest:
    return InvalidRequest(f"the page {why}", field="page_token", remedy="begin with the first page again")
