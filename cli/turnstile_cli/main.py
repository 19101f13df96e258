"""The ``turnstile`` command. ``turnstile --help`` lists the commands and the exit codes."""

from __future__ import annotations

import typer

from turnstile_cli import commands_catalog, commands_clients, commands_operate, commands_stack, commands_tables
from turnstile_cli.codes import EPILOG
from turnstile_cli.commands_access import grants
from turnstile_cli.commands_find import find
from turnstile_cli.commands_past import catalog
from turnstile_cli.commands_refs import refs

app = typer.Typer(
    name="turnstile",
    help=(
        "Turnstile, a commit coordinator for Delta Lake: run the embedded stack, look at tables, operate them.\n\n"
        "TABLE is catalog.namespace.table, or namespace.table in catalog 'main'."
    ),
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

_COMMANDS = (
    ("Stack", (commands_stack.up, commands_stack.down, commands_stack.status, commands_stack.demo)),
    (
        "Tables",
        (
            commands_tables.tables,
            commands_tables.head,
            commands_tables.log,
            commands_catalog.namespaces,
            commands_catalog.describe,
            find,
            commands_catalog.import_,
            commands_catalog.export,
        ),
    ),
    ("Operation", (commands_operate.publish, commands_operate.repair, commands_operate.gc, commands_operate.outcome)),
)

for panel, members in _COMMANDS:
    for command in members:
        app.command(command.__name__.rstrip("_"), rich_help_panel=panel, epilog="Exit codes: see turnstile --help.")(
            command
        )

app.add_typer(commands_clients.clients, name="clients", rich_help_panel="Operation")
app.add_typer(grants, name="grants", rich_help_panel="Operation")
app.add_typer(catalog, name="catalog", rich_help_panel="Operation")
app.add_typer(refs, name="refs", rich_help_panel="Operation")


def main() -> None:
    """Entry point of the ``turnstile`` script."""
    app()


if __name__ == "__main__":
    main()
