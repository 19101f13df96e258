"""Follows the events of a catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic, sleep
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import with_api
from turnstile_cli.errors import CliError, Exit
from turnstile_cli.names import TableName
from turnstile_cli.output import Format

WAIT_S: Final = 20
PAUSE_S: Final = 1.0
_QUIET_S: Final = 0.2
"""An answer that came sooner than this did not wait: too many requests wait at the server."""

Catalog = Annotated[str, typer.Option("--catalog", help="The catalog of the events.")]
Table = Annotated[
    str | None, typer.Option("--table", metavar="TABLE", help="Only events of this table; of its catalog.")
]
After = Annotated[
    str | None, typer.Option("--after", help="A cursor, or 'now'; by default from the oldest event that is kept.")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until it is interrupted.")]


@with_api
def events(
    api: Api,
    *,
    catalog: Catalog = "main",
    table: Table = None,
    after: After = None,
    follow: Follow = False,
    output: Format,
) -> None:
    """Show the events of a catalog, and with --follow new ones as they come: one line an event.

    As JSON each line is a CloudEvent; the last one, without --follow, is {"cursor": ...} for the
    next call.
    """
    query: dict[str, Any] = {"catalog": catalog, "limit": 1000}
    if table is not None:
        name = TableName.parse(table)
        query |= {"catalog": name.catalog, "table_id": name.table_id(api)}
    read_log(api, "/v1/events", query, line, after=after, follow=follow, output=output)


def read_log(
    api: Api, path: str, query: Mapping[str, Any], line: Callable[[dict[str, Any]], str], *, after: str | None,
    follow: bool, output: Format,
) -> None:  # fmt: skip
    """Prints the events of a log, and with ``follow`` new ones, until it is interrupted.

    Args:
        line: an event for people.
        after: a cursor, or ``now``; None: from the oldest event in the log.
    """
    while True:
        parameters = query if after is None else {**query, "after": after}
        began_s = monotonic()
        try:
            page = api.get(path, **parameters, wait_s=WAIT_S if follow and after is not None else 0)
        except CliError as error:
            if not follow or after is None or error.exit not in (Exit.UNREACHABLE, Exit.FAILURE):
                raise
            sleep(PAUSE_S)
            continue
        for event in page["events"]:
            if output is Format.JSON:
                out.emit_json(event)
            else:
                out.say(escape(line(event)))
        at_end = page["cursor"] == after and not page["events"]
        after = page["cursor"]
        if at_end and not follow:
            break
        if at_end and monotonic() - began_s < _QUIET_S:
            sleep(PAUSE_S)
    if output is Format.JSON:
        out.emit_json({"cursor": after})


def line(event: Mapping[str, Any]) -> str:
    """Returns an event as a line for people."""
    data = dict(event["data"])
    name = data.pop("name", event["subject"])
    at = str(event.get("time", "")).replace("T", " ")
    rest = " ".join(f"{member}={value}" for member, value in data.items())
    kind = str(event["type"]).removeprefix("turnstile.")
    return f"{at:<24}  {kind:<18}  {name}  {rest}".rstrip()
