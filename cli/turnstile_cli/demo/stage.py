"""What every scene of the demo has at hand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.markup import escape

from turnstile_cli.demo import mirror
from turnstile_cli.demo.ledger import Ledger
from turnstile_cli.demo.meter import Attempt

SCHEMA = "nyc"


@dataclass
class Stage:
    """Session, lake and terminal, the pandas mirrors, and what was found so far."""

    spark: Any
    lake: Any
    console: Any
    url: str
    token: str | None
    folder: Path
    frames: dict[str, Any]
    writers: int
    batches: int
    attempts: list[Attempt]
    seconds: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    ledgers: dict[str, Ledger] = field(default_factory=dict)

    def show(self, statement: str) -> None:
        """Tell the viewer what runs now."""
        self.console.print(f"   [dim]{escape(statement)}[/dim]", highlight=False, soft_wrap=True)

    def sql(self, statement: str) -> Any:
        """Run a statement that the viewer sees."""
        self.show(statement)
        return self.spark.sql(statement)

    def create(self, table: str, columns: str) -> None:
        """CREATE TABLE; the viewer is spared the columns."""
        self.show(f"CREATE TABLE lake.{SCHEMA}.{table} ({columns.count(',') + 1} columns) USING delta")
        self.spark.sql(f"CREATE TABLE lake.{SCHEMA}.{table} ({columns}) USING delta")

    @contextmanager
    def scene(self, title: str) -> Iterator[None]:
        """Announce and time one scene."""
        self.console.print(f"[bold]{title}[/bold]")
        began = time.perf_counter()
        yield
        self.seconds[title] = time.perf_counter() - began
        self.console.print(f"   [green]done[/green] in {self.seconds[title]:.1f} s")

    def latest(self, table: str) -> int:
        """The newest version of a table."""
        return int(self.lake.table(f"{SCHEMA}.{table}").head().latest)

    def compare(self, table: str, frame: Any, expected: Any, what: str = "") -> None:
        """Counts and sums of a Spark frame against a pandas one; a difference makes the demo fail."""
        ours = mirror.of_spark(frame)
        differences = mirror.differences(ours, mirror.of_pandas(expected))
        title = f"{table}{what}"
        if differences:
            self.problems += [f"{title}: {difference}" for difference in differences]
            self.console.print(f"   [red]{title}: differs from pandas[/red]: {differences[0]}")
        else:
            rows, columns = int(ours["rows"]), len(expected.columns)
            self.console.print(
                f"   {title}: {rows:,} rows, counts and sums of {columns} columns equal pandas'", soft_wrap=True
            )
