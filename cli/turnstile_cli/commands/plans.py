"""Which files of a table a query needs, as the server plans it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import with_api
from turnstile_cli.errors import CliError
from turnstile_cli.names import Table, TableName
from turnstile_cli.output import Format

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CELL: Final = 60
"""Characters of a value in a cell."""
_PLANS: Final = 3
"""How often a plan is begun whose pages end before the last one."""

Where = Annotated[str | None, typer.Option("--where", help="As in SQL: \"day = '2026-11-01' AND id < 5\".")]
Version = Annotated[int | None, typer.Option("--version", min=0, help="Of this version; else the latest.")]
Explain = Annotated[bool, typer.Option("--explain", help="Say how many files each part of --where excludes.")]
Limit = Annotated[int, typer.Option("--limit", min=0, help="Files that are shown.")]
Rows = Annotated[int, typer.Option("--limit", min=1, max=100, help="Rows at most, 1 to 100.")]


@with_api
def plan(
    api: Api,
    *,
    table: Table,
    where: Where = None,
    version: Version = None,
    explain: Explain = False,
    limit: Limit = 20,
    output: Format,
) -> None:
    """Show the files of a table that may have rows for a predicate, and the reasons that excluded
    the others."""
    name = TableName.parse(table)
    path = f"/v1/tables/{name.table_id(api)}/plan"
    request = {"predicate": where, "version": version, "explain": explain}
    if output is Format.JSON:
        out.emit_json(_whole(api, path, request))
        return
    answer = api.post(path, {**request, "max_results": max(1, limit)})
    _show(str(name), answer)
    rows = ((file["path"], out.size(file["size"]), _records(file)) for file in answer["files"][:limit])
    if limit:
        out.table("", ("file", "#size", "#rows"), rows, empty="no file may match")
    if answer.get("next_page_token") and limit:
        out.say(f"the first {limit} are shown; --output json has all of them")


@with_api
def detail(api: Api, *, table: Table, version: Version = None, output: Format) -> None:
    """Show a table as DESCRIBE DETAIL does: files, bytes, rows, partitions, protocol and
    properties, of one version."""
    name = TableName.parse(table)
    query = {} if version is None else {"version": version}
    answer = api.get(f"/v1/tables/{name.table_id(api)}/detail", **query)
    if output is Format.JSON:
        out.emit_json(answer)
        return
    unknown = answer["files_without_records"]
    rows = f"{answer['rows']}" + (f", without those of {unknown} files that have no statistics" if unknown else "")
    partitions = "more than are counted" if answer["partitions"] is None else str(answer["partitions"])
    shown = {
        "table": str(name),
        "version": str(answer["version"]),
        "location": answer["location"],
        "files": str(answer["files"]),
        "bytes": out.size(answer["bytes"]),
        "rows": rows,
        "deleted rows": str(answer["deleted_rows"]),
        "partitions": partitions if answer["partition_columns"] else "not partitioned",
        "partition columns": ", ".join(answer["partition_columns"]),
        "protocol": f"reader {answer['min_reader_version']}, writer {answer['min_writer_version']}",
        "features": ", ".join(answer["features"]),
        **{f"property {key}": value for key, value in sorted(answer["properties"].items())},
    }
    for key, value in shown.items():
        if value:
            out.say(f"[bold]{escape(key)}[/bold]   {escape(value)}")


@with_api
def sample(api: Api, *, table: Table, limit: Rows = 10, version: Version = None, output: Format) -> None:
    """Show some rows of a table, of any of its files and in no particular order."""
    name = TableName.parse(table)
    query = {"limit": limit} if version is None else {"limit": limit, "version": version}
    answer = api.get(f"/v1/tables/{name.table_id(api)}/sample", **query)
    if output is Format.JSON:
        out.emit_json(answer)
        return
    out.say(f"[bold]table[/bold]   {escape(str(name))}   version {answer['version']}")
    rows = [[_cell_text(row[column]) for column in answer["columns"]] for row in answer["rows"]]
    out.table("", [escape(column) for column in answer["columns"]], rows, empty="the table has no rows")
    if not answer["complete"]:
        out.say(f"rows shown: {len(rows)}; the table has more")
    if answer["cut"]:
        out.say(f"values that are not shown whole: {answer['cut']}")
    if answer["columns_left_out"]:
        out.say(f"columns that are not shown: {answer['columns_left_out']}")


def _cell_text(value: Any) -> str:
    """Returns a value for a cell of the terminal's table, without characters that control the
    terminal. An empty text has quotes, since an empty cell is left out."""
    text = value if value and isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _whole(api: Api, path: str, request: dict[str, Any]) -> dict[str, Any]:
    """The plan with the files of all pages; begins again when the pages have ended, since an index
    was replaced meanwhile."""
    for left in reversed(range(_PLANS)):
        try:
            first, *others = _pages(api, path, request)
        except CliError as error:
            if error.details.get("field") != "page_token" or not left:
                raise
        else:
            break
    files = [file for page in (first, *others) for file in page["files"]]
    return {**{name: value for name, value in first.items() if name != "next_page_token"}, "files": files}


def _pages(api: Api, path: str, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    page = api.post(path, request)
    yield page
    while token := page.get("next_page_token"):
        page = api.post(path, {"predicate": request["predicate"], "page_token": token})
        yield page


def _records(file: dict[str, Any]) -> str:
    return "" if file["records"] is None else str(file["records"])


def _show(name: str, answer: dict[str, Any]) -> None:
    seen = answer["statistics"]
    out.say(f"[bold]table[/bold]   {escape(name)}   version {answer['version']}")
    if seen["total_files"] is not None:
        out.say(
            f"[bold]files[/bold]   {seen['files']} of {seen['total_files']}, "
            f"{out.size(seen['bytes'])} of {out.size(seen['total_bytes'])}"
        )
    if seen["index_version"] < 0:
        out.say("[bold]index[/bold]   there is none yet: the log was read")
    else:
        out.say(
            f"[bold]index[/bold]   of version {seen['index_version']}, {seen['tail_versions']} commits after it; "
            f"{seen['leaves_read']} of {seen['leaves']} leaves"
        )
    if seen["dropped"]:
        out.table("", ("predicate", "#files that it excludes"), list(seen["dropped"].items()), empty="")
