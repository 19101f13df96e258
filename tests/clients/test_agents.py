"""``turnstile mcp``: a program reads a catalog, writes on branches alone, and a person decides on
promotions. By the public SDK's own client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import ElicitResult, TextContent

from tests.support.cli import run
from turnstile_cli.agent_tools import TOOLS, Lakehouse, question, server
from turnstile_cli.api import Api
from turnstile_client import Lake, connect
from turnstile_server import Server

SCHEMA = pa.schema([("id", pa.int64()), ("amount", pa.float64())])
TIMED = pa.schema([("day", pa.date32()), ("at", pa.timestamp("us", "UTC"))])
Call = Callable[..., Awaitable[tuple[bool, str]]]


@pytest.fixture
def lake(server: Server) -> Iterator[Lake]:
    with connect(server.url) as lake:
        orders = lake.create("default.orders", SCHEMA, properties={"turnstile.expect.positive": "amount >= 0"})
        orders.append(pa.table({"id": [1], "amount": [1.0]}, schema=SCHEMA))
        yield lake
        for branch in list(lake.branches):
            lake.branches.drop(branch.name)
        for name in ("orders", "more", "timed"):
            lake.drop(f"default.{name}")


def use(target: Any, program: Callable[[Call], Awaitable[None]], person: Any = None, mode: str = "auto") -> None:
    """Runs a program with the tools; ``person`` answers questions."""

    async def session() -> None:
        async with Client(target, elicitation_callback=person, mode=mode) as client:

            async def call(tool: str, **arguments: Any) -> tuple[bool, str]:
                answer = await client.call_tool(tool, arguments)
                texts = [part.text for part in answer.content if isinstance(part, TextContent)]
                return not answer.is_error, "\n".join(texts)

            await program(call)

    asyncio.run(session())


class Person:
    """Answers with ``approve`` after ``before``; keeps the questions."""

    def __init__(self, *, approve: bool, before: Callable[[], object] = lambda: None) -> None:
        self.approve = approve
        self.before = before
        self.questions: list[str] = []

    async def __call__(self, _context: Any, asked: Any) -> ElicitResult:
        self.questions.append(asked.message)
        await asyncio.to_thread(self.before)
        return ElicitResult(action="accept", content={"approve": self.approve})


def tools(server_: Server) -> Any:
    return server(Lakehouse(Api(server_.url, ""), "main"))


async def prepare(call: Call) -> None:
    """A branch with a row more in the table."""
    assert (await call("create_branch", branch="bot"))[0]
    assert (await call("add_rows", branch="bot", table="default.orders", rows=[{"id": 2, "amount": 2.0}]))[0]


def ids(lake: Lake) -> list[int]:
    return sorted(lake.table("default.orders").read()["id"].to_pylist())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_i28_a_program_writes_on_a_branch_and_a_person_promotes_it(server: Server, lake: Lake, mode: str) -> None:
    person = Person(approve=True)

    async def program(call: Call) -> None:
        await prepare(call)
        fine, refusal = await call("add_rows", branch="", table="default.orders", rows=[{"id": 9}])
        assert not fine and "name a branch" in refusal
        assert ids(lake) == [1]
        await call("create_table", branch="bot", table="default.more", columns={"id": "long", "at": "timestamp"})
        assert '"id": 2' in (await call("sample_rows", table="default.orders", branch="bot"))[1]
        assert (await call("promote_branch", branch="bot"))[0]

    use(tools(server), program, person, mode)
    (asked,) = person.questions
    assert (
        "default.orders: WRITE; 1 rows in 1 files added, 0 rows in 0 files removed" in asked
        and "default.more: created table" in asked
    )
    assert "expectations that passed: 1; not checked: none" in asked
    assert ids(lake) == [1, 2]
    assert {"more", "orders"} <= {*lake.tables("default")}


@pytest.mark.parametrize("person", [Person(approve=False), None], ids=["declined", "not asked"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_i28_without_a_persons_yes_nothing_is_promoted(
    server: Server, lake: Lake, person: Person | None, mode: str
) -> None:
    async def program(call: Call) -> None:
        await prepare(call)
        fine, refusal = await call("promote_branch", branch="bot")
        assert not fine
        assert ("--state" in refusal) == (person is None), refusal

    use(tools(server), program, person, mode)
    assert ids(lake) == [1]
    assert [branch.name for branch in lake.branches] == ["bot"]


def test_i28_what_the_branch_got_after_the_question_is_not_promoted(server: Server, lake: Lake) -> None:
    def write_more() -> None:
        with connect(server.url, catalog="main@bot") as bot:
            bot.table("default.orders").append(pa.table({"id": [666], "amount": [0.0]}, schema=SCHEMA))

    async def program(call: Call) -> None:
        await prepare(call)
        fine, refusal = await call("promote_branch", branch="bot")
        assert not fine and "other changes" in refusal

    use(tools(server), program, Person(approve=True, before=write_more), "legacy")
    assert ids(lake) == [1]


def test_a_branch_with_broken_expectations_is_not_asked_about(server: Server, lake: Lake) -> None:
    person = Person(approve=True)

    async def program(call: Call) -> None:
        await call("create_branch", branch="bot", comment="bad rows", days=1)
        await call("add_rows", branch="bot", table="default.orders", rows=[{"id": 3, "amount": -1.0}])
        await call("add_rows", branch="bot", table="default.orders", rows=[{"id": 4, "amount": 4.0}])
        fine, refusal = await call("promote_branch", branch="bot")
        assert not fine and "'positive'" in refusal
        assert '"outcome": "broken"' in (await call("branch_changes", branch="bot"))[1]
        assert (await call("delete_rows", branch="bot", table="default.orders", where=[["amount", "<", 0]]))[0]
        assert (await call("promote_branch", branch="bot"))[0]

    use(tools(server), program, person)
    assert len(person.questions) == 1 and ids(lake) == [1, 4]


@pytest.mark.parametrize(
    ("tool", "arguments", "problem"),
    [
        ("describe_table", {"table": "default.none"}, "does not exist"),
        ("describe_table", {"table": "orders"}, "write namespace.table"),
        ("sample_rows", {"table": "default.orders", "limit": 101}, "less than or equal to 100"),
        ("plan_query", {"table": "default.orders", "predicate": "id >"}, "predicate"),
        ("drop_branch", {"branch": "theirs"}, "not made in this session"),
        ("create_branch", {"branch": "a@b"}, "valid"),
        ("create_table", {"branch": "theirs", "table": "default.x", "columns": {"a": "map"}}, "no such type: map"),
        ("delete_rows", {"branch": "theirs", "table": "default.orders", "where": [["id", "~", 1]]}, "no such operator"),
        ("delete_rows", {"branch": "theirs", "table": "default.orders", "where": []}, "at least 1"),
        ("add_rows", {"branch": "theirs", "table": "default.orders", "rows": []}, "at least 1"),
        ("create_table", {"branch": "theirs", "table": "default.x", "columns": {}}, "at least 1"),
        ("delete_rows", {"branch": "theirs", "table": "default.timed", "where": [["day", "=", "May"]]}, "isoformat"),
        ("add_rows", {"branch": "none", "table": "default.orders", "rows": [{"id": 1}]}, "NoSuchCatalog"),
        ("add_rows", {"branch": "theirs", "table": "default.orders", "rows": [{"id": "x"}]}, "InvalidRows"),
        ("promote_branch", {"branch": "theirs"}, "has no changes"),
    ],
)
def test_a_tool_says_what_is_wrong(
    server: Server, lake: Lake, tool: str, arguments: dict[str, Any], problem: str
) -> None:
    lake.create("default.timed", TIMED)
    lake.branches.create("theirs")

    async def program(call: Call) -> None:
        fine, refusal = await call(tool, **arguments)
        assert not fine and problem in refusal, refusal

    use(tools(server), program, Person(approve=True))


def test_dates_and_times_are_texts_in_conditions(server: Server, lake: Lake) -> None:
    lake.create("default.timed", TIMED)
    rows = [{"day": "2026-11-30", "at": "2026-11-30T12:00:00Z"}, {"day": "2026-12-01", "at": "2026-12-01T12:00:00Z"}]

    async def program(call: Call) -> None:
        await call("create_branch", branch="bot")
        assert (await call("add_rows", branch="bot", table="default.timed", rows=rows))[0]
        for where, deleted in (
            ([["day", "=", "2026-01-01"]], "none"),
            ([["day", "=", "2026-11-30"]], "some"),
            ([["at", ">", "2026-12-01T00:00:00Z"]], "some"),
        ):
            fine, answer = await call("delete_rows", branch="bot", table="default.timed", where=where)
            assert fine and f'"rows_deleted": "{deleted}"' in answer, answer

    use(tools(server), program)


def test_every_tool_reads_or_is_on_a_branch() -> None:
    for tool, hints in TOOLS.items():
        assert hints.read_only_hint or "branch" in tool.__annotations__, tool.__name__


def test_a_question_names_what_was_not_checked() -> None:
    check = {"expectation": "key", "outcome": "unchecked"}
    table = {"name": "t", "operations": ["DELETE"], "files_added": 0, "files_removed": 2, "rows_added": 0}
    about = {"owner": "ann", "comment": "nightly"}
    changes = {"tables": [{**table, "rows_removed": None}], "names": [], "checks": [check], "state": "s1"}
    asked = question("main", "b", {**changes, "branch": about})
    assert "of ann: nightly" in asked and "an unknown number of rows in 2 files removed" in asked
    assert "not checked: key" in asked and asked.endswith("state s1")


def test_the_command_serves_on_standard_input_and_output(server: Server, lake: Lake) -> None:
    command = StdioServerParameters(
        command=str(Path(sys.executable).with_name("turnstile")), args=["mcp", "--url", server.url]
    )

    async def program(call: Call) -> None:
        assert "default.orders" in (await call("list_tables"))[1]
        await prepare(call)
        assert "main@bot" in (await call("list_branches"))[1]
        assert "turnstile.catalog.created" in (await call("read_events"))[1]
        assert "WRITE" in (await call("table_history", table="default.orders", branch="bot"))[1]
        assert (await call("drop_branch", branch="bot"))[0]

    use(command, program)
    assert list(lake.branches) == []


def test_the_command_takes_no_branch_for_its_catalog() -> None:
    ended = run("mcp", "--catalog", "main@dev", "--url", "http://127.0.0.1:1")
    assert ended.exit_code == 2 and "is a branch" in ended.output


def test_the_command_ends_at_once_without_a_service_or_the_catalog(server: Server) -> None:
    assert run("mcp", "--url", "http://127.0.0.1:1").exit_code == 5
    assert run("mcp", "--url", server.url, "--catalog", "none").exit_code == 3
