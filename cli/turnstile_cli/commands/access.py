"""Commands on rights, ``grants``, and on services that authenticate with an id and a secret,
``clients``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import command_group, with_api
from turnstile_cli.names import TableName
from turnstile_cli.output import Format


class Securable(StrEnum):
    """The kinds of entities with an owner and grants."""

    METASTORE = "metastore"
    CATALOG = "catalog"
    SCHEMA = "schema"
    TABLE = "table"
    REF = "ref"


SecurableName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Table as elsewhere; catalog.namespace or catalog with --on; metastore for the metastore; a reference's "
        "name.",
    ),
]
Principal = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="A user, a client or a role.")]
Owner = Annotated[
    str, typer.Argument(metavar="OWNER", help="A user, a client or a role; '' leaves it to administrators.")
]
Privileges = Annotated[
    list[str], typer.Argument(metavar="PRIVILEGE...", help='SELECT, MODIFY, PROMOTE, "USE CATALOG", ...')
]
On = Annotated[Securable, typer.Option("--on", help="The kind of NAME.")]

grants = command_group("Show and change rights. docs/access-control.md lists the privileges.")


@grants.command("show")
@with_api
def show(api: Api, *, name: SecurableName, on: On = Securable.TABLE, output: Format) -> None:
    """Show owner and grants: all of them to principals that may change them, to others their
    own."""
    _show_grants(name, api.get(_permissions_path(on, name)), output)


@grants.command("grant")
@with_api
def grant(
    api: Api,
    *,
    name: SecurableName,
    principal: Principal,
    privileges: Privileges,
    on: On = Securable.TABLE,
    output: Format,
) -> None:
    """Grant privileges; existing grants stay."""
    change = {"principal": principal, "add": _privilege_names(privileges)}
    _show_grants(name, api.patch(_permissions_path(on, name), {"changes": [change]}), output)


@grants.command("revoke")
@with_api
def revoke(
    api: Api,
    *,
    name: SecurableName,
    principal: Principal,
    privileges: Privileges,
    on: On = Securable.TABLE,
    output: Format,
) -> None:
    """Take privileges away. A commit by table id may still use them for five seconds; keys live
    until they end."""
    change = {"principal": principal, "remove": _privilege_names(privileges)}
    _show_grants(name, api.patch(_permissions_path(on, name), {"changes": [change]}), output)


@grants.command("owner")
@with_api
def owner(api: Api, *, name: SecurableName, owner: Owner, on: On = Securable.TABLE, output: Format) -> None:
    """Hand something over to another owner."""
    _show_grants(name, api.patch(_permissions_path(on, name), {"owner": owner}), output)


def _permissions_path(on: Securable, name: str) -> str:
    full = str(TableName.parse(name)) if on is Securable.TABLE else name
    return f"/v1/permissions/{on.value}/{quote(full, safe='')}"


def _privilege_names(privileges: list[str]) -> list[str]:
    """As the service writes them: in capitals, with spaces for the underscores that are easier to
    type in a shell."""
    return [privilege.upper().replace("_", " ") for privilege in privileges]


def _show_grants(name: str, response: dict[str, Any], output: Format) -> None:
    if output is Format.JSON:
        out.emit_json(response)
        return
    out.say(f"owner: {escape(response['owner']) if response['owner'] else 'administrators only'}")
    rows = ((entry["principal"], ", ".join(entry["privileges"])) for entry in response["grants"])
    out.table("", ("principal", "privileges"), rows, empty=f"no grants on {escape(name)}")


_CLIENTS_PATH: Final = "/v1/clients"

_LOST_CREATE: Final = (
    "look with 'turnstile clients list'; if the client is there, its secret was never shown: delete it, and create it "
    "again"
)
_LOST_ROTATE: Final = (
    "the present secret may have ended: rotate again without waiting, and give the service the secret that is told then"
)

ClientName = Annotated[str, typer.Argument(metavar="NAME", help="A name for people; grants name its id.")]
ClientId = Annotated[str, typer.Argument(metavar="CLIENT", help="Id of the client, client-...")]
Role = Annotated[list[str] | None, typer.Option("--role", help="A role it is in; may be given several times.")]
Admin = Annotated[bool, typer.Option("--admin", help="It may do everything.")]
Keep = Annotated[int, typer.Option("--keep-seconds", min=0, help="How long the present secret still counts.")]

clients = command_group(
    "Register services that get access tokens (OAuth 2.0 client credentials), and manage their secrets."
)


@clients.command("create")
@with_api
def create(api: Api, *, name: ClientName, role: Role = None, admin: Admin = False, output: Format) -> None:
    """Register a client. Its secret is shown now and never again."""
    body = {"name": name, "roles": role or [], "admin": admin}
    _show_secret(api.post(_CLIENTS_PATH, body, unanswered=_LOST_CREATE), output, api)


@clients.command("list")
@with_api
def list_(api: Api, *, output: Format) -> None:
    """List the clients."""
    response = api.get(_CLIENTS_PATH)
    if output is Format.JSON:
        out.emit_json(response)
        return
    rows = (
        (c["client_id"], c["name"], ", ".join(c["roles"]), "yes" if c["admin"] else "", out.when(c["created"]))
        for c in response["clients"]
    )
    out.table("", ("client", "name", "roles", "admin", "created"), rows, empty="no clients")
    out.say_unreadable(response.get("unreadable", ()))


@clients.command("rotate")
@with_api
def rotate(api: Api, *, client: ClientId, keep_seconds: Keep = 0, output: Format) -> None:
    """Give a client another secret. The present one stops counting at once unless --keep-seconds
    says otherwise."""
    body = {"keep_seconds": keep_seconds}
    _show_secret(api.post(f"{_client_path(client)}/rotate", body, unanswered=_LOST_ROTATE), output, api)


@clients.command("delete")
@with_api
def delete(api: Api, *, client: ClientId, output: Format) -> None:
    """Forget a client. Access tokens that it has are good until they end."""
    api.delete(_client_path(client))
    if output is Format.JSON:
        out.emit_json({"client_id": client, "deleted": True})
    else:
        out.say(f"{escape(client)} is deleted")


def _client_path(client: str) -> str:
    return f"{_CLIENTS_PATH}/{quote(client, safe='')}"


def _show_secret(response: dict[str, Any], output: Format, api: Api) -> None:
    if output is Format.JSON:
        out.emit_json(response)
        return
    out.say(f"[bold]client id[/bold]      {escape(response['client_id'])}")
    out.say(f"[bold]client secret[/bold]  {escape(response['client_secret'])}")
    out.say(f"[bold]token url[/bold]      {escape(api.url)}/oauth/token")
    out.say("The secret is not shown again.")
