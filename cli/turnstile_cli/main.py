"""The ``turnstile`` command. ``turnstile --help`` lists the commands and the exit codes."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from turnstile_cli.errors import EPILOG
from turnstile_release import version

COMMANDS: Final = {
    "Server": {
        "up": "server.up", "down": "server.down", "status": "server.status", "top": "top.top",
        "doctor": "doctor.doctor", "fleet": "fleet.fleet", "serve": "server.serve", "work": "server.work",
        "backup": "store.backup",
        "restore": "store.restore", "relocate": "store.relocate", "open": "store.open_", "demo": "server.demo",
    },
    "Tables": {
        "tables": "tables.tables", "head": "tables.head", "log": "tables.log", "catalogs": "definitions.catalogs",
        "namespaces": "catalog.namespaces", "describe": "catalog.describe", "schema": "definitions.schema",
        "undrop": "definitions.undrop", "find": "catalog.find", "import": "transfers.import_",
        "export": "transfers.export", "plan": "plans.plan", "detail": "plans.detail", "sample": "plans.sample",
        "ingest": "ingest.ingest",
    },
    "Operation": {
        "publish": "upkeep.operations.publish", "repair": "upkeep.operations.repair",
        "verify": "upkeep.verification.verify", "gc": "upkeep.operations.gc", "outcome": "upkeep.operations.outcome",
        "events": "events.events", "cost": "cost.cost", "mcp": "agents.mcp",
    },
}  # fmt: skip
"""The commands by panel of the help, each with its module and function in ``commands``."""
GROUPS: Final = {
    "Tables": {"create": "definitions.create", "rename": "definitions.rename", "drop": "definitions.drop"},
    "Operation": {
        "clients": "access.clients", "grants": "access.grants", "catalog": "catalog.catalog",
        "branch": "branches.branch", "refs": "refs.refs",
        "maintain": "upkeep.maintain.maintain", "pins": "upkeep.pins.pins", "transactions": "transactions.transactions",
    },
}  # fmt: skip
"""The same of the groups of commands."""


def _print_version(print_it: bool) -> None:
    if print_it:
        typer.echo(f"turnstile {version()}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_print_version)
]


def options(*, print_version: Version = False) -> None:
    """Turnstile, a commit coordinator for Delta Lake: run a server, look at tables, operate them.

    TABLE is catalog.namespace.table, or namespace.table in catalog 'main'.
    """


def program(only: str = "") -> typer.Typer:
    """Returns the command line. With the name of a command in ``only`` it has that command alone,
    and no module of another is imported; an unknown name is ignored."""
    app = typer.Typer(
        name="turnstile",
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
    )
    app.callback()(options)
    known = {name for panels in (COMMANDS, GROUPS) for members in panels.values() for name in members}
    wanted = {only} & known or known
    for panel, commands in COMMANDS.items():
        for name, place in commands.items():
            if name in wanted:
                register = app.command(name, rich_help_panel=panel, epilog="Exit codes: see turnstile --help.")
                register(_load(place))
    for panel, groups in GROUPS.items():
        for name, place in groups.items():
            if name in wanted:
                app.add_typer(_load(place), name=name, rich_help_panel=panel)
    return app


def _load(place: str) -> Any:
    module, _, name = place.rpartition(".")
    return getattr(import_module(f"turnstile_cli.commands.{module}"), name)


def widen_help() -> None:
    """Makes room for names of variables in help, which is cut otherwise: at 80 columns a column is
    24 wide, of which a range takes three and "env var: " more. Call it before help is shown."""
    from typer import rich_utils  # imports rich, which few commands need

    rich_utils.RANGE_STRING = ""
    rich_utils.ENVVAR_STRING = "${}"


def main() -> None:
    """Entry point of the ``turnstile`` script."""
    words = sys.argv[1:]
    command = next((word for word in words if not word.startswith("-")), "")
    is_group = not any(command in commands for commands in COMMANDS.values())
    if "--help" in words or is_group:  # a group shows its help when it is called alone
        widen_help()
    program(command)()


if __name__ == "__main__":
    main()
