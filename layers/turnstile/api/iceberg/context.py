"""What the views of the Iceberg API share: bodies, prefixes, and the operations of one request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from turnstile.access.authorizer import METASTORE, Guard, Need, Target
from turnstile.access.core.rules import create_external
from turnstile.api.http import idempotency
from turnstile.api.http.authorization import Params, guard
from turnstile.api.http.request import BodyLimit, current, decode, idempotency_key
from turnstile.api.iceberg import requests
from turnstile.api.iceberg.errors import PREFIX, ReadOnly, kind_of
from turnstile.api.iceberg.requests import MAX_BODY, without_null_members
from turnstile.api.services import services
from turnstile.catalog.commit import Committer
from turnstile.iceberg.context import Context

T = TypeVar("T")

ROOT: Final = PREFIX + "/v1"
NAMESPACES: Final = ROOT + "/{prefix}/namespaces"
NAMESPACE: Final = NAMESPACES + "/{namespace}"

BODIES: Final = BodyLimit(MAX_BODY, "put less into one request: fewer tables, or fewer snapshots and statistics of one")
"""As much as gets here at all: one commit may write a whole metadata file, and there is no other way to send it."""


def body(shape: type[T]) -> T:
    """Returns the current request's body as ``shape``; null counts as absent. Raises InvalidRequest."""
    return current().parsed(shape, _decode)


def _decode(raw: bytes, shape: type[T]) -> T:
    return decode(without_null_members(raw), shape)


def page_token() -> str | None:
    """Returns the page that is asked for. None: no pages are wanted; empty: the first."""
    tokens = current().query.get("pageToken")
    return tokens[0] if tokens else None


def catalog_of(prefix: str) -> str:
    """Returns the catalog that a prefix names, as of whatever moment: rights are those of now. Raises InvalidRequest."""
    return requests.warehouse(prefix, "prefix")[0]


def is_past(prefix: str) -> bool:
    """Returns whether a prefix names a moment of the past."""
    return requests.warehouse(prefix, "prefix")[1] is not None


def namespace_of_path(params: Params) -> Target:
    """Returns the namespace of ``NAMESPACE``."""
    return Target(catalog_of(params["prefix"]), requests.namespace(params["namespace"]))


def context_of(guard: Guard) -> Context:
    """Returns one request's operations; whatever they look at is authorized by ``guard`` first."""
    here = services()
    catalog = here.catalog_for(guard)
    return Context(catalog, catalog.committer, here.metadata_files, guard.principal, _require_create_external)


def reading(prefix: str) -> Context:
    """Returns the operations of a request that reads what its prefix names: a catalog, or its past."""
    return replace(context_of(guard()), as_of=requests.warehouse(prefix, "prefix")[1])


def _require_create_external() -> None:
    """Raises PermissionDenied unless the principal may register tables where files belong to no catalog."""
    services().guard_of(Need(create_external, METASTORE)).authorize_now()


def once(prefix: str, operation: Callable[[Context], T], again: Callable[[Context], T], by: Guard | None = None) -> T:
    """Returns what a request answers that changes a catalog: with an Idempotency-Key, of one run however often it is sent.

    Args:
        operation: what the request does.
        again: what is answered when it was done before.
        by: the guard of a request whose needs only its body says; else the one that its view declares.

    Raises:
        InvalidRequest: a key that is no uuid.
        ReadOnly: the prefix names a moment of the past.
    """
    if is_past(prefix):
        raise ReadOnly(
            "the past of a catalog cannot be changed", field="prefix", remedy="change the catalog without '@'"
        )
    authorizer = by or guard()
    context, key = context_of(authorizer), idempotency_key()
    if key is None:
        return operation(context)

    def first(committer: Committer) -> T:
        authorizer.authorize_now()
        return operation(replace(context, committer=committer))

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
