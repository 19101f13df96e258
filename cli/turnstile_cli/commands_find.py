"""Searching a catalog by path query."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.options import Format
from turnstile_cli.service import talking

PathQuery = Annotated[
    str, typer.Argument(metavar="QUERY", help="/catalog/level/level: each a name, *, or a predicate in [...].")
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Stop after so many matches.")]


@talking
def find(api: Api, *, query: PathQuery, limit: Limit = 1000, output: Format) -> None:
    """Find namespaces and tables by a path query: one predicate a level.

    For example `turnstile find '/main/sales/[format = "delta" and name prefix "ord"]'`. All of it is one view of the
    catalog, however long it takes. The grammar is in docs/path-queries.md.
    """
    matches = _matches(api, query)
    found = list(islice(matches, limit))
    more = next(matches, None) is not None
    if output is Format.JSON:
        out.emit_json({"query": query, "found": found, "more": more})
        return
    rows = (
        (one["name"], one["kind"], one.get("format"), out.when(one["created"]), one.get("comment")) for one in found
    )
    out.table("", ("name", "kind", "format", "created", "comment"), rows, empty=f"nothing matches {escape(query)}")
    if more:
        out.say(f"[dim]there are more than {limit}; see --limit[/dim]")


def _matches(api: Api, query: str) -> Iterator[dict[str, Any]]:
    """The matches of every page; a page may be empty although there are more."""
    asked = {"query": query}
    while True:
        page = api.get("/v1/find", **asked)
        yield from page["found"]
        if not page.get("next_page_token"):
            return
        asked = {"query": query, "page_token": page["next_page_token"]}
