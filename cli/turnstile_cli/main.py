"""The ``turnstile`` command. ``turnstile --help`` lists the commands and the exit codes."""

from __future__ import annotations

import typer

from turnstile_cli.commands import (
    access,
    catalog,
    events,
    maintain,
    operations,
    pins,
    plans,
    refs,
    server,
    tables,
    transactions,
)
from turnstile_cli.errors import EPILOG

app = typer.Typer(
    name="turnstile",
    help=(
        "Turnstile, a commit coordinator for Delta Lake: run a server, look at tables, operate them.\n\n"
        "TABLE is catalog.namespace.table, or namespace.table in catalog 'main'."
    ),
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

_COMMANDS = (
    ("Server", (server.up, server.down, server.status, server.serve, server.demo)),
    ("Tables", (tables.tables, tables.head, tables.log, catalog.namespaces, catalog.describe, catalog.find, catalog.import_,
                catalog.export, plans.plan)),
    ("Operation", (operations.publish, operations.repair, operations.gc, operations.outcome, events.events)),
)  # fmt: skip
_GROUPS = (("clients", access.clients), ("grants", access.grants), ("catalog", catalog.catalog), ("refs", refs.refs),
           ("maintain", maintain.maintain), ("pins", pins.pins),
           ("transactions", transactions.transactions))  # fmt: skip

for panel, members in _COMMANDS:
    for command in members:
        app.command(command.__name__.rstrip("_"), rich_help_panel=panel, epilog="Exit codes: see turnstile --help.")(
            command
        )

for name, group in _GROUPS:
    app.add_typer(group, name=name, rich_help_panel="Operation")


def main() -> None:
    """Entry point of the ``turnstile`` script."""
    app()


if __name__ == "__main__":
    main()
