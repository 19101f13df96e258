"""Commands that define the entities of a catalog: catalogs, create, rename, drop, schema."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import command_group, with_api
from turnstile_cli.errors import CliError, Exit, usage
from turnstile_cli.names import MOMENT_WORDS, NamespaceName, Table, TableName, moment_body, namespaces_path
from turnstile_cli.output import Format

CatalogName = Annotated[str, typer.Argument(metavar="CATALOG", help="Name of the new catalog.")]
Namespace = Annotated[
    str,
    typer.Argument(
        metavar="NAMESPACE", help="catalog.namespace, with as many levels as it has; one name alone is in 'main'."
    ),
]
NewTable = Annotated[
    str, typer.Argument(metavar="TO", help="A table's name in the same namespace, or a full name in the same catalog.")
]
NewNamespace = Annotated[
    str,
    typer.Argument(metavar="TO", help="A name on the same level, or a full name in the same catalog to move it there."),
]
Comment = Annotated[str | None, typer.Option("--comment", help="A comment.")]
Property = Annotated[
    list[str] | None, typer.Option("--property", help="KEY=VALUE; may be given several times.", metavar="KEY=VALUE")
]
IfNotExists = Annotated[bool, typer.Option("--if-not-exists", help="It is no error when it is there.")]
IfExists = Annotated[bool, typer.Option("--if-exists", help="It is no error when it is not there.")]
Cascade = Annotated[bool, typer.Option("--cascade", help="Drop its tables and namespaces as well, in one change.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

create = command_group("Create a catalog or a namespace. Tables are created by engines: CREATE TABLE in Spark.")
rename = command_group("Give a table or a namespace another name, in one change. Readers and writers go on by its id.")
_SQL_NAMES: Final = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
"""Delta's names of types that SQL names otherwise."""

drop = command_group("Drop a table or a namespace. Files of tables are purged after the grace period.")


@with_api
def catalogs(api: Api, *, output: Format) -> None:
    """List the catalogs."""
    response = api.get("/v1/catalogs")
    if output is Format.JSON:
        out.emit_json(response)
        return
    rows = ((row["name"], out.when(row["created"])) for row in response["catalogs"])
    out.table("", ("catalog", "created"), rows, empty="no catalogs that you may see")


@with_api
def schema(api: Api, *, table: Table, output: Format) -> None:
    """Show the columns of a Delta table: name, type, whether it may be null, comment; nested fields
    below their column."""
    name = TableName.parse(table)
    loaded = name.load(api)
    metadata = loaded["metadata"]
    fields = metadata["schema"]["fields"]
    partitions = metadata["partition_columns"]
    if output is Format.JSON:
        out.emit_json(
            {"name": str(name), "latest": loaded["latest"], "fields": fields, "partition_columns": partitions}
        )
        return
    rows = ((*row, "partition" if row[0] in partitions else None) for field in fields for row in _rows_of_field(field))
    title = f"{name}, version {loaded['latest']}"
    out.table(title, ("column", "type", "null", "comment", ""), rows, empty="no columns")


@create.command("catalog")
@with_api
def create_catalog(api: Api, *, catalog: CatalogName, if_not_exists: IfNotExists = False, output: Format) -> None:
    """Create a catalog: a tree of namespaces with a history of its own."""
    _create(api, "/v1/catalogs", {"name": catalog}, catalog, output, if_not_exists=if_not_exists)


@create.command("namespace")
@with_api
def create_namespace(
    api: Api,
    *,
    namespace: Namespace,
    comment: Comment = None,
    property: Property = None,
    if_not_exists: IfNotExists = False,
    output: Format,
) -> None:
    """Create a namespace."""
    name = NamespaceName.parse(namespace)
    body = {"name": name.namespace, "comment": comment, "properties": dict(_pairs(property or []))}
    _create(api, namespaces_path(name.catalog), body, str(name), output, if_not_exists=if_not_exists)


@rename.command("table")
@with_api
def rename_table(api: Api, *, table: Table, to: NewTable, output: Format) -> None:
    """Rename a table, or move it to another namespace of its catalog."""
    name = TableName.parse(table)
    target = TableName.parse(to if "." in to else f"{name.catalog}.{name.namespace}.{to}")
    if target.catalog != name.catalog:
        raise usage(f"{name} cannot be moved to another catalog", f"name one in {name.catalog}")
    body = {"name": target.table, "namespace": target.namespace}
    _rename(api.change("POST", f"{name.path}/rename", body), name, target, output)


@rename.command("namespace")
@with_api
def rename_namespace(api: Api, *, namespace: Namespace, to: NewNamespace, output: Format) -> None:
    """Rename a namespace with everything in it, or move it below another one of its catalog."""
    name = NamespaceName.parse(namespace)
    target = NamespaceName.parse(to if "." in to else str(name).removesuffix(name.name) + to)
    if target.catalog != name.catalog:
        raise usage(f"{name} cannot be moved to another catalog", f"name one in {name.catalog}")
    body = {"name": target.name, "namespace": target.parent}
    _rename(api.change("POST", f"{name.path}/rename", body), name, target, output)


@drop.command("table")
@with_api
def drop_table(api: Api, *, table: Table, if_exists: IfExists = False, yes: Yes = False, output: Format) -> None:
    """Drop a table. Until its files are purged, 'turnstile undrop' brings it back."""
    name = TableName.parse(table)
    _confirm(f"Drop the table {name}?", yes=yes, output=output)
    _drop(api, name.path, str(name), output, missing="NoSuchTable" if if_exists else None)


UndropTo = Annotated[
    str | None, typer.Option("--to", help="Another name in the same namespace, or a full name in the same catalog.")
]
UndropAt = Annotated[
    str | None,
    typer.Option("--at", help=f"When it was there, if many changes followed: {MOMENT_WORDS}."),
]


@with_api
def undrop(api: Api, *, table: Table, to: UndropTo = None, at: UndropAt = None, output: Format) -> None:
    """Bring back the table or view that was dropped last under this name, in one change. Its rights
    come back with it.

    It is possible until gc has begun to remove its files. 'turnstile catalog log' shows the drops.
    """
    name = TableName.parse(table)
    target = name if to is None else TableName.parse(to if "." in to else f"{name.catalog}.{name.namespace}.{to}")
    if target.catalog != name.catalog:
        raise usage(f"{name} cannot come back in another catalog", f"name one in {name.catalog}")
    body: dict[str, Any] = {} if to is None else {"name": target.table, "namespace": target.namespace}
    response = api.change("POST", f"{name.path}/undrop", {**body, **({"at": moment_body(at)} if at else {})})
    if output is Format.JSON:
        out.emit_json(response)
    else:
        out.say(f"{escape(response['name'])} is there again, {response['kind']} {response['id']}")


@drop.command("namespace")
@with_api
def drop_namespace(
    api: Api,
    *,
    namespace: Namespace,
    cascade: Cascade = False,
    if_exists: IfExists = False,
    yes: Yes = False,
    output: Format,
) -> None:
    """Drop a namespace that is empty, or with --cascade everything in it as well."""
    name = NamespaceName.parse(namespace)
    _confirm(f"Drop the namespace {name}{' and everything in it' if cascade else ''}?", yes=yes, output=output)
    path = f"{name.path}?cascade=true" if cascade else name.path
    _drop(api, path, str(name), output, missing="NoSuchNamespace" if if_exists else None)


def _create(api: Api, path: str, body: dict[str, Any], name: str, output: Format, *, if_not_exists: bool) -> None:
    try:
        response = {**api.change("POST", path, body), "created_now": True}
    except CliError as error:
        if not (if_not_exists and error.type == "AlreadyExists"):
            raise
        response = {"name": name, "created_now": False}
    if output is Format.JSON:
        out.emit_json(response)
    else:
        out.say(f"created {escape(name)}" if response["created_now"] else f"{escape(name)} is there already")


def _rename(
    response: dict[str, Any], name: TableName | NamespaceName, target: TableName | NamespaceName, output: Format
) -> None:
    if output is Format.JSON:
        out.emit_json(response)
    else:
        out.say(f"{escape(str(name))} is {escape(str(target))} now")


def _drop(api: Api, path: str, name: str, output: Format, *, missing: str | None) -> None:
    """Drops the entity at ``path``; an error of type ``missing`` says that there was nothing to
    drop."""
    try:
        api.change("DELETE", path)
        dropped = True
    except CliError as error:
        if error.type != missing:
            raise
        dropped = False
    if output is Format.JSON:
        out.emit_json({"name": name, "dropped": dropped})
    else:
        out.say(f"dropped {escape(name)}" if dropped else f"there was no {escape(name)}")


def _confirm(question: str, *, yes: bool, output: Format) -> None:
    """Asks a person at a terminal; programs are not asked."""
    if not yes and output is Format.TEXT and is_terminal() and not typer.confirm(question):
        raise CliError(Exit.REFUSED, "nothing was dropped", type="NotConfirmed")


def is_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty()


def _pairs(properties: list[str]) -> Iterator[tuple[str, str]]:
    for text in properties:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise usage(f"--property {text} is no KEY=VALUE", "write it like --property owner=sales")
        yield key, value


def _rows_of_field(field: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str, str, str | None]]:
    """A row for the field (name, type, null, comment), then rows for the fields of its struct, with
    its name before theirs."""
    name = f"{prefix}{field['name']}"
    type = field["type"]
    yield name, _type_text(type), "" if field["nullable"] else "not null", field.get("metadata", {}).get("comment")
    if isinstance(type, dict) and type["type"] == "struct":
        for nested in type["fields"]:
            yield from _rows_of_field(nested, f"{name}.")


def _type_text(type: str | dict[str, Any]) -> str:
    """A type of a Delta schema as SQL writes it."""
    if isinstance(type, str):
        return _SQL_NAMES.get(type, type)
    match type["type"]:
        case "struct":
            return "struct"
        case "array":
            return f"array<{_element_text(type['elementType'])}>"
        case "map":
            return f"map<{_element_text(type['keyType'])}, {_element_text(type['valueType'])}>"
        case _:
            return str(type["type"])


def _element_text(type: str | dict[str, Any]) -> str:
    """A type inside an array or a map; structs there are written whole."""
    if isinstance(type, dict) and type["type"] == "struct":
        fields = ", ".join(f"{field['name']}: {_element_text(field['type'])}" for field in type["fields"])
        return f"struct<{fields}>"
    return _type_text(type)
