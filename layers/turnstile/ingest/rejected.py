"""The table of rejected rows beside a table: ``<name>_rejected``.

A request with ``on_error=quarantine`` adds its rows that fit to the table, and the others to the
table of rejected rows, in one commit of both (I26). ``RejectedTables`` finds that table, or creates
it when the first row does not fit. ``append_rejects`` makes its part of the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from turnstile.catalog.core.entities import Table
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.create import Registrar, Staging
from turnstile.catalog.reader import CatalogReader, View
from turnstile.delta.core.head import ACTIVE
from turnstile.delta.proposals import CommitRequest
from turnstile.ingest.core.errors import InvalidRows
from turnstile.ingest.core.files import encode_parts, parts_of
from turnstile.ingest.core.identity import Identity, common_principal
from turnstile.ingest.core.rejects import COMMENT, SUFFIX, Reject, batch_of, definition_to_be
from turnstile.ingest.writing import ENGINE, Tools, current_head, engine_error, name_files, require_inline, write_files
from turnstile.rights.grants import OPERATOR, Principal
from turnstile.store.core.errors import AlreadyExists, ErrorType, NotFound, StateConflict, UnsupportedTable
from turnstile.store.core.names import NAME_BYTES_MAX, published_path
from turnstile.store.ports import World
from turnstile_rows.commits import append, version_zero
from turnstile_rows.errors import DataMismatch, Unsupported

_REMEDY: Final = "rename it, or send the request without on_error=quarantine"


class RejectedTables:
    """Finds and creates tables of rejected rows. Such a table has the owner of the table that
    refuses the rows, so that a sender reads no rows of another one.

        1  find       the name beside the table that refuses the rows
        2  create     where there is none: a staging table, its version 0, and its registration

    A crash in step 2 leaves a staging table, which gc collects. Of two requests that create the
    table at once, the second finds that of the first.
    """

    def __init__(self, world: World, reader: CatalogReader, staging: Staging, registrar: Registrar) -> None:
        self._world = world
        self._reader = reader
        self._staging = staging
        self._registrar = registrar

    def table_of(
        self,
        catalog: str,
        namespace: Path,
        name: str,
        *,
        may_append: Callable[[str], object],
        may_create: Callable[[str], object],
    ) -> str:
        """Returns the id of the table of rejected rows of a table, which is created where there is
        none. Requires that the principal may append to the table.

        Args:
            may_append: is called with the name of another table or entity that is there; raises
                PermissionDenied unless the principal may append to it.
            may_create: is called with the name before the table is created; raises PermissionDenied
                unless the principal may create tables in the namespace.

        Raises:
            InvalidRows: the name is too long.
            UnsupportedTable: something else has the name, or a table of another owner.
            StorageFault, Throttled: the store does not answer.
        """
        table = self._view(catalog).table(namespace, name)
        rejected = table.name + SUFFIX
        if len(rejected.encode()) > NAME_BYTES_MAX:
            text = f"rows do not fit, and the name of a table for them, {rejected!r}, is over {NAME_BYTES_MAX} bytes"
            raise InvalidRows(text, field="on_error", remedy="correct the rows, or give the table a shorter name")
        found = self._find(catalog, namespace, rejected)
        if found is None:
            may_create(rejected)
            try:
                return self._create(catalog, namespace, rejected, table.access.owner)
            except AlreadyExists:
                found = self._find(catalog, namespace, rejected)
            if found is None:
                raise _other_entity(namespace, rejected)
        if found.access.owner != table.access.owner:
            may_append(rejected)
            full = dotted_name(*namespace, rejected)
            problem = f"rows do not fit, and {full} belongs to another owner than the table"
            raise UnsupportedTable(problem, field="on_error", remedy=_REMEDY)
        if self._world.refs.read(self._world.space.table(found.table_id)) is None:
            may_append(rejected)
            raise _other_entity(namespace, rejected)
        return found.table_id

    def _view(self, catalog: str) -> View:
        return View(self._reader.current(catalog), self._reader.store)

    def _find(self, catalog: str, namespace: Path, name: str) -> Table | None:
        try:
            return self._view(catalog).table(namespace, name)
        except NotFound:
            return None

    def _create(self, catalog: str, namespace: Path, name: str, owner: str) -> str:
        """Creates the table as its owner would."""
        principal = Principal(owner) if owner else OPERATOR
        staging = self._staging.create(catalog, namespace, name, creator=owner)
        definition = definition_to_be(staging.required_features, staging.required_properties)
        now = self._world.clock.now_ms()
        ids = self._world.ids
        zero = version_zero(ids.uuid(), now, ids.uuid(), definition, COMMENT)
        self._world.storages.open(staging.location).put_if_absent(published_path(0), zero.encode())
        self._registrar.register(catalog, namespace, name, staging.table_id, comment=COMMENT, principal=principal)
        return staging.table_id


def _other_entity(namespace: Path, name: str) -> UnsupportedTable:
    problem = f"rows do not fit, and {dotted_name(*namespace, name)} is no Delta table of this catalog"
    return UnsupportedTable(problem, field="on_error", remedy=_REMEDY)


def append_rejects(tools: Tools, table_id: str, rejects: Sequence[tuple[Identity, Sequence[Reject]]]) -> CommitRequest:
    """Writes a file with the rejected rows of requests, and returns its commit.

    Raises:
        StateConflict: the table was dropped, or takes no commits.
        UnsupportedTable: it was not made for rejected rows, or needs what only an engine does.
        TooLarge: the rows are too many for one commit.
        StorageFault, Throttled: nothing was added.
    """
    try:
        head = current_head(tools.world, table_id)
    except NotFound:
        problem = "the table of rejected rows was dropped meanwhile"
        remedy = "send the same request again"
        raise StateConflict(ErrorType.CONCURRENT_CHANGE, problem, remedy=remedy, retry_after_ms=0) from None
    if head.state != ACTIVE:
        problem = f"the table of rejected rows {head.name} is {head.state}"
        raise StateConflict(ErrorType.TABLE_NOT_ACTIVE, problem, remedy=_REMEDY)
    definition = tools.definition_of(head)
    now = tools.world.clock.now_ms()
    try:
        batches = [
            batch_of(rows, definition, now_ms=now, principal=identity.principal, request=identity.text)
            for identity, rows in rejects
        ]
        encoded = encode_parts([parts_of(batches, definition)], definition)
    except DataMismatch as error:
        text = f"rows do not fit, and {head.name} is no table of rejected rows: {error}"
        raise UnsupportedTable(text, remedy=_REMEDY) from None
    except Unsupported as error:
        raise engine_error(error) from None
    files = name_files(tools.world, encoded)
    txn = tools.world.ids.uuid()
    content = append(txn, now, head.latest, files=files, definition=definition, engine=ENGINE).encode()
    require_inline(content, tools.limits, f"the commit of rejected rows to {head.name}", _REMEDY)
    write_files(tools.world, head.location, files, encoded)
    by = common_principal(identity for identity, _ in rejects)
    return CommitRequest(table_id, None, base=head.latest, content=content, principal=by)
