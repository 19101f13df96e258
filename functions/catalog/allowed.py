"""Who may call what of the catalog: the declarations that views carry, and what requests are about (I12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import wiring

from turnstile.access.authorizer import METASTORE, Target
from turnstile.access.core.rules import Rule, write_files
from turnstile.api.http.request import Query, body, current
from turnstile.api.http.rights import Rights
from turnstile.api.unity import legacy, naming
from turnstile.catalog.core.paths import Path, key_of
from turnstile.store.core.names import check_identifier, check_namespace, check_uuid

rights = Rights(lambda: wiring.opened().judges)

Params = Mapping[str, Any]


class _Named(msgspec.Struct, frozen=True):
    """Members of older bodies that say what the request is about; whatever else there is, the view judges."""

    name: str = ""
    catalog_name: str = ""
    schema_name: str = ""


class _Typed(msgspec.Struct, frozen=True):
    """What sort of table is to be created, in the spellings of both APIs: whichever the view reads."""

    table_type: str = ""
    kebab: str = msgspec.field(default="", name="table-type")


class _Moved(msgspec.Struct, frozen=True):
    """Where a rename goes, and what it calls things."""

    name: str = ""
    namespace: str | None = None


def metastore(_params: Params) -> Target:
    """The realm itself."""
    return METASTORE


# -- /v1 ------------------------------------------------------------------------------------------------------------


def catalog(params: Params) -> Target:
    """``/v1/catalogs/{catalog}``."""
    return Target(check_identifier(params["catalog"], "catalog"))


def namespace(params: Params) -> Target:
    """``.../namespaces/{namespace}``."""
    return Target(check_identifier(params["catalog"], "catalog"), check_namespace(params["namespace"]))


def parent(params: Params) -> Target:
    """The namespace whose children are listed; the catalog when none is named."""
    asked = Query(*current().query).text("parent")
    return Target(check_identifier(params["catalog"], "catalog"), check_namespace(asked, "parent") if asked else ())


def new_namespace(params: Params) -> Target:
    """The namespace to create."""
    return Target(check_identifier(params["catalog"], "catalog"), check_namespace(body(_Named).name, "name"))


def table(params: Params) -> Target:
    """``.../tables/{table}``."""
    return msgspec.structs.replace(namespace(params), table=check_identifier(params["table"], "table"))


def moved(params: Params) -> Target:
    """The namespace that a rename leads to."""
    to = body(_Moved).namespace
    return namespace(params if to is None else {**params, "namespace": to})


def moved_namespace(params: Params) -> Target | None:
    """The namespace that a rename makes of another; a change of case alone makes none."""
    asked, source = body(_Moved), namespace(params)
    parent = source.namespace[:-1] if asked.namespace is None else parent_of(asked.namespace)
    return _made(source, (*parent, check_identifier(asked.name, "name")))


def parent_of(name: str) -> Path:
    """The namespace that something moves to; empty: the catalog's top."""
    return check_namespace(name) if name else ()


def _made(source: Target, path: Path) -> Target | None:
    same = key_of(path) == key_of(source.namespace)
    return None if same else msgspec.structs.replace(source, namespace=path)


def metastore_if_external(_params: Params) -> Target | None:
    """The metastore, whose files they are, for the registration of a table that is not coordinated."""
    asked = body(_Typed)
    return METASTORE if "EXTERNAL" in (asked.table_type, asked.kebab) else None


def uuid(params: Params) -> str:
    """``/v1/tables/{table_id}``."""
    return check_uuid(params["table_id"])


# -- Unity Catalog ----------------------------------------------------------------------------------------------------


def unity_schema(params: Params) -> Target:
    """``.../catalogs/{catalog}/schemas/{schema}``."""
    return Target(*naming.find_schema(params["catalog"], params["schema"]))


def unity_table(params: Params) -> Target:
    """``.../schemas/{schema}/tables/{table}``."""
    return Target(*naming.find_table(params["catalog"], params["schema"], params["table"]))


def unity_table_to_write(params: Params) -> Target | None:
    """The table, unless keys are asked for that only read."""
    return None if Query(*current().query).text("operation") == "READ" else unity_table(params)


def uuid_of_body(_params: Params) -> str:
    """``table_id`` of a request for keys."""
    return check_uuid(body(legacy.TableKeys).table_id)


def to_write() -> tuple[Rule, ...]:
    """What keys need beyond reading, unless they are asked for that only read."""
    return () if body(legacy.TableKeys).operation == "READ" else (write_files,)


def named_catalog(params: Params) -> Target:
    """``/catalogs/{name}``."""
    return Target(naming.find_catalog(params["name"]))


def named_schema(params: Params) -> Target:
    """``/schemas/{full_name}``."""
    return Target(*naming.find_schema(*naming.split_schema(params["full_name"])))


def renamed_schema(params: Params) -> Target | None:
    """The schema that ``new_name`` makes of another, if the request has one."""
    asked = body(legacy.ChangedSchema).new_name
    return None if asked is None else _made(named_schema(params), check_namespace(asked, "new_name"))


def named_table(params: Params) -> Target:
    """``/tables/{full_name}``."""
    return Target(*naming.find_table(*naming.split_table(params["full_name"])))


def catalog_of_query(_params: Params) -> Target:
    """The catalog whose schemas are listed; that it is missing from the query, the view says."""
    return Target(naming.find_catalog(Query(*current().query).text("catalog_name") or ""))


def schema_of_query(_params: Params) -> Target:
    """The schema whose tables are listed."""
    query = Query(*current().query)
    return Target(*naming.find_schema(query.text("catalog_name") or "", query.text("schema_name") or ""))


def new_schema(_params: Params) -> Target:
    """The schema to create."""
    asked = body(_Named)
    return Target(naming.find_catalog(asked.catalog_name), (check_identifier(asked.name, "name"),))


def schema_of_body(_params: Params) -> Target:
    """The schema in which something is created."""
    asked = body(_Named)
    return Target(*naming.find_schema(asked.catalog_name, asked.schema_name))
