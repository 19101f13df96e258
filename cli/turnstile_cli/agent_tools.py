"""A server of the Model Context Protocol for programs that write by themselves: they read a
catalog, and write on branches of it alone. A person is asked before a branch is promoted.

    server(Lakehouse(api, "main")).run()            # on standard input and output

The token's rights hold, as for every client. Source: modelcontextprotocol.io, "Tools",
"Elicitation".
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, ParamSpec, TypeVar, cast
from urllib.parse import quote

import pyarrow as pa
from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from turnstile_cli.api import Api
from turnstile_cli.errors import CliError
from turnstile_cli.names import TableName
from turnstile_client import Lake, connect
from turnstile_client.errors import ClientError
from turnstile_http.errors import ApiError
from turnstile_release import version

P = ParamSpec("P")
T = TypeVar("T")

INSTRUCTIONS: Final = """\
Tables of a lakehouse, named namespace.table. Read them on the catalog, or on a branch of it.
Write only on a branch: create_branch first, then add_rows, delete_rows, create_table on that branch.
branch_changes shows what a promotion would do, its conflicts, and the outcomes of expectations.
promote_branch asks a person, and makes all changes of the branch visible at once."""

ROWS_MAX: Final = 1_000
"""Rows that one call adds."""
SHOWN_MAX: Final = 100
"""Rows, commits and events that one call returns."""
_READS: Final = ToolAnnotations(read_only_hint=True)
_ADDS: Final = ToolAnnotations(read_only_hint=False, destructive_hint=False)
_REMOVES: Final = ToolAnnotations(read_only_hint=False, destructive_hint=True)
_TYPES: Final[dict[str, pa.DataType]] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
}
_CONFLICTS: Final = 5
"""Conflicts that a refusal names."""
_OPERATORS: Final = ("=", "!=", "<", "<=", ">", ">=")

Table = Annotated[str, Field(description="namespace.table")]
Branch = Annotated[str, Field(description="Name of a branch, without the catalog.")]
OnBranch = Annotated[str, Field(description="Name of a branch; empty for the catalog itself.")]
Shown = Annotated[int, Field(ge=1, le=SHOWN_MAX)]


class Lakehouse:
    """The service of ``api``, and the catalog ``catalog`` of it. ``made``: the branches of this
    session."""

    def __init__(self, api: Api, catalog: str) -> None:
        self.api = api
        self.catalog = catalog
        self.made = set[str]()
        self._lakes: dict[str, Lake] = {}

    def lake(self, branch: str) -> Lake:
        """The catalog; or a branch of it."""
        if branch not in self._lakes:
            self._lakes[branch] = connect(self.api.url, self.api.token, catalog=self._full_name(branch))
        return self._lakes[branch]

    def table_name(self, table: str, branch: str = "") -> TableName:
        """The table ``namespace.table`` of the catalog or a branch. Raises ToolError."""
        namespace, _, name = table.rpartition(".")
        if not namespace or not name:
            raise ToolError(f"{table[:200]!r} names no table: write namespace.table")
        return TableName(self._full_name(branch), namespace, name)

    @property
    def branches_path(self) -> str:
        """The path of the branches in ``/v1``."""
        return f"/v1/catalogs/{quote(self.catalog, safe='')}/branches"

    def branch_path(self, branch: str) -> str:
        """The path of a branch in ``/v1``."""
        return f"{self.branches_path}/{quote(branch, safe='')}"

    def close(self) -> None:
        """Ends the connections of the tables."""
        for lake in self._lakes.values():
            lake.close()

    def _full_name(self, branch: str) -> str:
        return f"{self.catalog}@{branch}" if branch else self.catalog


def _tool(call: Callable[P, T]) -> Callable[P, T]:
    """Makes refusals of the service errors that the program reads, with the remedy."""

    @functools.wraps(call)
    def run(*args: P.args, **named: P.kwargs) -> T:
        try:
            return call(*args, **named)
        except CliError as error:
            raise ToolError(error.message + (f" ({error.remedy})" if error.remedy else "")) from None
        except (ApiError, ClientError, ValueError) as error:
            raise ToolError(str(error)) from None

    return run


def _of(context: Context[Any, Any]) -> Lakehouse:
    return cast("Lakehouse", context.request_context.lifespan_context)


# -- reading ----------------------------------------------------------------------------------------------------------


@_tool
def list_tables(context: Context[Any, Any], branch: OnBranch = "") -> list[str]:
    """Lists the Delta tables as namespace.table."""
    lake = _of(context).lake(branch)
    return [f"{namespace}.{name}" for namespace in lake.namespaces() for name in lake.tables(namespace)]


@_tool
def describe_table(context: Context[Any, Any], table: Table, branch: OnBranch = "") -> dict[str, Any]:
    """Returns columns, properties (with expectations of the rows), comment and latest version."""
    lakehouse = _of(context)
    loaded = lakehouse.api.get(lakehouse.table_name(table, branch).path, content="true")
    metadata = loaded["metadata"]
    return {
        "table": table,
        "latest_version": loaded["latest"],
        "columns": metadata["schema"]["fields"],
        "partition_columns": metadata["partition_columns"],
        "properties": metadata["properties"],
        "comment": loaded.get("comment"),
    }


@_tool
def sample_rows(context: Context[Any, Any], table: Table, branch: OnBranch = "", limit: Shown = 10) -> dict[str, Any]:
    """Returns some rows, in no particular order."""
    lakehouse = _of(context)
    table_id = lakehouse.table_name(table, branch).table_id(lakehouse.api)
    return lakehouse.api.get(f"/v1/tables/{table_id}/sample", limit=limit)


@_tool
def plan_query(
    context: Context[Any, Any],
    table: Table,
    predicate: Annotated[str, Field(description="As in SQL: day = '2026-11-01' AND id < 5")],
    branch: OnBranch = "",
) -> dict[str, Any]:
    """Returns how many files may have rows for a predicate, and the first of these files."""
    lakehouse = _of(context)
    table_id = lakehouse.table_name(table, branch).table_id(lakehouse.api)
    request = {"predicate": predicate, "max_results": SHOWN_MAX}
    answer = lakehouse.api.post(f"/v1/tables/{table_id}/plan", request)
    return {"version": answer["version"], "statistics": answer["statistics"], "files": answer["files"]}


@_tool
def table_history(
    context: Context[Any, Any], table: Table, branch: OnBranch = "", limit: Shown = 10
) -> list[dict[str, Any]]:
    """Returns the newest commits of a table, the newest first."""
    return _of(context).lake(branch).table(table).history(limit)


@_tool
def read_events(
    context: Context[Any, Any],
    after: Annotated[
        str, Field(description="The cursor of the last answer; 'now' for later ones; empty: the oldest that is kept.")
    ] = "",
    limit: Shown = 50,
) -> dict[str, Any]:
    """Returns events of the catalog: commits, and changes of names. The cursor continues."""
    lakehouse = _of(context)
    query = {"catalog": lakehouse.catalog, "limit": limit, **({"after": after} if after else {})}
    return lakehouse.api.get("/v1/events", **query)


@_tool
def list_branches(context: Context[Any, Any]) -> list[dict[str, Any]]:
    """Lists the branches of the catalog with owner, comment and end (ms since the epoch)."""
    lakehouse = _of(context)
    return cast("list[dict[str, Any]]", lakehouse.api.get(lakehouse.branches_path)["branches"])


@_tool
def branch_changes(context: Context[Any, Any], branch: Branch) -> dict[str, Any]:
    """Returns everything that a promotion would do now, its conflicts, and the outcome of each
    expectation (checks)."""
    lakehouse = _of(context)
    return lakehouse.api.get(f"{lakehouse.branch_path(branch)}/diff")


# -- writing on branches ----------------------------------------------------------------------------------------------


@_tool
def create_branch(
    context: Context[Any, Any], branch: Branch, comment: str = "", days: Annotated[int, Field(ge=1, le=30)] = 7
) -> dict[str, Any]:
    """Makes a branch of the catalog as it is now; it costs no copy of data and ends after days."""
    lakehouse = _of(context)
    made = lakehouse.lake("").branches.create(branch, days=days, comment=comment or None)
    lakehouse.made.add(made.name)
    return {"name": made.name, "full_name": made.full_name, "until_ms": made.until_ms}


@_tool
def drop_branch(context: Context[Any, Any], branch: Branch) -> str:
    """Drops a branch that create_branch made in this session, with everything on it."""
    lakehouse = _of(context)
    if branch not in lakehouse.made:
        problem = f"branch {branch!r} was not made in this session"
        raise ToolError(f"{problem}: ask a person to run: turnstile branch drop {lakehouse.catalog} {branch}")
    lakehouse.lake("").branches.drop(branch)
    return f"dropped {branch}"


@_tool
def create_table(
    context: Context[Any, Any],
    branch: Branch,
    table: Table,
    columns: Annotated[dict[str, str], Field(min_length=1, description=f"Name and type: {', '.join(_TYPES)}.")],
    properties: Annotated[
        dict[str, str] | None, Field(description='Such as {"turnstile.expect.positive": "amount >= 0"}.')
    ] = None,
) -> str:
    """Creates an empty table on a branch."""
    unknown = sorted({kind for kind in columns.values() if kind not in _TYPES})
    if unknown:
        raise ToolError(f"no such type: {', '.join(unknown)[:200]}; use {', '.join(_TYPES)}")
    schema = pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])
    _writable(_of(context), branch).create(table, schema, properties=properties)
    return f"created {table} on {branch}"


@_tool
def add_rows(
    context: Context[Any, Any],
    branch: Branch,
    table: Table,
    rows: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=ROWS_MAX)],
) -> dict[str, Any]:
    """Adds rows to a table on a branch, all or none."""
    added = _writable(_of(context), branch).table(table).append_rows(rows)
    return {"rows": len(rows), "version": added}


@_tool
def delete_rows(
    context: Context[Any, Any],
    branch: Branch,
    table: Table,
    where: Annotated[
        list[tuple[str, str, str | int | float | bool | None]],
        Field(min_length=1, description='All have to hold: [["id", "=", 7]]; = != < <= > >='),
    ],
) -> dict[str, Any]:
    """Deletes the rows of a table on a branch that satisfy all conditions."""
    wrong = [operator for _, operator, _ in where if operator not in _OPERATORS]
    if wrong:
        raise ToolError(f"no such operator: {wrong[0][:20]}; use {' '.join(_OPERATORS)}")
    target = _writable(_of(context), branch).table(table)
    types = {field.name.lower(): field.type for field in target.schema()}
    conditions = [
        (column, cast("Any", operator), _value(types.get(column.lower()), value)) for column, operator, value in where
    ]
    before = target.version()
    version = target.delete(conditions)
    return {"version": version, "rows_deleted": "some" if version > before else "none"}


def _value(type: pa.DataType | None, value: Any) -> Any:
    """A value of JSON in the type of its column: dates and times are texts. Raises ValueError."""
    if isinstance(value, str) and type is not None:
        if pa.types.is_date(type):
            return dt.date.fromisoformat(value)
        if pa.types.is_timestamp(type):
            return dt.datetime.fromisoformat(value)
    return value


def _writable(lakehouse: Lakehouse, branch: str) -> Lake:
    """A branch to write on. Raises ToolError for the catalog itself."""
    if not branch:
        raise ToolError("name a branch: tables of the catalog are changed by a promotion alone")
    return lakehouse.lake(branch)


# -- promotion --------------------------------------------------------------------------------------------------------


class Approval(BaseModel):
    """The answer of a person."""

    approve: bool = Field(description="Make these changes visible to everyone.")


@_tool
def _shown_changes(context: Context[Any, Any], branch: Branch) -> dict[str, Any]:
    """The changes that the person is asked about, and the branch. Raises ToolError for a branch
    that cannot be promoted, and for a client that cannot ask."""
    lakehouse = _of(context)
    changes = lakehouse.api.get(f"{lakehouse.branch_path(branch)}/diff")
    conflicts = changes["conflicts"]
    if conflicts:
        more = f"; and {len(conflicts) - _CONFLICTS} more" if len(conflicts) > _CONFLICTS else ""
        raise ToolError(f"branch {branch!r} cannot be promoted: " + "; ".join(conflicts[:_CONFLICTS]) + more)
    if not changes["tables"] and not changes["names"]:
        raise ToolError(f"branch {branch!r} has no changes")
    asks = context.client_capabilities
    if asks is None or asks.elicitation is None:
        command = f"turnstile branch promote {lakehouse.catalog} {branch} --state {changes['state']}"
        raise ToolError(f"this client cannot ask a person: a person runs: {command}")
    return {**changes, "branch": lakehouse.api.get(lakehouse.branch_path(branch))}


def _ask(
    context: Context[Any, Any], branch: Branch, changes: Annotated[dict[str, Any], Resolve(_shown_changes)]
) -> Elicit[Approval]:
    return Elicit(question(_of(context).catalog, branch, changes), Approval)


def question(catalog: str, branch: str, changes: Mapping[str, Any]) -> str:
    """Returns the question to the person, with every change."""
    about = changes["branch"]
    lines = [f"of {about['owner'] or 'the operator'}: {about['comment'] or 'no comment'}"]
    lines += [
        f"{table['name']}: {', '.join(table['operations'])}; "
        f"{_count(table['rows_added'])} in {table['files_added']} files added, "
        f"{_count(table['rows_removed'])} in {table['files_removed']} files removed"
        for table in changes["tables"]
    ]
    lines += [f"{each['name']}: {each['change']} {each['kind']}" for each in changes["names"]]
    passed = sum(check["outcome"] == "passed" for check in changes["checks"])
    unchecked = [check["expectation"] for check in changes["checks"] if check["outcome"] == "unchecked"]
    lines.append(f"expectations that passed: {passed}; not checked: {', '.join(unchecked) or 'none'}")
    return f"Promote branch {branch} of {catalog}?\n" + "\n".join(lines) + f"\nstate {changes['state']}"


def _count(rows: int | None) -> str:
    return "an unknown number of rows" if rows is None else f"{rows} rows"


@_tool
def promote_branch(
    context: Context[Any, Any],
    branch: Branch,
    changes: Annotated[dict[str, Any], Resolve(_shown_changes)],
    approval: Annotated[ElicitationResult[Approval], Resolve(_ask)],
) -> dict[str, Any]:
    """Asks a person, and makes exactly the changes that were shown changes of the catalog, all at
    once. The branch ends."""
    if not isinstance(approval, AcceptedElicitation) or not approval.data.approve:
        raise ToolError(f"the person did not approve the promotion of branch {branch!r}")
    lakehouse = _of(context)
    return lakehouse.api.change("POST", f"{lakehouse.branch_path(branch)}/promote", {"state": changes["state"]})


# -- the server -------------------------------------------------------------------------------------------------------

TOOLS: Final[Mapping[Callable[..., Any], ToolAnnotations]] = {
    **dict.fromkeys((list_tables, describe_table, sample_rows, plan_query, table_history), _READS),
    **dict.fromkeys((read_events, list_branches, branch_changes), _READS),
    **dict.fromkeys((create_branch, create_table, add_rows), _ADDS),
    **dict.fromkeys((delete_rows, drop_branch, promote_branch), _REMOVES),
}


def server(lakehouse: Lakehouse) -> MCPServer[Lakehouse]:
    """Returns the server with all tools; nothing is sent yet."""

    @asynccontextmanager
    async def lifespan(_: MCPServer[Lakehouse]) -> AsyncIterator[Lakehouse]:
        try:
            yield lakehouse
        finally:
            lakehouse.close()

    made = MCPServer[Lakehouse](
        "turnstile", instructions=INSTRUCTIONS, version=version(), lifespan=lifespan, log_level="WARNING"
    )
    for call, hints in TOOLS.items():
        made.add_tool(call, annotations=hints, structured_output=False)
    return made
