"""Names as both APIs write them. A text that is no name is not found when it is looked up, and refused when it is created."""

from __future__ import annotations

from turnstile.catalog.core.paths import Path, dotted
from turnstile.delta.core.head import PINNED, TableHead
from turnstile.store.core.errors import InvalidRequest, NotFound, UnsupportedTable
from turnstile.store.core.names import check_identifier, check_namespace


def find_catalog(name: str) -> str:
    """The name of a catalog to look up; raises NotFound for a text that is no name."""
    try:
        return check_identifier(name, "catalog")
    except InvalidRequest:
        raise NotFound("catalog", name[:300], field="catalog") from None


def find_schema(catalog: str, schema: str) -> tuple[str, Path]:
    """The path of a schema to look up; several levels are written ``a.b``. Raises as ``find_catalog``."""
    catalog = find_catalog(catalog)
    try:
        return catalog, check_namespace(schema)
    except InvalidRequest:
        raise NotFound("namespace", dotted(catalog, schema)[:600], field="schema") from None


def find_table(catalog: str, schema: str, table: str) -> tuple[str, Path, str]:
    """The path of a table to look up; raises as ``find_catalog``."""
    catalog, namespace = find_schema(catalog, schema)
    try:
        return catalog, namespace, check_identifier(table, "table")
    except InvalidRequest:
        raise NotFound("table", dotted(catalog, schema, table)[:900], field="table") from None


def split_schema(full: str) -> tuple[str, str]:
    """``catalog.schema``; raises NotFound when one of them is missing."""
    catalog, _, schema = full.partition(".")
    if not (catalog and schema):
        raise NotFound("namespace", full[:600], field="full_name", remedy="write catalog.schema")
    return catalog, schema


def split_table(full: str) -> tuple[str, str, str]:
    """``catalog.schema.table``; raises NotFound when one of them is missing."""
    catalog, _, rest = full.partition(".")
    schema, _, table = rest.rpartition(".")
    if not (catalog and schema and table):
        raise NotFound("table", full[:900], field="full_name", remedy="write catalog.schema.table")
    return catalog, schema, table


def require_no_clone(head: TableHead) -> TableHead:
    """Returns ``head`` unless it is a clone's.

    Engines find a table's files by its folder and its uuid in its log. These APIs cannot say "this version and no later
    one": an engine would read the source as it is now, and commit to it; credentials for the folder would open all of it.

    Raises:
        UnsupportedTable: the table is a clone.
    """
    if head.state == PINNED:
        raise UnsupportedTable(
            f"'{head.name}' is a clone, pinned to version {head.latest} of another table",
            field="table",
            remedy=f"read version {head.latest} of its source, or attach the catalog with turnstile_spark, which reads clones",
            version=head.latest,
        )
    return head
