"""Prints results: tables and sentences for people, one JSON object for programs."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ParamSpec

import typer
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from turnstile_cli.errors import CliError

P = ParamSpec("P")

_UNBOUNDED = 100_000
"""Columns of a terminal that any row fits."""

_PIPE_WIDTH = 200
"""Columns when the output is not a terminal: rich would fold everything to 80."""


class Format(StrEnum):
    """The values of ``--output``."""

    TEXT = "text"
    JSON = "json"


def console(*, stderr: bool = False) -> Console:
    """A console for people, on standard output or standard error."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else _PIPE_WIDTH)


def emit_json(document: Any) -> None:
    """Prints one JSON document on standard output."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")


def say(text: str) -> None:
    """Prints a sentence for people. It may have rich markup, so escape names that users chose."""
    console().print(text)


def say_unreadable(damaged: Iterable[dict[str, Any]]) -> None:
    """Prints the rows that a listing leaves out because they are damaged."""
    for row in damaged:
        say(f"[bold red]unreadable[/bold red] {escape(row['message'])}: docs/operations.md has the remedy")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str) -> None:
    """Prints a table for people, or ``empty`` if there are no rows. Columns whose name starts with
    ``#`` are right-aligned. A row that does not fit the width of the terminal is printed as a list
    of its cells, one a line.
    """
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if not texts:
        say(f"[dim]{empty}[/dim]")
        return
    terminal = console()
    grid = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        grid.add_column(column.lstrip("#"), justify="right" if column.startswith("#") else "left", overflow="fold")
    for row in texts:
        grid.add_row(*map(escape, row))
    if Measurement.get(terminal, terminal.options.update(width=_UNBOUNDED), grid).maximum <= terminal.width:
        terminal.print(grid)
        return
    if title:
        terminal.print(f"[italic]{escape(title)}[/italic]")
    labels = [column.lstrip("#") for column in columns]
    indent = max(map(len, labels)) + 2
    for first, *others in texts:
        terminal.print(f"[bold]{escape(first)}[/bold]", soft_wrap=True)
        for label, cell in zip(labels[1:], others, strict=True):
            if cell:
                terminal.print(f"  [dim]{label:<{indent}}[/dim]{escape(cell)}", soft_wrap=True)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """Shows progress on a terminal's standard error, and nowhere else. Yields a function that is
    called with the amount that is done, and the total (None: unknown)."""
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
    ) as bar:  # fmt: skip
        task = bar.add_task(escape(what), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def when(ms: int | None) -> str:
    """Milliseconds since the epoch as local time."""
    if not ms:
        return ""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def size(count: int) -> str:
    """Bytes with a unit."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def span(ms: float) -> str:
    """Milliseconds as a duration in a fitting unit."""
    seconds = ms / 1000
    for limit, divisor, unit in ((1, 0.001, "ms"), (120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / divisor:.0f} {unit}"
    return f"{seconds / 86_400:.0f} days"


def report_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Makes a command print its errors in the format of ``--output`` and end with the documented
    exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except CliError as error:
            if kwargs.get("output") is Format.JSON:
                sys.stderr.write(json.dumps(error.document(), ensure_ascii=False) + "\n")
            else:
                terminal = console(stderr=True)
                terminal.print(f"[bold red]error:[/bold red] {escape(error.message)}", soft_wrap=True)
                if error.remedy:
                    terminal.print(f"[bold]remedy:[/bold] {escape(error.remedy)}", soft_wrap=True)
            raise typer.Exit(int(error.exit)) from error

    return run
