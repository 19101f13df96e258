"""Common parts of the views of the Iceberg API: bodies, queries, prefixes, and the operations of
one request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from turnstile.access.authorizer import METASTORE, Guard, Need, Target
from turnstile.api.http import idempotency
from turnstile.api.http.authorization import Params, guard
from turnstile.api.http.request import BodyLimit, Query, current, decode, idempotency_key, pause
from turnstile.api.iceberg import requests
from turnstile.api.iceberg.errors import PREFIX, ReadOnly, kind_of
from turnstile.api.iceberg.requests import MAX_BODY, catalog_of, is_past, without_null_members
from turnstile.api.services import services
from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.core.paths import Path
from turnstile.iceberg.context import Context
from turnstile.iceberg.listing import Listing, Names
from turnstile.rights.rules import create_external, see_table
from turnstile.store.core.errors import StorageFault

T = TypeVar("T")

ROOT: Final = PREFIX + "/v1"
NAMESPACES: Final = ROOT + "/{prefix}/namespaces"
NAMESPACE: Final = NAMESPACES + "/{namespace}"

BODIES: Final = BodyLimit(MAX_BODY, "put less into one request: fewer tables, or fewer snapshots and statistics of one")
"""As much as gets here at all: one commit may write a whole metadata file."""


def body(shape: type[T]) -> T:
    """Returns the current request's body as ``shape``; null counts as absent. Raises
    InvalidRequest."""
    return current().parse_as(shape, lambda raw, shape: decode(without_null_members(raw), shape))


def query() -> Query:
    """Returns the current request's query; any members are allowed."""
    return Query(*current().query)


def page(prefix: str, path: Path, kind: str) -> Names:
    """Returns the page of names of ``kind`` below ``path`` that the current request wants."""
    size = query().integer("pageSize")
    tokens = current().query.get("pageToken")
    return Listing(reading(prefix)).names(catalog_of(prefix), path, kind, tokens[0] if tokens else None, size)


def namespace_of_path(params: Params) -> Target:
    """Returns the namespace of ``NAMESPACE``."""
    return Target(catalog_of(params["prefix"]), requests.namespace(params["namespace"]))


def context_of(guard: Guard) -> Context:
    """Returns one request's operations; ``guard`` authorizes every access first."""
    here = services()
    catalog = here.catalog_for(guard)
    files = here.metadata_files
    principal = guard.principal
    first_look = here.iceberg_first_look if here.settings.looks_at_logs else None
    return Context(
        catalog, catalog.committer, files, principal, _require_create_external, pause=pause,
        appends=here.append_queue, first_look=first_look,
    )  # fmt: skip


def reading(prefix: str) -> Context:
    """Returns the operations of a request on the catalog of its prefix, or on its past."""
    return replace(context_of(guard()), as_of=requests.warehouse(prefix, "prefix")[1])


def seeing(prefix: str, path: Path) -> Guard:
    """Returns a guard for the answer to a repeated request, which shows the table or view that has
    the name now. That one may belong to another principal, and the right to create one there is no
    right to see it (I12).
    """
    return services().guard_of(Need(see_table, Target(catalog_of(prefix), path[:-1], path[-1])))


def _require_create_external() -> None:
    """Raises PermissionDenied unless the principal may register tables where files belong to no
    catalog."""
    services().guard_of(Need(create_external, METASTORE)).authorize_now()


def once(prefix: str, operation: Callable[[Context], T], again: Callable[[Context], T], by: Guard | None = None) -> T:
    """Returns the answer of ``operation``, which changes a catalog; for a repeated Idempotency-Key,
    the answer of ``again``. The repetition is authorized like the request, so its result needs a
    guard of its own (``seeing``). ``by``: the guard of a request, if only its body says its needs;
    else the one that its view declares. Raises InvalidRequest for a key that is no uuid, and
    ReadOnly when the prefix names the past.
    """
    if is_past(prefix):
        remedy = "change the catalog without '@'"
        raise ReadOnly("the past of a catalog cannot be changed", field="prefix", remedy=remedy)
    authorizer = by or guard()
    context = context_of(authorizer)
    key = idempotency_key()
    if key is None:
        return operation(context)

    def first(committer: Committer) -> T:
        authorizer.authorize_now()
        try:
            return operation(replace(context, committer=committer))
        except StorageFault as fault:
            fault.nothing_applied = False  # with a key it is no final answer: the same request may succeed later
            raise

    return idempotency.once(
        key,
        prefix,
        first,
        lambda _: again(context),
        world=context.world,
        reader=context.catalog.reader,
        guard=authorizer,
        status_of=lambda error: kind_of(error)[0],
    )
