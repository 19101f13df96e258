"""Cuts of several tables over HTTP: their latest versions as of one moment (I8, docs/api.md, "A cut
of several tables").

A name is resolved before the cut is taken. The HEADs in the cut carry the names that they had at
its moment, since a rename or drop changes names and HEADs in one transaction (I9): where a HEAD has
another name by then, the names are resolved again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
from chalice.app import Blueprint

from turnstile.access.authorizer import Need, Target
from turnstile.api.http.authorization import authorized_by_view, guard, table_guards
from turnstile.api.http.request import Query, body, note
from turnstile.api.services import services
from turnstile.catalog.core.entities import Table, without_head
from turnstile.catalog.core.paths import fold
from turnstile.catalog.reader import CatalogReader, ResolvedTable
from turnstile.delta.core.head import DROPPED
from turnstile.delta.transactions.cuts import Cut, TableInCut
from turnstile.rights.rules import read_table
from turnstile.store.core.errors import (
    ErrorType,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    StateConflict,
    UnsupportedTable,
)
from turnstile.store.core.names import check_identifier, check_uuid
from turnstile.store.ports import TRANSACT_MAX

routes = Blueprint(__name__)

_ATTEMPTS = 3
_LEVELS_MIN = 3  # catalog, namespace, table


class SnapshotBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /v1/snapshots``: tables by uuid, or by full name; ``at_ms`` for their versions of
    then."""

    tables: list[str]
    at_ms: int | None = None


class Snapshot(msgspec.Struct, frozen=True):
    """The cut: ``tables`` in the order of the request, ``taken_at_ms`` on the server's clock before
    its moment."""

    tables: list[TableInCut]
    taken_at_ms: int


class _Named(msgspec.Struct, frozen=True):
    """A table that the request names, and where the name led when it was resolved."""

    target: Target
    resolved: ResolvedTable


@routes.route("/v1/snapshots", methods=["POST"])
@authorized_by_view("read_table of each table")
def take_cut() -> Snapshot:
    Query()
    request = body(SnapshotBody)
    targets = _targets(request.tables)
    by_name = {index: table for index, table in enumerate(targets) if isinstance(table, Target)}
    for _ in range(_ATTEMPTS):
        named = _resolve(by_name)
        ids = [named[index].resolved.table_id if index in named else str(table) for index, table in enumerate(targets)]
        _require_different(ids)
        cut = services().cuts.take(ids)
        if not any(_has_moved(cut, index, table) for index, table in named.items()):
            break
    else:
        problem = "names of these tables are changing"
        raise StateConflict(ErrorType.CONCURRENT_CHANGE, problem, field="tables", remedy="send the request again")
    _authorize(cut, {index: table_id for index, table_id in enumerate(ids) if index not in named})
    guard().mark_authorized()
    note(tables=len(ids))
    tables = cut.tables(ids) if request.at_ms is None else services().cuts.past(cut, ids, request.at_ms)
    return Snapshot(tables, cut.taken_at_ms)


def _targets(tables: Sequence[str]) -> list[Target | str]:
    """The tables of the request: full names, and uuids. Raises InvalidRequest."""
    if not 1 <= len(tables) <= TRANSACT_MAX:
        remedy = f"name 1 to {TRANSACT_MAX} tables"
        raise InvalidRequest(f"a cut of {len(tables)} tables", field="tables", remedy=remedy)
    return [_target(text, f"tables[{index}]") for index, text in enumerate(tables)]


def _target(text: str, field: str) -> Target | str:
    if "." not in text:
        return check_uuid(text, field)
    levels = [check_identifier(level, field) for level in text.split(".")]
    if len(levels) < _LEVELS_MIN:
        remedy = "<catalog>.<namespace>.<table>, or the table's uuid"
        raise InvalidRequest(f"{text!r} is no table's full name", field=field, remedy=remedy)
    return Target(levels[0], tuple(levels[1:-1]), levels[-1])


def _require_different(ids: Sequence[str]) -> None:
    """Raises InvalidRequest where a table is there twice, also once by name and once by uuid."""
    first: dict[str, int] = {}
    for index, table_id in enumerate(ids):
        if first.setdefault(table_id, index) != index:
            problem = f"tables[{index}] is the same table as tables[{first[table_id]}]"
            raise InvalidRequest(problem, field=f"tables[{index}]", remedy="name each table once")


def _resolve(by_name: dict[int, Target]) -> dict[int, _Named]:
    """The tables that these names lead to now, authorized: one request for the catalogs' HEADs, and
    the requests of the reader. Raises PermissionDenied, NotFound."""
    if not by_name:
        return {}
    authorizing = services().guard_of(*(Need(read_table, target) for target in by_name.values()))
    reader = services().open_reader.authorized_by(authorizing)
    targets = {fold(target.catalog): target for target in reversed(by_name.values())}
    rows = services().world.refs.read_many([reader.key(target.catalog) for target in targets.values()])
    trees = {
        catalog: reader.at(target.catalog, rows.get(reader.key(target.catalog)), target.path)
        for catalog, target in targets.items()
    }
    named = {}
    for index, target in by_name.items():
        with _report_table(index):
            resolved = reader.find(trees[fold(target.catalog)], target.namespace, target.table)
        named[index] = _Named(target, resolved)
    return named


def _has_moved(cut: Cut, index: int, named: _Named) -> bool:
    """Whether the name led elsewhere at the moment of the cut. Raises UnsupportedTable for a table
    without a HEAD."""
    head = cut.heads.get(named.resolved.table_id)
    if head is None:
        _require_coordinated(services().open_reader, index, named.resolved)
        return True
    return head.state == DROPPED or fold(head.name or str(named.target)) != fold(str(named.target))


def _authorize(cut: Cut, by_id: dict[int, str]) -> None:
    """Authorizes the tables that the request names by uuid, by the names in the cut. Raises
    PermissionDenied, NotFound."""
    services().authorizers.tables.learn(cut.heads[table_id] for table_id in by_id.values() if table_id in cut.heads)
    for index, table_id in by_id.items():
        with _report_table(index):
            table_guards([read_table], [table_id])


def _require_coordinated(reader: CatalogReader, index: int, resolved: ResolvedTable) -> None:
    entity = reader.store.entity(resolved.catalog, resolved.entity)
    if isinstance(entity, Table) and entity.external is not None:
        with _report_table(index):
            raise without_head(entity, "leave it out: a cut shows only versions that are coordinated here")


@contextmanager
def _report_table(index: int) -> Iterator[None]:
    """Says of a refusal which table of the request it is about."""
    try:
        yield
    except (NotFound, PermissionDenied, StateConflict, UnsupportedTable) as error:
        error.field = f"tables[{index}]"
        raise
