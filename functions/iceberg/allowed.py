"""Who may call what of the Iceberg API: the declarations that views carry, and what requests are about (I12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import wiring
from asked import body

from turnstile.access.authorizer import Need, Target
from turnstile.access.core.rules import create_table, modify_table
from turnstile.api.http.authorization import Rights
from turnstile.api.http.request import Query, current
from turnstile.api.iceberg import naming, requests
from turnstile.iceberg.commits import TableChange
from turnstile.iceberg.core.requirements import creates

rights = Rights(lambda: wiring.opened().authorizers)

Params = Mapping[str, Any]


class _Named(msgspec.Struct, frozen=True):
    """The namespace that a request creates; whatever else its body holds, the view judges."""

    namespace: tuple[str, ...] = ()


def catalog(prefix: str) -> str:
    """The catalog that a prefix names, as of whatever moment: rights are those of now. Raises InvalidRequest."""
    return naming.warehouse(prefix, "prefix")[0]


def past(prefix: str) -> bool:
    """Whether a prefix names a moment of the past."""
    return naming.warehouse(prefix, "prefix")[1] is not None


def warehouse(_params: Params) -> Target | None:
    """The catalog that a client asks its configuration for; that none is named, the view says."""
    named = Query(*current().query).text("warehouse")
    return None if named is None else Target(naming.warehouse(named)[0])


def namespace(params: Params) -> Target:
    """``/{prefix}/namespaces/{namespace}``."""
    return Target(catalog(params["prefix"]), naming.namespace(params["namespace"]))


def parent(params: Params) -> Target:
    """The namespace whose children are listed; the catalog when none is named."""
    asked = Query(*current().query).text("parent")
    return Target(catalog(params["prefix"]), naming.namespace(asked) if asked else ())


def new_namespace(params: Params) -> Target:
    """The namespace to create."""
    return Target(catalog(params["prefix"]), naming.levels(body(_Named).namespace))


def table(params: Params) -> Target:
    """``.../tables/{table}``."""
    return msgspec.structs.replace(namespace(params), table=naming.name(params["table"], "table"))


def view(params: Params) -> Target:
    """``.../views/{view}``."""
    return msgspec.structs.replace(namespace(params), table=naming.name(params["view"], "view"))


def renamed(params: Params) -> Target:
    """What a rename is about."""
    source = body(requests.Rename).source
    return Target(catalog(params["prefix"]), naming.levels(source.namespace), naming.name(source.name, "source"))


def moved(params: Params) -> Target:
    """The namespace that a rename leads to."""
    return Target(catalog(params["prefix"]), naming.levels(body(requests.Rename).destination.namespace))


def committed(params: Params) -> Target | None:
    """The table that a commit changes."""
    return None if creates(body(requests.CommitTable).requirements) else table(params)


def created(params: Params) -> Target | None:
    """The namespace in which a commit creates its table."""
    return namespace(params) if creates(body(requests.CommitTable).requirements) else None


def need_of(prefix: str, change: TableChange) -> Need:
    """What one change of a transaction needs."""
    if creates(change.requirements):
        return Need(create_table, Target(prefix, change.path[:-1]))
    return Need(modify_table, Target(prefix, change.path[:-1], change.path[-1]))
