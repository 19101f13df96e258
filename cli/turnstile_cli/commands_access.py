"""Commands on rights: who owns what, and what was granted to whom."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.codes import EPILOG
from turnstile_cli.names import TableName
from turnstile_cli.options import Format
from turnstile_cli.service import talking


class Securable(StrEnum):
    """What has an owner and grants."""

    METASTORE = "metastore"
    CATALOG = "catalog"
    SCHEMA = "schema"
    TABLE = "table"
    REF = "ref"


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Table as elsewhere; catalog.namespace or catalog with --on; metastore for the metastore; a reference's name.",
    ),
]
Principal = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="A user, a client or a role.")]
Owner = Annotated[
    str, typer.Argument(metavar="OWNER", help="A user, a client or a role; '' leaves it to administrators.")
]
Privileges = Annotated[list[str], typer.Argument(metavar="PRIVILEGE...", help='SELECT, MODIFY, "USE CATALOG", ...')]
On = Annotated[Securable, typer.Option("--on", help="What NAME names.")]

grants = typer.Typer(
    help="Show and change who may do what. docs/access-control.md lists the privileges.",
    no_args_is_help=True,
    epilog=EPILOG,
    rich_markup_mode="markdown",
)


@grants.command("show")
@talking
def show(api: Api, *, name: Name, on: On = Securable.TABLE, output: Format) -> None:
    """Show owner and grants: all to those who may change them, to others their own."""
    _tell(name, api.get(_path(on, name)), output)


@grants.command("grant")
@talking
def grant(
    api: Api, *, name: Name, principal: Principal, privileges: Privileges, on: On = Securable.TABLE, output: Format
) -> None:
    """Grant privileges; what was granted already stays."""
    change = {"principal": principal, "add": _known(privileges)}
    _tell(name, api.patch(_path(on, name), {"changes": [change]}), output)


@grants.command("revoke")
@talking
def revoke(
    api: Api, *, name: Name, principal: Principal, privileges: Privileges, on: On = Securable.TABLE, output: Format
) -> None:
    """Take privileges away. A commit by table id may still use them for five seconds; keys live until they end."""
    change = {"principal": principal, "remove": _known(privileges)}
    _tell(name, api.patch(_path(on, name), {"changes": [change]}), output)


@grants.command("owner")
@talking
def owner(api: Api, *, name: Name, owner: Owner, on: On = Securable.TABLE, output: Format) -> None:
    """Hand something over to another owner."""
    _tell(name, api.patch(_path(on, name), {"owner": owner}), output)


def _path(on: Securable, name: str) -> str:
    full = str(TableName.parse(name)) if on is Securable.TABLE else name
    return f"/v1/permissions/{on.value}/{quote(full, safe='')}"


def _known(privileges: list[str]) -> list[str]:
    """As the service writes them: in capitals, and with spaces where a shell would rather have underscores."""
    return [privilege.upper().replace("_", " ") for privilege in privileges]


def _tell(name: str, told: dict[str, Any], output: Format) -> None:
    if output is Format.JSON:
        out.emit_json(told)
        return
    out.say(f"owner: {escape(told['owner']) if told['owner'] else 'administrators only'}")
    rows = ((one["principal"], ", ".join(one["privileges"])) for one in told["grants"])
    out.table("", ("principal", "privileges"), rows, empty=f"no grants on {escape(name)}")
