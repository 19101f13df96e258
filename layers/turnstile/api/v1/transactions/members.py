"""Changes of a catalog as members of a transaction: their bodies, the rights that they need, and
their effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
from msgspec import UNSET, UnsetType

from turnstile.access.authorizer import Guard, Need, Target, authorize_in
from turnstile.api.http.request import current, decode
from turnstile.api.services import services
from turnstile.catalog.changes.commit import CatalogChange
from turnstile.catalog.changes.composed import GroupChange
from turnstile.catalog.core.merges import Merge
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.namespaces import properties_altered
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.rights.grants import owner_for
from turnstile.rights.rules import create_schema, create_table, edit_schema, edit_table
from turnstile.store.core.errors import AlreadyExists, InvalidRequest, StateConflict, TurnstileError
from turnstile.store.core.names import check_identifier, check_namespace


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="change"):
    """A change; the members of the operation that makes it alone, and the names of its path."""


class CreateNamespace(_Body, frozen=True, tag="create_namespace"):
    """As ``POST .../namespaces``."""

    name: str
    comment: str | None = None
    properties: dict[str, str] = {}


class UpdateNamespace(_Body, frozen=True, tag="update_namespace"):
    """As ``PATCH .../namespaces/{ns}``."""

    namespace: str
    comment: str | UnsetType | None = UNSET
    set: dict[str, str] = {}
    unset: list[str] = []
    merge: dict[str, Merge] = {}


class CreateTable(_Body, frozen=True, tag="create_table"):
    """As ``POST .../tables``: registers the staged table ``table_id`` after the client has written
    its version 0."""

    namespace: str
    name: str
    table_id: str
    comment: str | None = None


class RenameTable(_Body, frozen=True, tag="rename_table"):
    """As ``POST .../tables/{t}/rename``, of a Delta table; without ``to_namespace`` it stays where
    it is."""

    namespace: str
    table: str
    name: str
    to_namespace: str | None = None


class DropTable(_Body, frozen=True, tag="drop_table"):
    """As ``DELETE .../tables/{t}``, of a managed Delta table or a clone."""

    namespace: str
    table: str


class CommitIcebergTable(_Body, frozen=True, tag="commit_iceberg_table"):
    """As one of ``table-changes`` of Iceberg's ``transactions/commit``: it changes the table that
    ``commit`` names, or, with ``assert-create``, creates it."""

    commit: msgspec.Raw


Change = CreateNamespace | UpdateNamespace | CreateTable | RenameTable | DropTable | CommitIcebergTable


@dataclass(frozen=True, slots=True)
class PreparedMember:
    """A parsed change: the full name of its entity, the rights that it needs, and the function that
    prepares it for one request."""

    name: str
    needs: tuple[Need, ...]
    prepare: Callable[[CatalogServices, Guard], CatalogChange]


def member_of(catalog: str, index: int, change: Change) -> PreparedMember:
    """Reads the change at ``index`` of a transaction of ``catalog``. Raises InvalidRequest, naming
    its member."""
    try:
        return _member(catalog, change)
    except TurnstileError as error:
        error.field = f"changes[{index}].{error.field}" if error.field else f"changes[{index}]"
        raise


def prepare_changes(members: Sequence[PreparedMember], by: Guard) -> list[GroupChange]:
    """Prepares the changes of a request with the guard ``by``. Raises refusals that need no tree,
    with the name of the change. A conflict is raised when the change is computed, so that it is
    reported like conflicts with the tree.
    """
    here = services().catalog_for(by)
    changes = []
    for index, member in enumerate(members):
        try:
            change = member.prepare(here, by)
        except (StateConflict, AlreadyExists) as error:
            change = CatalogChange(partial(_refuse, error))
        except TurnstileError as error:
            error.field = f"changes[{index}].{error.field}" if error.field else f"changes[{index}]"
            raise
        changes.append(GroupChange(change, partial(_authorize, member, by)))
    return changes


def _refuse(error: TurnstileError, _view: View) -> None:
    raise error


def _authorize(member: PreparedMember, by: Guard, view: View) -> None:
    authorize_in(view, by.principal, member.needs)


def _member(catalog: str, change: Change) -> PreparedMember:
    match change:
        case CreateNamespace():
            return _created_namespace(catalog, change)
        case UpdateNamespace():
            return _updated_namespace(catalog, change)
        case CreateTable():
            return _created_table(catalog, change)
        case RenameTable():
            return _renamed_table(catalog, change)
        case DropTable():
            return _dropped_table(catalog, change)
        case CommitIcebergTable():
            return _iceberg_commit(catalog, change)


def _created_namespace(catalog: str, change: CreateNamespace) -> PreparedMember:
    path = check_namespace(change.name, "name")
    owner = owner_for(current().principal)

    def prepare(here: CatalogServices, _by: Guard) -> CatalogChange:
        return here.namespaces.creation(path, comment=change.comment, properties=change.properties, owner=owner)

    return PreparedMember(dotted_name(catalog, *path), (Need(create_schema, Target(catalog, path)),), prepare)


def _updated_namespace(catalog: str, change: UpdateNamespace) -> PreparedMember:
    path = check_namespace(change.namespace)
    alter = properties_altered(set=change.set, unset=change.unset, merge=change.merge, comment=change.comment)
    needs = (Need(edit_schema, Target(catalog, path)),)
    return PreparedMember(dotted_name(catalog, *path), needs, lambda here, _: here.namespaces.alteration(path, alter))


def _created_table(catalog: str, change: CreateTable) -> PreparedMember:
    path = check_namespace(change.namespace)
    name = check_identifier(change.name, "name")
    id = change.table_id
    comment = change.comment

    def prepare(here: CatalogServices, by: Guard) -> CatalogChange:
        return here.registrar.prepare(catalog, path, name, id, comment=comment, principal=by.principal)

    return PreparedMember(dotted_name(catalog, *path, name), (Need(create_table, Target(catalog, path)),), prepare)


def _renamed_table(catalog: str, change: RenameTable) -> PreparedMember:
    path, table = _table(change.namespace, change.table)
    to = path if change.to_namespace is None else check_namespace(change.to_namespace, "to_namespace")
    new = check_identifier(change.name, "name")
    needs = (Need(edit_table, Target(catalog, path, table)), Need(create_table, Target(catalog, to)))

    def prepare(here: CatalogServices, _by: Guard) -> CatalogChange:
        return here.renamer.prepare(catalog, path, table, new, to, external=False)

    return PreparedMember(dotted_name(catalog, *path, table), needs, prepare)


def _dropped_table(catalog: str, change: DropTable) -> PreparedMember:
    path, table = _table(change.namespace, change.table)
    needs = (Need(edit_table, Target(catalog, path, table)),)
    return PreparedMember(
        dotted_name(catalog, *path, table), needs, lambda here, _: here.dropper.prepare(catalog, path, table)
    )


def _iceberg_commit(catalog: str, change: CommitIcebergTable) -> PreparedMember:
    from turnstile.api.iceberg.context import context_of
    from turnstile.api.iceberg.requests import CommitTable, without_null_members
    from turnstile.api.iceberg.tables import need_of
    from turnstile.iceberg.commits import Commits
    from turnstile.iceberg.core.table_updates import TableChange

    try:
        sent = decode(without_null_members(bytes(change.commit)), CommitTable)
    except InvalidRequest as error:
        error.field = "commit" if error.field in (None, "body") else f"commit.{error.field}"
        raise
    if sent.identifier is None:
        raise InvalidRequest("the commit names no table", field="commit.identifier")
    path = sent.identifier.path("commit.identifier")
    table = TableChange(path, sent.requirements, sent.updates)

    def prepare(_here: CatalogServices, by: Guard) -> CatalogChange:
        return Commits(context_of(by)).prepare(catalog, [table])

    return PreparedMember(dotted_name(catalog, *path), (need_of(catalog, table),), prepare)


def _table(namespace: str, table: str) -> tuple[Path, str]:
    return check_namespace(namespace), check_identifier(table, "table")
