"""The ``turnstile`` command. ``turnstile --help`` lists the commands and the exit codes."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import rich_utils

from turnstile_cli.commands import (
    access,
    catalog,
    cost,
    definitions,
    doctor,
    events,
    fleet,
    maintain,
    operations,
    pins,
    plans,
    refs,
    server,
    store,
    tables,
    top,
    transactions,
    transfers,
    verification,
    work,
)
from turnstile_cli.errors import EPILOG
from turnstile_release import version

# At 80 columns a column of help is 24 wide, which cuts names of variables: a range takes three of
# them, "env var: " more.
rich_utils.RANGE_STRING = ""
rich_utils.ENVVAR_STRING = "${}"

app = typer.Typer(
    name="turnstile",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

_COMMANDS = (
    ("Server", (server.up, server.down, server.status, top.top, doctor.doctor, fleet.fleet, server.serve, work.work,
                store.backup, store.restore, store.relocate, store.open_, server.demo)),
    ("Tables", (tables.tables, tables.head, tables.log, definitions.catalogs, catalog.namespaces, catalog.describe,
                definitions.schema, definitions.undrop, catalog.find, transfers.import_, transfers.export, plans.plan, plans.detail)),
    ("Operation", (operations.publish, operations.repair, verification.verify, operations.gc, operations.outcome, events.events, cost.cost)),
)  # fmt: skip
_DEFINITIONS = (("create", definitions.create), ("rename", definitions.rename), ("drop", definitions.drop))
_GROUPS = (("clients", access.clients), ("grants", access.grants), ("catalog", catalog.catalog), ("refs", refs.refs),
           ("maintain", maintain.maintain), ("pins", pins.pins),
           ("transactions", transactions.transactions))  # fmt: skip


def _print_version(print_it: bool) -> None:
    if print_it:
        typer.echo(f"turnstile {version()}")
        raise typer.Exit


for panel, members in _COMMANDS:
    for command in members:
        app.command(command.__name__.rstrip("_"), rich_help_panel=panel, epilog="Exit codes: see turnstile --help.")(
            command
        )

for panel, groups in (("Tables", _DEFINITIONS), ("Operation", _GROUPS)):
    for name, group in groups:
        app.add_typer(group, name=name, rich_help_panel=panel)


Version = Annotated[
    bool, typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_print_version)
]


@app.callback()
def options(*, print_version: Version = False) -> None:
    """Turnstile, a commit coordinator for Delta Lake: run a server, look at tables, operate them.

    TABLE is catalog.namespace.table, or namespace.table in catalog 'main'.
    """


def main() -> None:
    """Entry point of the ``turnstile`` script."""
    app()


if __name__ == "__main__":
    main()
