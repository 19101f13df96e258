"""Screens that are drawn anew every few seconds until Ctrl-C; where there is no terminal they are
printed."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeVar

import typer
from rich.console import RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from turnstile_cli import output as out
from turnstile_cli.output import Format

T = TypeVar("T")

Every = Annotated[float, typer.Option("--every", min=0.1, max=3600, help="Seconds between two readings.")]
Count = Annotated[
    int | None,
    typer.Option(
        "--count",
        min=1,
        help="End after as many screens; by default at Ctrl-C on a terminal, and after one elsewhere.",
        show_default=False,
    ),
]

Document = Mapping[str, Any]


def repeat(
    read: Callable[[], T], compare: Callable[[T, T], Document], draw: Callable[[Document], RenderableType], *,
    every: float, count: int | None, output: Format,
) -> None:  # fmt: skip
    """Reads repeatedly, and shows the differences of two readings: a screen on a terminal, else
    text or JSON, one after the other.

    Args:
        compare: makes the output from two readings; it is the JSON.
        every: seconds between two readings.
        count: the number of outputs; None: until Ctrl-C on a terminal, one elsewhere.
    """
    live = output is Format.TEXT and sys.stdout.isatty()
    number = count if count is not None else (None if live else 1)
    rounds: Iterable[int] = itertools.count() if number is None else range(number)
    try:
        before = read()
        if not live:
            for _ in rounds:
                time.sleep(every)
                after = read()
                _print(compare(before, after), draw, output)
                before = after
            return
        with Live(console=out.console(), screen=number is None, auto_refresh=False) as screen:
            screen.update(draw(compare(before, before)), refresh=True)
            for _ in rounds:
                time.sleep(every)
                after = read()
                screen.update(draw(compare(before, after)), refresh=True)
                before = after
    except KeyboardInterrupt:
        return


def grid(
    columns: Iterable[str], rows: Iterable[Mapping[str, Any]], cells: Callable[[Mapping[str, Any]], tuple[Any, ...]]
) -> list[RenderableType]:
    """Returns a list of rows with an empty line before it; nothing without rows. Columns whose name
    starts with ``#`` are right-aligned."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column.lstrip("#"), justify="right" if column.startswith("#") else "left", overflow="ellipsis", no_wrap=True
        )
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in cells(row)))
    return ["", table] if table.row_count else []


def _print(document: Document, draw: Callable[[Document], RenderableType], output: Format) -> None:
    if output is Format.JSON:
        out.emit_json(document)
        sys.stdout.flush()
    else:
        out.console().print(draw(document))
