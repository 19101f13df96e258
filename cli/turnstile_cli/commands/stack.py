"""Commands that run the embedded stack: up, down, status, demo."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import DEFAULT_HOME, Home, Output, Port, Token, running_stack, with_api
from turnstile_cli.errors import CliError, Exit
from turnstile_cli.output import Format

if TYPE_CHECKING:
    from turnstile_local import Stack, StackError

T = TypeVar("T")

Lake = Annotated[
    str | None,
    typer.Option("--lake", envvar="TURNSTILE_LAKE", help="Root of new tables: s3://bucket/prefix or file:///path."),
]


@out.report_errors
def up(
    home: Home = DEFAULT_HOME, port: Port = None, token: Token = None, lake: Lake = None, output: Output = Format.TEXT
) -> None:
    """Start the embedded development stack in the background, or say where it already runs.

    Without options it listens on port 8750 and keeps everything below .turnstile in the current directory. What is
    not given stays as it was in this home. Two stacks run side by side, each with its own --home and --port.
    """
    began = time.monotonic()
    stack = _start(home, port, token, lake)
    lines = attach_lines(stack)
    if output is Format.JSON:
        document = _document(stack)
        out.emit_json(
            {**document, "started": stack.fresh, "seconds": round(time.monotonic() - began, 2), "attach": lines}
        )
        return
    state = f"started in {time.monotonic() - began:.1f} s" if stack.fresh else "runs already"
    out.say(f"Turnstile {state}: [bold]{stack.url}[/bold]   (tables in {escape(stack.lake_root)})")
    out.say(
        "[dim]A development stack: no permission is checked; state is kept when it stops with 'turnstile down'.[/dim]"
    )
    out.say("\nAttach a Spark session:\n")
    for line in lines:
        out.say(f"    {escape(line)}")


@out.report_errors
def down(home: Home = DEFAULT_HOME, output: Output = Format.TEXT) -> None:
    """Stop the embedded stack; its data stays. It is no error when none is running."""
    stack = running_stack(home)
    if stack is not None:
        _local(stack.stop)
    if output is Format.JSON:
        out.emit_json({"stopped": stack is not None, "home": str(home.absolute())})
    else:
        out.say("stopped; the data stays" if stack else f"no stack was running in {escape(str(home.absolute()))}")


@with_api
def status(api: Api, *, output: Format) -> None:
    """Say whether the service runs, where, and how far publishing lags behind."""
    service = api.get("/v1")
    heads = list(api.pages("/v1/tables", "tables"))
    behind = [head for head in heads if head["state"] == "active" and head["floor"] < head["latest"]]
    report: dict[str, Any] = {
        "running": True,
        "url": api.url,
        "version": service.get("version"),
        "tables": len(heads),
        "tables_behind": len(behind),
        "commits_unpublished": sum(head["latest"] - head["floor"] for head in behind),
        "tables_stuck": [head["name"] for head in heads if head["state"] == "stuck"],
    }
    stack = running_stack(api.home) if api.home else None
    if stack is not None:
        report = {**_document(stack), **report}
    if output is Format.JSON:
        out.emit_json(report)
        return
    out.say(f"running at [bold]{report['url']}[/bold], version {report['version']}")
    if stack is not None:
        age = out.span(time.time() * 1000 - stack.state.started)
        out.say(f"embedded development stack, process {stack.state.pid}, up {age}, in {escape(str(stack.home))}")
    unpublished = report["commits_unpublished"]
    lag = f"{unpublished} commits of {len(behind)} to publish" if unpublished else "everything is published"
    out.say(f"{report['tables']} tables; {lag}")
    for name in report["tables_stuck"]:
        out.say(f"[bold red]stuck[/bold red] {escape(str(name))}")


@out.report_errors
def demo(
    home: Home = DEFAULT_HOME,
    port: Port = None,
    token: Token = None,
    lake: Lake = None,
    *,
    writers: Annotated[int, typer.Option("--writers", min=1, help="Processes that write to one table at once.")] = 4,
    batches: Annotated[int, typer.Option("--batches", min=1, help="Appends of each of them.")] = 10,
    output: Output = Format.TEXT,
) -> None:
    """Load five real tables through Spark, let four writers race, and check the result against pandas.

    Starts the stack if it is not running, and leaves it running. Ends with code 1 if any check fails.
    """
    stack = _start(home, port, token, lake)
    try:
        run = importlib.import_module("turnstile_cli.demo.run").run
    except ModuleNotFoundError as error:
        raise CliError(
            Exit.FAILURE, f"the demo needs {error.name}", remedy="install the 'spark' extra", type="MissingPackage"
        ) from error
    report = run(stack.url, stack.token or None, stack.home, output is Format.JSON, writers=writers, batches=batches)
    if output is Format.JSON:
        out.emit_json(report)
    if not report["ok"]:
        raise typer.Exit(int(Exit.FAILURE))


def attach_lines(stack: Stack) -> list[str]:
    """The three lines that attach a Spark session to the stack."""
    token = ', token=os.environ["TURNSTILE_TOKEN"]' if stack.token else ""
    return [
        "from turnstile_spark import session, attach",
        "spark = session()",
        f'lake = attach(spark, name="lake", uri="{stack.url}", catalog="main"{token})',
    ]


def _document(stack: Stack) -> dict[str, Any]:
    return {
        "url": stack.url,
        "port": stack.port,
        "home": str(stack.home),
        "lake_root": stack.lake_root,
        "token": stack.token,
        "pid": stack.state.pid,
        "log": str(stack.log),
        "development": True,
    }


def _start(home: Path, port: int | None, token: str | None, lake: str | None) -> Stack:
    from turnstile_local import Stack

    return _local(lambda: Stack.start(home, port, token, lake))


def _local(action: Callable[[], T]) -> T:
    """Run an action on the embedded stack and turn its errors into exit codes."""
    from turnstile_local import StackError

    try:
        return action()
    except StackError as error:
        raise _failed(error) from error


def _failed(error: StackError) -> CliError:
    refused = error.kind in ("PortTaken", "AlreadyRunning")
    return CliError(Exit.REFUSED if refused else Exit.FAILURE, error.message, remedy=error.remedy, type=error.kind)
