"""Commands on clients: services that get access tokens for an id and a secret. For administrators."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.codes import EPILOG
from turnstile_cli.options import Format
from turnstile_cli.service import talking

PATH: Final = "/v1/clients"

_LOST_CREATE: Final = "look with 'turnstile clients list'; if the client is there, nobody was told its secret: delete it, and create it again"
_LOST_ROTATE: Final = (
    "the present secret may have ended: rotate again without waiting, and give the service the secret that is told then"
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="What people call it; grants name its id.")]
Id = Annotated[str, typer.Argument(metavar="CLIENT", help="Id of the client, client-...")]
Role = Annotated[list[str] | None, typer.Option("--role", help="A role it is in; may be given several times.")]
Admin = Annotated[bool, typer.Option("--admin", help="It may do everything.")]
Keep = Annotated[int, typer.Option("--keep-seconds", min=0, help="How long the present secret still counts.")]

clients = typer.Typer(
    help="Register services that get access tokens (OAuth 2.0 client credentials), and manage their secrets.",
    no_args_is_help=True,
    epilog=EPILOG,
    rich_markup_mode="markdown",
)


@clients.command("create")
@talking
def create(api: Api, *, name: Name, role: Role = None, admin: Admin = False, output: Format) -> None:
    """Register a client. Its secret is shown now and never again."""
    asked = {"name": name, "roles": role or [], "admin": admin}
    _show(api.post(PATH, asked, unanswered=_LOST_CREATE), output, api)


@clients.command("list")
@talking
def list_(api: Api, *, output: Format) -> None:
    """List the clients."""
    told = api.get(PATH)
    if output is Format.JSON:
        out.emit_json(told)
        return
    rows = (
        (c["client_id"], c["name"], ", ".join(c["roles"]), "yes" if c["admin"] else "", out.when(c["created"]))
        for c in told["clients"]
    )
    out.table("", ("client", "name", "roles", "admin", "created"), rows, empty="no clients")


@clients.command("rotate")
@talking
def rotate(api: Api, *, client: Id, keep_seconds: Keep = 0, output: Format) -> None:
    """Give a client another secret. The present one stops counting at once unless --keep-seconds says otherwise."""
    asked = {"keep_seconds": keep_seconds}
    _show(api.post(f"{_path(client)}/rotate", asked, unanswered=_LOST_ROTATE), output, api)


@clients.command("delete")
@talking
def delete(api: Api, *, client: Id, output: Format) -> None:
    """Forget a client. Access tokens that it has are good until they end."""
    api.delete(_path(client))
    if output is Format.JSON:
        out.emit_json({"client_id": client, "deleted": True})
    else:
        out.say(f"{escape(client)} is deleted")


def _path(client: str) -> str:
    return f"{PATH}/{quote(client, safe='')}"


def _show(told: dict[str, Any], output: Format, api: Api) -> None:
    if output is Format.JSON:
        out.emit_json(told)
        return
    out.say(f"[bold]client id[/bold]      {escape(told['client_id'])}")
    out.say(f"[bold]client secret[/bold]  {escape(told['client_secret'])}")
    out.say(f"[bold]token url[/bold]      {escape(api.url)}/oauth/token")
    out.say("The secret is not shown again.")
