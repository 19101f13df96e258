"""Searching a catalog by path query."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer
from rich.markup import escape

from turnstile_cli import moments
from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.moments import AsOf
from turnstile_cli.options import Format
from turnstile_cli.service import talking

PathQuery = Annotated[
    str, typer.Argument(metavar="QUERY", help="/catalog/level/level: each a name, *, or a predicate in [...].")
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Stop after so many matches.")]


@talking
def find(api: Api, *, query: PathQuery, as_of: AsOf = None, limit: Limit = 1000, output: Format) -> None:
    """Find namespaces and tables by a path query: one predicate a level.

    For example `turnstile find '/main/sales/[format = "delta" and name prefix "ord"]'`. All of it is one view of the
    catalog, however long it takes. The grammar is in docs/path-queries.md. The version of a Delta table is known as of a
    snapshot.
    """
    matches = api.pages("/v1/find", "found", query=query, **moments.query(as_of))
    found = list(islice(matches, limit))
    more = next(matches, None) is not None
    if output is Format.JSON:
        out.emit_json({"query": query, "found": found, "more": more})
        return
    rows = (
        (one["name"], one["kind"], one.get("format"), one.get("version"), out.when(one["created"]), one.get("comment"))
        for one in found
    )
    out.table(
        "", ("name", "kind", "format", "#version", "created", "comment"), rows, empty=f"nothing matches {escape(query)}"
    )
    if more:
        out.say(f"[dim]there are more than {limit}; see --limit[/dim]")
